//! A bounded table in which the largest holder gives way.

use crate::subscriber::{Network, Subscriber};
use culvert_base::{ClockTime, Uptime};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The load of one entry in a network whose multiple is 1. The least common multiple of all
/// multiples, so that loads are whole numbers.
const LOAD_OF_ONE: u64 = 1_024;

/// The bounds of a [`FairTable`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Entries of the table.
    pub capacity: usize,
    /// Entries of one subscriber; a wider network has a multiple of it ([`MULTIPLES`](crate::MULTIPLES)).
    pub per_subscriber: usize,
    /// The age up to which an entry does not give way to its own network. Without it a crowd behind one
    /// address would evict each other before any of them is done.
    pub settling: Duration,
}

/// Entries of subscribers. When there are too many, the oldest entry of the largest holder gives way.
///
/// The *load* of a network is the number of its entries by its multiple, or the load of the most loaded
/// network within where that is more. The largest holder is the most loaded of the coarsest networks, then
/// the most loaded within it, and so on; of equals the one that has held something for longest.
///
/// Each operation takes O(log n) for each of at most four networks. An entry takes at most
/// [`FairTable::BYTES_PER_ENTRY`] besides its value.
#[derive(Debug)]
pub struct FairTable<T, C = Uptime> {
    bounds: Bounds,
    next: u64,
    /// By number, and so by age.
    entries: BTreeMap<u64, Entry<T, C>>,
    /// The entries of each finest network.
    held: BTreeSet<(Network, u64)>,
    networks: BTreeMap<Network, Held>,
    /// The networks within each network, by load, then age.
    ranks: BTreeSet<(Network, Rank, Network)>,
}

#[derive(Debug)]
struct Entry<T, C> {
    subscriber: Subscriber,
    since: C,
    value: T,
}

/// The entries of a network.
#[derive(Clone, Copy, Debug)]
struct Held {
    entries: u64,
    rank: Rank,
}

/// The greatest rank gives way: the most loaded, and of those the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    load: u64,
    /// The number of the entry with which the network came into the table.
    since: Reverse<u64>,
}

/// An entry's place in the table it was admitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// The newcomer's own network is the largest holder, and what would give way there is still settling. Here is
/// the value back.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<T>(pub T);

impl<T, C: ClockTime> FairTable<T, C> {
    /// The memory of an entry besides its value, in bytes: its place in two trees, and four networks of
    /// its own in two more. A tree's nodes have room for 11 and hold 5 at least.
    pub const BYTES_PER_ENTRY: usize = {
        let held = size_of::<(u64, Entry<(), C>)>() + size_of::<(Network, u64)>();
        let network = size_of::<(Network, Held)>() + size_of::<(Network, Rank, Network)>();
        (held + 4 * network) * 11 / 5
    };

