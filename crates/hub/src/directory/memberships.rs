//! Groups by their names, and memberships by actor and by group.

use super::bounds::{MAX, MIN};
use culvert_ids::{ActorId, GroupId, MembershipId};
use culvert_store::Membership;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Memberships {
    group_names: BTreeMap<GroupId, String>,
    rows: BTreeMap<MembershipId, (ActorId, GroupId)>,
    groups_of: BTreeSet<(ActorId, GroupId, MembershipId)>,
    members_of: BTreeSet<(GroupId, ActorId, MembershipId)>,
}

impl Memberships {
    pub(super) fn group_name(&self, id: GroupId) -> Option<&str> {
        self.group_names.get(&id).map(String::as_str)
    }

    pub(super) fn set_group_name(&mut self, id: GroupId, name: String) {
        self.group_names.insert(id, name);
    }

    pub(super) fn remove_group_name(&mut self, id: GroupId) {
        self.group_names.remove(&id);
    }

    pub(super) fn groups_of(&self, actor: ActorId) -> impl Iterator<Item = GroupId> {
        let first = (
            actor,
            GroupId::from_bytes(MIN),
            MembershipId::from_bytes(MIN),
        );
        let last = (
            actor,
            GroupId::from_bytes(MAX),
            MembershipId::from_bytes(MAX),
        );
        let held = self.groups_of.range(first..=last);
        held.map(|(_, group, _)| *group)
    }

    pub(super) fn members_of(&self, group: GroupId) -> impl Iterator<Item = ActorId> {
        let first = (
            group,
            ActorId::from_bytes(MIN),
            MembershipId::from_bytes(MIN),
        );
        let last = (
            group,
            ActorId::from_bytes(MAX),
            MembershipId::from_bytes(MAX),
        );
        let members = self.members_of.range(first..=last);
        members.map(|(_, actor, _)| *actor)
    }

    pub(super) fn is_member(&self, actor: ActorId, group: GroupId) -> bool {
        let first = (actor, group, MembershipId::from_bytes(MIN));
        let last = (actor, group, MembershipId::from_bytes(MAX));
        self.groups_of.range(first..=last).next().is_some()
    }

    /// Two rows of one membership are possible only while a change of one is half told.
    pub(super) fn join(&mut self, membership: &Membership) {
        let Membership {
            id, actor, group, ..
        } = *membership;
        self.rows.insert(id, (actor, group));
        self.groups_of.insert((actor, group, id));
        self.members_of.insert((group, actor, id));
    }

    pub(super) fn part(&mut self, id: MembershipId) -> Option<(ActorId, GroupId)> {
        let (actor, group) = self.rows.remove(&id)?;
        self.groups_of.remove(&(actor, group, id));
        self.members_of.remove(&(group, actor, id));
        Some((actor, group))
    }
}
