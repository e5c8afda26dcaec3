//! Poly1305 (RFC 8439 §2.5) of eight messages at once, one in each 64-bit lane.
//!
//! A number below 2^130 is three limbs of 44, 44 and 42 bits, so that the 52-bit multiply-add of
//! AVX-512 IFMA has room. With `p = 2^130 - 5`, the overflow of the third limb is added to the
//! first times 5, and a product of weight 2^132 is added times 20.
//!
//! Four blocks are absorbed at a time: `h = (h + m0) r^4 + m1 r^3 + m2 r^2 + m3 r`. Only the first
//! product waits for the one before; there is one reduction per four blocks.
//!
//! Messages of different lengths end together: shorter ones start with null blocks, which leave
//! `h` at zero because they lack the bit 2^128 that every real block carries.

use super::memory;
use core::arch::x86_64::*;

/// Messages that are authenticated at once.
pub(super) const LANES: usize = 8;

/// Bytes of a Poly1305 block.
const BLOCK_LEN: usize = 16;

/// Blocks absorbed per reduction: those in one vector of 64 bytes.
const BLOCKS_PER_ROW: usize = 4;

const ROW_LEN: usize = BLOCK_LEN * BLOCKS_PER_ROW;

const LIMB_BITS: u32 = 44;
const TOP_LIMB_BITS: u32 = 42;
const LIMB_MASK: i64 = (1 << LIMB_BITS) - 1;
const TOP_LIMB_MASK: i64 = (1 << TOP_LIMB_BITS) - 1;

/// 2^128 in the third limb, whose lowest bit is 2^88.
const HIGH_BIT: i64 = 1 << (128 - 2 * LIMB_BITS);

/// Eight numbers, limb by limb.
type Limbs = [__m512i; 3];

/// The one-time keys of eight messages: `r` and `s`, low and high halves.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) r: [__m512i; 2],
    pub(super) s: [__m512i; 2],
}

/// The tags of eight messages, low and high halves.
#[derive(Clone, Copy)]
pub(super) struct Tags(pub(super) [__m512i; 2]);

/// Authenticates eight ciphertexts without associated data as RFC 8439 §2.8 requires. The input is
/// the ciphertext, padded with zeros to whole blocks; then "the length of the additional data in
/// octets (as a 64-bit little-endian integer)", here zero; then that of the ciphertext.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
pub(super) fn tags(keys: &Keys, messages: [&[u8]; LANES]) -> Tags {
    let mut longest = 0;
    let mut shortest = usize::MAX;
    for message in messages {
        longest = longest.max(message.len());
        shortest = shortest.min(message.len());
    }
    let rows = (blocks(longest) + 1).div_ceil(BLOCKS_PER_ROW);
    // The last row ends with the length block, so no message fills it; every row before it is
    // full in all lanes once the last null block has passed.
    let last = rows - 1;
    let most_null_blocks = null_blocks(rows, shortest);
    let first_full = most_null_blocks.div_ceil(BLOCKS_PER_ROW).min(last);

    let powers = Powers::new(keys.r);
    let mut h = [_mm512_setzero_si512(); 3];
    for row in 0..first_full {
        h = absorb_edge(&powers, h, messages, row, rows);
    }
    let mut full: [&[[u8; ROW_LEN]]; LANES] = [&[]; LANES];
    if first_full < last {
        for lane in 0..LANES {
            let skipped = null_blocks(rows, messages[lane].len()) * BLOCK_LEN;
            let start = first_full * ROW_LEN - skipped;
            full[lane] = &messages[lane][start..].as_chunks().0[..last - first_full];
        }
    }
    let high_bits = [_mm512_set1_epi64(HIGH_BIT); BLOCKS_PER_ROW];
    for row in 0..last - first_full {
        let lanes = full.map(|rows| memory::load(&rows[row]));
        h = absorb(&powers, h, lanes, high_bits);
    }
    h = absorb_edge(&powers, h, messages, last, rows);
    finish(h, keys.s)
}

/// Blocks of a message, the last of which may be padded.
fn blocks(message_len: usize) -> usize {
    message_len.div_ceil(BLOCK_LEN)
}

