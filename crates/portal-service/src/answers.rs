//! Answers to the questions that people have about a thing: its recent use, its policies, its groups, its grants.

use super::{Caller, ListRequest, Service};
use culvert_ids::{ActorId, GroupId};
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, EntityId, Grant, MachineId, Membership, RecentUse};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// The time for which use is recent, in milliseconds: a day.
const RECENT_MS: u64 = 24 * 60 * 60 * 1_000;

impl Service {
    /// The use of a client, an actor, a resource or a gateway in the last 24 hours.
    pub async fn recent_use(
        &self,
        caller: &Caller,
        about: impl Into<EntityId>,
    ) -> Result<RecentUse, Fault> {
        caller.may_read()?;
        let from = Timestamp::from_unix_ms(now().unix_ms().saturating_sub(RECENT_MS));
        let store = &self.database.store;
        let found = store.recent_use(caller.account(), about.into(), from);
        let mut found = self.database.ask("recent_use", found).await?;
        let reasons = found.causes.iter_mut().map(|cause| &mut cause.reason);
        self.name_denials(caller, reasons).await?;
        Ok(found)
    }

    /// The number of members of each group; groups without members are left out.
    pub async fn member_counts(
        &self,
        caller: &Caller,
        groups: impl IntoIterator<Item = GroupId>,
    ) -> Result<BTreeMap<GroupId, u64>, Fault> {
        caller.may_read()?;
        let groups: Vec<GroupId> = groups.into_iter().collect();
        let counts = self.database.store.member_counts(caller.account(), &groups);
        Ok(self.database.ask("member_counts", counts).await?)
    }

    /// Groups of an actor, the oldest membership first, and the number of all.
    pub async fn groups_of_actor(
        &self,
        caller: &Caller,
        actor: ActorId,
        limit: u16,
    ) -> Result<(Vec<GroupId>, u64), Fault> {
        let order = store::Order {
            by: store::OrderBy::Created,
            is_descending: false,
        };
        let request = ListRequest {
            position: Some(store::Position { order, skipped: 0 }),
            limit: Some(limit),
            ..ListRequest::default()
        };
        let request = request.referring_to(Some(actor));
        let found = self.list(caller, &request, |row: Membership| row.group);
        let found = found.await?;
        Ok((found.items, found.total.unwrap_or_default()))
    }

    /// Grants that a client or a gateway has now, at most `limit`.
    pub async fn grants_of(
        &self,
        caller: &Caller,
        machine: MachineId,
        limit: u16,
    ) -> Result<Vec<Grant>, Fault> {
        caller.may_read()?;
        match self.serves(caller) {
            true => self.served.grants_of(machine, limit.into()).await,
            false => Ok(Vec::new()),
        }
    }
}
