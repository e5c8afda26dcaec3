//! The ids of forwarded queries, and the case of their letters.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

/// Random ids. An attacker who cannot read our queries cannot predict the id of the next one (RFC
/// 5452, §4.3).
pub(crate) struct Ids {
    stream: ChaCha20,
    /// Bits that were drawn and not used yet.
    bits: u8,
    bits_left: u32,
}

impl Ids {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            stream: ChaCha20::new(&seed.into(), &[0; 12].into()),
            bits: 0,
            bits_left: 0,
        }
    }

    /// `None` after 256 GiB: at most 34 bytes for each query, 2^32 queries.
    pub(crate) fn draw(&mut self) -> Option<u16> {
        let mut bytes = [0; 2];
        self.stream.try_apply_keystream(&mut bytes).ok()?;
        Some(u16::from_be_bytes(bytes))
    }

    /// A bit, as [`draw`](Self::draw).
    pub(crate) fn draw_bit(&mut self) -> Option<u8> {
        if self.bits_left == 0 {
            let mut byte = [0];
            self.stream.try_apply_keystream(&mut byte).ok()?;
            self.bits = byte[0];
            self.bits_left = u8::BITS;
        }
        let bit = self.bits & 1;
        self.bits >>= 1;
        self.bits_left -= 1;
        Some(bit)
    }
}
