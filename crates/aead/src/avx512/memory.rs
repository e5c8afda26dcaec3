//! The loads and stores of this implementation: the only unsafe code besides the calls into it.

use core::arch::x86_64::*;

/// Loads 64 bytes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Stores 64 bytes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store(bytes: &mut [u8; 64], value: __m512i) {
    // SAFETY: the reference covers the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) }
}

/// Loads at most the first 64 bytes of `bytes`; the rest of the vector is zero.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn load_partial(bytes: &[u8]) -> __m512i {
    if bytes.is_empty() {
        // Their address may be none at all, which costs the processor a suppressed fault.
        return _mm512_setzero_si512();
    }
    // SAFETY: the mask selects only bytes inside the slice, others are not accessed.
    unsafe { _mm512_maskz_loadu_epi8(first(bytes.len()), bytes.as_ptr().cast()) }
}

/// Stores the front of `value` to at most the first 64 bytes of `bytes`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn store_partial(bytes: &mut [u8], value: __m512i) {
    // SAFETY: the mask selects only bytes inside the slice, others are not accessed.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first(bytes.len()), value) }
}

/// Loads sixteen 32-bit words.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_words(words: &[u32; 16]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Loads eight 64-bit words.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_double_words(words: &[u64; 8]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The eight 64-bit words of a vector.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn double_words(value: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: the array covers the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) };
    words
}

/// A mask of the first `len` bytes of a vector; all of them from 64 on.
fn first(len: usize) -> __mmask64 {
    if len < 64 { (1 << len) - 1 } else { !0 }
}
