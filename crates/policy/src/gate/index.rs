//! Finds a flow by the hash of its key: one array, filled to half at most, looked through from a
//! key's place on.
//!
//! It doubles when it is half full, so that the memory that look-ups touch is small while entries are few. Nothing else
//! allocates or moves the table.

/// A place in the table of flows: below 2^32 - 1.
pub(super) type Place = u32;

/// An entry in one word, so that a table without entries is zeroed memory, which takes no room before it is used. The upper
/// half is that of the hash: its low bits are where the entry wants to be, the others spare most looks
/// at flows that are not meant. The lower half is the place and one.
type Slot = u64;

const FREE: Slot = 0;

#[derive(Debug)]
pub(super) struct Index {
    slots: Box<[Slot]>,
    len: usize,
}

impl Index {
    /// An index with room for `entries` before it grows for the first time, at most 2^30.
    pub(super) fn new(entries: usize) -> Self {
        // Half of the slots stay free: a look-up that fails then takes 2.5 steps on average
        // (Knuth, The Art of Computer Programming, volume 3, §6.4, algorithm L).
        let count = (2 * entries).next_power_of_two().max(2);
        Self {
            slots: vec![FREE; count].into_boxed_slice(),
            len: 0,
        }
    }

    /// The place entered under the hash for which `is_it` says so.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(Place) -> bool) -> Option<Place> {
        let tag = tag(hash);
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot == FREE {
                return None;
            }
            if tag_of(slot) == tag && is_it(place_of(slot)) {
                return Some(place_of(slot));
            }
            at = self.next(at);
        }
    }

    /// Enters a place.
    pub(super) fn insert(&mut self, hash: u64, place: Place) {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        self.enter(slot(tag(hash), place));
        self.len += 1;
    }

    fn enter(&mut self, slot: Slot) {
        let mut at = self.home(tag_of(slot));
        while self.slots[at] != FREE {
            at = self.next(at);
        }
        self.slots[at] = slot;
    }

    /// Some 10 ns for each entry: 3 ms for the most flows of a gate.
    #[cold]
    fn grow(&mut self) {
        let grown = vec![FREE; 2 * self.slots.len()].into_boxed_slice();
        let before = std::mem::replace(&mut self.slots, grown);
        for slot in before {
            if slot != FREE {
                self.enter(slot);
            }
        }
    }

    /// Removes one entry of the place under the hash, and closes the gap, so that no look-up ever
    /// has to step over what is gone (Knuth, algorithm R).
    pub(super) fn remove(&mut self, hash: u64, place: Place) {
        let tag = tag(hash);
        let mut gap = self.home(tag);
        while self.slots[gap] != slot(tag, place) {
            if self.slots[gap] == FREE {
                return;
            }
            gap = self.next(gap);
        }
        let mut at = gap;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot == FREE {
                break;
            }
            // It may move to the gap unless that lies before its home.
            let from_home = at.wrapping_sub(self.home(tag_of(slot))) & self.mask();
            let from_gap = at.wrapping_sub(gap) & self.mask();
            if from_home >= from_gap {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = FREE;
        self.len -= 1;
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

#[inline(always)]
fn slot(tag: u32, place: Place) -> Slot {
    u64::from(tag) << 32 | (u64::from(place) + 1)
}

#[inline(always)]
fn tag_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

/// The place of a slot that is not free.
#[inline(always)]
fn place_of(slot: Slot) -> Place {
    (slot as u32).wrapping_sub(1)
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
        let at = |home: u32| place_of(index.slots[home as usize]);
        assert_eq!(homes.map(at), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn an_index_holds_what_a_map_holds(
            steps in prop::collection::vec((0_u32..24, 0_u32..4, any::<bool>()), 1..200),
            // Enough, or so little that it grows.
            room in prop_oneof![Just(24_usize), Just(3)],
        ) {
            let mut index = Index::new(room);
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
            let free = index.slots.iter().filter(|slot| **slot == FREE).count();
            prop_assert_eq!(free + map.len(), index.slots.len());
            prop_assert_eq!(index.len, map.len());
            prop_assert!(2 * map.len() <= index.slots.len());
        }
    }
}
