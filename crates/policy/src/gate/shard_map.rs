//! A map that is cheap to clone and to change while clones of it are read.
//!
//! Entries are in shards by the hash of their key, and shards in groups. Clones share all of them; a change copies the list of
//! groups, one group and one shard, and leaves the others as they are. A look-up needs a look at each list and a search in one
//! shard.

use super::peer_key::PeerKey;
use std::net::IpAddr;
use std::sync::Arc;

/// Groups of a map, and shards of a group: together 1,024 shards. A change copies 64 pointers, and 20 of 20,000 entries or 128 of 131,072,
/// which are the addresses of 10,000 and 65,536 clients. Each copy counts a holder of something that is not in the cache, so
/// that a single list of all shards would cost more than it saves.
const GROUPS: usize = 32;
const SHARDS_PER_GROUP: usize = 32;

/// A key whose hash says in which shard it is.
pub(super) trait ShardKey: Copy + PartialEq {
    /// Spreads keys that are next to each other. Nobody but the portal chooses keys: it needs no seed.
    fn hash(self) -> u64;
}

impl ShardKey for PeerKey {
    fn hash(self) -> u64 {
        spread(u64::from(self.0))
    }
}

impl ShardKey for IpAddr {
    #[inline]
    fn hash(self) -> u64 {
        match self {
            Self::V4(v4) => spread(u64::from(v4.to_bits())),
            Self::V6(v6) => {
                let bits = v6.to_bits();
                spread((bits >> 64) as u64 ^ bits as u64)
            }
        }
    }
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, §6.4): the upper bits depend on all of the number.
const fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct ShardMap<K, V> {
    groups: Arc<[Group<K, V>]>,
    len: usize,
}

type Group<K, V> = Arc<[Shard<K, V>]>;

/// Sorted by the hash.
type Shard<K, V> = Arc<[Entry<K, V>]>;

#[derive(Debug)]
struct Entry<K, V> {
    hash: u64,
    key: K,
    value: Arc<V>,
}

impl<K: Copy, V> Clone for Entry<K, V> {
    fn clone(&self) -> Self {
        Self {
            hash: self.hash,
            key: self.key,
            value: Arc::clone(&self.value),
        }
    }
}

impl<K, V> Clone for ShardMap<K, V> {
    fn clone(&self) -> Self {
        Self {
            groups: Arc::clone(&self.groups),
            len: self.len,
        }
    }
}

impl<K, V> Default for ShardMap<K, V> {
    fn default() -> Self {
        let empty: Shard<K, V> = Arc::new([]);
        let group: Group<K, V> = std::iter::repeat_n(empty, SHARDS_PER_GROUP).collect();
        Self {
            groups: std::iter::repeat_n(group, GROUPS).collect(),
            len: 0,
        }
    }
}

impl<K, V> ShardMap<K, V> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// In no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let shards = self.groups.iter().flat_map(|group| group.iter());
        let entries = shards.flat_map(|shard| shard.iter());
        entries.map(|entry| &*entry.value)
    }
}

impl<K: ShardKey, V> ShardMap<K, V> {
    #[inline]
    pub(super) fn get(&self, key: K) -> Option<&V> {
        let hash = key.hash();
        let shard = &self.groups[group_of(hash)][shard_of(hash)];
        let place = shard.partition_point(|entry| entry.hash < hash);
        let same_hash = shard[place..].iter().take_while(|entry| entry.hash == hash);
        let mut found = same_hash.filter(|entry| entry.key == key);
        found.next().map(|entry| &*entry.value)
    }

