//! AES-256 (FIPS 197): the key schedule, and the cipher on several blocks in a vector.

use super::vectors::{Block, Vectors};
use crate::KEY_LEN;

/// Rounds of AES-256.
const ROUNDS: usize = 14;

/// Those that are alike: the last one lacks a step.
pub(super) const MIDDLE_ROUNDS: usize = ROUNDS - 1;

/// The 32-bit words of a key.
const KEY_WORDS: usize = KEY_LEN / 4;

/// The round keys of a key, as often as the blocks of a vector need them.
pub(super) struct Schedule<const LANES: usize>([[Block; LANES]; ROUNDS + 1]);

impl<const LANES: usize> Schedule<LANES> {
    pub(super) const ZERO: Self = Self([[[0; 16]; LANES]; ROUNDS + 1]);

    /// FIPS 197 §5.2, word by word.
    #[inline(always)]
    pub(super) fn fill(&mut self, vectors: impl Vectors<LANES>, key: &[u8; KEY_LEN]) {
        let mut words = [[0; 4]; 4 * (ROUNDS + 1)];
        words[..KEY_WORDS].copy_from_slice(key.as_chunks().0);
        let mut constant = 1;
        for at in KEY_WORDS..words.len() {
            let mut word = words[at - 1];
            if at % KEY_WORDS == 0 {
                word = substitute(vectors, word);
                word.rotate_left(1);
                word[0] ^= constant;
                constant <<= 1;
            } else if at % KEY_WORDS == 4 {
                word = substitute(vectors, word);
            }
            for (byte, before) in word.iter_mut().zip(words[at - KEY_WORDS]) {
                *byte ^= before;
            }
            words[at] = word;
        }
        for (lanes, words) in self.0.iter_mut().zip(words.as_chunks::<4>().0) {
            for block in lanes {
                block.copy_from_slice(words.as_flattened());
            }
        }
    }

    /// Round key `round` for each block of a vector.
    #[inline(always)]
    pub(super) fn key<V: Vectors<LANES>>(&self, vectors: V, round: usize) -> V::Vector {
        vectors.load(&self.0[round])
    }

    /// Encrypts the blocks of a vector.
    #[inline(always)]
    pub(super) fn encrypt<V: Vectors<LANES>>(&self, vectors: V, blocks: V::Vector) -> V::Vector {
        let mut state = vectors.xor(blocks, self.key(vectors, 0));
        for round in 1..=MIDDLE_ROUNDS {
            state = vectors.round(state, self.key(vectors, round));
        }
        vectors.last_round(state, self.key(vectors, ROUNDS))
    }

    pub(super) fn zeroize(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// "SUBWORD()": what the last round makes of a block of four such words under a zero key, since it
/// moves bytes only between words.
#[inline(always)]
fn substitute<const LANES: usize>(vectors: impl Vectors<LANES>, word: [u8; 4]) -> [u8; 4] {
    let mut block = [0; 16];
    block.as_chunks_mut().0.fill(word);
    let blocks = vectors.last_round(vectors.spread(&block), vectors.zero());
    *vectors.blocks(blocks)[0]
        .first_chunk()
        .expect("a block has four words")
}
