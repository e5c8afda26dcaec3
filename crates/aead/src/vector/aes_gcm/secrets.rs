//! The values that are derived from a key: the round keys of AES, and the powers for GHASH.

use super::ghash::Powers;
use super::schedule::Schedule;
use super::vectors::{Vectors, Work};
use crate::KEY_LEN;

/// The values that are derived from a key.
#[repr(align(64))]
pub(super) struct Secrets<V: Vectors<LANES>, const LANES: usize> {
    pub(super) vectors: V,
    pub(super) schedule: Schedule<LANES>,
    pub(super) powers: Powers,
}

/// Derives them from the `bytes` of the key.
pub(super) struct Derive<'a, V, const LANES: usize> {
    pub(super) vectors: V,
    pub(super) bytes: &'a [u8; KEY_LEN],
}

impl<V: Vectors<LANES>, const LANES: usize> Work for Derive<'_, V, LANES> {
    type Output = Box<Secrets<V, LANES>>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let vectors = self.vectors;
        let mut secrets = Box::new(Secrets {
            vectors,
            schedule: Schedule::ZERO,
            powers: Powers::ZERO,
        });
        secrets.schedule.fill(vectors, self.bytes);
        let hash_keys = secrets.schedule.encrypt(vectors, vectors.zero());
        let hash_key = vectors.blocks(hash_keys)[0];
        secrets.powers.fill(vectors, hash_key);
        secrets
    }
}