    /// Returns the value of before.
    pub(super) fn insert(&mut self, key: K, value: Arc<V>) -> Option<Arc<V>> {
        let hash = key.hash();
        let shard = self.shard_mut(hash);
        let place = shard.partition_point(|entry| entry.hash < hash);
        let same_hash = shard[place..].iter().take_while(|entry| entry.hash == hash);
        let known = same_hash.enumerate().find(|(_, entry)| entry.key == key);
        if let Some(known) = known.map(|(nth, _)| place + nth) {
            let entry = &mut Arc::make_mut(shard)[known];
            return Some(std::mem::replace(&mut entry.value, value));
        }
        let (before, after) = shard.split_at(place);
        let entry = Entry { hash, key, value };
        let entries = before.iter().cloned().chain([entry]);
        *shard = entries.chain(after.iter().cloned()).collect();
        self.len += 1;
        None
    }

    pub(super) fn remove(&mut self, key: K) -> Option<Arc<V>> {
        // A look first: what is not there changes nothing.
        self.get(key)?;
        let shard = self.shard_mut(key.hash());
        let (gone, retained): (Vec<_>, Vec<_>) =
            shard.iter().cloned().partition(|entry| entry.key == key);
        *shard = retained.into();
        self.len -= gone.len();
        gone.into_iter().next().map(|entry| entry.value)
    }

    fn shard_mut(&mut self, hash: u64) -> &mut Shard<K, V> {
        let group = &mut Arc::make_mut(&mut self.groups)[group_of(hash)];
        &mut Arc::make_mut(group)[shard_of(hash)]
    }
}

/// By the uppermost bits.
#[inline]
const fn group_of(hash: u64) -> usize {
    (hash >> (u64::BITS - GROUPS.ilog2())) as usize
}

/// By the bits below.
#[inline]
const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - GROUPS.ilog2() - SHARDS_PER_GROUP.ilog2())) as usize % SHARDS_PER_GROUP
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Keys of which several have one hash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Key(u8);

    impl ShardKey for Key {
        fn hash(self) -> u64 {
            u64::from(self.0 % 8) << 57
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_and_clones_keep_what_they_had(
            steps in prop::collection::vec((0_u8..32, any::<u16>(), 0_u8..3), 1..200),
        ) {
            let mut map = ShardMap::<Key, u16>::default();
            let mut model = BTreeMap::new();
            let mut before = (map.clone(), model.clone());
            for (key, value, kind) in steps {
                match kind {
                    0 => {
                        let before = map.insert(Key(key), Arc::new(value));
                        let expected = model.insert(Key(key), value);
                        prop_assert_eq!(before.map(|value| *value), expected);
                    }
                    1 => {
                        let removed = map.remove(Key(key)).map(|value| *value);
                        prop_assert_eq!(removed, model.remove(&Key(key)));
                    }
                    _ => before = (map.clone(), model.clone()),
                }
                for (map, model) in [(&map, &model), (&before.0, &before.1)] {
                    for key in (0..32).map(Key) {
                        prop_assert_eq!(map.get(key), model.get(&key));
                    }
                    let mut values: Vec<u16> = map.values().copied().collect();
                    let mut expected: Vec<u16> = model.values().copied().collect();
                    values.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(values, expected);
                    prop_assert_eq!(map.len(), model.len());
                }
            }
        }
    }

    #[test]
    fn keys_next_to_each_other_spread_over_the_shards() {
        const COUNT: u32 = 40_960;
        let v4 = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x6440_0100 + number));
        let v6 =
            |number: u32| IpAddr::from(Ipv6Addr::from_bits(0xFD00 << 112 | u128::from(number)));
        let hashes: [&dyn Fn(u32) -> u64; 3] = [
            &|number| PeerKey(number).hash(),
            &|number| v4(number).hash(),
            &|number| v6(number).hash(),
        ];
        for hash in hashes {
            let mut counts = [0; GROUPS * SHARDS_PER_GROUP];
            for number in 0..COUNT {
                let hash = hash(number);
                counts[group_of(hash) * SHARDS_PER_GROUP + shard_of(hash)] += 1;
            }
            // 40 each on average.
            let is_even = |count: &u32| (20..=60).contains(count);
            assert!(counts.iter().all(is_even), "{counts:?}");
        }
    }
}
