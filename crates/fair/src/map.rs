//! A table whose entries are found by a key, and expire.

use crate::subscriber::Subscriber;
use crate::table::{Bounds, FairTable, Place, Refused};
use culvert_base::{ClockTime, Uptime};
use std::collections::BTreeMap;
use std::time::Duration;

/// A [`FairTable`] of values under keys, each for a while. Nothing that has expired is found or counted.
#[derive(Debug)]
pub struct FairMap<K, V, C = Uptime> {
    lifetime: Duration,
    places: BTreeMap<K, Place>,
    table: FairTable<(K, V), C>,
}

impl<K: Ord + Clone, V, C: ClockTime> FairMap<K, V, C> {
    /// An empty map, whose values are there for `lifetime`.
    #[must_use]
    pub fn new(bounds: Bounds, lifetime: Duration) -> Self {
        Self {
            lifetime,
            places: BTreeMap::new(),
            table: FairTable::new(bounds),
        }
    }

    /// Puts a value under the key, in the place of the one that was there. Returns the value that gave way to
    /// it, if any.
    ///
    /// # Errors
    /// [`Refused`] as [`FairTable::admit`] says.
    pub fn insert(
        &mut self,
        subscriber: Subscriber,
        key: K,
        value: V,
        now: C,
    ) -> Result<Option<V>, Refused<V>> {
        self.expire(now);
        self.remove(&key, now);
        let admitted = self.table.admit(subscriber, now, (key.clone(), value));
        let (place, evicted) = admitted.map_err(|Refused((_, value))| Refused(value))?;
        if let Some((evicted, _)) = &evicted {
            self.places.remove(evicted);
        }
        self.places.insert(key, place);
        Ok(evicted.map(|(_, value)| value))
    }

    /// The value under a key.
    pub fn get_mut(&mut self, key: &K, now: C) -> Option<&mut V> {
        self.expire(now);
        let place = self.places.get(key)?;
        self.table.get_mut(*place).map(|(_, value)| value)
    }

    /// Takes the value under a key out.
    pub fn remove(&mut self, key: &K, now: C) -> Option<V> {
        self.expire(now);
        let place = self.places.remove(key)?;
        self.table.remove(place).map(|(_, value)| value)
    }

    /// All keys and values, the oldest first.
    pub fn iter_mut(&mut self, now: C) -> impl Iterator<Item = (&K, &mut V)> {
        self.expire(now);
        self.table.values_mut().map(|(key, value)| (&*key, value))
    }

    /// The number of values.
    pub fn len(&mut self, now: C) -> usize {
        self.expire(now);
        self.table.len()
    }

    /// Forgets all whose time is over: each once, so that it costs no more than it cost to put them in.
    fn expire(&mut self, now: C) {
        while let Some((place, since)) = self.table.oldest()
            && now.has_passed(since, self.lifetime)
        {
            if let Some((key, _)) = self.table.remove(place) {
                self.places.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: Uptime = Uptime::ZERO;
    const END: Uptime = Uptime::after(SECOND);
    const BOUNDS: Bounds = Bounds {
        capacity: 4,
        per_subscriber: 2,
        settling: Duration::ZERO,
    };

    fn who(number: u64) -> Subscriber {
        Subscriber::key(number)
    }

    #[test]
    fn a_value_is_found_until_it_expires_or_is_taken() {
        let mut map = FairMap::new(BOUNDS, SECOND);
        assert_eq!(map.insert(who(1), "a", 1, START), Ok(None));
        assert_eq!(map.insert(who(1), "b", 2, START), Ok(None));
        let early = Uptime::after(SECOND - Duration::from_nanos(1));
        assert_eq!(map.get_mut(&"a", early), Some(&mut 1));
        assert_eq!(map.remove(&"a", early), Some(1));
        assert_eq!(map.get_mut(&"a", early), None);
        assert_eq!(map.get_mut(&"b", END), None);
        assert_eq!(map.len(END), 0);
    }

    #[test]
    fn a_key_has_one_value_and_its_newest_time() {
        let mut map = FairMap::new(BOUNDS, SECOND);
        for value in 0..10 {
            let now = Uptime::after(SECOND * value / 2);
            map.insert(who(1), "a", value, now).unwrap();
            assert_eq!(map.len(now), 1);
            assert_eq!(map.get_mut(&"a", now), Some(&mut { value }));
        }
    }

    #[test]
    fn what_gave_way_is_not_found_by_its_key() {
        let mut map = FairMap::new(BOUNDS, SECOND);
        map.insert(who(1), "a", 1, START).unwrap();
        map.insert(who(1), "b", 2, START).unwrap();
        let evicted = map.insert(who(1), "c", 3, START);
        assert_eq!(evicted, Ok(Some(1)));
        assert_eq!(map.get_mut(&"a", START), None);
        assert_eq!(map.get_mut(&"b", START), Some(&mut 2));
    }

    #[test]
    fn the_dead_make_room_before_the_living_do() {
        let mut map = FairMap::new(BOUNDS, SECOND);
        for (number, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
            map.insert(who(number as u64), key, number, START).unwrap();
        }
        assert_eq!(map.insert(who(9), "e", 9, END), Ok(None));
        assert_eq!(map.iter_mut(END).count(), 1);
    }
}
