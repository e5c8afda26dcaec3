//! What waits for a person's next step: bounded, and for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Things that wait at once: everybody of a large organisation in the same minutes. Of 200 bytes each
/// they take 800 KiB.
const MAX_WAITING: usize = 4_096;

/// Things that wait for a while under a key. It is the memory of one process: a portal that starts anew
/// has people begin anew.
#[derive(Debug)]
pub(super) struct Waiting<K, V> {
    lifetime: Duration,
    entries: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord + Clone, V> Waiting<K, V> {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            entries: Mutex::default(),
        }
    }

    /// Has something wait, in the place of what waited under the key. Where there is no room, what has
    /// waited for longest goes.
    pub(super) fn put(&self, key: K, value: V, now: Instant) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (until, _)| now < *until);
        if entries.len() >= MAX_WAITING && !entries.contains_key(&key) {
            let oldest = entries.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                entries.remove(&oldest);
            }
        }
        entries.insert(key, (now + self.lifetime, value));
    }

    /// Has something wait where nothing waits under the key yet, and where there is room without anything going. Says
    /// whether it does.
    pub(super) fn put_first(&self, key: K, value: V, now: Instant) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (until, _)| now < *until);
        if entries.len() >= MAX_WAITING || entries.contains_key(&key) {
            return false;
        }
        entries.insert(key, (now + self.lifetime, value));
        true
    }

    /// Does something with what waits under the key; it goes on waiting where the answer says so.
    pub(super) fn with<T>(
        &self,
        key: &K,
        now: Instant,
        what: impl FnOnce(&mut V) -> (T, bool),
    ) -> Option<T> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = entries.get_mut(key)?;
        if now >= *until {
            entries.remove(key);
            return None;
        }
        let (answer, stays) = what(value);
        if !stays {
            entries.remove(key);
        }
        Some(answer)
    }

    pub(super) fn forget(&self, key: &K) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_waits_is_there_until_it_is_taken_or_its_time_is_over() {
        let waiting = Waiting::new(SECOND);
        let now = Instant::now();
        waiting.put(1, "one", now);
        assert_eq!(waiting.with(&1, now, |value| (*value, true)), Some("one"));
        assert_eq!(waiting.with(&1, now, |value| (*value, false)), Some("one"));
        assert_eq!(waiting.with(&1, now, |value| (*value, true)), None);
        waiting.put(2, "two", now);
        assert_eq!(waiting.with(&2, now + SECOND, |value| (*value, true)), None);
    }

    #[test]
    fn of_those_who_come_at_once_one_is_first_and_nothing_makes_room_for_it() {
        let waiting = Waiting::new(SECOND);
        let now = Instant::now();
        let firsts: usize = std::thread::scope(|scope| {
            let come = |_| scope.spawn(|| usize::from(waiting.put_first(0, (), now)));
            let all: Vec<_> = (0..8).map(come).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(firsts, 1);
        let fits = (1..=MAX_WAITING).filter(|number| waiting.put_first(*number, (), now));
        assert_eq!(fits.count(), MAX_WAITING - 1);
        assert!(
            !waiting.put_first(0, (), now),
            "it is remembered, however many come"
        );
        assert!(waiting.put_first(0, (), now + SECOND));
    }

    #[test]
    fn there_is_room_for_the_newest() {
        let waiting = Waiting::new(SECOND * 100_000);
        let now = Instant::now();
        for number in 0..=MAX_WAITING {
            waiting.put(number, (), now + Duration::from_millis(number as u64));
        }
        assert_eq!(waiting.with(&0, now, |()| ((), true)), None);
        assert!(waiting.with(&1, now, |()| ((), true)).is_some());
        assert!(waiting.with(&MAX_WAITING, now, |()| ((), true)).is_some());
    }
}
