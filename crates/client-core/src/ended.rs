//! Access that ended: destinations that the portal no longer shows to this client.
//!
//! A resource that was taken away has no route into the tunnel any more, and its packets would leave by the next best route:
//! in the clear, to whoever has that address there. So the client remembers where it led. Packets and questions go into the
//! tunnel as before, and are refused there. An account may say that they leave by the host's own routes instead.

use culvert_ids::ResourceId;
use culvert_policy::{DomainName, Prefix, Resource, Resources};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Resources that are remembered after they were taken away: as many as a client may have
/// ([`MAX_RESOURCES`](super::MAX_RESOURCES)), so that all of them may go at once. Of more the oldest gives way.
pub const MAX_ENDED: usize = 20_000;

/// The destinations of access that ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// True if the account lets them leave by the host's own routes.
    releases: bool,
    /// Under numbers of their own in the place of ids, in the order in which they ended: a resource that led to several places
    /// has ended at each of them.
    resources: Resources,
    /// The number of the next one.
    next: u128,
    /// Their ranges, and how many have each.
    ranges: BTreeMap<Prefix, u32>,
}

impl Ended {
    /// Follows the account: with `releases`, nothing is remembered.
    pub(super) fn set_release(&mut self, releases: bool) {
        *self = match releases {
            true => Self {
                releases,
                ..Self::default()
            },
            false => Self {
                releases,
                ..std::mem::take(self)
            },
        };
    }

    /// True if the account lets ended access leave by the host's own routes.
    pub(super) const fn releases(&self) -> bool {
        self.releases
    }

    /// A resource is there no longer, or leads elsewhere.
    pub(super) fn remember(&mut self, resource: Resource) {
        if self.releases {
            return;
        }
        self.forget(&resource);
        let oldest = self.resources.iter().next().map(|it| it.id);
        if let Some(oldest) = oldest.filter(|_| self.resources.len() >= MAX_ENDED) {
            self.remove(oldest);
        }
        let range = resource.target.prefix();
        let id = ResourceId::from_bytes(self.next.to_be_bytes());
        self.next += 1;
        // It fits: the set's own bound is higher.
        let _none_before = self.resources.set(Resource { id, ..resource });
        if let Some(range) = range {
            *self.ranges.entry(range).or_default() += 1;
        }
    }

    /// A resource is there: itself, and what led to the same place, has not ended. True if something did.
    pub(super) fn forget(&mut self, resource: &Resource) -> bool {
        if self.resources.is_empty() {
            return false;
        }
        let same_target = self.resources.with_same_target(resource);
        let gone: Vec<_> = same_target.map(|it| it.id).collect();
        for id in &gone {
            self.remove(*id);
        }
        !gone.is_empty()
    }

    fn remove(&mut self, id: ResourceId) {
        let removed = self.resources.remove(id);
        if let Some(range) = removed.and_then(|it| it.target.prefix())
            && let Some(count) = self.ranges.get_mut(&range)
        {
            *count -= 1;
            if *count == 0 {
                self.ranges.remove(&range);
            }
        }
    }

    pub(super) fn for_address(&self, address: IpAddr) -> Option<&Resource> {
        self.resources.for_address(address)
    }

    pub(super) fn for_name(&self, name: &DomainName) -> Option<&Resource> {
        self.resources.for_name(name)
    }

    /// The ranges that still lead into the tunnel.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.ranges.keys().copied()
    }

    /// All, in the order in which they ended.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Resource> {
        self.resources.iter()
    }
}
