//! Small numbers for resources, so that a bit set holds the resources that a client was told of:
//! 10,000 resources take 1,250 bytes a client.

use culvert_ids::ResourceId;
use std::collections::BTreeMap;

/// A resource's number for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(usize);

/// The number of each resource.
#[derive(Debug, Default)]
pub(super) struct Slots {
    of: BTreeMap<ResourceId, Slot>,
    free: Vec<Slot>,
}

impl Slots {
    /// The resource's number, a new one if it has none.
    pub(super) fn take(&mut self, resource: ResourceId) -> Slot {
        let next = Slot(self.of.len() + self.free.len());
        *self
            .of
            .entry(resource)
            .or_insert_with(|| self.free.pop().unwrap_or(next))
    }

    pub(super) fn find(&self, resource: ResourceId) -> Option<Slot> {
        self.of.get(&resource).copied()
    }

    /// The number may go to another resource: nobody may have its bit set any more.
    pub(super) fn release(&mut self, resource: ResourceId) {
        self.free.extend(self.of.remove(&resource));
    }
}

/// A set of resources, as bits.
#[derive(Debug, Default)]
pub(super) struct SlotSet {
    words: Vec<u64>,
    len: usize,
}

impl SlotSet {
    pub(super) fn contains(&self, slot: Slot) -> bool {
        let word = self.words.get(slot.0 / 64);
        word.is_some_and(|word| word >> (slot.0 % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, slot: Slot) {
        if self.contains(slot) {
            return;
        }
        let word = slot.0 / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (slot.0 % 64);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if self.contains(slot) {
            self.words[slot.0 / 64] &= !(1 << (slot.0 % 64));
            self.len -= 1;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(number: u8) -> ResourceId {
        ResourceId::from_bytes([number; 16])
    }

    #[test]
    fn a_released_number_is_given_again_and_no_other() {
        let mut slots = Slots::default();
        let numbers: Vec<_> = (0..100)
            .map(|number| slots.take(resource(number)))
            .collect();
        assert_eq!(slots.take(resource(7)), numbers[7]);
        slots.release(resource(7));
        slots.release(resource(9));
        let again = [slots.take(resource(200)), slots.take(resource(201))];
        assert!(again.contains(&numbers[7]) && again.contains(&numbers[9]));
        assert!(!numbers.contains(&slots.take(resource(202))));
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_not_taken_out() {
        let mut slots = Slots::default();
        let mut set = SlotSet::default();
        for number in 0..130 {
            let slot = slots.take(resource(number));
            set.insert(slot);
            set.insert(slot);
        }
        assert_eq!(set.len(), 130);
        for number in (0..130).step_by(2) {
            let slot = slots.take(resource(number));
            set.remove(slot);
            set.remove(slot);
        }
        for number in 0..130 {
            let is_left = set.contains(slots.take(resource(number)));
            assert_eq!(is_left, number % 2 == 1);
        }
        assert_eq!(set.len(), 65);
    }
}
