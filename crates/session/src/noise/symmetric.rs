//! Chaining key and transcript hash, the running state of a Noise handshake.

use crate::crypto::{self, Secret};
use culvert_aead::{Key, Suite, TAG_LEN};
use culvert_base::PublicKey;
use zeroize::Zeroizing;

/// The record was not made by someone who knows all that went into the key.
pub(super) struct NotAuthentic;

/// `C` and `H` of §5.4. Every key is used for one record, so all nonces are zero.
#[derive(Clone)]
pub(super) struct Symmetric {
    suite: Suite,
    chaining_key: Secret,
    hash: Zeroizing<[u8; 32]>,
}

impl Symmetric {
    /// "C := HASH(Construction); H := HASH(C || Identifier); H := HASH(H || S_pub)", the last the
    /// static public key of the responder.
    pub(super) fn new(suite: Suite, responder: &PublicKey) -> Self {
        let construction: &[u8] = match suite {
            Suite::ChaCha20Poly1305 => b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
            Suite::Aes256Gcm => b"Noise_IKpsk2_25519_AESGCM_BLAKE2s",
        };
        let chaining_key = crypto::hash(&[construction]);
        let identified = crypto::hash(&[&chaining_key, IDENTIFIER]);
        Self {
            suite,
            chaining_key: Zeroizing::new(chaining_key),
            hash: Zeroizing::new(crypto::hash(&[&identified, responder.as_bytes()])),
        }
    }

    pub(super) fn suite(&self) -> Suite {
        self.suite
    }

    /// "C := KDF1(C, E_pub); H := HASH(H || E_pub)".
    pub(super) fn mix_ephemeral(&mut self, ephemeral: &[u8; 32]) {
        self.chaining_key = crypto::kdf1(&self.chaining_key, ephemeral);
        self.mix_hash(ephemeral);
    }

    /// "C := KDF1(C, DH(…))".
    pub(super) fn mix_chain(&mut self, input: &[u8; 32]) {
        self.chaining_key = crypto::kdf1(&self.chaining_key, input);
    }

    /// "(C, κ) := KDF2(C, DH(…))"; returns κ.
    pub(super) fn mix_key(&mut self, input: &[u8; 32]) -> Key {
        let (chaining_key, key) = crypto::kdf2(&self.chaining_key, input);
        self.chaining_key = chaining_key;
        Key::new(self.suite, &key)
    }

    /// "(C, τ, κ) := KDF3(C, Q); H := HASH(H || τ)"; returns κ.
    pub(super) fn mix_preshared(&mut self, preshared: &[u8; 32]) -> Key {
        let (chaining_key, mixed, key) = crypto::kdf3(&self.chaining_key, preshared);
        self.chaining_key = chaining_key;
        self.mix_hash(mixed.as_slice());
        Key::new(self.suite, &key)
    }

    /// "AEAD(κ, 0, plaintext, H)", then "H := HASH(H || ciphertext)". The plaintext is followed by
    /// room for the tag.
    pub(super) fn seal(&mut self, key: &Key, plaintext_and_room: &mut [u8]) {
        let plaintext_len = plaintext_and_room.len() - TAG_LEN;
        let (plaintext, room) = plaintext_and_room.split_at_mut(plaintext_len);
        let tag = key.seal(0, self.hash.as_slice(), plaintext);
        room.copy_from_slice(&tag);
        self.mix_hash(plaintext_and_room);
    }

    /// The reverse of [`seal`](Self::seal).
    pub(super) fn open<const SEALED: usize, const PLAIN: usize>(
        &mut self,
        key: &Key,
        sealed: &[u8; SEALED],
    ) -> Result<[u8; PLAIN], NotAuthentic> {
        const { assert!(SEALED == PLAIN + TAG_LEN) };
        let mut buffer = *sealed;
        let opened = key
            .open(0, self.hash.as_slice(), &mut buffer)
            .map_err(|_| NotAuthentic)?;
        let plaintext = *opened.first_chunk().ok_or(NotAuthentic)?;
        self.mix_hash(sealed);
        Ok(plaintext)
    }

    /// §5.4.5: "(T_send_i = T_recv_r, T_recv_i = T_send_r) := KDF2(C, ε)".
    pub(super) fn split(&self) -> (Secret, Secret) {
        crypto::kdf2(&self.chaining_key, &[])
    }

    fn mix_hash(&mut self, data: &[u8]) {
        *self.hash = crypto::hash(&[self.hash.as_slice(), data]);
    }
}

/// §5.4's Identifier, which Noise calls the prologue.
pub(super) const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
