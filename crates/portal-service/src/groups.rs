use super::changes::made;
use super::list::{cursor, page_limit};
use super::write::{Attempts, at_reference, too_often};
use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::{AccountId, ActorId, GroupId, MembershipId};
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, EntityId, Kind, ListFilter, Mutation, Stamp, StoreError};
use culvert_wire::api::{Group, GroupPatch, Member, NewGroup, NewMember, Page};
use std::collections::BTreeSet;

impl Service {
    /// A page of the groups that the caller may see.
    pub async fn groups(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Group>, Fault> {
        self.list(caller, request, show::group).await
    }

    /// The group with this id.
    pub async fn group(&self, caller: &Caller, id: GroupId) -> Result<Group, Fault> {
        self.read(caller, id).await.map(show::group)
    }

    /// Creates a group.
    pub async fn create_group(&self, caller: &Caller, new: NewGroup) -> Result<Group, Fault> {
        let (born, random) = birth()?;
        let row = store::Group {
            id: GroupId::new(born, random),
            name: names::name("name", &new.name)?,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::group)
    }

    /// Changes a group; with `expected`, only that version of it.
    pub async fn change_group(
        &self,
        caller: &Caller,
        id: GroupId,
        expected: Option<u64>,
        patch: GroupPatch,
    ) -> Result<Group, Fault> {
        let change = |row: &mut store::Group| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::group)
    }

    /// Its memberships and policies go with it.
    pub async fn delete_group(
        &self,
        caller: &Caller,
        id: GroupId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Group>(caller, id, expected, false)
            .await
    }

    /// A page of the members of a group.
    pub async fn members(
        &self,
        caller: &Caller,
        group: GroupId,
        request: &ListRequest,
    ) -> Result<Page<Member>, Fault> {
        // A group that is not there is no empty one.
        self.read::<store::Group>(caller, group).await?;
        let filter = ListFilter {
            refers_to: vec![group.into()],
            ..ListFilter::default()
        };
        let after: Option<MembershipId> = cursor(request.cursor.as_deref())?;
        let limit = page_limit(request.limit)?;
        let list = self.database.store.list(
            caller.account(),
            store::Membership::KIND,
            &filter,
            after.map(EntityId::from),
            limit,
        );
        let page = self.database.ask("list", list).await?;
        let rows = page.items.into_iter();
        let rows: Vec<_> = rows.filter_map(store::Membership::from_entity).collect();
        let actors = rows.iter().map(|row| row.actor.into());
        let mut names = self.names_of(caller, actors).await?;
        // An actor that was deleted in between took the membership along.
        let members = rows.iter().filter_map(|row| {
            let name = names.remove(&row.actor.into())?;
            Some(show::member(row, name))
        });
        Ok(Page {
            items: members.collect(),
            next_cursor: page.next.map(|next| next.to_string()),
            total: None,
        })
    }

    /// A membership that an identity provider has made becomes one that people made, which stays when the claim goes.
    pub async fn add_member(
        &self,
        caller: &Caller,
        group: GroupId,
        new: NewMember,
    ) -> Result<Member, Fault> {
        caller.may_change()?;
        let mut attempts = Attempts::default();
        loop {
            if let Some(member) = self.try_add_member(caller, group, &new).await? {
                return Ok(member);
            }
            if attempts.are_over() {
                return Err(too_often());
            }
        }
    }

    /// None if a sign-in by a provider has changed the memberships since they were read.
    async fn try_add_member(
        &self,
        caller: &Caller,
        group: GroupId,
        new: &NewMember,
    ) -> Result<Option<Member>, Fault> {
        let account = caller.account();
        let actor: store::Actor = match self.read(caller, new.actor).await {
            Err(fault @ Fault::NotFound(_)) => {
                // A group that is not there comes first: the path names it.
                self.read::<store::Group>(caller, group).await?;
                return Err(fault.at_field("actor"));
            }
            found => found?,
        };
        let (born, random) = birth()?;
        let row = store::Membership {
            id: MembershipId::new(born, random),
            group,
            actor: new.actor,
            stamp: Stamp::default(),
        };
        let of_actor = ListFilter {
            refers_to: vec![new.actor.into()],
            ..ListFilter::default()
        };
        let by_providers = self.made_by_providers(account, &of_actor).await?;
        let there = match by_providers.is_empty() {
            true => None,
            false => self.membership(caller, group, new.actor).await?,
        };
        let there = there.filter(|there| by_providers.contains(&there.id));
        let id = row.id.into();
        let mutations = match &there {
            Some(there) => taken_over(there, row).into(),
            None => vec![Mutation::Create(row.into())],
        };
        let error = match self.write(account, caller.author(), mutations).await {
            Ok(changes) => return Ok(Some(show::member(&made(changes, id)?, actor.name))),
            Err(error) => error,
        };
        let is_stale = match &error {
            StoreError::VersionConflict { .. } => true,
            StoreError::NotFound(gone) => there.is_some_and(|there| *gone == there.id.into()),
            StoreError::Exists(EntityId::Membership(other)) => {
                let by_providers = self.made_by_providers(account, &of_actor).await?;
                by_providers.contains(other)
            }
            _ => false,
        };
        match is_stale {
            true => Ok(None),
            false => Err(at_reference(error, id)),
        }
    }

    /// The actor's membership of the group. There is one at most.
    async fn membership(
        &self,
        caller: &Caller,
        group: GroupId,
        actor: ActorId,
    ) -> Result<Option<store::Membership>, Fault> {
        let filter = ListFilter {
            refers_to: vec![group.into(), actor.into()],
            ..ListFilter::default()
        };
        let rows = self.all(caller.account(), &filter).await?;
        Ok(rows.into_iter().next())
    }

    /// The names of the groups of an actor.
    pub async fn group_names_of(
        &self,
        caller: &Caller,
        actor: ActorId,
    ) -> Result<BTreeSet<String>, Fault> {
        self.read::<store::Actor>(caller, actor).await?;
        let members = self.memberships_of(caller.account(), actor).await?;
        let groups = members.iter().map(|member| member.group.into());
        let names = self.names_of(caller, groups).await?;
        Ok(names.into_values().collect())
    }

    /// Memberships that identity providers have made for these identities, and take away again.
    pub(super) async fn made_by_providers(
        &self,
        account: AccountId,
        filter: &ListFilter,
    ) -> Result<BTreeSet<MembershipId>, Fault> {
        let identities: Vec<store::Identity> = self.all(account, filter).await?;
        let made = identities.into_iter();
        Ok(made.flat_map(|identity| identity.memberships).collect())
    }

    /// Removes a member of a group.
    pub async fn remove_member(
        &self,
        caller: &Caller,
        group: GroupId,
        actor: ActorId,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let Some(row) = self.membership(caller, group, actor).await? else {
            return Err(Fault::NotFound(format!("{actor} is not in {group}")));
        };
        self.delete::<store::Membership>(caller, row.id, None, false)
            .await
    }
}

/// The mutations that replace a provider's membership by `new`, which people want. The provider's identity
/// goes on to list the old one, so it takes nothing away. The hub sees both changes at once, and ends nothing.
pub(super) fn taken_over(there: &store::Membership, new: store::Membership) -> [Mutation; 2] {
    [
        Mutation::Delete {
            id: there.id.into(),
            expected_version: Some(there.stamp.version),
            cascade: false,
        },
        Mutation::Create(new.into()),
    ]
}
