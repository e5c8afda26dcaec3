//! Finds a flow by the hash of its key: one array, filled to half at most, looked through from a
//! key's place on.
//!
//! Made once and never grown: no look-up, entry or removal allocates or moves the table.

/// A place in the table of flows.
pub(super) type Place = u32;

const FREE: Place = Place::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The upper half of the hash. Its low bits are where the entry wants to be, the others spare
    /// most looks at flows that are not meant.
    tag: u32,
    place: Place,
}

#[derive(Debug)]
pub(super) struct Index {
    slots: Box<[Slot]>,
}

impl Index {
    /// An index with room for `entries`, at most 2^30.
    pub(super) fn new(entries: usize) -> Self {
        // Half of the slots stay free: a look-up that fails then takes 2.5 steps on average
        // (Knuth, The Art of Computer Programming, volume 3, §6.4, algorithm L).
        let count = (2 * entries).next_power_of_two().max(2);
        let free = Slot {
            tag: 0,
            place: FREE,
        };
        Self {
            slots: vec![free; count].into_boxed_slice(),
        }
    }

    /// The place entered under the hash for which `is_it` says so.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(Place) -> bool) -> Option<Place> {
        let tag = tag(hash);
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot.place == FREE {
                return None;
            }
            if slot.tag == tag && is_it(slot.place) {
                return Some(slot.place);
            }
            at = self.next(at);
        }
    }

    /// Enters a place. The caller keeps to the number of entries that there is room for.
    pub(super) fn insert(&mut self, hash: u64, place: Place) {
        let tag = tag(hash);
        let mut at = self.home(tag);
        while self.slots[at].place != FREE {
            at = self.next(at);
        }
        self.slots[at] = Slot { tag, place };
    }

    /// Removes one entry of the place under the hash, and closes the gap, so that no look-up ever
    /// has to step over what is gone (Knuth, algorithm R).
    pub(super) fn remove(&mut self, hash: u64, place: Place) {
        let tag = tag(hash);
        let mut gap = self.home(tag);
        while (self.slots[gap].tag, self.slots[gap].place) != (tag, place) {
            if self.slots[gap].place == FREE {
                return;
            }
            gap = self.next(gap);
        }
        let mut at = gap;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot.place == FREE {
                break;
            }
            // It may move to the gap unless that lies before its home.
            let from_home = at.wrapping_sub(self.home(slot.tag)) & self.mask();
            let from_gap = at.wrapping_sub(gap) & self.mask();
            if from_home >= from_gap {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap].place = FREE;
    }

    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        tag as usize & self.mask()
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        (at + 1) & self.mask()
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }
}

#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_entry_lies_where_its_hash_says_unless_another_does() {
        let mut index = Index::new(16);
        let homes = [9_u32, 3, 30];
        for (place, home) in homes.into_iter().enumerate() {
            index.insert(u64::from(home) << 32, place as Place);
        }
        let at = |home: u32| index.slots[home as usize].place;
        assert_eq!(homes.map(at), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn an_index_holds_what_a_map_holds(
            steps in prop::collection::vec((0_u32..24, 0_u32..4, any::<bool>()), 1..200),
        ) {
            let mut index = Index::new(24);
            let mut map = BTreeMap::new();
            // Few homes, at the end of the table too, so that runs are long and wrap.
            let hash = |place: u32, home: u32| u64::from(62 + home + 64 * (place % 3)) << 32;
            for (place, home, insert) in steps {
                if insert && !map.contains_key(&place) {
                    map.insert(place, home);
                    index.insert(hash(place, home), place);
                } else if let Some(home) = map.remove(&place) {
                    index.remove(hash(place, home), place);
                }
                for place in 0..24 {
                    for home in 0..4 {
                        let found = index.find(hash(place, home), |it| it == place);
                        prop_assert_eq!(found.is_some(), map.get(&place) == Some(&home));
                    }
                }
            }
            let free = index.slots.iter().filter(|slot| slot.place == FREE).count();
            prop_assert_eq!(free + map.len(), index.slots.len());
        }
    }
}
