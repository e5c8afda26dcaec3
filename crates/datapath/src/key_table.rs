//! The keys that records may arrive under, which workers look up and the control thread changes.

use crate::peer::Peer;
use culvert_session::{Index, Transport};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Parts of the table. A worker that looks a key up meets the control thread, which changes another, in one of so many
/// cases.
const PARTS: usize = 64;

/// A key that records may arrive under.
pub struct Receiving {
    /// The key.
    pub transport: Arc<Transport>,
    /// Its peer.
    pub peer: Arc<Peer>,
}

/// Keys by receiver index. At most three per peer: previous, current and next.
///
/// They are no part of a snapshot. A handshake changes two of them, and a snapshot of thousands for each would cost more
/// than the handshake.
pub struct KeyTable {
    parts: Box<[Part]>,
    /// The number of times that a peer got another key to seal with.
    changes: AtomicU64,
}

type Part = RwLock<HashMap<Index, Arc<Receiving>, BuildHasherDefault<IndexHasher>>>;

impl Default for KeyTable {
    fn default() -> Self {
        Self {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            changes: AtomicU64::new(0),
        }
    }
}

impl KeyTable {
    /// The key with this index.
    pub fn get(&self, index: Index) -> Option<Arc<Receiving>> {
        let part = self.part(index).read();
        part.unwrap_or_else(PoisonError::into_inner)
            .get(&index)
            .cloned()
    }

    /// Records may arrive under this key from here on.
    pub fn insert(&self, key: Receiving) {
        let index = key.transport.local_index();
        let part = self.part(index).write();
        part.unwrap_or_else(PoisonError::into_inner)
            .insert(index, Arc::new(key));
    }

    /// No record is opened under this key any more, but by a worker that opens one at the moment.
    pub fn remove(&self, index: Index) {
        let part = self.part(index).write();
        let removed = part.unwrap_or_else(PoisonError::into_inner).remove(&index);
        // Outside the lock: the key is wiped with its last reference.
        drop(removed);
    }

    /// A peer has another key to seal with, which frames may wait for.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of times that this was so: a worker whose frames have found no key looks again when it is more.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Nobody seals under any of these keys any more.
    pub(crate) fn retire(&self) {
        for part in &self.parts {
            let part = part.read().unwrap_or_else(PoisonError::into_inner);
            for key in part.values() {
                key.transport.retire();
            }
        }
    }

    fn part(&self, index: Index) -> &Part {
        // The hash takes the other bits.
        &self.parts[(index.0 >> 24) as usize % PARTS]
    }
}

/// Receiver indices are random numbers that this end drew: they are their own hash.
#[derive(Default)]
struct IndexHasher(u64);

impl Hasher for IndexHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u32(&mut self, index: u32) {
        // The table takes its position from the low bits and its tag from the high ones, which the choice of the part
        // has used up.
        self.0 = u64::from(index) << 40 | u64::from(index);
    }
}
