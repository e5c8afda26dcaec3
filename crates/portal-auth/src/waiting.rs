//! Things that wait for a person's next step: bounded, and for a while.

use culvert_base::Uptime;
use culvert_fair::{Bounds, FairMap, Subscriber};
use culvert_portal_base::Evictions;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Things that wait at once: everybody of a large organisation in the same minutes. Of some 1.2 KiB each with
/// their places in the table they take 5 MiB.
const MAX_WAITING: usize = 4_096;

/// Things of one person that wait at once: a few browsers, each of which began a few times.
const MAX_OF_ONE: usize = 64;

/// The bounds of things that wait at once, in all and of one person.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// In all.
    pub all: usize,
    /// Of one person.
    pub of_one: usize,
}

const USUAL: Share = Share {
    all: MAX_WAITING,
    of_one: MAX_OF_ONE,
};

/// The name in the log for a person whose share was too large: the log names no person.
const PERSON: &str = "a person";

/// Things of people that wait for a while under a key. A person with too many loses their own
/// oldest one. When there are too many in all, the person with the most loses one. It is the memory
/// of one process: when a portal restarts, people begin anew.
#[derive(Debug)]
pub struct Waiting<K, V> {
    entries: Mutex<FairMap<K, V>>,
    hasher: RandomState,
    start: Instant,
    evictions: Evictions,
}

impl<K: Ord + Clone, V> Waiting<K, V> {
    /// Nothing waits yet. Metrics and log call the table so.
    pub fn new(table: &'static str, lifetime: Duration) -> Self {
        Self::settling(table, USUAL, lifetime, Duration::ZERO)
    }

    /// A person with too many gets no more, and loses none.
    pub(super) fn refusing(table: &'static str, lifetime: Duration) -> Self {
        Self::settling(table, USUAL, lifetime, lifetime)
    }

    /// For larger things, of which there are fewer.
    pub fn sharing(table: &'static str, share: Share, lifetime: Duration) -> Self {
        Self::settling(table, share, lifetime, Duration::ZERO)
    }

    fn settling(table: &'static str, share: Share, lifetime: Duration, settling: Duration) -> Self {
        let bounds = Bounds {
            capacity: share.all,
            per_subscriber: share.of_one,
            settling,
        };
        Self {
            entries: Mutex::new(FairMap::new(bounds, lifetime)),
            hasher: RandomState::new(),
            start: Instant::now(),
            evictions: Evictions::of(table),
        }
    }

    /// Has something of a person wait, in the place of what waited under the key.
    pub fn put(&self, whose: &impl Hash, key: K, value: V, now: Instant) {
        let subscriber = Subscriber::key(self.hasher.hash_one(whose));
        let inserted = self
            .entries()
            .insert(subscriber, key, value, self.since(now));
        // A refused entry does not wait, and one that gave way no longer does.
        if !matches!(inserted, Ok(None)) {
            self.evictions.note(PERSON, now);
        }
    }

    /// The table's name, and how many gave way to others or were refused.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.evictions.counted()
    }

    /// Has something wait where nothing waits under the key yet, and where there is room without anything going. Says
    /// whether it does.
    pub(super) fn put_first(&self, whose: &impl Hash, key: K, value: V, now: Instant) -> bool {
        let subscriber = Subscriber::key(self.hasher.hash_one(whose));
        let since = self.since(now);
        let mut entries = self.entries();
        if entries.get_mut(&key, since).is_some() {
            return false;
        }
        let is_first = entries.len(since) < MAX_WAITING
            && entries.insert(subscriber, key, value, since).is_ok();
        if !is_first {
            self.evictions.note(PERSON, now);
        }
        is_first
    }

    /// Does something with what waits under the key; it goes on waiting where the answer says so.
    pub fn with<T>(
        &self,
        key: &K,
        now: Instant,
        what: impl FnOnce(&mut V) -> (T, bool),
    ) -> Option<T> {
        let now = self.since(now);
        let mut entries = self.entries();
        let (answer, stays) = what(entries.get_mut(key, now)?);
        if !stays {
            entries.remove(key, now);
        }
        Some(answer)
    }

    /// Has nothing wait under the key.
    pub fn forget(&self, key: &K) {
        let now = self.since(Instant::now());
        self.entries().remove(key, now);
    }

    fn entries(&self) -> MutexGuard<'_, FairMap<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, now: Instant) -> Uptime {
        Uptime::after(now.saturating_duration_since(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_waits_is_there_until_it_is_taken_or_its_time_is_over() {
        let waiting = Waiting::new("test", SECOND);
        let now = waiting.start;
        waiting.put(&"ada", 1, "one", now);
        assert_eq!(waiting.with(&1, now, |value| (*value, true)), Some("one"));
        assert_eq!(waiting.with(&1, now, |value| (*value, false)), Some("one"));
        assert_eq!(waiting.with(&1, now, |value| (*value, true)), None);
        waiting.put(&"ada", 2, "two", now);
        assert_eq!(waiting.with(&2, now + SECOND, |value| (*value, true)), None);
    }

    #[test]
    fn of_those_who_come_at_once_one_is_first_and_nothing_makes_room_for_it() {
        let waiting = Waiting::refusing("test", SECOND);
        let now = waiting.start;
        let firsts: usize = std::thread::scope(|scope| {
            let come = |_| scope.spawn(|| usize::from(waiting.put_first(&0_usize, 0, (), now)));
            let all: Vec<_> = (0..8).map(come).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(firsts, 1);
        let of = |person: usize| {
            let keys = (person * MAX_WAITING + 1)..=(person * MAX_WAITING + MAX_WAITING);
            let fits = keys.filter(|key| waiting.put_first(&person, *key, (), now));
            fits.count()
        };
        assert_eq!(of(0), MAX_OF_ONE - 1, "nobody takes all");
        let others: usize = (1..100).map(of).sum();
        assert_eq!(others, MAX_WAITING - MAX_OF_ONE);
        assert!(
            !waiting.put_first(&0_usize, 0, (), now),
            "it is remembered, however many come"
        );
        assert!(waiting.put_first(&0_usize, 0, (), now + SECOND));
    }

    #[test]
    fn whoever_has_the_most_makes_room_and_loses_the_oldest() {
        let waiting = Waiting::new("test", SECOND);
        let now = waiting.start;
        let waits = |key: usize| waiting.with(&key, now, |()| ((), true)).is_some();
        waiting.put(&"ada", 0, (), now);
        for key in 1..=MAX_OF_ONE + 1 {
            waiting.put(&"bob", key, (), now);
        }
        assert!(waits(0) && !waits(1) && waits(2), "each has a share");
        assert_eq!(waiting.evictions(), ("test", 1));
        for key in 1_000..1_000 + 2 * MAX_WAITING {
            waiting.put(&(key / 32), key, (), now);
        }
        assert!(waits(0), "others have more");
        assert!(waits(999 + 2 * MAX_WAITING), "there is room for the newest");
        assert_eq!(waiting.entries().len(Uptime::ZERO), MAX_WAITING);
    }
}
