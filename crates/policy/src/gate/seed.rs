//! The secret of a gate's tables, and the hash that it is mixed into.

use std::fmt;

/// Random numbers that no sender of packets may know, so that nobody can choose flows that all lie in one
/// place of the table. Drawn once for each gate.
#[derive(Clone, Copy)]
pub struct Seed(pub(super) [u64; 4]);

impl Seed {
    /// From random bytes.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Self {
        let (words, _) = random.as_chunks::<8>();
        let mut seed = [0; 4];
        for (seed, word) in seed.iter_mut().zip(words) {
            *seed = u64::from_le_bytes(*word);
        }
        Self(seed)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seed(…)")
    }
}

/// Both halves of the product: each bit of it depends on all bits below in both factors.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
