//! The ChaCha20 block function (RFC 8439 §2.3) on sixteen or thirty-two blocks at once.
//!
//! Register `i` of a [`Blocks`] holds state word `i` of sixteen blocks, one in each 32-bit lane, so
//! a quarter round is plain vertical arithmetic. The key is the same in all lanes; block counter
//! and nonce are vectors, so the blocks may belong to any records of a batch.

mod twice;

use core::arch::x86_64::*;
pub(super) use twice::blocks_twice;

/// Blocks that one [`Blocks`] holds.
pub(super) const LANES: usize = 16;

/// Bytes of a keystream block.
pub(super) const BLOCK_LEN: usize = 64;

/// Word `i` of sixteen blocks in register `i`.
pub(super) type Blocks = [__m512i; LANES];

/// The positions of sixteen blocks: the words of the state that differ between the lanes. Word 13,
/// the first of the nonce, is zero in WireGuard: "ChaCha20Poly1305 … its nonce being composed of 32
/// bits of zeros followed by the 64-bit little-endian value of counter" (paper §5.4).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Positions {
    /// Word 12, the block counter.
    pub(super) block: __m512i,
    /// Word 14, the low half of the record's counter.
    pub(super) nonce_low: __m512i,
    /// Word 15, the high half of the record's counter.
    pub(super) nonce_high: __m512i,
}

/// The four words "expand 32-byte k".
static CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// "ChaCha20 runs 20 rounds, alternating between "column rounds" and "diagonal rounds"" (§2.3).
const DOUBLE_ROUNDS: u32 = 10;

/// Half of four quarter rounds (RFC 8439 §2.1): a += b; d ^= a; rotate d; c += d; b ^= c; rotate b. The
/// four are independent and advance side by side.
///
/// A macro, because the compiler keeps a state in registers only where all of this is one function.
macro_rules! half_rounds {
    ($x:ident, $d_bits:literal, $b_bits:literal, $([$a:literal, $b:literal, $c:literal, $d:literal])+) => {
        $($x[$a] = _mm512_add_epi32($x[$a], $x[$b]);)+
        $($x[$d] = _mm512_rol_epi32::<$d_bits>(_mm512_xor_si512($x[$d], $x[$a]));)+
        $($x[$c] = _mm512_add_epi32($x[$c], $x[$d]);)+
        $($x[$b] = _mm512_rol_epi32::<$b_bits>(_mm512_xor_si512($x[$b], $x[$c]));)+
    };
}

/// Four quarter rounds.
macro_rules! quarter_rounds {
    ($x:ident, $($lines:tt)+) => {
        half_rounds!($x, 16, 12, $($lines)+);
        half_rounds!($x, 8, 7, $($lines)+);
    };
}

/// The keystream of sixteen blocks, word by word.
#[target_feature(enable = "avx512f")]
#[inline(never)]
pub(super) fn blocks(key: &[u32; 8], at: Positions) -> Blocks {
    let mut x = initial(key, at);
    for _ in 0..DOUBLE_ROUNDS {
        quarter_rounds!(x, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
        quarter_rounds!(x, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
    }
    add_initial(&mut x, key, at);
    x
}

/// Turns "word `i` of all blocks in register `i`" into blocks, and hands over each with its number.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn transpose(words: &Blocks, mut block: impl FnMut(usize, __m512i)) {
    let zero = _mm512_setzero_si512();
    // Within every 128-bit quarter: 4×4 words.
    let mut quads = [zero; LANES];
    for i in [0, 4, 8, 12] {
        let low01 = _mm512_unpacklo_epi32(words[i], words[i + 1]);
        let high01 = _mm512_unpackhi_epi32(words[i], words[i + 1]);
        let low23 = _mm512_unpacklo_epi32(words[i + 2], words[i + 3]);
        let high23 = _mm512_unpackhi_epi32(words[i + 2], words[i + 3]);
        quads[i] = _mm512_unpacklo_epi64(low01, low23);
        quads[i + 1] = _mm512_unpackhi_epi64(low01, low23);
        quads[i + 2] = _mm512_unpacklo_epi64(high01, high23);
        quads[i + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    // Between the quarters: 4×4 quarters. quads[4 g + c], quarter q, is words 4 g … 4 g + 3 of
    // block 4 q + c.
    for c in 0..4 {
        let front01 = _mm512_shuffle_i32x4::<0b01_00_01_00>(quads[c], quads[4 + c]);
        let back01 = _mm512_shuffle_i32x4::<0b11_10_11_10>(quads[c], quads[4 + c]);
        let front23 = _mm512_shuffle_i32x4::<0b01_00_01_00>(quads[8 + c], quads[12 + c]);
        let back23 = _mm512_shuffle_i32x4::<0b11_10_11_10>(quads[8 + c], quads[12 + c]);
        block(c, _mm512_shuffle_i32x4::<0b10_00_10_00>(front01, front23));
        block(
            4 + c,
            _mm512_shuffle_i32x4::<0b11_01_11_01>(front01, front23),
        );
        block(8 + c, _mm512_shuffle_i32x4::<0b10_00_10_00>(back01, back23));
        block(
            12 + c,
            _mm512_shuffle_i32x4::<0b11_01_11_01>(back01, back23),
        );
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn initial(key: &[u32; 8], at: Positions) -> Blocks {
    let word = |word: u32| _mm512_set1_epi32(word.cast_signed());
    [
        word(CONSTANTS[0]),
        word(CONSTANTS[1]),
        word(CONSTANTS[2]),
        word(CONSTANTS[3]),
        word(key[0]),
        word(key[1]),
        word(key[2]),
        word(key[3]),
        word(key[4]),
        word(key[5]),
        word(key[6]),
        word(key[7]),
        at.block,
        _mm512_setzero_si512(),
        at.nonce_low,
        at.nonce_high,
    ]
}

#[target_feature(enable = "avx512f")]
#[inline]
fn add_initial(x: &mut Blocks, key: &[u32; 8], at: Positions) {
    for (word, initial) in x.iter_mut().zip(initial(key, at)) {
        *word = _mm512_add_epi32(*word, initial);
    }
}

#[cfg(test)]
pub(super) mod tests;
