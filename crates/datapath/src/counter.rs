//! A counter with one writer, so that it is written without a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the number. One thread writes it.
    pub fn add(&self, amount: u64) {
        self.0
            .store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The number as last written.
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
