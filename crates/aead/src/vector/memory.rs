//! The loads and stores of this implementation: the only unsafe code besides the calls into it and the
//! block function of ChaCha20 in assembly.

use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// Loads 64 bytes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
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

/// Loads four blocks of 16 bytes that lie side by side.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_blocks(blocks: &[[u8; 16]; 4]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

/// Stores the front of `value` to at most the first 64 bytes of `bytes`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn store_partial(bytes: &mut [u8], value: __m512i) {
    // SAFETY: the mask selects only bytes inside the slice, others are not accessed.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first(bytes.len()), value) }
}

/// Stores four blocks of 16 bytes side by side.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_blocks(blocks: &mut [[u8; 16]; 4], value: __m512i) {
    // SAFETY: the reference covers the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), value) }
}

/// XORs the front of `value` to at most the first 64 bytes of `bytes`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn xor_front(bytes: &mut [u8], value: __m512i) {
    store_partial(bytes, _mm512_xor_si512(load_partial(bytes), value));
}

/// Sixteen rows of 64 bytes somewhere in a buffer.
pub(super) struct Rows<'a> {
    /// All of them lie inside.
    buffer: &'a mut [u8],
    offsets: [u32; 16],
}

impl<'a> Rows<'a> {
    /// Those that begin at `offsets`.
    ///
    /// # Panics
    /// If one does not lie in the buffer.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn new(buffer: &'a mut [u8], offsets: __m512i) -> Self {
        let end = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let last = end.checked_sub(64).expect("the buffer holds a row");
        let last = _mm512_set1_epi32(last.cast_signed());
        assert!(
            _mm512_cmple_epu32_mask(offsets, last) == !0,
            "every row lies in the buffer"
        );
        let offsets = words(offsets);
        Self { buffer, offsets }
    }

    /// XORs `value` to row `row`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn xor(&mut self, row: usize, value: __m512i) {
        let offset = self.offsets[row] as usize;
        // SAFETY: 64 bytes from each offset on are inside of the buffer, as `new` made sure; loads and
        // stores need no alignment.
        unsafe {
            let at = self.buffer.as_mut_ptr().add(offset).cast();
            _mm512_storeu_si512(at, _mm512_xor_si512(_mm512_loadu_si512(at), value));
        }
    }
}

/// The sixteen 32-bit words of a vector.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn words(value: __m512i) -> [u32; 16] {
    let mut words = [0; 16];
    // SAFETY: the array covers the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) };
    words
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

/// Has `value` ready here: no instruction, but the compiler keeps such places in their order. Left
/// alone it gathers what is alike, and the processor sees too few instructions ahead to find work for
/// all of its units.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn in_order(value: &mut __m512i) {
    // Miri runs no assembly.
    if cfg!(miri) {
        return;
    }
    // SAFETY: there is no instruction.
    unsafe {
        asm!(
            "/* {0} */",
            inout(zmm_reg) * value,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Wipes what the functions that its caller called before have left in as many vectors of the stack:
/// one-time keys, powers, keystream. The compiler promises nothing about where those lay, so this is the best
/// that can be done, not a guarantee; registers are overwritten by whatever comes next.
#[target_feature(enable = "avx512f")]
#[inline(never)]
pub(super) fn wipe_stack<const VECTORS: usize>() {
    let mut below = [const { MaybeUninit::<__m512i>::uninit() }; VECTORS];
    for vector in &mut below {
        // SAFETY: a reference is valid for writes. Volatile, because nothing reads it afterwards.
        unsafe { vector.as_mut_ptr().write_volatile(_mm512_setzero_si512()) };
    }
}

/// A mask of the first `len` bytes of a vector; all of them from 64 on.
pub(super) fn first(len: usize) -> __mmask64 {
    if len < 64 { (1 << len) - 1 } else { !0 }
}
