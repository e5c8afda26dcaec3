//! The holders of a bounded table's entries: the entries of each client in order, and the client
//! that has the most.
//!
//! Nothing but the index of clients ever grows. An entry is added, removed or chosen in constant time: clients with equally
//! many entries are in one list, and a client moves to a neighbouring list at each change. (The same lists
//! make the frequencies of an LFU cache, Shah, Mitra and Matani, 2010.)
//!
//! A client that fills a table costs nobody else an entry ([`room`]). While it has fewer than there are free places, and
//! fewer than a fixed share, a new entry takes a free place; beyond that it takes the place of one of its own. So one client has half
//! of the free places at most (dynamic thresholds, Choudhury and Hahne, 1998). Several together may take all. Then a client with
//! less than an equal part of the table takes from the one that has the most. Nobody within an equal part loses anything
//! (max-min fairness, Bertsekas and Gallager, Data Networks, §6.5.2).

use super::PeerKey;
use super::index::{Index, Place};
use super::seed::{Seed, fold};
use culvert_base::{BootTime, TokenBucket};

/// No place, no holder.
const NONE: u32 = u32::MAX;

/// Clients that the index has room for before it grows.
const INDEXED_CLIENTS: usize = 1 << 12;

/// The room for a new entry of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A free place.
    Free,
    /// The place of an entry of the client that has the most: no place is free, and this client has less than an equal part.
    OfLargest,
    /// The place of its own oldest entry: it has its fixed share.
    OwnShare,
    /// The same, since few places are free; so many of its entries are to give way. That is one more than it needs where it has
    /// more than it may have by now, until it has come down to that.
    Crowded(usize),
    /// None: there are more clients than places.
    Full,
}

/// A table that clients share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Places that are free.
    pub(super) free: usize,
    /// The most that one client may have.
    pub(super) share: usize,
    /// The places for each client with an entry, among them the one that wants another. 0 in a table where nobody takes from others.
    pub(super) equal_part: usize,
}

/// The room for another entry of a client that has `own` of them.
pub(super) fn room(own: usize, table: Shared) -> Room {
    let Shared {
        free,
        share,
        equal_part,
    } = table;
    let limit = share.max(1).min(free.max(equal_part));
    match own {
        _ if own < limit && free > 0 => Room::Free,
        _ if own < limit => Room::OfLargest,
        0 => Room::Full,
        _ if own >= share && share <= limit => Room::OwnShare,
        _ if own > limit && own > 1 => Room::Crowded(2),
        _ => Room::Crowded(1),
    }
}

#[derive(Debug)]
pub(super) struct Holders {
    seed: Seed,
    /// By peer.
    index: Index,
    holders: Vec<Holder>,
    free: Vec<u32>,
    /// The neighbours of each place of the table.
    entries: Vec<Entry>,
    /// The first holder with each number of entries.
    by_count: Vec<u32>,
    /// The greatest number of entries of a holder.
    most: usize,
    max: usize,
    share: usize,
    len: usize,
}

/// A client with at least one entry.
#[derive(Clone, Copy, Debug)]
struct Holder {
    peer: PeerKey,
    count: u32,
    /// The entry of its ring that is looked at next. New entries come in front of it, so that it is the one
    /// that was added or looked at longest ago.
    hand: Place,
    /// Holders with as many entries.
    before: u32,
    after: u32,
    /// The rates of new entries, by their beginner.
    begun: [TokenBucket<BootTime>; 2],
}

/// The place of an entry in the ring of its holder.
#[derive(Clone, Copy, Debug)]
struct Entry {
    holder: u32,
    before: Place,
    after: Place,
}

impl Holders {
    /// For a table with `max` places, numbered from 0, of which one client has `share` at most, and at least one.
    pub(super) fn new(seed: Seed, max: usize, share: usize) -> Self {
        let share = share.clamp(1, max.max(1));
        Self {
            seed,
            index: Index::new(max.min(INDEXED_CLIENTS)),
            holders: Vec::with_capacity(max),
            free: Vec::with_capacity(max),
            entries: Vec::with_capacity(max),
            by_count: vec![NONE; share + 1],
            most: 0,
            max,
            share,
            len: 0,
        }
    }

    /// The number of entries of a client.
    pub(super) fn count(&self, peer: PeerKey) -> usize {
        self.find(peer).map_or(0, |holder| self.count_of(holder))
    }

    /// The rate of a client's new entries. None where it has no entry: its rate begins anew with the first one.
    pub(super) fn begun(
        &mut self,
        peer: PeerKey,
        beginner: usize,
    ) -> Option<&mut TokenBucket<BootTime>> {
        let holder = self.find(peer)? as usize;
        self.holders[holder].begun.get_mut(beginner)
    }

