//! Resources by name that a plain WireGuard device has at other sites (ADR 0061).

use culvert_base::{BootTime, TokenBucket};
use culvert_ids::ResourceId;
use culvert_policy::NamePattern;
use culvert_wire::messages::{NAME_SHARES, NameElsewhere};
use std::collections::BTreeMap;

/// Resources by name at other sites of one device: as many as it may have grants.
const MAX_NAMES_ELSEWHERE: usize = 64;

/// The resources by name of a device at other sites.
#[derive(Debug, Default)]
pub(super) struct OtherSites {
    /// The place of this gateway in the device's file.
    place: u8,
    /// Each with the place of its gateway.
    resources: BTreeMap<ResourceId, (NamePattern, u8)>,
    /// The questions that it may have asked.
    pub(super) rate: TokenBucket<BootTime>,
}

impl OtherSites {
    /// Patterns that can't be, and places that no file has, are left out.
    pub(super) fn new(place: u8, names: Vec<NameElsewhere>) -> Self {
        let known = names.into_iter().filter_map(|name| {
            let pattern = name.pattern.parse::<NamePattern>().ok()?;
            Some((name.resource, (pattern, name.place)))
        });
        let known = known.filter(|(_, (_, place))| *place < NAME_SHARES);
        Self {
            place: place.min(NAME_SHARES - 1),
            resources: known.take(MAX_NAMES_ELSEWHERE).collect(),
            rate: TokenBucket::FULL,
        }
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = (ResourceId, &NamePattern)> {
        let resources = self.resources.iter();
        resources.map(|(resource, (pattern, _))| (*resource, pattern))
    }

    pub(super) fn has(&self, resource: ResourceId) -> bool {
        self.resources.contains_key(&resource)
    }

    /// The share of the ranges for names of this site, and those of resources at other sites.
    pub(super) fn shares(&self) -> (u8, impl Iterator<Item = (ResourceId, u8)>) {
        let resources = self.resources.iter();
        let of = resources.map(|(resource, (_, place))| (*resource, *place));
        (self.place, of)
    }
}
