//! Bytes by destination, as one worker counts them.

use crate::counter::Counter;
use culvert_base::{Traffic, TrafficSlot};

/// A worker's counters by [`TrafficSlot`]. One thread writes them, as it does [`Counter`]s.
///
/// Made once: with [`TrafficSlot::COUNT`] places on a device that is asked for them, without any on others.
#[derive(Debug, Default)]
pub struct TrafficCounters(Box<[Place]>);

#[derive(Debug, Default)]
struct Place {
    sent: Counter,
    received: Counter,
}

impl TrafficCounters {
    /// Counters with all places.
    #[must_use]
    pub fn with_all_places() -> Self {
        let places = (0..TrafficSlot::COUNT).map(|_| Place::default());
        Self(places.collect())
    }

    /// Counts bytes on their way to a destination.
    #[inline]
    pub fn count_sent(&self, slot: Option<TrafficSlot>, bytes: usize) {
        if let Some(place) = slot.and_then(|slot| self.0.get(slot.index())) {
            place.sent.add(bytes as u64);
        }
    }

    /// Counts bytes that came from a destination.
    #[inline]
    pub fn count_received(&self, slot: Option<TrafficSlot>, bytes: usize) {
        if let Some(place) = slot.and_then(|slot| self.0.get(slot.index())) {
            place.received.add(bytes as u64);
        }
    }

    /// The sums at a place as last written.
    #[must_use]
    pub fn read(&self, slot: TrafficSlot) -> Traffic {
        let place = self.0.get(slot.index());
        place.map_or_else(Traffic::default, |place| Traffic {
            sent_bytes: place.sent.read(),
            received_bytes: place.received.read(),
        })
    }
}