    /// The client that has the most entries. Of several the one that came to so many last.
    pub(super) fn largest(&self) -> Option<PeerKey> {
        let holder = self.by_count[self.most];
        (holder != NONE).then(|| self.holders[holder as usize].peer)
    }

    /// The room for one more entry of a client.
    pub(super) fn room(&self, peer: PeerKey) -> Room {
        let own = self.count(peer);
        let others = self.holders.len() - self.free.len() - usize::from(own > 0);
        let table = Shared {
            free: self.max - self.len,
            share: self.share,
            equal_part: self.max / (others + 1),
        };
        room(own, table)
    }

    /// A place that nobody has is the client's now.
    pub(super) fn add(&mut self, peer: PeerKey, place: Place) {
        let holder = self.find(peer).unwrap_or_else(|| self.enter(peer));
        if place as usize >= self.entries.len() {
            let nobodys = Entry {
                holder: NONE,
                before: NONE,
                after: NONE,
            };
            self.entries.resize(place as usize + 1, nobodys);
        }
        let count = self.count_of(holder);
        let (before, after) = match count {
            0 => (place, place),
            _ => {
                let hand = self.holders[holder as usize].hand;
                (self.entries[hand as usize].before, hand)
            }
        };
        self.entries[place as usize] = Entry {
            holder,
            before,
            after,
        };
        self.entries[before as usize].after = place;
        self.entries[after as usize].before = place;
        if count == 0 {
            self.holders[holder as usize].hand = place;
        }
        self.len += 1;
        self.recount(holder, count + 1);
    }

    /// The place is nobody's any more.
    pub(super) fn remove(&mut self, place: Place) {
        let Entry {
            holder,
            before,
            after,
        } = self.entries[place as usize];
        self.entries[before as usize].after = after;
        self.entries[after as usize].before = before;
        self.entries[place as usize].holder = NONE;
        if self.holders[holder as usize].hand == place {
            self.holders[holder as usize].hand = after;
        }
        self.len -= 1;
        let count = self.count_of(holder) - 1;
        self.recount(holder, count);
        if count == 0 {
            let peer = self.holders[holder as usize].peer;
            self.index.remove(self.hash(peer), holder);
            self.free.push(holder);
        }
    }

