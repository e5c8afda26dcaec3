//! The assignment of keystream blocks to lanes, and the places where the blocks are used.

use super::chacha::{self, BLOCK_LEN, Blocks, LANES, Positions};
use super::group::{GROUP, Group};
use super::memory;
use core::arch::x86_64::*;

/// The keystream blocks of a group that are not worked out yet.
///
/// Every (record, block) pair is a job. Jobs are numbered block by block, record by record within a
/// block, and fill the lanes in this order. So blocks 0, which hold the one-time keys (RFC 8439
/// §2.6), come first, that of record `i` in lane `i`; and only the last lanes may find no job.
pub(super) struct Jobs {
    left: usize,
    /// The jobs of the next sixteen lanes.
    records: __m512i,
    blocks: __m512i,
    /// The distance from their jobs to those of the sixteen lanes after them.
    record_step: __m512i,
    block_step: __m512i,
    count: __m512i,
    /// The counters of the records, as the two words of the ChaCha20 state that hold them.
    nonces: [__m512i; 2],
    starts: __m512i,
}

/// Sixteen jobs.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) at: Positions,
    records: __m512i,
    /// The start of the block's data in the buffer; of no meaning for blocks 0.
    offsets: __m512i,
}

impl Jobs {
    /// All blocks of the records of `group`, record `i` under `counters[i]`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn new(group: &Group, counters: &[u64; GROUP]) -> Self {
        let count = group.count;
        let splat = |value: usize| _mm512_set1_epi32(value as i32);
        let (mut record, mut block) = (0, 0);
        let mut records = [0; LANES];
        let mut blocks = [0; LANES];
        for lane in 0..LANES {
            (records[lane], blocks[lane]) = (record, block);
            (record, block) = if record + 1 < count as u32 {
                (record + 1, block)
            } else {
                (0, block + 1)
            };
        }
        Self {
            left: count * (1 + group.longest.div_ceil(BLOCK_LEN)),
            records: memory::load_words(&records),
            blocks: memory::load_words(&blocks),
            record_step: splat(LANES % count),
            block_step: splat(LANES / count),
            count: splat(count),
            nonces: [
                memory::load_words(&counters.map(|counter| counter as u32)),
                memory::load_words(&counters.map(|counter| (counter >> 32) as u32)),
            ],
            starts: memory::load_words(&group.starts),
        }
    }

    /// The number of jobs that are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The next sixteen; where fewer are left, the last lanes lie behind the end of their records.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn take(&mut self) -> Taken {
        let one = _mm512_set1_epi32(1);
        let before = _mm512_slli_epi32::<{ BLOCK_LEN.ilog2() }>(_mm512_sub_epi32(self.blocks, one));
        let start = _mm512_permutexvar_epi32(self.records, self.starts);
        let taken = Taken {
            at: Positions {
                block: self.blocks,
                nonce_low: _mm512_permutexvar_epi32(self.records, self.nonces[0]),
                nonce_high: _mm512_permutexvar_epi32(self.records, self.nonces[1]),
            },
            records: self.records,
            offsets: _mm512_add_epi32(start, before),
        };
        self.left = self.left.saturating_sub(LANES);
        let records = _mm512_add_epi32(self.records, self.record_step);
        let blocks = _mm512_add_epi32(self.blocks, self.block_step);
        let wrapped = _mm512_cmpge_epu32_mask(records, self.count);
        self.records = _mm512_mask_sub_epi32(records, wrapped, records, self.count);
        self.blocks = _mm512_mask_add_epi32(blocks, wrapped, blocks, one);
        taken
    }
}

impl Taken {
    /// XORs these blocks, given word by word, to the data of `buffer`; `ends` holds for each record
    /// where its data ends, zero where it shall stay as it is.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline(never)]
    pub(super) fn xor(&self, words: &Blocks, ends: __m512i, buffer: &mut [u8]) {
        let end = _mm512_permutexvar_epi32(self.records, ends);
        let is_data = _mm512_test_epi32_mask(self.at.block, self.at.block);
        // Below zero where the record ended before.
        let left = _mm512_maskz_sub_epi32(is_data, end, self.offsets);
        let whole = _mm512_set1_epi32(BLOCK_LEN as i32);
        if _mm512_cmpge_epi32_mask(left, whole) == !0 {
            let mut rows = memory::Rows::new(buffer, self.offsets);
            chacha::transpose(words, |row, block| rows.xor(row, block));
        } else {
            self.xor_parts(words, left, buffer);
        }
    }

    /// As [`Taken::xor`], where not every lane has 64 bytes of data left.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline(never)]
    fn xor_parts(&self, words: &Blocks, left: __m512i, buffer: &mut [u8]) {
        let left = memory::words(left).map(u32::cast_signed);
        let offsets = memory::words(self.offsets);
        let mut blocks = *words;
        chacha::transpose(words, |row, block| blocks[row] = block);
        for lane in 0..LANES {
            if left[lane] > 0 {
                let data = &mut buffer[offsets[lane] as usize..][..left[lane] as usize];
                memory::xor_front(data, blocks[lane]);
            }
        }
    }
}
