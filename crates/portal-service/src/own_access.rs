//! A person's own view: their machines, and what they may use from them.

use super::{Caller, Service, show};
use culvert_hub::Explained;
use culvert_ids::{AccountId, ActorId, ClientId, ResourceId};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityKind, Kind, ListFilter, PageLimit};
use culvert_wire::Timestamp;
use culvert_wire::api::Client;
use culvert_wire::model::Filter;
use std::collections::BTreeSet;

/// Resources on the page. A person with more of them finds the others with `culvert resources`.
const MAX_RESOURCES: usize = 100;

/// Machines for which each resource is decided. A person has a few.
const MAX_MACHINES: usize = 8;

/// Questions of the hub for one page, which are asked one after the other. It is [`MAX_MACHINES`] for each of 15 resources, and one
/// for each of [`MAX_RESOURCES`].
const MAX_QUESTIONS: usize = 120;

const _: () = assert!(MAX_QUESTIONS >= MAX_RESOURCES && MAX_QUESTIONS == 15 * MAX_MACHINES);

/// A person's machines, and what they may use.
pub struct OwnAccess {
    /// Machines that are not revoked, those that are connected first.
    pub machines: Vec<OwnMachine>,
    /// Resources that a policy joins with a group of the person, by their names.
    pub resources: Vec<OwnResource>,
    /// There are more resources than these.
    pub has_more: bool,
    /// There are more machines than those for which the resources were decided: the first ones.
    pub has_undecided: bool,
}

/// A machine of the person.
pub struct OwnMachine {
    /// The client.
    pub client: Client,
    /// It is connected now.
    pub is_connected: bool,
}

/// A resource that the person may use, or may use at other times.
pub struct OwnResource {
    /// Its name.
    pub name: String,
    /// Its address or name in the network.
    pub address: String,
    /// The protocols and ports that are let through.
    pub filters: Vec<Filter>,
    /// Its use by the person now.
    pub now: OwnUse,
}

/// The use of a resource by its person now. The reason for a denial is told to administrators alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnUse {
    /// From these machines.
    Allowed {
        /// Their names.
        machines: Vec<String>,
        /// The end of the access, if there is one.
        until: Option<Timestamp>,
    },
    /// It may be, but no gateway leads there now.
    NoGateway,
    /// Not from any machine of the person.
    Denied,
    /// It can't be decided: the sessions do not know a machine or the resource yet, or another portal has the sessions.
    Unknown,
    /// The person has no machine.
    NoMachine,
}

impl Service {
    /// The caller's own machines, and what they may use from them now.
    pub async fn own_access(&self, caller: &Caller) -> Result<OwnAccess, Fault> {
        caller.has_enrolled()?;
        let machines = self.own_machines(caller).await?;
        let (account, actor) = (caller.account(), caller.actor()?);
        let mut ids = self
            .resources_of_groups(account, actor, MAX_RESOURCES)
            .await?;
        let has_more = ids.len() > MAX_RESOURCES;
        ids.truncate(MAX_RESOURCES);
        let asked = &machines[..machines.len().min(machines_for(ids.len()))];
        let has_undecided = asked.len() < machines.len() && !ids.is_empty();
        let mut resources = Vec::new();
        for id in ids {
            let found = self.get::<store::Resource>(caller.account(), id).await;
            let row = match found {
                Ok(row) => row,
                // It was deleted in between.
                Err(Fault::NotFound(_)) => continue,
                Err(fault) => return Err(fault),
            };
            resources.push(OwnResource {
                now: self.own_use(caller, asked, id).await?,
                name: row.name,
                address: row.target.address,
                filters: row.filters,
            });
        }
        resources.sort_by_key(|resource| resource.name.to_lowercase());
        Ok(OwnAccess {
            machines,
            resources,
            has_more,
            has_undecided,
        })
    }

    async fn own_machines(&self, caller: &Caller) -> Result<Vec<OwnMachine>, Fault> {
        let of_actor = ListFilter {
            refers_to: vec![caller.actor()?.into()],
            ..ListFilter::default()
        };
        let rows: Vec<store::Client> = self.all(caller.account(), &of_actor).await?;
        let live = rows.into_iter().filter(|row| row.revoked.is_none());
        let clients: Vec<Client> = live.map(show::client).collect();
        let sessions = self.sessions_of_clients(caller, &clients).await?;
        let machines = clients.into_iter().map(|client| OwnMachine {
            is_connected: sessions.contains_key(&client.id),
            client,
        });
        let mut machines: Vec<OwnMachine> = machines.collect();
        machines.sort_by_key(|machine| {
            let name = machine.client.name.to_lowercase();
            (!machine.is_connected, name)
        });
        Ok(machines)
    }

