//! Whole batches with vector instructions: ChaCha20-Poly1305 with AVX-512
//! ([ADR 0003](../../../../docs/adr/0003-batched-chacha20-poly1305.md)), AES-256-GCM with AVX-512
//! ([ADR 0007](../../../../docs/adr/0007-batched-aes-gcm.md)) or AVX2
//! ([ADR 0008](../../../../docs/adr/0008-batched-aes-gcm-avx2.md)).
//!
//! Both make use of the structure of a batch: the key is the same in all records, and only the
//! nonces differ. So everything that depends on the key alone is computed once. The vector units
//! also find work of another record where one record alone would leave them waiting.

#![expect(
    unsafe_code,
    reason = "pointers to vectors, and functions compiled for more than the base processor"
)]

mod aes_gcm;
mod chacha20_poly1305;
mod memory;
mod openable;

use crate::{KEY_LEN, Layout, Opened, Suite};

/// A key, and the proof that this processor has the instructions.
pub(crate) enum Wide {
    ChaCha20Poly1305(chacha20_poly1305::Wide),
    Aes256Gcm(aes_gcm::Wide),
}

impl Wide {
    /// `None` where the processor or the operating system lacks what the suite needs here.
    pub(crate) fn detect(suite: Suite, bytes: &[u8; KEY_LEN]) -> Option<Self> {
        match suite {
            Suite::ChaCha20Poly1305 => {
                chacha20_poly1305::Wide::detect(bytes).map(Self::ChaCha20Poly1305)
            }
            Suite::Aes256Gcm => aes_gcm::Wide::detect(bytes).map(Self::Aes256Gcm),
        }
    }

    /// True if a batch can be processed here, and is faster that way than record by record.
    pub(crate) fn gains(&self, layout: Layout, buffer_len: usize) -> bool {
        match self {
            Self::ChaCha20Poly1305(wide) => wide.gains(layout, buffer_len),
            Self::Aes256Gcm(_) => true,
        }
    }

    /// As [`crate::Key::seal_batch`], where it [gains](Self::gains).
    pub(crate) fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        match self {
            Self::ChaCha20Poly1305(wide) => wide.seal_batch(first_nonce, buffer, layout),
            Self::Aes256Gcm(wide) => wide.seal_batch(first_nonce, buffer, layout),
        }
    }

    /// As [`crate::Key::open_batch`], where it [gains](Self::gains). No plaintext of a refused
    /// record is left in the buffer.
    pub(crate) fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        match self {
            Self::ChaCha20Poly1305(wide) => wide.open_batch(nonces, buffer, layout),
            Self::Aes256Gcm(wide) => wide.open_batch(nonces, buffer, layout),
        }
    }
}

#[cfg(test)]
mod tests;
