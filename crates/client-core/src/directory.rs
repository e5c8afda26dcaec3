//! The resources that the portal has told of, and which of them is meant.

use super::changed::ChangedResources;
use super::ended::{Ended, MAX_ENDED};
use super::opening::Opening;
use super::remembered::{Keeping, Remembered};
use culvert_base::{LogLine, LogQueue};
use culvert_ids::ResourceId;
use culvert_policy::{
    Applications, DomainName, Prefix, Resource, ResourceName, Resources, Service,
};
use culvert_wire::model::{self, ToldApplications};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most resources of one client, a thousand bytes each. An account with more has groups that use
/// a part of them each.
pub const MAX_RESOURCES: usize = 20_000;

/// All of them may end at once.
const _: () = assert!(MAX_ENDED >= MAX_RESOURCES);

/// Resources with one and the same target that are asked for together: the ports of one host. A first packet for
/// one beyond these asks for that one.
pub const MAX_SAME_TARGET: usize = 8;

/// The resources that the client may ask for.
#[derive(Debug, Default)]
pub(super) struct Directory {
    resources: Resources,
    /// Every range that is a resource, and how many are.
    ranges: BTreeMap<Prefix, u32>,
    /// Resources that can't be read: no access to them.
    unreadable: BTreeMap<ResourceId, Unreadable>,
    /// Of the others, those with filters that this version does not understand, and how many.
    not_understood: BTreeMap<ResourceId, usize>,
    /// Resources that were there before.
    ended: Ended,
    /// Those that may begin flows at this host.
    opening: Opening,
    /// Resources that changed since watchers were told.
    changed: ChangedResources,
    /// Destinations that a restart would not know of.
    keeping: Keeping,
}

/// A resource that can't be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// The name that people see, if it can be read.
    pub(super) name: Option<ResourceName>,
    /// The reason.
    pub(super) why: String,
}

/// The change that a message about a resource has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It is new, or what it points at is another: what was granted of it is void.
    Target,
    /// Its name or its filters.
    Other,
    /// It can't be read and is no longer there.
    Gone,
}

impl Directory {
    /// Removes all: access to them has ended.
    pub(super) fn clear(&mut self) {
        for id in self.ids() {
            self.remove(id);
        }
    }

    /// All, those that can't be read included.
    pub(super) fn ids(&self) -> Vec<ResourceId> {
        let readable = self.resources.iter().map(|resource| resource.id);
        readable.chain(self.unreadable.keys().copied()).collect()
    }

    /// Adds or replaces one.
    pub(super) fn set(&mut self, received: &model::Resource, log: &mut LogQueue) -> Changed {
        let id = received.id;
        let before = self.take(id);
        let plain = model::Resource {
            applications: ToldApplications::default(),
            ..received.clone()
        };
        let resource = match Resource::try_from(&plain) {
            Ok(resource) => Resource {
                applications: rule_of(received, log),
                ..resource
            },
            Err(error) => {
                // As many as there may be of the others.
                if self.unreadable.len() < MAX_RESOURCES {
                    let name = ResourceName::new(&received.name).ok();
                    let why = error.to_string();
                    self.unreadable.insert(id, Unreadable { name, why });
                }
                self.end(before);
                return Changed::Gone;
            }
        };
        if self.resources.len() >= MAX_RESOURCES {
            self.end(before);
            return Changed::Gone;
        }
        let same_target = before
            .as_ref()
            .is_some_and(|before| before.target == resource.target);
        if !same_target {
            self.end(before);
        }
        self.insert(resource, same_target);
        if received.filters.others() > 0 {
            self.not_understood.insert(id, received.filters.others());
        }
        match same_target {
            true => Changed::Other,
            false => Changed::Target,
        }
    }

    /// Adds one, whose destination may be known.
    fn insert(&mut self, resource: Resource, is_known: bool) {
        if self.resources.len() >= MAX_RESOURCES {
            return;
        }
        if let Some(range) = resource.target.prefix() {
            *self.ranges.entry(range).or_default() += 1;
        }
        if !(self.ended.forget(&resource) || is_known) {
            self.keeping.note();
        }
        if !resource.inbound.is_empty() {
            self.opening.insert(resource.id);
        }
        self.opening.hurry();
        let id = resource.id;
        // It fits: the set's own bound is higher.
        let _replaced = self.resources.set(resource);
        self.note_changed(id);
    }

    /// A resource is new or about to go. The rule about applications of others with its target may change too.
    fn note_changed(&mut self, id: ResourceId) {
        if let Some(resource) = self.resources.get(id) {
            let same_target = self.resources.with_same_target(resource);
            self.changed.extend(same_target.map(|other| other.id));
        }
    }

    /// The resources that changed since this was called last; all at the first time.
    pub(super) fn take_changed(&mut self) -> ChangedResources {
        self.changed.take()
    }

    /// Removes one: access to it has ended.
    pub(super) fn remove(&mut self, id: ResourceId) {
        let before = self.take(id);
        self.end(before);
    }

    /// Remembers where one led, unless another one leads there.
    fn end(&mut self, before: Option<Resource>) {
        let Some(before) = before else { return };
        if self.resources.with_same_target(&before).next().is_none() {
            self.ended.remember(before);
        }
    }

