//! Counting bytes by destination: the place where a worker counts, and the sums that it leads to.

use std::num::NonZeroU16;

/// A place among the counters of a worker. Those who hand places out say what is counted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficSlot(NonZeroU16);

impl TrafficSlot {
    /// Places: two for each of 4,096 resources that a client uses at once, so that one whose access has ended keeps its
    /// sums. At 16 bytes each they take 128 KiB a worker. A resource beyond them is not counted.
    pub const COUNT: usize = 8_192;

    /// The place with this index; `None` at [`Self::COUNT`] and beyond.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        let number = u16::try_from(index + 1).ok().and_then(NonZeroU16::new);
        number.filter(|_| index < Self::COUNT).map(Self)
    }

    /// Below [`Self::COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Bytes of packets, from their IP header on: without what a tunnel adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traffic {
    /// Towards the destination.
    pub sent_bytes: u64,
    /// From there.
    pub received_bytes: u64,
}

impl Traffic {
    /// The bytes since `earlier`, which may not be later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
        }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.sent_bytes = self.sent_bytes.wrapping_add(other.sent_bytes);
        self.received_bytes = self.received_bytes.wrapping_add(other.received_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_the_bound_says() {
        for index in [0, 1, TrafficSlot::COUNT - 1] {
            assert_eq!(TrafficSlot::new(index).unwrap().index(), index);
        }
        for index in [TrafficSlot::COUNT, usize::from(u16::MAX), 1 << 20] {
            assert_eq!(TrafficSlot::new(index), None);
        }
    }
}
