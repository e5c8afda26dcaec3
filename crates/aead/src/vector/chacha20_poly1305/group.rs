//! Up to sixteen records of a batch: where they lie, and their tags.

use super::one_time_keys::OneTimeKeys;
use super::{memory, poly};
use crate::{Layout, TAG_LEN};
use core::arch::x86_64::*;
use core::ops::Range;

/// Records that are worked on together: as many as sixteen lanes have one-time keys for.
pub(super) const GROUP: usize = super::chacha::LANES;

/// Up to sixteen records of a batch.
pub(super) struct Group {
    /// The number of records, at least one.
    pub(super) count: usize,
    /// The start of each ciphertext. Lanes without a record repeat the first.
    pub(super) starts: [u32; GROUP],
    /// The end of each ciphertext; its tag follows.
    ends: [u32; GROUP],
    /// Bytes of the longest ciphertext.
    pub(super) longest: usize,
}

impl Group {
    /// The `records` of a batch, at most sixteen.
    ///
    /// # Panics
    /// If a record has no room for head and tag, or ends past the first 4 GiB.
    pub(super) fn new(records: Range<usize>, buffer_len: usize, layout: Layout) -> Self {
        let mut group = Self {
            count: records.len(),
            starts: [0; GROUP],
            ends: [0; GROUP],
            longest: 0,
        };
        for lane in 0..GROUP {
            let index = records.start + if lane < records.len() { lane } else { 0 };
            let sealed = layout
                .sealed(index, buffer_len)
                .expect("every record has room for head and tag");
            let offset = |at| u32::try_from(at).expect("buffers are below MAX_BUFFER_LEN");
            group.starts[lane] = offset(sealed.start);
            group.ends[lane] = offset(sealed.end - TAG_LEN);
            group.longest = group.longest.max(sealed.len() - TAG_LEN);
        }
        group
    }

    /// A bit for each record.
    pub(super) fn all(&self) -> u16 {
        u16::MAX >> (GROUP - self.count)
    }

    /// The ends of the ciphertexts of the `chosen` records, zero for the others.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn ends(&self, chosen: u16) -> __m512i {
        _mm512_maskz_mov_epi32(chosen, memory::load_words(&self.ends))
    }

    /// Authenticates the ciphertexts and writes their tags.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
    pub(super) fn write_tags(&self, keys: &OneTimeKeys, buffer: &mut [u8]) {
        for half in 0..self.halves() {
            let tags = poly::tags(&keys.half(half), self.messages(half, buffer));
            let [low, high] = tags.0.map(|words| memory::double_words(words));
            for (lane, record) in self.records(half).enumerate() {
                let tag = &mut buffer[self.ends[record] as usize..][..TAG_LEN];
                tag[..8].copy_from_slice(&low[lane].to_le_bytes());
                tag[8..].copy_from_slice(&high[lane].to_le_bytes());
            }
        }
    }

    /// A bit for each record whose tag is right. All bytes of all tags are compared.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
    pub(super) fn authentic(&self, keys: &OneTimeKeys, buffer: &[u8]) -> u16 {
        let mut authentic = 0;
        for half in 0..self.halves() {
            let tags = poly::tags(&keys.half(half), self.messages(half, buffer));
            let mut received = [[0; poly::LANES]; 2];
            for (lane, record) in self.records(half).enumerate() {
                let tag = &buffer[self.ends[record] as usize..][..TAG_LEN];
                for (words, bytes) in received.iter_mut().zip(tag.as_chunks().0) {
                    words[lane] = u64::from_le_bytes(*bytes);
                }
            }
            let difference = _mm512_or_si512(
                _mm512_xor_si512(tags.0[0], memory::load_double_words(&received[0])),
                _mm512_xor_si512(tags.0[1], memory::load_double_words(&received[1])),
            );
            let same = _mm512_testn_epi64_mask(difference, difference);
            authentic |= u16::from(same) << (half * poly::LANES);
        }
        authentic & self.all()
    }

    /// The number of times eight lanes that the records take.
    fn halves(&self) -> usize {
        self.count.div_ceil(poly::LANES)
    }

    /// The records of one half.
    fn records(&self, half: usize) -> Range<usize> {
        half * poly::LANES..((half + 1) * poly::LANES).min(self.count)
    }

    /// The ciphertexts of one half.
    fn messages<'a>(&self, half: usize, buffer: &'a [u8]) -> [&'a [u8]; poly::LANES] {
        core::array::from_fn(|lane| {
            let lane = half * poly::LANES + lane;
            &buffer[self.starts[lane] as usize..self.ends[lane] as usize]
        })
    }
}
