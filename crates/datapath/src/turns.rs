//! The order in which batches under one key leave, and the workers that wait for it.

use crate::sync::{AtomicU64, Ordering};

/// Batches leave in the order of their counters.
pub struct Turns {
    /// The counter that the next batch to leave starts with.
    departed: AtomicU64,
    /// Bit `w`: worker `w` waits for an earlier batch of another worker.
    waiting: AtomicU64,
}

impl Turns {
    pub fn new() -> Self {
        Self {
            departed: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        }
    }

    /// True if every batch with counters below `first` has left. If not, the worker that finishes next wakes `worker`.
    pub fn is_turn_of(&self, first: u64, worker: usize) -> bool {
        if self.departed.load(Ordering::Acquire) == first {
            return true;
        }
        self.waiting.fetch_or(1 << worker, Ordering::SeqCst);
        // Looked at again after the bit is set: the batch before may have left in between and have
        // found no one to wake.
        self.departed.load(Ordering::SeqCst) == first
    }

    /// The batch with counters up to `end` has left, or was given up. Returns who must be woken.
    #[must_use = "the workers that wait are to be woken"]
    pub fn depart(&self, end: u64) -> u64 {
        self.departed.store(end, Ordering::SeqCst);
        self.waiting.swap(0, Ordering::SeqCst)
    }
}
