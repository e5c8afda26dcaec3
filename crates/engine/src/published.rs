//! The newest snapshot, on its way to the workers.

use crate::sync::{AtomicU64, Mutex, Ordering};
use std::sync::{Arc, PoisonError};

/// The place of the newest snapshot: the control thread replaces it, and workers look for it once per turn.
pub(crate) struct Published<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Published<T> {
    pub(crate) fn new(snapshot: T) -> Self {
        Self {
            generation: AtomicU64::new(1),
            current: Mutex::new(Arc::new(snapshot)),
        }
    }

    /// The generation that the next snapshot will have. There is one publisher.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire) + 1
    }

    pub(crate) fn publish(&self, snapshot: T) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, Arc::new(snapshot));
        self.generation.fetch_add(1, Ordering::Release);
        drop(current);
        // Outside the lock: the last reference to sockets and keys may go with it.
        drop(old);
    }

    /// The newest snapshot, where it is newer than generation `seen`, which is brought up to date.
    pub(crate) fn newer_than(&self, seen: &mut u64) -> Option<Arc<T>> {
        if self.generation.load(Ordering::Acquire) == *seen {
            return None;
        }
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = self.generation.load(Ordering::Acquire);
        Some(Arc::clone(&current))
    }
}
