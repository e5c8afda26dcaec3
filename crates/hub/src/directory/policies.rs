//! Policies that can be converted, by resource and by group.

use super::bounds::{MAX, MIN};
use culvert_ids::{GroupId, PolicyId, ResourceId};
use culvert_policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Policies {
    rows: BTreeMap<ResourceId, BTreeMap<PolicyId, Policy>>,
    places: BTreeMap<PolicyId, (GroupId, ResourceId)>,
    of_group: BTreeSet<(GroupId, ResourceId, PolicyId)>,
    names: BTreeMap<PolicyId, String>,
}

impl Policies {
    pub(super) fn of_resource(&self, resource: ResourceId) -> impl Iterator<Item = &Policy> {
        self.rows
            .get(&resource)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// The resources that a policy joins with the group, disabled policies included.
    pub(super) fn resources_of(&self, group: GroupId) -> impl Iterator<Item = ResourceId> {
        let first = (
            group,
            ResourceId::from_bytes(MIN),
            PolicyId::from_bytes(MIN),
        );
        let last = (
            group,
            ResourceId::from_bytes(MAX),
            PolicyId::from_bytes(MAX),
        );
        let held = self.of_group.range(first..=last);
        held.map(|(_, resource, _)| *resource)
    }

    pub(super) fn name(&self, id: PolicyId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// Adds a policy that is not in.
    pub(super) fn insert(&mut self, policy: Policy, name: String) {
        let (id, group, resource) = (policy.id, policy.group, policy.resource);
        self.names.insert(id, name);
        self.rows.entry(resource).or_default().insert(id, policy);
        self.places.insert(id, (group, resource));
        self.of_group.insert((group, resource, id));
    }

    /// The group and the resource that the policy joined.
    pub(super) fn remove(&mut self, id: PolicyId) -> Option<(GroupId, ResourceId)> {
        let (group, resource) = self.places.remove(&id)?;
        self.of_group.remove(&(group, resource, id));
        self.names.remove(&id);
        if let Some(policies) = self.rows.get_mut(&resource) {
            policies.remove(&id);
            if policies.is_empty() {
                self.rows.remove(&resource);
            }
        }
        Some((group, resource))
    }
}