    /// Up to `count` entries of the client, those first that were added or handed out longest ago.
    pub(super) fn next_places(
        &mut self,
        peer: PeerKey,
        count: usize,
    ) -> impl Iterator<Item = Place> + '_ {
        let holder = self.find(peer);
        let count = holder.map_or(0, |holder| count.min(self.count_of(holder)));
        (0..count).filter_map(move |_| {
            let holder = &mut self.holders[holder? as usize];
            let place = holder.hand;
            holder.hand = self.entries[place as usize].after;
            Some(place)
        })
    }

    fn find(&self, peer: PeerKey) -> Option<u32> {
        let is_it = |holder: u32| self.holders[holder as usize].peer == peer;
        self.index.find(self.hash(peer), is_it)
    }

    fn count_of(&self, holder: u32) -> usize {
        self.holders[holder as usize].count as usize
    }

    fn enter(&mut self, peer: PeerKey) -> u32 {
        let new = Holder {
            peer,
            count: 0,
            hand: NONE,
            before: NONE,
            after: NONE,
            begun: [TokenBucket::FULL; 2],
        };
        let holder = match self.free.pop() {
            Some(holder) => {
                self.holders[holder as usize] = new;
                holder
            }
            None => {
                self.holders.push(new);
                // At most one for each place.
                (self.holders.len() - 1) as u32
            }
        };
        self.index.insert(self.hash(peer), holder);
        holder
    }

    /// Moves a holder to the list of those with `count` entries, one more or less than it had.
    fn recount(&mut self, holder: u32, count: usize) {
        let Holder {
            count: old,
            before,
            after,
            ..
        } = self.holders[holder as usize];
        // Nobody is in the list of those without entries: whoever has none has just come, or goes.
        match before {
            NONE => self.by_count[old as usize] = after,
            before => self.holders[before as usize].after = after,
        }
        if after != NONE {
            self.holders[after as usize].before = before;
        }
        let first = self.by_count[count];
        let it = &mut self.holders[holder as usize];
        // At most as many as there are places.
        it.count = count as u32;
        it.before = NONE;
        it.after = first;
        if count > 0 {
            if first != NONE {
                self.holders[first as usize].before = holder;
            }
            self.by_count[count] = holder;
        }
        // If it alone had the most, it has one less of it now, and nobody has more.
        if count > self.most || self.by_count[self.most] == NONE {
            self.most = count;
        }
    }

    fn hash(&self, peer: PeerKey) -> u64 {
        let Seed([a, b, ..]) = self.seed;
        fold(u64::from(peer.0) ^ a, b | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    const PLACES: u32 = 24;

    /// The same by counting: the ring of each client, what is looked at next in front.
    #[derive(Default)]
    struct Naive(BTreeMap<u32, VecDeque<Place>>);

    impl Naive {
        fn holder_of(&self, place: Place) -> Option<u32> {
            let mut all = self.0.iter();
            all.find(|(_, ring)| ring.contains(&place))
                .map(|(peer, _)| *peer)
        }

        fn remove(&mut self, peer: u32, place: Place) {
            let ring = self.0.get_mut(&peer).unwrap();
            ring.retain(|other| *other != place);
            if ring.is_empty() {
                self.0.remove(&peer);
            }
        }
    }

    #[test]
    fn each_bit_of_a_client_and_of_the_seed_tells_where_it_is() {
        let sound = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03, 0, 0];
        let hash = |seed, peer: u32| Holders::new(Seed(seed), 1, 1).hash(PeerKey(peer));
        let mut seen: BTreeSet<u64> = (0..32).map(|bit| hash(sound, 1 << bit)).collect();
        assert_eq!(seen.len(), 32);
        for bit in 0..128 {
            let mut seed = sound;
            seed[bit / 64] ^= 1 << (bit % 64);
            // The lowest bit of the factor is always set, so that no seed makes it 0.
            let counts = bit != 64;
            assert_eq!(seen.insert(hash(seed, 1)), counts, "bit {bit} of the seed");
        }
        assert_eq!(hash([0; 4], 3), 3);
    }

    #[test]
    fn a_client_takes_free_places_then_its_own_and_of_the_largest_up_to_an_equal_part() {
        // Own, free, clients.
        for ((own, free, clients), expected) in [
            ((0, 1, 1), Room::Free),
            ((7, 57, 1), Room::Free),
            ((8, 56, 1), Room::OwnShare),
            ((8, 9, 20), Room::OwnShare),
            // Few places are free, and an equal part is three.
            ((3, 4, 20), Room::Free),
            ((4, 4, 20), Room::Crowded(1)),
            ((5, 4, 20), Room::Crowded(2)),
            ((8, 4, 20), Room::Crowded(2)),
            ((2, 1, 20), Room::Free),
            ((2, 0, 20), Room::OfLargest),
            ((0, 0, 20), Room::OfLargest),
            ((3, 0, 20), Room::Crowded(1)),
            ((4, 0, 20), Room::Crowded(2)),
            // More clients than places.
            ((0, 0, 65), Room::Full),
            ((1, 0, 65), Room::Crowded(1)),
        ] {
            let table = Shared {
                free,
                share: 8,
                equal_part: 64 / clients,
            };
            assert_eq!(room(own, table), expected, "{own} {free} {clients}");
        }
    }

    proptest! {
        #[test]
        fn holders_are_counted_as_by_hand(
            steps in prop::collection::vec((0..PLACES, 0_u32..5, 0_usize..4), 1..300),
        ) {
            let mut holders = Holders::new(Seed::new([7; 32]), PLACES as usize, PLACES as usize);
            let mut naive = Naive::default();
            for (place, peer, look) in steps {
                match naive.holder_of(place) {
                    Some(holder) => {
                        holders.remove(place);
                        naive.remove(holder, place);
                    }
                    None => {
                        holders.add(PeerKey(peer), place);
                        naive.0.entry(peer).or_default().push_back(place);
                    }
                }
                let looked_at: Vec<Place> = holders.next_places(PeerKey(peer), look).collect();
                let ring = naive.0.get_mut(&peer);
                let expected: Vec<Place> = ring.map_or_else(Vec::new, |ring| {
                    let look = look.min(ring.len());
                    ring.rotate_left(look);
                    ring.iter().skip(ring.len() - look).copied().collect()
                });
                prop_assert_eq!(looked_at, expected);
                for peer in 0..5 {
                    let count = naive.0.get(&peer).map_or(0, VecDeque::len);
                    prop_assert_eq!(holders.count(PeerKey(peer)), count);
                }
                let most = naive.0.values().map(VecDeque::len).max();
                let largest = holders.largest().map(|peer| naive.0[&peer.0].len());
                prop_assert_eq!(largest, most);
                let len = naive.0.values().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(holders.len, len);
            }
        }
    }
}
