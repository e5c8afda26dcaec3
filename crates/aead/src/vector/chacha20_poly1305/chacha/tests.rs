use super::*;
use crate::Suite;
use crate::vector::memory;
use crate::vector::tests::{hex, present};
use proptest::prelude::*;

/// RFC 8439 §2.3, word by word, with any nonce.
pub(in super::super) fn reference(key: &[u8; 32], counter: u32, nonce: [u8; 12]) -> [u8; 64] {
    let mut state = [0; 16];
    state[..4].copy_from_slice(&CONSTANTS);
    for (word, bytes) in state[4..12].iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    state[12] = counter;
    for (word, bytes) in state[13..].iter_mut().zip(nonce.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut x = state;
    for _ in 0..10 {
        for [a, b, c, d] in [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]] {
            quarter_round(&mut x, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] {
            quarter_round(&mut x, a, b, c, d);
        }
    }
    let mut block = [0; 64];
    for (bytes, (word, initial)) in block.chunks_mut(4).zip(x.into_iter().zip(state)) {
        bytes.copy_from_slice(&word.wrapping_add(initial).to_le_bytes());
    }
    block
}

fn quarter_round(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    for [d_bits, b_bits] in [[16, 12], [8, 7]] {
        x[a] = x[a].wrapping_add(x[b]);
        x[d] = (x[d] ^ x[a]).rotate_left(d_bits);
        x[c] = x[c].wrapping_add(x[d]);
        x[b] = (x[b] ^ x[c]).rotate_left(b_bits);
    }
}

/// The blocks of thirty-two (block counter, record counter) pairs under one key, by both functions.
fn vectors(key: &[u8; 32], at: [[(u32, u64); LANES]; 2]) -> [[[u8; 64]; LANES]; 2] {
    #[target_feature(enable = "avx512f")]
    fn inner(key: &[u32; 8], at: [[(u32, u64); LANES]; 2]) -> [[[u8; 64]; LANES]; 2] {
        let positions = at.map(|at| Positions {
            block: memory::load_words(&at.map(|(block, _)| block)),
            nonce_low: memory::load_words(&at.map(|(_, nonce)| nonce as u32)),
            nonce_high: memory::load_words(&at.map(|(_, nonce)| (nonce >> 32) as u32)),
        });
        let bytes = |words: Blocks| {
            let mut bytes = [[0; 64]; LANES];
            transpose(&words, |number, block| {
                for (bytes, word) in bytes[number].chunks_mut(4).zip(memory::words(block)) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            });
            bytes
        };
        let mut twice = [[_mm512_setzero_si512(); LANES]; 2];
        blocks_twice(key, &positions, &mut twice);
        let twice = twice.map(bytes);
        for (positions, twice) in positions.into_iter().zip(twice) {
            assert_eq!(bytes(blocks(key, positions)), twice);
        }
        twice
    }
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    // SAFETY: the callers return where the processor lacks the feature.
    unsafe { inner(&words, at) }
}

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

#[test]
fn the_reference_matches_rfc_8439_section_2_3_2() {
    let key = core::array::from_fn(|i| i as u8);
    let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
    assert_eq!(
        reference(&key, 1, nonce).as_slice(),
        hex(
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
             d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
        )
    );
}

#[test]
fn the_block_function_matches_rfc_8439_appendix_a_1_in_every_lane() {
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    let zero = [0; 32];
    let mut last_one = zero;
    last_one[31] = 1;
    let mut second_ff = zero;
    second_ff[1] = 0xff;
    let cases = [
        (
            zero,
            0,
            0,
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
                      da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        ),
        (
            zero,
            1,
            0,
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
                      29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
        ),
        (
            last_one,
            1,
            0,
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a\
                          8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        ),
        (
            second_ff,
            2,
            0,
            "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca\
                           13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
        ),
        (
            zero,
            0,
            2 << 56,
            "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7\
                            8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
        ),
    ];
    for (key, block, counter, expected) in cases {
        let expected = hex(expected);
        assert_eq!(reference(&key, block, nonce(counter)).as_slice(), expected);
        for block in vectors(&key, [[(block, counter); LANES]; 2]).as_flattened() {
            assert_eq!(block.as_slice(), expected);
        }
    }
}

proptest! {
    #[test]
    fn every_lane_is_the_block_of_its_own_position(
        key: [u8; 32], at: [[(u32, u64); LANES]; 2],
    ) {
        if !present(Suite::ChaCha20Poly1305) {
            return Ok(());
        }
        for (at, blocks) in at.into_iter().zip(vectors(&key, at)) {
            for ((block, counter), bytes) in at.into_iter().zip(blocks) {
                prop_assert_eq!(bytes, reference(&key, block, nonce(counter)));
            }
        }
    }
}
