//! Vectors of two blocks: AVX2 with VAES and VPCLMULQDQ.

use super::vectors::{Block, STACK_LEN, Vectors, Work};
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// Proof that this processor has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// `None` where the processor or the operating system lacks AVX2 with the vector forms of the
    /// AES instructions and of the carry-less product.
    pub(super) fn detect() -> Option<Self> {
        let present = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        present.then_some(Self(()))
    }
}

/// Runs instructions inside of a method of [`Avx2`].
macro_rules! with_features {
    ($work:expr) => {
        // SAFETY: an `Avx2` exists only where `detect` found the features. If there is a pointer,
        // it is that of a reference to as many bytes as are accessed, which need no alignment.
        unsafe { $work }
    };
}

impl Vectors<2> for Avx2 {
    type Vector = __m256i;

    fn enter<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx2,vaes,vpclmulqdq")]
        #[inline(never)]
        fn compiled<W: Work>(work: W) -> W::Output {
            work.run()
        }
        with_features!(compiled(work))
    }

    #[inline(always)]
    fn zero(self) -> __m256i {
        with_features!(_mm256_setzero_si256())
    }

    #[inline(always)]
    fn load(self, blocks: &[Block; 2]) -> __m256i {
        with_features!(_mm256_loadu_si256(blocks.as_ptr().cast()))
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block; 2], value: __m256i) {
        with_features!(_mm256_storeu_si256(blocks.as_mut_ptr().cast(), value));
    }

    #[inline(always)]
    fn load_partial(self, bytes: &[u8]) -> __m256i {
        let mut blocks = [[0; 16]; 2];
        blocks.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
        self.load(&blocks)
    }

    #[inline(always)]
    fn store_partial(self, bytes: &mut [u8], value: __m256i) {
        bytes.copy_from_slice(&self.blocks(value).as_flattened()[..bytes.len()]);
    }

    #[inline(always)]
    fn front(self, value: __m256i, len: usize) -> __m256i {
        /// As many set bytes as a vector has, and as many that are not.
        static EDGE: [[Block; 2]; 2] = [[[0xff; 16]; 2], [[0; 16]; 2]];
        let mask = EDGE.as_flattened().as_flattened()[32 - len..]
            .first_chunk::<32>()
            .expect("at most 32 bytes before the edge");
        with_features!(_mm256_and_si256(
            value,
            _mm256_loadu_si256(mask.as_ptr().cast())
        ))
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        with_features!(_mm256_xor_si256(a, b))
    }

    #[inline(always)]
    fn xor3(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        self.xor(self.xor(a, b), c)
    }

    #[inline(always)]
    fn round(self, state: __m256i, key: __m256i) -> __m256i {
        with_features!(_mm256_aesenc_epi128(state, key))
    }

    #[inline(always)]
    fn last_round(self, state: __m256i, key: __m256i) -> __m256i {
        with_features!(_mm256_aesenclast_epi128(state, key))
    }

    #[inline(always)]
    fn product<const HALVES: i32>(self, a: __m256i, b: __m256i) -> __m256i {
        with_features!(_mm256_clmulepi64_epi128::<HALVES>(a, b))
    }

    #[inline(always)]
    fn reverse(self, value: __m256i) -> __m256i {
        with_features!({
            let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            _mm256_shuffle_epi8(value, _mm256_broadcastsi128_si256(order))
        })
    }

    #[inline(always)]
    fn shift_left(self, value: __m256i) -> __m256i {
        with_features!(_mm256_bslli_epi128::<8>(value))
    }

    #[inline(always)]
    fn shift_right(self, value: __m256i) -> __m256i {
        with_features!(_mm256_bsrli_epi128::<8>(value))
    }

    #[inline(always)]
    fn swap_halves(self, value: __m256i) -> __m256i {
        with_features!(_mm256_shuffle_epi32::<0b01_00_11_10>(value))
    }

    #[inline(always)]
    fn add_lanes(self, [a, b]: [__m256i; 2]) -> __m256i {
        with_features!(_mm256_xor_si256(
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x31>(a, b),
        ))
    }

    #[inline(always)]
    fn differences(self, a: __m256i, b: __m256i) -> u32 {
        let same = with_features!(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(
            a, b
        ))));
        !same.cast_unsigned() & 0b1111
    }

    #[inline(always)]
    fn in_order(self, value: &mut __m256i) {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn in_order(value: &mut __m256i) {
            // Miri runs no assembly.
            if cfg!(miri) {
                return;
            }
            // SAFETY: there is no instruction.
            unsafe {
                asm!(
                    "/* {0} */",
                    inout(ymm_reg) * value,
                    options(nomem, nostack, preserves_flags)
                );
            }
        }
        with_features!(in_order(value));
    }

    #[inline(always)]
    fn wipe_stack(self) {
        #[target_feature(enable = "avx2")]
        #[inline(never)]
        fn wipe() {
            let mut below = [const { MaybeUninit::<__m256i>::uninit() }; STACK_LEN / 32];
            for vector in &mut below {
                // SAFETY: a reference is valid for writes. Volatile, because nothing reads it
                // afterwards.
                unsafe { vector.as_mut_ptr().write_volatile(_mm256_setzero_si256()) };
            }
        }
        with_features!(wipe());
    }
}
