//! A key: it seals and opens records, one by one or in batches.

use crate::vector::Wide;
use crate::{KEY_LEN, Layout, MAX_RECORDS, Opened, Suite, TAG_LEN};
use aws_lc_rs::aead::{
    AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use core::fmt;

/// One direction's key of a session.
///
/// Nonces are 64-bit counters. Sealing twice under one counter breaks both suites: whoever hands
/// out counters (`culvert-session`) does so once each.
pub struct Key {
    suite: Suite,
    cipher: LessSafeKey,
    /// Works on whole batches, where the suite and the processor allow.
    wide: Option<Wide>,
}

impl Key {
    /// Prepares `bytes` for use with `suite`, by the fastest implementation that the processor
    /// allows. All copies are wiped when the key is dropped.
    pub fn new(suite: Suite, bytes: &[u8; KEY_LEN]) -> Self {
        Self {
            wide: Wide::detect(suite, bytes),
            ..Self::new_portable(suite, bytes)
        }
    }

    /// As [`Key::new`], but AWS-LC does all the work whatever the processor.
    pub fn new_portable(suite: Suite, bytes: &[u8; KEY_LEN]) -> Self {
        let algorithm = match suite {
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::Aes256Gcm => &AES_256_GCM,
        };
        let unbound = UnboundKey::new(algorithm, bytes)
            .expect("both suites take keys of exactly KEY_LEN bytes");
        Self {
            suite,
            cipher: LessSafeKey::new(unbound),
            wide: None,
        }
    }

    /// True if batches of this key are processed as a whole where that is faster, rather than
    /// record by record.
    pub fn is_batched(&self) -> bool {
        self.wide.is_some()
    }

    /// The suite that this key is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Encrypts `in_out` in place, authenticates it together with `associated`, returns the tag.
    pub fn seal(&self, nonce: u64, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_LEN] {
        self.seal_under(self.nonce(nonce), associated, in_out)
    }

    /// As [`Key::seal`], under any nonce: published vectors are not bound to 64-bit counters.
    pub(crate) fn seal_under(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        in_out: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::from(associated), in_out)
            .expect("sealing fails only on inputs longer than the 2^36 bytes a cipher allows");
        tag.as_ref()
            .try_into()
            .expect("both suites have tags of TAG_LEN bytes")
    }

    /// Checks and decrypts `sealed` (ciphertext, then tag) in place; returns the plaintext.
    ///
    /// # Errors
    /// [`OpenError`] where the tag does not fit: the bytes are not from the holder of this key, or
    /// not for this nonce or associated data. The content of `sealed` is then unspecified.
    pub fn open<'a>(
        &self,
        nonce: u64,
        associated: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        self.open_under(self.nonce(nonce), associated, sealed)
    }

    /// As [`Key::open`], under any nonce.
    pub(crate) fn open_under<'a>(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        self.cipher
            .open_in_place(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated),
                sealed,
            )
            .map_err(|_| OpenError)
    }

    /// Seals every record of `buffer` in place: record `i` under counter `first_nonce + i`, its
    /// tag written to its last [`TAG_LEN`] bytes.
    ///
    /// # Panics
    /// If a record, the shorter last one included, has no room for head and tag. The caller is
    /// responsible for the layout of the batch.
    pub fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        if let Some(wide) = &self.wide
            && wide.gains(layout, buffer.len())
        {
            return wide.seal_batch(first_nonce, buffer, layout);
        }
        let buffer_len = buffer.len();
        for (index, nonce) in (0..layout.count(buffer_len)).zip(first_nonce..) {
            let sealed = layout
                .sealed(index, buffer_len)
                .expect("every record has room for head and tag");
            let (plaintext, tag) = buffer[sealed]
                .split_last_chunk_mut::<TAG_LEN>()
                .expect("Layout::sealed leaves room for the tag");
            *tag = self.seal(nonce, &[], plaintext);
        }
    }

    /// Opens the records of `buffer` in place, record `i` under `nonces[i]`.
    ///
    /// Records past [`MAX_RECORDS`] or past the end of `nonces`, and records too short for head
    /// and tag, are not authentic. The plaintext of a record that is not authentic is unspecified.
    pub fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        if let Some(wide) = &self.wide
            && wide.gains(layout, buffer.len())
        {
            return wide.open_batch(nonces, buffer, layout);
        }
        let buffer_len = buffer.len();
        let count = layout.count(buffer_len).min(MAX_RECORDS);
        let mut opened = Opened::NONE;
        for (index, &nonce) in nonces.iter().enumerate().take(count) {
            let Some(sealed) = layout.sealed(index, buffer_len) else {
                continue;
            };
            if self.open(nonce, &[], &mut buffer[sealed]).is_ok() {
                opened.set(index);
            }
        }
        opened
    }

    /// Noise §12: ChaCha20-Poly1305 takes 32 zero bits and the counter in little-endian order,
    /// AES-GCM the same with the counter in big-endian order.
    fn nonce(&self, counter: u64) -> [u8; NONCE_LEN] {
        let mut bytes = [0; NONCE_LEN];
        bytes[4..].copy_from_slice(&match self.suite {
            Suite::ChaCha20Poly1305 => counter.to_le_bytes(),
            Suite::Aes256Gcm => counter.to_be_bytes(),
        });
        bytes
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

/// The peer's fault: a record that the holder of the key did not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenError;

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record is not authentic")
    }
}

impl core::error::Error for OpenError {}
