//! Keyed hashes of the tables, so that a stranger cannot choose addresses or indices that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// A table with keyed hashes.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, HashKey>;

/// The secret of a table's hashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashKey(u64);

impl HashKey {
    pub(crate) const fn new(secret: u64) -> Self {
        Self(secret)
    }
}

impl BuildHasher for HashKey {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher(self.0)
    }
}

/// The folded multiplication of wyhash and aHash: cheap, and spread over all bits.
pub(crate) struct KeyedHasher(u64);

impl KeyedHasher {
    fn mix(&mut self, word: u64) {
        /// An odd number with as many ones as zeros: the golden ratio's fraction.
        const SPREAD: u128 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(self.0 ^ word) * SPREAD;
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_ne_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_ne_bytes(last));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_fall_into_different_buckets() {
        let key = HashKey::new(0x1234_5678_9abc_def0);
        let buckets: std::collections::BTreeSet<u64> = (0_u32..4_096)
            .map(|index| key.hash_one(index) % 65_536)
            .collect();
        // As many as random numbers would: 4,096 balls in 65,536 urns fill 3,971 on average.
        assert!(buckets.len() > 3_800, "{}", buckets.len());
    }

    #[test]
    fn another_key_gives_other_hashes() {
        let [one, two] = [1, 2].map(|secret| HashKey::new(secret).hash_one(7_u32));
        assert_ne!(one, two);
    }
}