/// Null blocks before a message, so that its length block ends the last of `rows` rows.
fn null_blocks(rows: usize, message_len: usize) -> usize {
    rows * BLOCKS_PER_ROW - 1 - blocks(message_len)
}

/// The powers of `r` by which the blocks of the eight messages are multiplied.
struct Powers([Power; BLOCKS_PER_ROW]);

/// A power of `r`: its limbs, and 20 times its upper two limbs.
#[derive(Clone, Copy)]
struct Power {
    limbs: Limbs,
    twenty: [__m512i; 2],
}

impl Powers {
    /// `r^4` to `r^1`, with `r` clamped: "`r[3]`, `r[7]`, `r[11]`, and `r[15]` are required to have
    /// their top four bits clear …".
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
    #[inline]
    fn new(r: [__m512i; 2]) -> Self {
        let low = _mm512_and_si512(r[0], _mm512_set1_epi64(0x0fff_fffc_0fff_ffff));
        let high = _mm512_and_si512(r[1], _mm512_set1_epi64(0x0fff_fffc_0fff_fffc));
        let zero = _mm512_setzero_si512();
        let first = Power::new(split(low, high, zero));
        let second = Power::new(Product::of(first.limbs, &first).reduce());
        let third = Power::new(Product::of(second.limbs, &first).reduce());
        let fourth = Power::new(Product::of(second.limbs, &second).reduce());
        Self([fourth, third, second, first])
    }
}

impl Power {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(limbs: Limbs) -> Self {
        let twenty = |limb| {
            let four = _mm512_slli_epi64::<2>(limb);
            _mm512_add_epi64(_mm512_slli_epi64::<2>(four), four)
        };
        Self {
            limbs,
            twenty: [twenty(limbs[1]), twenty(limbs[2])],
        }
    }
}

/// A sum of products before reduction. The multiply-add splits each 104-bit product in two: `low`
/// has the weights of the limbs, `high` those weights times 2^52.
struct Product {
    low: Limbs,
    high: Limbs,
}

impl Product {
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn of(factor: Limbs, power: &Power) -> Self {
        let zero = [_mm512_setzero_si512(); 3];
        let mut product = Self {
            low: zero,
            high: zero,
        };
        product.add(factor, power);
        product
    }

    /// Adds `factor * power`. Limbs of `factor` and `power`, times 20 included, are below 2^52.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn add(&mut self, factor: Limbs, power: &Power) {
        let [r0, r1, r2] = power.limbs;
        let [twenty1, twenty2] = power.twenty;
        let columns = [[r0, r1, r2], [twenty2, r0, r1], [twenty1, twenty2, r0]];
        for (factor, column) in factor.into_iter().zip(columns) {
            for (limb, multiplier) in column.into_iter().enumerate() {
                self.low[limb] = _mm512_madd52lo_epu64(self.low[limb], factor, multiplier);
                self.high[limb] = _mm512_madd52hi_epu64(self.high[limb], factor, multiplier);
            }
        }
    }

    /// The sum modulo p, not fully reduced: limbs 0 and 2 are at most their size, limb 1 exceeds
    /// its by less than 2^10.
    ///
    /// The factors are a result of this function plus a block, so they are below 2^45, 2^45 + 2^10
    /// and 2^43. The powers are results of this function. Twelve products then stay within these
    /// bounds: low sums < 2^56; high sums of limbs 0 and 1 < 2^43, of limb 2 < 2^40. So `over` < 2^51,
    /// `bottom` < 2^53, its carry < 2^10.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn reduce(self) -> Limbs {
        let mask = _mm512_set1_epi64(LIMB_MASK);
        let top_mask = _mm512_set1_epi64(TOP_LIMB_MASK);
        // 2^52 is 2^8 times the weight of the next limb; above limb 2, which is two bits shorter,
        // 2^10 times that of 2^130.
        let middle = sum3(
            self.low[1],
            _mm512_slli_epi64::<8>(self.high[0]),
            _mm512_srli_epi64::<LIMB_BITS>(self.low[0]),
        );
        let top = sum3(
            self.low[2],
            _mm512_slli_epi64::<8>(self.high[1]),
            _mm512_srli_epi64::<LIMB_BITS>(middle),
        );
        let over = _mm512_add_epi64(
            _mm512_slli_epi64::<10>(self.high[2]),
            _mm512_srli_epi64::<TOP_LIMB_BITS>(top),
        );
        let bottom = sum3(
            _mm512_and_si512(self.low[0], mask),
            over,
            _mm512_slli_epi64::<2>(over),
        );
        [
            _mm512_and_si512(bottom, mask),
            _mm512_add_epi64(
                _mm512_and_si512(middle, mask),
                _mm512_srli_epi64::<LIMB_BITS>(bottom),
            ),
            _mm512_and_si512(top, top_mask),
        ]
    }
}

