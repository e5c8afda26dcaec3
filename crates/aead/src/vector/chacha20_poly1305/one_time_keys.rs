//! The one-time keys of Poly1305, out of blocks of ChaCha20.

use super::chacha::Blocks;
use super::poly;
use core::arch::x86_64::*;

/// The Poly1305 keys of sixteen records, "the first 256 bits of the serialized state" of their
/// blocks 0 (RFC 8439 §2.6), word by word.
pub(super) struct OneTimeKeys([__m512i; 8]);

impl OneTimeKeys {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn new(words: &Blocks) -> Self {
        let [w0, w1, w2, w3, w4, w5, w6, w7, ..] = *words;
        Self([w0, w1, w2, w3, w4, w5, w6, w7])
    }

    /// The keys of eight records: the first half of the lanes, or the second.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    pub(super) fn half(&self, half: usize) -> poly::Keys {
        let double_word = |low: __m512i, high: __m512i| {
            let [low, high] = [low, high].map(|words| {
                _mm512_cvtepu32_epi64(match half {
                    0 => _mm512_castsi512_si256(words),
                    _ => _mm512_extracti32x8_epi32::<1>(words),
                })
            });
            _mm512_or_si512(low, _mm512_slli_epi64::<32>(high))
        };
        let [r0, r1, r2, r3, s0, s1, s2, s3] = self.0;
        poly::Keys {
            r: [double_word(r0, r1), double_word(r2, r3)],
            s: [double_word(s0, s1), double_word(s2, s3)],
        }
    }
}
