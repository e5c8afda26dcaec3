//! The flows of one gate.

use super::datagram::DatagramKey;
use super::flow::{End, Flow, FlowKey, FlowRecord};
use super::holders::{Holders, Room};
use super::index::{Index, Place};
use super::seed::{Seed, fold};
use super::{DropReason, PeerKey};
use culvert_base::{BootTime, TokenRate};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Flows that a gate remembers unless it is told otherwise: 2^18, 26 for each of 10,000 clients that have one worker, 104 where
/// there are four. It is what Linux itself tracks by default on a machine with more than 4 GB. At 5 minutes of memory
/// for UDP it takes 870 new flows a second to fill it. Some 270 bytes each: 70 MB once they are all in use, and none before.
pub const MAX_FLOWS: usize = 1 << 18;

/// Flows of one client, the same part of a smaller gate: an eighth. It is more than the 28,232 ports from which
/// Linux begins connections, unless told otherwise. Nor may a client have more than there are free places, unless that is less than
/// an equal part for each client. Beyond either bound its next flow takes the place of another of its own.
pub const MAX_FLOWS_PER_CLIENT: usize = MAX_FLOWS / 8;

/// Flows that a client may begin at once, and then in a second; as many may resources begin at it. Beyond that their first
/// packets are dropped, and a sender that tries again a second later gets through.
///
/// A known flow costs next to nothing, and a new one some 15 µs: it is judged and entered, and the kernel behind the gateway looks a
/// route up and tracks a connection. A scan of 60,000 a second fills a worker, and all clients of the gateway wait behind it.
/// 16,384 a second are a quarter of a worker. A program that opens 2,048 connections together is not slowed.
const NEW_FLOWS: TokenRate = TokenRate::per_second(1 << 14, 1 << 11);

/// The end that begins a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginner {
    Client,
    Resource,
}

/// Flows that the index has room for before it grows: 2 MB. Look-ups among fewer touch less memory so.
const INDEXED_FLOWS: usize = 1 << 16;

/// Flows of a client that are compared to find the one that makes room: with 16 the one chosen is among
/// its longest silent tenth with a probability of 1 - 0.9^16 = 81 %.
const EVICTION_CANDIDATES: usize = 16;

/// Ended flows that wait to be reported, about 1 MB: what ends within a second at 4,000 connections
/// a second. Beyond it records are lost, and counted.
pub const MAX_ENDED: usize = 4096;

/// Tries to find a port that tells a translated flow from the others. Of 64,512 ports even 60,000
/// taken ones leave a free one among 64 tries with a probability of 99 %.
const PORT_TRIES: u64 = 64;
/// The first of those ports: lower ones are used by services and privileged clients.
const FIRST_PORT: u64 = 1024;

#[derive(Debug)]
pub(super) struct Flows {
    seed: Seed,
    index: Index,
    flows: Vec<Slot>,
    free: Vec<Place>,
    holders: Holders,
    evicted: Evicted,
    /// The place at which the next search for expired flows begins.
    hand: usize,
    ended: VecDeque<FlowRecord>,
    records_lost: u64,
}

/// Entries of a gate's tables that made room for others before their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Flows of a client that had as many as one may have.
    pub own_share: u64,
    /// Flows of a client that had as many as there were free places, or the most where none was free.
    pub full: u64,
    /// Fragmented datagrams.
    pub datagrams: u64,
    /// Addresses with which a client speaks a protocol without ports. All gates of a device share them, and a single gate has none.
    pub addresses: u64,
}

impl std::ops::AddAssign for Evicted {
    fn add_assign(&mut self, other: Self) {
        let Self {
            own_share,
            full,
            datagrams,
            addresses,
        } = other;
        self.own_share += own_share;
        self.full += full;
        self.datagrams += datagrams;
        self.addresses += addresses;
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    flow: Flow,
    is_used: bool,
    /// Counts the flows that were here, so that a fragment knows its own.
    generation: u32,
}

/// A flow and which of those that were at its place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowRef {
    pub(super) place: Place,
    pub(super) generation: u32,
}

