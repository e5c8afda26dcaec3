//! The generator behind indices, ephemeral keys, nonces of cookie replies and jitter.

use crate::crypto;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use std::time::Duration;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A source of fresh randomness, such as the operating system.
pub trait Entropy: Send {
    /// 32 bytes that a copy of this machine would not get as well.
    fn fresh(&mut self) -> [u8; 32];
}

/// A ChaCha20 generator with fast key erasure: every draw replaces the key, so a later look into
/// memory tells nothing about what was drawn before.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Random {
    key: [u8; 32],
    #[zeroize(skip)]
    entropy: Option<Box<dyn Entropy>>,
}

impl Random {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            key: seed,
            entropy: None,
        }
    }

    pub(crate) fn set_entropy(&mut self, entropy: Box<dyn Entropy>) {
        self.entropy = Some(entropy);
    }

    /// Mixes `seed` in; the result is unknown to whoever lacks either.
    pub(crate) fn reseed(&mut self, seed: &[u8; 32]) {
        self.key = crypto::hash(&[&self.key, seed]);
    }

    /// 32 random bytes.
    pub(crate) fn bytes(&mut self) -> Zeroizing<[u8; 32]> {
        let mut block = Zeroizing::new([0u8; 64]);
        ChaCha20::new(&self.key.into(), &[0u8; 12].into()).apply_keystream(block.as_mut());
        let (key, drawn) = block.split_at(32);
        self.key.copy_from_slice(key);
        let mut bytes = Zeroizing::new([0; 32]);
        bytes.copy_from_slice(drawn);
        bytes
    }

    /// 32 random bytes for a key. Fresh entropy goes in first, so that a copy of this generator does
    /// not make the same key.
    pub(crate) fn key(&mut self) -> Zeroizing<[u8; 32]> {
        if let Some(entropy) = &mut self.entropy {
            let fresh = Zeroizing::new(entropy.fresh());
            self.reseed(&fresh);
        }
        self.bytes()
    }

    pub(crate) fn u32(&mut self) -> u32 {
        let [a, b, c, d, ..] = *self.bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// A duration below `limit`, even to within a nanosecond in four seconds.
    pub(crate) fn duration_below(&mut self, limit: Duration) -> Duration {
        let limit_nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let scaled = (u128::from(limit_nanos) * u128::from(self.u32())) >> 32;
        Duration::from_nanos(u64::try_from(scaled).unwrap_or(limit_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_another_seed_another() {
        let mut first = Random::from_seed([1; 32]);
        let mut again = Random::from_seed([1; 32]);
        let mut other = Random::from_seed([2; 32]);
        let drawn = first.bytes();
        assert_eq!(drawn, again.bytes());
        assert_ne!(drawn, other.bytes());
        assert_ne!(drawn, first.bytes());
        again.reseed(&[3; 32]);
        assert_ne!(first.bytes(), again.bytes());
    }

    #[test]
    fn jitter_stays_below_its_limit() {
        let mut random = Random::from_seed([9; 32]);
        let limit = Duration::from_millis(334);
        let drawn: Vec<_> = (0..1000).map(|_| random.duration_below(limit)).collect();
        assert!(drawn.iter().all(|jitter| *jitter < limit));
        assert!(drawn.iter().any(|jitter| *jitter > limit * 9 / 10));
        assert!(drawn.iter().any(|jitter| *jitter < limit / 10));
    }
}
