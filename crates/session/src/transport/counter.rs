//! The counters of a key, each for one record.

use crate::constants::{REJECT_AFTER_MESSAGES, REKEY_AFTER_MESSAGES};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Hands out each counter once, to workers that share the key.
pub(crate) struct Counters {
    /// The counter of the next record.
    next: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
        }
    }

    /// The first of `count` consecutive counters that nobody else has. `None` where there are none left.
    pub(crate) fn reserve(&self, count: u32) -> Option<u64> {
        let reserve = |next: u64| {
            let end = next.checked_add(u64::from(count))?;
            (end <= REJECT_AFTER_MESSAGES).then_some(end)
        };
        // Relaxed: that every counter is handed out once needs atomicity, not order.
        self.next.fetch_update(Relaxed, Relaxed, reserve).ok()
    }

    /// No counter is handed out any more.
    pub(crate) fn retire(&self) {
        // In line with the reservations: each goes on from the newest value.
        self.next.swap(u64::MAX, Relaxed);
    }

    /// True if there are counters left.
    pub(crate) fn are_left(&self) -> bool {
        self.next.load(Relaxed) < REJECT_AFTER_MESSAGES
    }

    /// True if so many were handed out that the key is to be replaced.
    pub(crate) fn want_rekey(&self) -> bool {
        self.next.load(Relaxed) >= REKEY_AFTER_MESSAGES
    }

    /// As if all counters below `next` had been handed out.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, next: u64) {
        self.next.store(next, Relaxed);
    }
}