/// Absorbs row `row` of `rows`, which null blocks, the end of a message or its length block touch.
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi2")]
#[inline]
fn absorb_edge(
    powers: &Powers,
    h: Limbs,
    messages: [&[u8]; LANES],
    row: usize,
    rows: usize,
) -> Limbs {
    let length_word = if row == rows - 1 { 0b1000_0000 } else { 0 };
    let mut lanes = [_mm512_setzero_si512(); LANES];
    let mut nulls = [0; LANES];
    for lane in 0..LANES {
        let len = messages[lane].len();
        let null_blocks = null_blocks(rows, len);
        let nulls_here = null_blocks
            .saturating_sub(row * BLOCKS_PER_ROW)
            .min(BLOCKS_PER_ROW);
        let start = (row * ROW_LEN)
            .saturating_sub(null_blocks * BLOCK_LEN)
            .min(len);
        let bytes = memory::load_partial(&messages[lane][start..]);
        // A block is two 64-bit words.
        let behind_nulls = 0xffu8.unbounded_shl(2 * nulls_here as u32);
        let placed = _mm512_maskz_expand_epi64(behind_nulls, bytes);
        let len = _mm512_set1_epi64(len as i64);
        lanes[lane] = _mm512_mask_mov_epi64(placed, length_word, len);
        nulls[lane] = nulls_here as u64;
    }
    let nulls = memory::load_double_words(&nulls);
    let mut high_bits = [_mm512_setzero_si512(); BLOCKS_PER_ROW];
    for (index, high_bit) in high_bits.iter_mut().enumerate() {
        let present = _mm512_cmple_epu64_mask(nulls, _mm512_set1_epi64(index as i64));
        *high_bit = _mm512_maskz_set1_epi64(present, HIGH_BIT);
    }
    absorb(powers, h, lanes, high_bits)
}

/// Absorbs four blocks of each message.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi2")]
#[inline]
fn absorb(
    powers: &Powers,
    h: Limbs,
    lanes: [__m512i; LANES],
    high_bits: [__m512i; BLOCKS_PER_ROW],
) -> Limbs {
    let words = transpose(lanes);
    let block = |i: usize| split(words[2 * i], words[2 * i + 1], high_bits[i]);
    let Powers([fourth, third, second, first]) = powers;
    // The product that waits for `h` comes last.
    let mut sum = Product::of(block(1), third);
    sum.add(block(2), second);
    sum.add(block(3), first);
    let [m0, m1, m2] = block(0);
    let start = [
        _mm512_add_epi64(h[0], m0),
        _mm512_add_epi64(h[1], m1),
        _mm512_add_epi64(h[2], m2),
    ];
    sum.add(start, fourth);
    sum.reduce()
}

/// Eight 128-bit numbers as limbs, with `high_bit` added to the third.
#[target_feature(enable = "avx512f,avx512vbmi2")]
#[inline]
fn split(low: __m512i, high: __m512i, high_bit: __m512i) -> Limbs {
    let mask = _mm512_set1_epi64(LIMB_MASK);
    [
        _mm512_and_si512(low, mask),
        _mm512_and_si512(_mm512_shrdi_epi64::<{ LIMB_BITS as i32 }>(low, high), mask),
        _mm512_or_si512(_mm512_srli_epi64::<24>(high), high_bit),
    ]
}

