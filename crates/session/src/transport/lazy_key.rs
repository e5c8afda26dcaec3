//! A key that its first use prepares.

use crate::crypto::Secret;
use culvert_aead::{Key, Suite};
use std::sync::OnceLock;

/// Preparing takes a microsecond, and some hundred bytes to some kilobytes of tables. Most of the keys of thousands of
/// clients that rekey are never used in one direction, or at all.
pub(super) struct LazyKey {
    suite: Suite,
    bytes: Secret,
    prepared: OnceLock<Key>,
}

impl LazyKey {
    pub(super) fn new(suite: Suite, bytes: &Secret) -> Self {
        Self {
            suite,
            bytes: bytes.clone(),
            prepared: OnceLock::new(),
        }
    }

    pub(super) const fn suite(&self) -> Suite {
        self.suite
    }

    /// The key, ready for use.
    pub(super) fn prepared(&self) -> &Key {
        self.prepared
            .get_or_init(|| Key::new(self.suite, &self.bytes))
    }
}
