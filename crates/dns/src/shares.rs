//! The names of each resource: their number, the order in which they were told, and the rate limit of
//! new ones.
//!
//! A web page can ask for any number of labels below a wildcard. It must use up neither the addresses that
//! names of other resources need, nor for hours those of its own.

use crate::constants::{NEW_NAMES_BURST, NEW_NAMES_PER_S};
use crate::ranges::Offset;
use crate::{NAMES_MAX, TOLD_MIN};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use std::collections::{BTreeMap, BTreeSet};

// Three resources may have as many new names as they can, and still the oldest may make room.
const _: () = {
    let young = NEW_NAMES_BURST + NEW_NAMES_PER_S * TOLD_MIN.as_secs();
    assert!(3 * young <= NAMES_MAX as u64);
};

const FULL_MILLI: u64 = NEW_NAMES_BURST * 1000;

#[derive(Debug, Default)]
pub(crate) struct Shares(BTreeMap<ResourceId, Share>);

#[derive(Debug)]
struct Share {
    /// Its names, by when their addresses were told last.
    told: BTreeSet<(BootTime, Offset)>,
    /// A token bucket of new names, in thousandths.
    tokens_milli: u64,
    filled_at: BootTime,
}

impl Shares {
    /// Takes a token for a new name of the resource; true if there was one.
    pub(crate) fn take_token(&mut self, resource: ResourceId, now: BootTime) -> bool {
        let share = self.share(resource, now);
        let passed_ms = now.saturating_since(share.filled_at).as_millis();
        // A thousandth of a token a millisecond is one a second.
        let more = u64::try_from(passed_ms)
            .unwrap_or(u64::MAX)
            .saturating_mul(NEW_NAMES_PER_S);
        share.tokens_milli = share.tokens_milli.saturating_add(more).min(FULL_MILLI);
        share.filled_at = now;
        let has_one = share.tokens_milli >= 1000;
        if has_one {
            share.tokens_milli -= 1000;
        }
        has_one
    }

    pub(crate) fn add(&mut self, resource: ResourceId, offset: Offset, told_at: BootTime) {
        let share = self.share(resource, told_at);
        share.told.insert((told_at, offset));
    }

    /// A name is told at `now` that was told at `before`.
    pub(crate) fn tell(
        &mut self,
        resource: ResourceId,
        offset: Offset,
        before: BootTime,
        now: BootTime,
    ) {
        let share = self.share(resource, now);
        share.told.remove(&(before, offset));
        share.told.insert((now, offset));
    }

    pub(crate) fn remove(&mut self, resource: ResourceId, offset: Offset, told_at: BootTime) {
        if let Some(share) = self.0.get_mut(&resource) {
            share.told.remove(&(told_at, offset));
        }
        self.forget_empty(resource);
    }

    /// A resource without names has no share.
    pub(crate) fn forget_empty(&mut self, resource: ResourceId) {
        let share = self.0.get(&resource);
        if share.is_some_and(|share| share.told.is_empty()) {
            self.0.remove(&resource);
        }
    }

    fn share(&mut self, resource: ResourceId, now: BootTime) -> &mut Share {
        self.0.entry(resource).or_insert(Share {
            told: BTreeSet::new(),
            tokens_milli: FULL_MILLI,
            filled_at: now,
        })
    }

    /// Of the resource with the most names, the one that was told longest ago, unless that is not long.
    pub(crate) fn oldest_of_largest(&self, now: BootTime) -> Option<Offset> {
        let largest = self.0.values().max_by_key(|share| share.told.len())?;
        let (told_at, offset) = largest.told.first()?;
        (now.saturating_since(*told_at) >= TOLD_MIN).then_some(*offset)
    }
}
