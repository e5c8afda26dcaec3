//! The places where the data plane counts the bytes of resources, and the sums of each.
//!
//! A resource has a place from its first grant until the portal no longer shows it, so that its sums go on over grants and
//! gateways. A place that is free again has the sums of its last resource, which are subtracted from those of the next one.

use culvert_base::{Traffic, TrafficSlot};
use culvert_ids::ResourceId;
use std::collections::{BTreeMap, VecDeque};

/// Every resource with a grant may have a place beside as many that had one.
const _: () = assert!(TrafficSlot::COUNT >= 2 * super::MAX_ACCESSES);

/// The places at which resources are counted.
#[derive(Debug, Default)]
pub(super) struct Counting {
    by_resource: BTreeMap<ResourceId, Place>,
    /// Places that were ever given to a resource: those below this index.
    used: usize,
    /// Places that nobody has and nothing is counted at.
    free: VecDeque<TrafficSlot>,
    /// Places that nobody has. Until the next report something may have been counted there.
    retired: Vec<TrafficSlot>,
    /// The sums at each place, as the last report told them.
    reported: Vec<Traffic>,
    /// A resource found no place.
    is_short: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    slot: TrafficSlot,
    /// The sums there before this resource.
    before: Traffic,
}

impl Counting {
    /// Takes the places of resources that are no longer shown.
    pub(super) fn retain(&mut self, is_shown: impl Fn(ResourceId) -> bool) {
        let retired = &mut self.retired;
        self.by_resource.retain(|id, place| {
            let stays = is_shown(*id);
            if !stays {
                retired.push(place.slot);
            }
            stays
        });
    }

    /// The place of a resource that has a route. None if all are taken: [`Self::make_room`] then.
    pub(super) fn slot_of(&mut self, id: ResourceId) -> Option<TrafficSlot> {
        if let Some(place) = self.by_resource.get(&id) {
            return Some(place.slot);
        }
        let fresh = TrafficSlot::new(self.used);
        let Some(slot) = fresh.or_else(|| self.free.pop_front()) else {
            self.is_short = true;
            return None;
        };
        self.used += usize::from(fresh.is_some());
        let before = self.sums_at(slot);
        self.by_resource.insert(id, Place { slot, before });
        Some(slot)
    }

    /// If a resource found no place, takes those of resources without a route.
    pub(super) fn make_room(&mut self, has_route: impl Fn(ResourceId) -> bool) {
        if self.is_short && self.retired.is_empty() {
            self.retain(has_route);
        }
    }

    /// Takes in the sums at all places. True if a resource that found no place may have one now.
    pub(super) fn report(&mut self, sums: &[Traffic]) -> bool {
        self.reported.clear();
        self.reported.extend_from_slice(sums);
        self.free.extend(self.retired.drain(..));
        std::mem::take(&mut self.is_short) && !self.free.is_empty()
    }

    /// The places that a report is to tell of: those below this index.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// The bytes of a resource; none if it never had a place.
    pub(super) fn traffic_of(&self, id: ResourceId) -> Option<Traffic> {
        let place = self.by_resource.get(&id)?;
        Some(self.sums_at(place.slot).since(place.before))
    }

    /// The bytes of all resources that are counted.
    pub(super) fn all(&self) -> BTreeMap<ResourceId, Traffic> {
        let places = self.by_resource.iter();
        let sums = places.map(|(id, place)| (*id, self.sums_at(place.slot).since(place.before)));
        sums.collect()
    }

    fn sums_at(&self, slot: TrafficSlot) -> Traffic {
        self.reported.get(slot.index()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ResourceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        ResourceId::from_bytes(bytes)
    }

    const fn bytes(sent_bytes: u64, received_bytes: u64) -> Traffic {
        Traffic {
            sent_bytes,
            received_bytes,
        }
    }

    #[test]
    fn a_resource_that_was_never_granted_has_no_sums() {
        let mut counting = Counting::default();
        assert_eq!(counting.traffic_of(id(1)), None);
        counting.slot_of(id(1)).unwrap();
        assert_eq!(counting.traffic_of(id(1)), Some(bytes(0, 0)));
    }

    #[test]
    fn a_resource_that_is_granted_again_goes_on_from_its_sums() {
        let mut counting = Counting::default();
        let slot = counting.slot_of(id(1)).unwrap();
        counting.report(&[bytes(5, 7)]);
        counting.retain(|_| true);
        assert_eq!(counting.slot_of(id(1)), Some(slot));
        assert_eq!(counting.traffic_of(id(1)), Some(bytes(5, 7)));
    }

    #[test]
    fn the_next_resource_at_a_place_begins_at_zero_and_gets_nothing_of_the_last_one() {
        let mut counting = Counting::default();
        for number in 0..TrafficSlot::COUNT {
            counting.slot_of(id(number)).unwrap();
        }
        let mut sums = vec![bytes(100, 200); TrafficSlot::COUNT];
        counting.report(&sums);
        counting.retain(|shown| shown != id(3));
        assert_eq!(counting.slot_of(id(9_000)), None, "something may come yet");
        sums[3] = bytes(101, 202);
        assert!(counting.report(&sums), "there is room now");
        assert_eq!(counting.slot_of(id(9_000)).map(TrafficSlot::index), Some(3));
        assert_eq!(counting.traffic_of(id(9_000)), Some(bytes(0, 0)));
        sums[3] = bytes(111, 222);
        counting.report(&sums);
        assert_eq!(counting.traffic_of(id(9_000)), Some(bytes(10, 20)));
    }

    #[test]
    fn resources_without_a_route_give_way_where_all_places_are_taken() {
        let mut counting = Counting::default();
        for number in 0..TrafficSlot::COUNT {
            counting.slot_of(id(number)).unwrap();
        }
        counting.make_room(|_| false);
        assert!(counting.traffic_of(id(7)).is_some(), "nobody is short");
        assert_eq!(counting.slot_of(id(9_000)), None);
        counting.make_room(|routed| routed != id(7));
        assert!(counting.report(&[]));
        assert_eq!(counting.slot_of(id(9_000)).map(TrafficSlot::index), Some(7));
        assert_eq!(counting.traffic_of(id(7)), None);
        assert!(counting.traffic_of(id(8)).is_some());
    }
}