impl Flows {
    /// Room for `max` flows, at least one and at most [`MAX_FLOWS`].
    pub(super) fn new(seed: Seed, max: usize) -> Self {
        let max = max.clamp(1, MAX_FLOWS);
        Self {
            seed,
            // A translated flow is found by two keys.
            index: Index::new(2 * max.min(INDEXED_FLOWS)),
            flows: Vec::with_capacity(max),
            free: Vec::with_capacity(max),
            holders: Holders::new(seed, max, max * MAX_FLOWS_PER_CLIENT / MAX_FLOWS),
            evicted: Evicted::default(),
            hand: 0,
            ended: VecDeque::with_capacity(MAX_ENDED),
            records_lost: 0,
        }
    }

    #[inline(always)]
    pub(super) fn find_near(&self, key: &FlowKey) -> Option<Place> {
        self.index
            .find(self.hash(key), |place| self.get(place).near == *key)
    }

    #[inline(always)]
    pub(super) fn find_far(&self, key: &FlowKey) -> Option<Place> {
        self.index
            .find(self.hash(key), |place| self.get(place).far == *key)
    }

    #[inline(always)]
    pub(super) fn get(&self, place: Place) -> &Flow {
        &self.flows[place as usize].flow
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Flow {
        &mut self.flows[place as usize].flow
    }

    pub(super) fn reference(&self, place: Place) -> FlowRef {
        FlowRef {
            place,
            generation: self.flows[place as usize].generation,
        }
    }

    /// The place of the flow, if it still lasts.
    pub(super) fn resolve(&self, flow: FlowRef) -> Option<Place> {
        let slot = self.flows.get(flow.place as usize)?;
        (slot.is_used && slot.generation == flow.generation).then_some(flow.place)
    }

    /// The room for another flow of a client, be it the place of one that gives way.
    ///
    /// # Errors
    /// [`DropReason::FlowsFull`] where there are more clients than places, and [`DropReason::FlowRate`] where the client's
    /// flows begin too fast ([`NEW_FLOWS`]).
    pub(super) fn room_for(
        &mut self,
        peer: PeerKey,
        beginner: Beginner,
        now: BootTime,
    ) -> Result<Room, DropReason> {
        let room = self.holders.room(peer);
        if room == Room::Full {
            return Err(DropReason::FlowsFull);
        }
        let begun = self.holders.begun(peer, beginner as usize);
        if begun.is_some_and(|begun| begun.take(NEW_FLOWS, now).is_err()) {
            return Err(DropReason::FlowRate);
        }
        Ok(room)
    }

    /// Enters a flow, whose keys no other flow has, and returns its place. `room` is that for its client ([`Self::room_for`]):
    /// another flow makes room if need be.
    pub(super) fn insert(&mut self, flow: Flow, room: Room) -> Place {
        self.make_room(flow.peer, room, flow.started);
        let place = match self.free.pop() {
            Some(place) => {
                let slot = &mut self.flows[place as usize];
                slot.flow = flow;
                slot.is_used = true;
                slot.generation = slot.generation.wrapping_add(1);
                place
            }
            None => {
                self.flows.push(Slot {
                    flow,
                    is_used: true,
                    generation: 0,
                });
                // At most MAX_FLOWS.
                (self.flows.len() - 1) as Place
            }
        };
        self.index.insert(self.hash(&flow.near), place);
        if flow.far != flow.near {
            self.index.insert(self.hash(&flow.far), place);
        }
        self.holders.add(flow.peer, place);
        place
    }

    /// Ends a flow and keeps its record.
    pub(super) fn end(&mut self, place: Place, end: End) {
        let flow = *self.get(place);
        self.index.remove(self.hash(&flow.near), place);
        if flow.far != flow.near {
            self.index.remove(self.hash(&flow.far), place);
        }
        self.holders.remove(place);
        self.flows[place as usize].is_used = false;
        self.free.push(place);
        if self.ended.len() < MAX_ENDED {
            self.ended.push_back(flow.record(Some(end)));
        } else {
            self.records_lost += 1;
        }
    }

    /// The key by which the resource sees a flow that goes to `remote`: with the client's own port
    /// if that tells it from all others, with another one otherwise. None if none can be found.
    ///
    /// Two names may stand for one address, and a client may use one port for both.
    pub(super) fn far_key(&self, near: &FlowKey, remote: u128) -> Option<FlowKey> {
        let mut far = near.with_remote(remote);
        if self.find_far(&far).is_none() {
            return Some(far);
        }
        if !near.has_ports() {
            return None;
        }
        let start = self.hash(near);
        for number in 0..PORT_TRIES {
            let random = fold(start ^ number, self.seed.0[3] | 1);
            far = far.with_client_port((FIRST_PORT + random % (0x1_0000 - FIRST_PORT)) as u16);
            if self.find_far(&far).is_none() {
                return Some(far);
            }
        }
        None
    }

    /// Up to `count` flows from where the last look ended.
    pub(super) fn next_places(&mut self, count: usize) -> impl Iterator<Item = Place> + use<> {
        let (start, len) = (self.hand, self.flows.len());
        let count = count.min(len);
        self.hand = if len == 0 { 0 } else { (start + count) % len };
        (0..count).map(move |step| ((start + step) % len) as Place)
    }

    pub(super) fn is_used(&self, place: Place) -> bool {
        self.flows[place as usize].is_used
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Places that are or were in use.
    pub(super) fn places(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn records_lost(&self) -> u64 {
        self.records_lost
    }

    pub(super) fn pop_ended(&mut self) -> Option<FlowRecord> {
        self.ended.pop_front()
    }

    /// The flows at those of `count` places from `start` on that are in use; none where there are no more
    /// places.
    pub(super) fn part(&self, start: usize, count: usize) -> Option<impl Iterator<Item = &Flow>> {
        let places = self.flows.get(start..).filter(|rest| !rest.is_empty())?;
        let used = places.iter().take(count).filter(|slot| slot.is_used);
        Some(used.map(|slot| &slot.flow))
    }

    pub(super) fn evicted(&self) -> Evicted {
        self.evicted
    }

    /// Makes room for a flow of a client: one that scans a network pushes nobody out but itself.
    fn make_room(&mut self, peer: PeerKey, room: Room, now: BootTime) {
        let (victim, count) = match room {
            Room::Free | Room::Full => return,
            Room::OwnShare => {
                self.evicted.own_share += u64::from(self.evict(peer, now));
                return;
            }
            Room::Crowded(count) => (Some(peer), count),
            Room::OfLargest => (self.holders.largest(), 1),
        };
        for _ in 0..count {
            let is_early = victim.is_some_and(|victim| self.evict(victim, now));
            self.evicted.full += u64::from(is_early);
        }
    }

    /// Ends a flow of the client, one that is over if possible. True where it was not over.
    fn evict(&mut self, peer: PeerKey, now: BootTime) -> bool {
        let flows = &self.flows;
        let candidates = self.holders.next_places(peer, EVICTION_CANDIDATES);
        let rank = |place: &Place| {
            let flow = &flows[*place as usize].flow;
            let silent = now.saturating_since(flow.last);
            (flow.is_idle(now), flow.is_closed(), silent)
        };
        let Some(place) = candidates.max_by_key(rank) else {
            return false;
        };
        let flow = self.get(place);
        let end = match flow.is_idle(now) {
            true if flow.is_closed() => End::Closed,
            true => End::Idle,
            false => End::Evicted,
        };
        self.end(place, end);
        end == End::Evicted
    }

    /// A hash of what identifies a datagram, by the same seed.
    pub(super) fn hash_datagram(&self, key: &DatagramKey) -> u64 {
        let Seed([a, b, c, d]) = self.seed;
        let id = u64::from(key.identification);
        let low = fold(key.source as u64 ^ a, key.destination as u64 ^ b);
        let high = fold(
            (key.source >> 64) as u64 ^ c,
            (key.destination >> 64) as u64 ^ d,
        );
        fold(low ^ id, high ^ b)
    }

    #[inline(always)]
    fn hash(&self, key: &FlowKey) -> u64 {
        let Seed([a, b, c, d]) = self.seed;
        let low = fold(key.client as u64 ^ a, key.remote as u64 ^ b);
        let high = fold((key.client >> 64) as u64 ^ c, (key.remote >> 64) as u64 ^ d);
        // Senders choose ports, but do not know the seed that they are mixed with.
        fold(low ^ key.word(), high ^ b)
    }
}
