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
use super::holders::Holders;
use super::index::{Index, Place};
use super::seed::Seed;
use culvert_base::BootTime;
use std::time::Duration;

/// Datagrams that are remembered: those of which fragments are on their way at once. They leave
/// their sender back to back, so a handful are from one sender, and 512 from a hundred. When there are
/// more, the oldest of the client that has the most makes room.
const DATAGRAMS: usize = 512;
/// Datagrams of one client, sent or received: an eighth, many handfuls. The next one takes the place of the
/// client's oldest.
const DATAGRAMS_PER_CLIENT: usize = DATAGRAMS / 8;
/// Places that are looked at for a datagram that is out of date, for each that comes: with two, all have
/// been looked at before half as many have come as there are.
const SWEPT_PLACES: usize = 2;
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
    entries: Box<[Option<Entry>; DATAGRAMS]>,
    free: Vec<Place>,
    holders: Holders,
    /// The place at which the next search for expired entries begins.
    hand: Place,
}

impl Fragments {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            index: Index::new(DATAGRAMS),
            entries: Box::new([None; DATAGRAMS]),
            free: (0..DATAGRAMS as Place).rev().collect(),
            holders: Holders::new(seed, DATAGRAMS),
            hand: 0,
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
        self.make_room(peer);
        let Some(place) = self.free.pop() else {
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

    fn sweep(&mut self, now: BootTime) {
        for _ in 0..SWEPT_PLACES {
            if self.entries[self.hand as usize].is_some_and(|entry| entry.is_past(now)) {
                self.forget(self.hand);
            }
            self.hand = (self.hand + 1) % DATAGRAMS as Place;
        }
    }

    fn make_room(&mut self, peer: PeerKey) {
        let own = self.holders.count(peer);
        let victim = match self.holders.largest() {
            _ if own >= DATAGRAMS_PER_CLIENT => peer,
            Some((largest, most)) if self.free.is_empty() => {
                if own >= most {
                    peer
                } else {
                    largest
                }
            }
            _ => return,
        };
        // Bound first: the iterator borrows the holders.
        let oldest = self.holders.next_places(victim, 1).next();
        if let Some(oldest) = oldest {
            self.forget(oldest);
        }
    }
}

impl Entry {
    fn is_past(&self, now: BootTime) -> bool {
        now.has_passed(self.at, LIFETIME)
    }
}
