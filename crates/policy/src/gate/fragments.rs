//! Assigns later fragments of a datagram to the flow of its admitted first one.
//!
//! Only the first fragment of a datagram says which ports it is for. It is judged like any packet,
//! and the fields that identify the datagram are remembered with its flow; later fragments follow
//! that flow.
//! One of a client that arrives before the first one [waits](super::early). Nothing is reassembled.
//! A fragment cannot change the ports of another one. Ports are in the first four bytes of a
//! datagram, and later fragments begin at byte eight or later. (An IPv6 datagram with options
//! before its ports is refused.) A second first fragment of the same datagram is judged by its own
//! ports.

use super::PeerKey;
use super::datagram::DatagramKey;
use super::flows::FlowRef;
use super::holders::{Holders, Room};
use super::index::{Index, Place};
use super::seed::Seed;
use culvert_base::BootTime;
use std::time::Duration;

/// Datagrams that are remembered: those of which fragments are on their way at once. They leave
/// their sender back to back, so a handful are from one sender, and 4,096 from a thousand of 10,000. Some 100 bytes each.
const DATAGRAMS: usize = 4096;
/// Datagrams of one client, sent or received: many handfuls. Nor may a client have more than there are free places,
/// unless that is less than an equal part. Beyond either bound the next one takes the place of the client's oldest.
const DATAGRAMS_PER_CLIENT: usize = DATAGRAMS / 64;
/// Places that are looked at for a datagram that is out of date, for each that comes: with two, all have
/// been looked at before half as many have come as there are.
const SWEPT_PLACES: usize = 2;
/// If there are more clients than places, one of a datagram that old is free: its fragments left its sender back to back, and
/// networks delay them by some ten milliseconds.
const CERTAINLY_PASSED: Duration = super::early::MAX_WAIT;
/// Places that are looked at for such a one.
const SEARCHED_PLACES: usize = 16;
/// RFC 791 §3.2 has a receiver wait 15 seconds for the rest of a datagram.
const LIFETIME: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    key: DatagramKey,
    flow: FlowRef,
    at: BootTime,
}

#[derive(Debug)]
pub(super) struct Fragments {
    index: Index,
    /// At most [`DATAGRAMS`].
    entries: Vec<Option<Entry>>,
    free: Vec<Place>,
    holders: Holders,
    /// The place at which the next search for expired entries begins.
    hand: Place,
    /// Entries that made room for others before their time.
    evicted: u64,
}

impl Fragments {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            index: Index::new(DATAGRAMS),
            entries: Vec::with_capacity(DATAGRAMS),
            free: Vec::with_capacity(DATAGRAMS),
            holders: Holders::new(seed, DATAGRAMS, DATAGRAMS_PER_CLIENT),
            hand: 0,
            evicted: 0,
        }
    }

    /// Remembers a datagram of a client, whose first fragment was admitted, with its flow. `hash` is one of
    /// the key.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: DatagramKey,
        (peer, flow): (PeerKey, FlowRef),
        now: BootTime,
    ) {
        if let Some(place) = self.place(hash, &key) {
            self.forget(place);
        }
        self.sweep(now);
        self.make_room(peer, now);
        let Some(place) = self.free_place() else {
            return;
        };
        self.entries[place as usize] = Some(Entry {
            hash,
            key,
            flow,
            at: now,
        });
        self.index.insert(hash, place);
        self.holders.add(peer, place);
    }

    /// The flow of a datagram whose first fragment was admitted not long ago.
    pub(super) fn find(&self, hash: u64, key: &DatagramKey, now: BootTime) -> Option<FlowRef> {
        let place = self.place(hash, key)?;
        let entry = self.entries[place as usize]?;
        (!entry.is_past(now)).then_some(entry.flow)
    }

    fn free_place(&mut self) -> Option<Place> {
        if self.free.is_empty() && self.entries.len() < DATAGRAMS {
            self.entries.push(None);
            return Some((self.entries.len() - 1) as Place);
        }
        self.free.pop()
    }

    fn place(&self, hash: u64, key: &DatagramKey) -> Option<Place> {
        self.index.find(hash, |place| {
            self.entries[place as usize].is_some_and(|entry| entry.key == *key)
        })
    }

    fn forget(&mut self, place: Place) {
        if let Some(entry) = self.entries[place as usize].take() {
            self.index.remove(entry.hash, place);
            self.holders.remove(place);
            self.free.push(place);
        }
    }

    pub(super) const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn sweep(&mut self, now: BootTime) {
        self.forget_older(LIFETIME, SWEPT_PLACES, now);
    }

    /// Forgets what is older at the next places.
    fn forget_older(&mut self, age: Duration, places: usize, now: BootTime) {
        for _ in 0..places.min(self.entries.len()) {
            let entry = self.entries[self.hand as usize];
            if entry.is_some_and(|entry| now.has_passed(entry.at, age)) {
                self.forget(self.hand);
            }
            self.hand = (self.hand + 1) % self.entries.len() as Place;
        }
    }

    /// Makes room for a datagram of a client, as far as there is any.
    fn make_room(&mut self, peer: PeerKey, now: BootTime) {
        let (victim, count) = match self.holders.room(peer) {
            Room::Free => return,
            Room::Full => return self.forget_older(CERTAINLY_PASSED, SEARCHED_PLACES, now),
            Room::OwnShare => (Some(peer), 1),
            Room::Crowded(count) => (Some(peer), count),
            Room::OfLargest => (self.holders.largest(), 1),
        };
        let Some(victim) = victim else { return };
        for _ in 0..count {
            // Bound first: the iterator borrows the holders.
            let oldest = self.holders.next_places(victim, 1).next();
            if let Some(oldest) = oldest {
                self.forget(oldest);
                self.evicted += 1;
            }
        }
    }
}

impl Entry {
    fn is_past(&self, now: BootTime) -> bool {
        now.has_passed(self.at, LIFETIME)
    }
}