/// Turns "row of message `i` in register `i`" into "64-bit word `i` of all rows in register `i`".
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose(lanes: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut pairs = [_mm512_setzero_si512(); LANES];
    for i in [0, 2, 4, 6] {
        pairs[i] = _mm512_unpacklo_epi64(lanes[i], lanes[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi64(lanes[i], lanes[i + 1]);
    }
    let mut words = [_mm512_setzero_si512(); LANES];
    for odd in [0, 1] {
        // pairs[2 m + odd], quarter q, is word 2 q + odd of messages 2 m and 2 m + 1.
        let front01 = _mm512_shuffle_i64x2::<0b01_00_01_00>(pairs[odd], pairs[2 + odd]);
        let back01 = _mm512_shuffle_i64x2::<0b11_10_11_10>(pairs[odd], pairs[2 + odd]);
        let front23 = _mm512_shuffle_i64x2::<0b01_00_01_00>(pairs[4 + odd], pairs[6 + odd]);
        let back23 = _mm512_shuffle_i64x2::<0b11_10_11_10>(pairs[4 + odd], pairs[6 + odd]);
        words[odd] = _mm512_shuffle_i64x2::<0b10_00_10_00>(front01, front23);
        words[2 + odd] = _mm512_shuffle_i64x2::<0b11_01_11_01>(front01, front23);
        words[4 + odd] = _mm512_shuffle_i64x2::<0b10_00_10_00>(back01, back23);
        words[6 + odd] = _mm512_shuffle_i64x2::<0b11_01_11_01>(back01, back23);
    }
    words
}

/// `h` modulo p, plus `s` modulo 2^128.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn finish(h: Limbs, s: [__m512i; 2]) -> Tags {
    let mask = _mm512_set1_epi64(LIMB_MASK);
    let [h0, h1, h2] = carry(carry(h));
    // h + 5 - 2^130 is h - p: taken where it is not negative.
    let g0 = _mm512_add_epi64(h0, _mm512_set1_epi64(5));
    let g1 = _mm512_add_epi64(h1, _mm512_srli_epi64::<LIMB_BITS>(g0));
    let g2 = _mm512_sub_epi64(
        _mm512_add_epi64(h2, _mm512_srli_epi64::<LIMB_BITS>(g1)),
        _mm512_set1_epi64(1 << TOP_LIMB_BITS),
    );
    let below_p = _mm512_movepi64_mask(g2);
    let h0 = _mm512_mask_mov_epi64(_mm512_and_si512(g0, mask), below_p, h0);
    let h1 = _mm512_mask_mov_epi64(_mm512_and_si512(g1, mask), below_p, h1);
    let h2 = _mm512_mask_mov_epi64(g2, below_p, h2);

    let low = _mm512_or_si512(h0, _mm512_slli_epi64::<LIMB_BITS>(h1));
    let high = _mm512_or_si512(_mm512_srli_epi64::<20>(h1), _mm512_slli_epi64::<24>(h2));
    let low = _mm512_add_epi64(low, s[0]);
    let high = _mm512_add_epi64(high, s[1]);
    let carried = _mm512_cmplt_epu64_mask(low, s[0]);
    let high = _mm512_mask_add_epi64(high, carried, high, _mm512_set1_epi64(1));
    Tags([low, high])
}

/// Carries from limb to limb, and from the top back to the bottom times 5. After the first call
/// only a single bit can remain, which the second call settles.
#[target_feature(enable = "avx512f")]
#[inline]
fn carry([h0, h1, h2]: Limbs) -> Limbs {
    let mask = _mm512_set1_epi64(LIMB_MASK);
    let h1 = _mm512_add_epi64(h1, _mm512_srli_epi64::<LIMB_BITS>(h0));
    let h2 = _mm512_add_epi64(h2, _mm512_srli_epi64::<LIMB_BITS>(h1));
    let over = _mm512_srli_epi64::<TOP_LIMB_BITS>(h2);
    [
        sum3(
            _mm512_and_si512(h0, mask),
            over,
            _mm512_slli_epi64::<2>(over),
        ),
        _mm512_and_si512(h1, mask),
        _mm512_and_si512(h2, _mm512_set1_epi64(TOP_LIMB_MASK)),
    ]
}

#[target_feature(enable = "avx512f")]
#[inline]
fn sum3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_add_epi64(a, b), c)
}

#[cfg(test)]
mod tests;
