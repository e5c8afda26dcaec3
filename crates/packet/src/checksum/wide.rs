//! Summing, and copying besides, by 512-bit vectors where the processor has them: half of the time of the loops that are
//! compiled for every processor. `cargo run --release -p culvert-packet --example packet_speed`

#![expect(unsafe_code, reason = "vectors are read and written through pointers")]

use super::lanes::{BLOCK, RUN_BLOCKS};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_sub_epi32,
};

/// Bytes of a vector, and of a cache line.
const VECTOR: usize = 64;

/// One vector more than the runs of narrower ones, which a lane has room for: the first may be a part.
const RUN_BYTES: usize = RUN_BLOCKS * BLOCK;

/// The sum of `bytes`; `None` where the processor lacks the vectors.
pub(super) fn sum(bytes: &[u8]) -> Option<u64> {
    // SAFETY: the processor has what the function is compiled for.
    is_available().then(|| unsafe { sum_in_runs(bytes) })
}

/// The same while copying into `to`, which is as long. If it is `None`, nothing was copied.
pub(super) fn copy_and_sum(from: &[u8], to: &mut [u8]) -> Option<u64> {
    // SAFETY: the processor has what the function is compiled for.
    is_available().then(|| unsafe { copy_and_sum_in_runs(from, to) })
}

fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

#[target_feature(enable = "avx512f,avx512bw")]
fn sum_in_runs(bytes: &[u8]) -> u64 {
    bytes.chunks(RUN_BYTES).map(|run| sum_run(run)).sum()
}

#[target_feature(enable = "avx512f,avx512bw")]
fn copy_and_sum_in_runs(from: &[u8], to: &mut [u8]) -> u64 {
    let runs = from.chunks(RUN_BYTES).zip(to.chunks_mut(RUN_BYTES));
    runs.map(|(from, to)| copy_and_sum_run(from, to)).sum()
}

#[target_feature(enable = "avx512f,avx512bw")]
fn sum_run(run: &[u8]) -> u64 {
    let (mut even, mut odd) = (Lanes::zero(), Lanes::zero());
    let (pairs, rest) = run.as_chunks::<{ 2 * VECTOR }>();
    for pair in pairs {
        let [one, other] = halves(pair);
        even = even.plus(load(one));
        odd = odd.plus(load(other));
    }
    for part in rest.chunks(VECTOR) {
        even = even.plus(load_part(part));
    }
    Lanes::total(even, odd)
}

/// A store that crosses a cache line takes two, so all but the first and the last begin at one. That needs an even
/// distance to it: the two bytes of a word must not change places.
#[target_feature(enable = "avx512f,avx512bw")]
fn copy_and_sum_run(from: &[u8], to: &mut [u8]) -> u64 {
    let (mut even, mut odd) = (Lanes::zero(), Lanes::zero());
    let to_line = to.as_ptr().align_offset(VECTOR);
    let head = if to_line.is_multiple_of(2) {
        to_line.min(from.len() & !1)
    } else {
        0
    };
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    even = even.plus(copy_part(from_head, to_head));
    let (pairs, rest) = from.as_chunks::<{ 2 * VECTOR }>();
    let (to_pairs, to_rest) = to.as_chunks_mut::<{ 2 * VECTOR }>();
    for (pair, to_pair) in pairs.iter().zip(to_pairs) {
        let [from_one, from_other] = halves(pair);
        let (one, other) = (load(from_one), load(from_other));
        let (to_halves, _) = to_pair.as_chunks_mut();
        store(&mut to_halves[0], one);
        store(&mut to_halves[1], other);
        even = even.plus(one);
        odd = odd.plus(other);
    }
    for (part, to_part) in rest.chunks(VECTOR).zip(to_rest.chunks_mut(VECTOR)) {
        even = even.plus(copy_part(part, to_part));
    }
    Lanes::total(even, odd)
}

/// The sums of `lanes.rs` in two vectors.
#[derive(Clone, Copy)]
struct Lanes {
    all: __m512i,
    high: __m512i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self {
            all: zero,
            high: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn plus(self, words: __m512i) -> Self {
        Self {
            all: _mm512_add_epi32(self.all, words),
            high: _mm512_add_epi32(self.high, _mm512_srli_epi32::<16>(words)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn total(one: Self, other: Self) -> u64 {
        let all = _mm512_add_epi32(one.all, other.all);
        let high = _mm512_add_epi32(one.high, other.high);
        let low = _mm512_sub_epi32(all, _mm512_slli_epi32::<16>(high));
        let sums = _mm512_add_epi64(in_pairs(low), in_pairs(high));
        _mm512_reduce_add_epi64(sums).cast_unsigned()
    }
}

/// The sum of each two neighbouring lanes of 32 bits, in one of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn in_pairs(lanes: __m512i) -> __m512i {
    let even = _mm512_and_si512(lanes, _mm512_set1_epi64(0xFFFF_FFFF));
    _mm512_add_epi64(even, _mm512_srli_epi64::<32>(lanes))
}

#[inline]
fn halves(pair: &[u8; 2 * VECTOR]) -> [&[u8; VECTOR]; 2] {
    let (halves, _) = pair.as_chunks();
    [&halves[0], &halves[1]]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(vector: &[u8; VECTOR]) -> __m512i {
    // SAFETY: that many bytes are there, and any alignment will do.
    unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(vector: &mut [u8; VECTOR], words: __m512i) {
    // SAFETY: there is room for that many bytes, and any alignment will do.
    unsafe { _mm512_storeu_si512(vector.as_mut_ptr().cast(), words) }
}

/// Fewer bytes than a vector, or just as many, followed by zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_part(part: &[u8]) -> __m512i {
    // SAFETY: bytes that are not in the mask are not touched.
    unsafe { _mm512_maskz_loadu_epi8(mask_of(part.len()), part.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn copy_part(from: &[u8], to: &mut [u8]) -> __m512i {
    let words = load_part(from);
    let mask = mask_of(from.len().min(to.len()));
    // SAFETY: bytes that are not in the mask are not touched.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, words) };
    words
}

/// A bit for each of the first `len` bytes of a vector.
fn mask_of(len: usize) -> u64 {
    u64::MAX.checked_shr((VECTOR - len) as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::lanes::sum_lanes;
    use crate::checksum::sum::Sum;

    fn folded(sum: u64) -> u16 {
        Sum(sum).folded()
    }

    #[test]
    fn wide_vectors_make_the_same_sums_and_copies() {
        let bytes: Vec<u8> = (0..400u32).map(|at| (at * at % 251) as u8 | 0x80).collect();
        // Every length up to some vectors, from every alignment to a word, to some to a line.
        for start in 0..8 {
            for end in start..bytes.len() {
                let part = &bytes[start..end];
                let expected = folded(sum_lanes(part));
                let Some(sum) = sum(part) else { return };
                assert_eq!(folded(sum), expected, "{start}..{end}");
                for to_start in [0, 1, 2, 17, 32, 62, 63] {
                    let mut copied = vec![0; part.len() + to_start + 1];
                    let sum = copy_and_sum(part, &mut copied[to_start..][..part.len()]);
                    assert_eq!(
                        sum.map(folded),
                        Some(expected),
                        "{start}..{end} to {to_start}"
                    );
                    assert_eq!(&copied[to_start..][..part.len()], part);
                    assert_eq!(copied.last(), Some(&0), "nothing behind it is written");
                    assert!(copied[..to_start].iter().all(|&byte| byte == 0));
                }
            }
        }
    }
}
