//! Places that each holder may have a number of.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of places of each holder; a holder without a place is not kept.
#[derive(Clone, Debug)]
pub struct Places<K>(Arc<Mutex<HashMap<K, u32>>>);

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub struct Place<K: Copy + Eq + Hash> {
    places: Places<K>,
    holder: K,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Copy + Eq + Hash> Places<K> {
    /// A place more for the holder; none where it has as many as it may.
    pub fn take(&self, holder: K, limit: u32) -> Option<Place<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(holder).or_insert(0);
        if *count >= limit {
            return None;
        }
        *count += 1;
        let places = self.clone();
        Some(Place { places, holder })
    }
}

impl<K: Copy + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.holder);
            }
        }
    }
}
