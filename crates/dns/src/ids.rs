//! The ids of forwarded queries.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

/// Random ids. Who cannot read our queries cannot tell which id the next one has (RFC 5452, §4.3).
pub(crate) struct Ids(ChaCha20);

impl Ids {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha20::new(&seed.into(), &[0; 12].into()))
    }

    /// `None` after 2^37 ids.
    pub(crate) fn draw(&mut self) -> Option<u16> {
        let mut bytes = [0; 2];
        self.0.try_apply_keystream(&mut bytes).ok()?;
        Some(u16::from_be_bytes(bytes))
    }
}