    /// The resources that a policy joins with a group of the actor, unless the policy is disabled. A client is told these. At
    /// more than `limit`, no more policies are read.
    pub(super) async fn resources_of_groups(
        &self,
        account: AccountId,
        actor: ActorId,
        limit: usize,
    ) -> Result<Vec<ResourceId>, Fault> {
        let referring = |id: store::EntityId| ListFilter {
            refers_to: vec![id],
            ..ListFilter::default()
        };
        let of_actor = referring(actor.into());
        let memberships: Vec<store::Membership> = self.all(account, &of_actor).await?;
        let mut resources = BTreeSet::new();
        for membership in memberships {
            let of_group = referring(membership.group.into());
            let mut after = None;
            while resources.len() <= limit {
                let kind = EntityKind::Policy;
                let store = &self.database.store;
                let list = store.list(account, kind, &of_group, after, PageLimit::MAX);
                let page = self.database.ask("list", list).await?;
                let policies = page
                    .items
                    .into_iter()
                    .filter_map(store::Policy::from_entity);
                let enabled = policies.filter(|policy| !policy.disabled);
                resources.extend(enabled.map(|policy| policy.resource));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(resources.into_iter().collect())
    }

    async fn own_use(
        &self,
        caller: &Caller,
        machines: &[OwnMachine],
        resource: ResourceId,
    ) -> Result<OwnUse, Fault> {
        if machines.is_empty() {
            return Ok(OwnUse::NoMachine);
        }
        let mut allowed = Vec::new();
        let mut last = None;
        let mut has_gateway = false;
        let mut is_known = true;
        for machine in machines {
            let Some(explained) = self.judged_now(caller, machine.client.id, resource).await else {
                is_known = false;
                continue;
            };
            if !explained.is_allow() {
                continue;
            }
            has_gateway |= explained.gateway.is_ok();
            allowed.push(machine.client.name.clone());
            // The access that lasts longest counts.
            last = match (last, until(&explained)) {
                (None, ends) => Some(ends),
                (Some(Some(one)), Some(other)) => Some(Some(one.max(other))),
                (Some(_), _) => Some(None),
            };
        }
        let until = last.flatten();
        Ok(match (allowed.is_empty(), has_gateway) {
            (true, _) => without_access(is_known),
            (false, false) => OwnUse::NoGateway,
            (false, true) => OwnUse::Allowed {
                machines: allowed,
                until,
            },
        })
    }

    /// The decision of now. None where the sessions do not know one of the two yet.
    async fn judged_now(
        &self,
        caller: &Caller,
        client: ClientId,
        resource: ResourceId,
    ) -> Option<Explained> {
        match self.serves(caller) {
            true => self.served.explain(client, resource).await.ok(),
            false => None,
        }
    }
}

/// The use from no machine. A machine that was not decided about may have access.
const fn without_access(is_known: bool) -> OwnUse {
    match is_known {
        true => OwnUse::Denied,
        false => OwnUse::Unknown,
    }
}

/// The number of machines for which each of so many resources is decided.
fn machines_for(resources: usize) -> usize {
    (MAX_QUESTIONS / resources.max(1)).clamp(1, MAX_MACHINES)
}

const fn until(explained: &Explained) -> Option<Timestamp> {
    explained.policies.until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_was_not_decided_is_not_told_as_a_denial() {
        assert_eq!(without_access(true), OwnUse::Denied);
        assert_eq!(without_access(false), OwnUse::Unknown);
    }

    #[test]
    fn a_page_asks_at_most_120_questions_and_one_machine_at_least() {
        for (resources, machines) in [(0, 8), (1, 8), (15, 8), (16, 7), (61, 1), (100, 1)] {
            assert_eq!(machines_for(resources), machines, "{resources}");
            assert!(resources * machines_for(resources) <= MAX_QUESTIONS);
        }
    }
}