    /// An empty table. Bounds of 0 count as 1.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds: Bounds {
                capacity: bounds.capacity.max(1),
                per_subscriber: bounds.per_subscriber.max(1),
                ..bounds
            },
            next: 0,
            entries: BTreeMap::new(),
            held: BTreeSet::new(),
            networks: BTreeMap::new(),
            ranks: BTreeSet::new(),
        }
    }

    /// Takes an entry in. Returns its place and the value that gave way to it, if any.
    ///
    /// # Errors
    /// [`Refused`] where the entry belongs to the largest holder itself and the others of it are younger than
    /// [`Bounds::settling`].
    pub fn admit(
        &mut self,
        subscriber: Subscriber,
        now: C,
        value: T,
    ) -> Result<(Place, Option<T>), Refused<T>> {
        let place = Place(self.next);
        self.next += 1;
        let entry = Entry {
            subscriber,
            since: now,
            value,
        };
        self.entries.insert(place.0, entry);
        self.held.insert((subscriber.finest(), place.0));
        self.update(subscriber, place.0, true);
        match self.exceeded(subscriber) {
            None => Ok((place, None)),
            Some(network) => self.make_room(network, place, subscriber, now),
        }
    }

    /// Takes an entry out; `None` where it has given way already.
    pub fn remove(&mut self, place: Place) -> Option<T> {
        let entry = self.entries.remove(&place.0)?;
        self.held.remove(&(entry.subscriber.finest(), place.0));
        self.update(entry.subscriber, place.0, false);
        Some(entry.value)
    }

    /// The value at a place; `None` where it has given way.
    #[must_use]
    pub fn get(&self, place: Place) -> Option<&T> {
        self.entries.get(&place.0).map(|entry| &entry.value)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.entries.get_mut(&place.0).map(|entry| &mut entry.value)
    }

    /// The oldest entry, and since when it is there.
    #[must_use]
    pub fn oldest(&self) -> Option<(Place, C)> {
        let (number, entry) = self.entries.first_key_value()?;
        Some((Place(*number), entry.since))
    }

    /// All values, the oldest first.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// All values, the oldest first, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries that the finest network of the subscriber holds.
    #[must_use]
    pub fn held_by(&self, subscriber: Subscriber) -> u64 {
        self.entries_of(subscriber.finest())
    }

    fn entries_of(&self, network: Network) -> u64 {
        self.networks.get(&network).map_or(0, |held| held.entries)
    }

    /// The network in which an entry must give way: the finest of the newcomer's that exceeds its share, or
    /// everybody where the table is too full.
    fn exceeded(&self, newcomer: Subscriber) -> Option<Network> {
        let share = self.bounds.per_subscriber as u64;
        let is_exceeded = |network: &Network| {
            network.is_bounded()
                && self.entries_of(*network) > share.saturating_mul(network.multiple().into())
        };
        let is_full = self.entries.len() > self.bounds.capacity;
        let own = newcomer.networks().find(is_exceeded);
        own.or(is_full.then_some(Network::EVERYBODY))
    }

    fn make_room(
        &mut self,
        within: Network,
        newcomer: Place,
        subscriber: Subscriber,
        now: C,
    ) -> Result<(Place, Option<T>), Refused<T>> {
        let (victim, holder) = self.largest_holder(within);
        let is_own = subscriber.networks().any(|network| network == holder);
        let is_protected = |entry: &Entry<T, C>| !now.has_passed(entry.since, self.bounds.settling);
        let victim = match self.entries.get(&victim.0) {
            Some(entry) if is_own && is_protected(entry) => newcomer,
            _ => victim,
        };
        let value = self.remove(victim);
        match value {
            Some(value) if victim == newcomer => Err(Refused(value)),
            value => Ok((newcomer, value)),
        }
    }

    /// The entry that gives way, and the network whose own number of entries makes it the largest.
    fn largest_holder(&self, within: Network) -> (Place, Network) {
        let mut holder = within;
        let mut load = self.networks.get(&within).map(|held| held.rank.load);
        let mut finest = within;
        while let Some((rank, network)) = self.most_loaded_in(finest) {
            if load.is_none_or(|load| rank.load >= load) {
                holder = network;
                load = Some(rank.load);
            }
            finest = network;
        }
        let mut oldest = self.held.range((finest, 0)..=(finest, u64::MAX));
        let oldest = oldest.next().map_or(0, |(_, number)| *number);
        (Place(oldest), holder)
    }

    fn most_loaded_in(&self, network: Network) -> Option<(Rank, Network)> {
        let least = Rank {
            load: 0,
            since: Reverse(u64::MAX),
        };
        let greatest = Rank {
            load: u64::MAX,
            since: Reverse(0),
        };
        let (first, last) = (Network::FIRST, Network::LAST);
        let mut within = self
            .ranks
            .range((network, least, first)..=(network, greatest, last));
        let (_, rank, network) = within.next_back()?;
        Some((*rank, *network))
    }

    /// Counts an entry more or less in all networks of the subscriber, the finest first, since the load of a
    /// network follows from those within.
    fn update(&mut self, subscriber: Subscriber, number: u64, is_more: bool) {
        let wider = subscriber.networks().skip(1);
        let wider = wider.chain([Network::EVERYBODY]);
        for (network, around) in subscriber.networks().zip(wider) {
            let before = self.networks.get(&network).copied();
            if let Some(before) = before {
                self.ranks.remove(&(around, before.rank, network));
            }
            let count = before.map_or(0, |before| before.entries);
            let entries = match is_more {
                true => count + 1,
                false => count.saturating_sub(1),
            };
            if entries == 0 {
                self.networks.remove(&network);
                continue;
            }
            let own = entries * LOAD_OF_ONE / u64::from(network.multiple());
            let within = self.most_loaded_in(network);
            let rank = Rank {
                load: within.map_or(own, |(rank, _)| own.max(rank.load)),
                since: before.map_or(Reverse(number), |before| before.rank.since),
            };
            self.networks.insert(network, Held { entries, rank });
            self.ranks.insert((around, rank, network));
        }
    }
}
