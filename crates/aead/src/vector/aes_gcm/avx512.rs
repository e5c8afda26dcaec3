//! Vectors of four blocks: AVX-512 with VAES and VPCLMULQDQ.

use super::vectors::{Block, STACK_LEN, Vectors, Work};
use crate::vector::memory;
use core::arch::x86_64::*;

/// Proof that this processor has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// `None` where the processor or the operating system lacks AVX-512 with the vector forms of the
    /// AES instructions and of the carry-less product.
    pub(super) fn detect() -> Option<Self> {
        let present = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        present.then_some(Self(()))
    }
}

/// Runs instructions inside of a method of [`Avx512`].
macro_rules! with_features {
    ($work:expr) => {
        // SAFETY: an `Avx512` exists only where `detect` found the features.
        unsafe { $work }
    };
}

impl Vectors<4> for Avx512 {
    type Vector = __m512i;

    fn enter<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
        #[inline(never)]
        fn compiled<W: Work>(work: W) -> W::Output {
            work.run()
        }
        with_features!(compiled(work))
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        with_features!(_mm512_setzero_si512())
    }

    #[inline(always)]
    fn load(self, blocks: &[Block; 4]) -> __m512i {
        with_features!(memory::load_blocks(blocks))
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; 4], value: __m512i) {
        with_features!(memory::store_blocks(blocks, value));
    }

    #[inline(always)]
    fn load_partial(self, bytes: &[u8]) -> __m512i {
        with_features!(memory::load_partial(bytes))
    }

    #[inline(always)]
    fn store_partial(self, bytes: &mut [u8], value: __m512i) {
        with_features!(memory::store_partial(bytes, value));
    }

    #[inline(always)]
    fn front(self, value: __m512i, len: usize) -> __m512i {
        with_features!(_mm512_maskz_mov_epi8(memory::first(len), value))
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        with_features!(_mm512_xor_si512(a, b))
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // Miri does not know the instruction.
        if cfg!(miri) {
            return self.xor(self.xor(a, b), c);
        }
        with_features!(_mm512_ternarylogic_epi64::<0b1001_0110>(a, b, c))
    }

    #[inline(always)]
    fn round(self, state: __m512i, key: __m512i) -> __m512i {
        with_features!(_mm512_aesenc_epi128(state, key))
    }

    #[inline(always)]
    fn last_round(self, state: __m512i, key: __m512i) -> __m512i {
        with_features!(_mm512_aesenclast_epi128(state, key))
    }

    #[inline(always)]
    fn product<const HALVES: i32>(self, a: __m512i, b: __m512i) -> __m512i {
        with_features!(_mm512_clmulepi64_epi128::<HALVES>(a, b))
    }

    #[inline(always)]
    fn reverse(self, value: __m512i) -> __m512i {
        with_features!({
            let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            _mm512_shuffle_epi8(value, _mm512_broadcast_i32x4(order))
        })
    }

    #[inline(always)]
    fn shift_left(self, value: __m512i) -> __m512i {
        with_features!(_mm512_bslli_epi128::<8>(value))
    }

    #[inline(always)]
    fn shift_right(self, value: __m512i) -> __m512i {
        with_features!(_mm512_bsrli_epi128::<8>(value))
    }

    #[inline(always)]
    fn swap_halves(self, value: __m512i) -> __m512i {
        with_features!(_mm512_shuffle_epi32::<0b01_00_11_10>(value))
    }

    #[inline(always)]
    fn add_lanes(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        with_features!({
            let ab = _mm512_xor_si512(
                _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
                _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
            );
            let cd = _mm512_xor_si512(
                _mm512_shuffle_i64x2::<0b01_00_01_00>(c, d),
                _mm512_shuffle_i64x2::<0b11_10_11_10>(c, d),
            );
            _mm512_xor_si512(
                _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
                _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
            )
        })
    }

    #[inline(always)]
    fn differences(self, a: __m512i, b: __m512i) -> u32 {
        with_features!(u32::from(_mm512_cmpneq_epi64_mask(a, b)))
    }

    #[inline(always)]
    fn in_order(self, value: &mut __m512i) {
        with_features!(memory::in_order(value));
    }

    #[inline(always)]
    fn wipe_stack(self) {
        with_features!(memory::wipe_stack::<{ STACK_LEN / 64 }>());
    }
}