    fn take(&mut self, id: ResourceId) -> Option<Resource> {
        self.unreadable.remove(&id);
        self.not_understood.remove(&id);
        self.note_changed(id);
        let resource = self.resources.remove(id)?;
        self.opening.remove(id);
        if let Some(range) = resource.target.prefix()
            && let Some(count) = self.ranges.get_mut(&range)
        {
            *count -= 1;
            if *count == 0 {
                self.ranges.remove(&range);
            }
        }
        Some(resource)
    }

    pub(super) fn get(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(id)
    }

    /// The name of a resource; its id if it is gone.
    pub(super) fn name_of(&self, id: ResourceId) -> String {
        let resource = self.get(id);
        resource.map_or_else(|| id.to_string(), |resource| resource.name.to_string())
    }

    pub(super) fn for_address(&self, address: IpAddr) -> Option<&Resource> {
        self.resources.for_address(address)
    }

    pub(super) fn for_name(&self, name: &DomainName) -> Option<&Resource> {
        self.resources.for_name(name)
    }

    /// The resource whose name is answered here: one of those that are there, or one that was.
    pub(super) fn answered(&self, name: &DomainName) -> Option<ResourceId> {
        let there = self.resources.for_name(name);
        there.or_else(|| self.ended.for_name(name)).map(|it| it.id)
    }

    /// Resources that were there before.
    pub(super) const fn ended(&self) -> &Ended {
        &self.ended
    }

    /// The resources that may begin flows at this host.
    pub(super) const fn opening(&self) -> &Opening {
        &self.opening
    }

    pub(super) const fn opening_mut(&mut self) -> &mut Opening {
        &mut self.opening
    }

    /// Follows the account's rule about them.
    pub(super) fn set_release_ended(&mut self, releases: bool) {
        if releases != self.ended.releases() || (releases && self.ended.iter().next().is_some()) {
            self.keeping.note();
        }
        self.ended.set_release(releases);
    }

    /// Takes over what an earlier run of the client has kept: until the portal lists it, access there has ended.
    pub(super) fn set_remembered(&mut self, remembered: Remembered) {
        for resource in remembered.into_resources() {
            self.ended.remember(resource);
        }
    }

    /// The destinations that a restart is to know of. None if the account releases those to which access ended.
    pub(super) fn remembered(&self) -> Remembered {
        match self.ended.releases() {
            true => Remembered::default(),
            false => Remembered::of(self.resources.iter().chain(self.ended.iter().rev())),
        }
    }

    pub(super) const fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    pub(super) const fn keeping_mut(&mut self) -> &mut Keeping {
        &mut self.keeping
    }

    /// Of the resources with the target of `resource`, the one that has the service; where that is
    /// not known, the oldest that allows anything.
    pub(super) fn for_service<'a>(
        &'a self,
        resource: &'a Resource,
        service: Option<Service>,
    ) -> Option<&'a Resource> {
        match service {
            Some(service) => self.resources.for_service(resource, service),
            None => self
                .resources
                .with_same_target(resource)
                .find(|other| !other.filters.is_empty()),
        }
    }

    /// Every resource with the target of `resource`, itself included.
    pub(super) fn all_with_same_target<'a>(&'a self, resource: &'a Resource) -> Vec<&'a Resource> {
        self.resources.with_same_target(resource).collect()
    }

    /// The resources to ask for together with `resource`, itself included.
    pub(super) fn with_same_target(&self, resource: &Resource) -> Vec<ResourceId> {
        let allowing = self
            .resources
            .with_same_target(resource)
            .filter(|other| !other.filters.is_empty() || other.id == resource.id);
        let mut ids: Vec<_> = allowing
            .map(|other| other.id)
            .take(MAX_SAME_TARGET)
            .collect();
        if !ids.contains(&resource.id) {
            ids.push(resource.id);
        }
        ids
    }

    /// The programs that may reach the target of `resource`: those that may by the rules of all resources with
    /// its target.
    pub(super) fn rule(&self, resource: &Resource) -> Applications {
        let same_target = self.resources.with_same_target(resource);
        same_target.fold(resource.applications.clone(), |rule, other| {
            rule.and(&other.applications)
        })
    }

    /// Every range that is a resource.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.ranges.keys().copied()
    }

    /// The ranges inside `range`, itself not included.
    pub(super) fn inside(&self, range: Prefix) -> BTreeSet<Prefix> {
        let following = self.ranges.range(range..).map(|(inner, _)| *inner);
        following
            .take_while(|inner| range.contains(inner.address()))
            .filter(|inner| *inner != range)
            .collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter()
    }

    pub(super) fn unreadable(&self) -> impl Iterator<Item = (ResourceId, &Unreadable)> {
        self.unreadable.iter().map(|(id, it)| (*id, it))
    }

    /// The number of a resource's filters that this version does not understand.
    pub(super) fn not_understood(&self, id: ResourceId) -> usize {
        self.not_understood.get(&id).copied().unwrap_or_default()
    }
}

/// The programs that may reach a resource. A rule that can't be read was meant to narrow something: then
/// it is none.
fn rule_of(received: &model::Resource, log: &mut LogQueue) -> Applications {
    Applications::try_from(&received.applications).unwrap_or_else(|error| {
        let line = LogLine::warn("no program may reach a resource");
        log.push(line.with("id", received.id).with("error", error));
        Applications::Only(BTreeSet::new())
    })
}
