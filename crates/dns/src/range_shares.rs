//! Shares of the ranges for names, and the next free address of each.

use crate::ranges::{Offset, Ranges};
use culvert_ids::ResourceId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Resources whose names get addresses of a share other than the usual one, at most: what a device may use at once.
const MAX_RESOURCES: usize = 64;

/// The division of the ranges into shares of one size, in the order of their addresses.
#[derive(Debug)]
pub(crate) struct RangeShares {
    /// The share of resources that no other one is set for.
    usual: usize,
    of: BTreeMap<ResourceId, usize>,
    /// Of each share, the index at which the search for free addresses continues. All other addresses are given out once
    /// before one is given out again.
    next: Vec<u32>,
}

impl RangeShares {
    /// One share, which is all of the ranges.
    pub(crate) fn whole() -> Self {
        Self {
            usual: 0,
            of: BTreeMap::new(),
            next: vec![0],
        }
    }

    /// Divides the ranges into `count` shares, a power of two up to 64. The smallest ranges have 254 addresses, so each share
    /// has some.
    pub(crate) fn divide(&mut self, count: u8) {
        debug_assert!(count.is_power_of_two());
        self.next = vec![0; count.max(1).into()];
    }

    /// Says which share the names of resources get addresses of. Shares that do not exist are left out.
    pub(crate) fn assign(&mut self, usual: u8, of: impl IntoIterator<Item = (ResourceId, u8)>) {
        let count = self.next.len();
        let of = of.into_iter();
        let of = of.map(|(resource, share)| (resource, usize::from(share)));
        self.of = of
            .filter(|(_, share)| *share < count)
            .take(MAX_RESOURCES)
            .collect();
        self.usual = usize::from(usual).min(count - 1);
    }

    /// The search for free addresses of each share continues at this place of it.
    pub(crate) fn begin_at(&mut self, place: u32, ranges: &Ranges) {
        for share in 0..self.next.len() {
            let indexes = self.indexes(share, ranges);
            self.next[share] = place % (indexes.end - indexes.start);
        }
    }

    pub(crate) fn share_of(&self, resource: ResourceId) -> usize {
        self.of.get(&resource).copied().unwrap_or(self.usual)
    }

    /// True if the address is of the share of the resource.
    pub(crate) fn holds(&self, resource: ResourceId, offset: Offset, ranges: &Ranges) -> bool {
        let indexes = self.indexes(self.share_of(resource), ranges);
        indexes.contains(&offset.index())
    }

    /// The next address of the share that is not taken; none if all are. It takes at most as many steps as names have addresses.
    pub(crate) fn next_free(
        &mut self,
        share: usize,
        ranges: &Ranges,
        is_taken: impl Fn(Offset) -> bool,
    ) -> Option<Offset> {
        let indexes = self.indexes(share, ranges);
        let count = indexes.end - indexes.start;
        let next = &mut self.next[share];
        for _ in 0..count {
            let offset = ranges.offset(indexes.start + *next);
            *next = (*next + 1) % count;
            if !is_taken(offset) {
                return Some(offset);
            }
        }
        None
    }

    /// The indexes of a share. The first address of all, and the last, are in no share.
    fn indexes(&self, share: usize, ranges: &Ranges) -> Range<u32> {
        // There are 256 shares at most.
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let (share, count) = (share as u32, self.next.len() as u32);
        let len = (ranges.capacity() + 2) / count;
        // Index 0 is the second address.
        let start = (share * len).saturating_sub(1);
        let end = ((share + 1) * len - 1).min(ranges.capacity());
        start..end
    }
}
