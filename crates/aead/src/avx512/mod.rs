//! ChaCha20-Poly1305 of a whole batch with AVX-512
//! ([ADR 0003](../../../../docs/adr/0003-batched-chacha20-poly1305.md)).
//!
//! The records of a batch share the key and differ in their nonces, so the lanes of a vector may
//! hold blocks of different records: none is left partly used at the end of a record, and the
//! one-time Poly1305 keys of sixteen records are a single pass.
//!
//! A batch is worked on in groups of sixteen records, which fit the first-level cache.

#![expect(
    unsafe_code,
    reason = "entering functions compiled for more than the base processor"
)]

mod chacha;
mod memory;
mod poly;

use crate::{KEY_LEN, Layout, Opened, TAG_LEN};
use chacha::{BLOCK_LEN, Positions};
use core::arch::x86_64::*;
use core::ops::Range;
use zeroize::Zeroize;

/// Records that are worked on together: a one-time key for each comes out of one pass.
const GROUP: usize = chacha::LANES;

/// A key, and the proof that this processor has the instructions.
pub(crate) struct Wide {
    /// The key as the little-endian words of the ChaCha20 state.
    key: [u32; KEY_LEN / 4],
}

impl Wide {
    /// `None` where the processor or the operating system lacks AVX-512 with IFMA and VBMI2.
    pub(crate) fn detect(bytes: &[u8; KEY_LEN]) -> Option<Self> {
        let present = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512vbmi2");
        present.then(|| {
            let mut key = [0; KEY_LEN / 4];
            for (word, bytes) in key.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            Self { key }
        })
    }

    /// Whether `layout` has `buffer_len` bytes done sooner here than record by record. Measured on
    /// Zen 5: three records of any length gain, two where they have some length.
    pub(crate) fn gains(layout: Layout, buffer_len: usize) -> bool {
        const PAIR_LEN: usize = 1024;
        match layout.count(buffer_len) {
            0 | 1 => false,
            2 => buffer_len >= PAIR_LEN,
            _ => true,
        }
    }

    /// As [`crate::Key::seal_batch`].
    pub(crate) fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        // SAFETY: a `Wide` exists only where `detect` found the features.
        unsafe { seal_batch(&self.key, first_nonce, buffer, layout) }
    }

    /// As [`crate::Key::open_batch`], except that refused records stay as they were.
    pub(crate) fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        // SAFETY: a `Wide` exists only where `detect` found the features.
        unsafe { open_batch(&self.key, nonces, buffer, layout) }
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
fn seal_batch(key: &[u32; 8], first_nonce: u64, buffer: &mut [u8], layout: Layout) {
    let count = layout.count(buffer.len());
    let mut one_time = OneTimeKeys::none();
    for first in (0..count).step_by(GROUP) {
        let group = Group::new(first..(first + GROUP).min(count), buffer.len(), layout);
        let nonces = Nonces::new(core::array::from_fn(|lane| {
            first_nonce.wrapping_add((first + lane) as u64)
        }));
        one_time.generate(key, &nonces);
        group.apply_keystream(key, &nonces, buffer, !0);
        for half in 0..group.halves() {
            let tags = poly::tags(&one_time.half(half), group.messages(half, buffer));
            group.write_tags(half, buffer, tags);
        }
    }
    one_time.wipe();
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
fn open_batch(key: &[u32; 8], nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
    let complete = (0..layout.count(buffer.len()))
        .take_while(|&index| layout.sealed(index, buffer.len()).is_some())
        .count();
    let count = complete.min(nonces.len()).min(crate::MAX_RECORDS);
    let mut opened = Opened::NONE;
    let mut one_time = OneTimeKeys::none();
    for first in (0..count).step_by(GROUP) {
        let group = Group::new(first..(first + GROUP).min(count), buffer.len(), layout);
        let nonces = Nonces::new(core::array::from_fn(|lane| {
            nonces.get(first + lane).copied().unwrap_or_default()
        }));
        one_time.generate(key, &nonces);
        let mut authentic = 0;
        for half in 0..group.halves() {
            let tags = poly::tags(&one_time.half(half), group.messages(half, buffer));
            authentic |= u16::from(group.compare_tags(half, buffer, tags)) << (8 * half);
        }
        for lane in (0..group.count).filter(|lane| authentic >> lane & 1 == 1) {
            opened.set(first + lane);
        }
        group.apply_keystream(key, &nonces, buffer, authentic);
    }
    one_time.wipe();
    opened
}

/// Counters of sixteen records, as the two words of the ChaCha20 state that hold them.
struct Nonces {
    low: __m512i,
    high: __m512i,
}

impl Nonces {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn new(counters: [u64; GROUP]) -> Self {
        let low = counters.map(|counter| counter as u32);
        let high = counters.map(|counter| (counter >> 32) as u32);
        Self {
            low: memory::load_words(&low),
            high: memory::load_words(&high),
        }
    }
}

/// The Poly1305 keys of sixteen records: words 0 to 7 of their keystream blocks 0 (RFC 8439 §2.6).
struct OneTimeKeys([__m512i; 8]);

impl OneTimeKeys {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn none() -> Self {
        Self([_mm512_setzero_si512(); 8])
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn generate(&mut self, key: &[u32; 8], nonces: &Nonces) {
        let at = Positions {
            block: _mm512_setzero_si512(),
            nonce_low: nonces.low,
            nonce_high: nonces.high,
        };
        self.0.copy_from_slice(&chacha::blocks(key, at)[..8]);
    }

    /// The keys of eight records: the first half of the lanes, or the second.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn half(&self, half: usize) -> poly::Keys {
        let double_word = |low: __m512i, high: __m512i| {
            let [low, high] = [low, high].map(|words| {
                _mm512_cvtepu32_epi64(match half {
                    0 => _mm512_castsi512_si256(words),
                    _ => _mm512_extracti32x8_epi32::<1>(words),
                })
            });
            _mm512_or_si512(low, _mm512_slli_epi64::<32>(high))
        };
        let words = &self.0;
        poly::Keys {
            r: [
                double_word(words[0], words[1]),
                double_word(words[2], words[3]),
            ],
            s: [
                double_word(words[4], words[5]),
                double_word(words[6], words[7]),
            ],
        }
    }

    fn wipe(&mut self) {
        self.0.zeroize();
    }
}

/// Up to sixteen records of a batch.
struct Group {
    count: usize,
    /// Where the ciphertext of each begins; its tag follows it. Lanes without a record repeat the
    /// first.
    starts: [usize; GROUP],
    /// Bytes of each ciphertext.
    lens: [usize; GROUP],
}

impl Group {
    fn new(records: Range<usize>, buffer_len: usize, layout: Layout) -> Self {
        let count = records.len();
        let mut starts = [0; GROUP];
        let mut lens = [0; GROUP];
        for lane in 0..GROUP {
            let index = records.start + if lane < count { lane } else { 0 };
            let sealed = layout
                .sealed(index, buffer_len)
                .expect("every record has room for head and tag");
            starts[lane] = sealed.start;
            lens[lane] = sealed.len() - TAG_LEN;
        }
        Self {
            count,
            starts,
            lens,
        }
    }

    /// How many times eight lanes the records take.
    fn halves(&self) -> usize {
        self.count.div_ceil(poly::LANES)
    }

    /// The ciphertexts of one half.
    fn messages<'a>(&self, half: usize, buffer: &'a [u8]) -> [&'a [u8]; poly::LANES] {
        core::array::from_fn(|lane| {
            let lane = half * poly::LANES + lane;
            &buffer[self.starts[lane]..][..self.lens[lane]]
        })
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn write_tags(&self, half: usize, buffer: &mut [u8], tags: poly::Tags) {
        let [low, high] = tags.0.map(|words| memory::double_words(words));
        for lane in 0..poly::LANES.min(self.count - half * poly::LANES) {
            let record = half * poly::LANES + lane;
            let tag = &mut buffer[self.starts[record] + self.lens[record]..][..TAG_LEN];
            tag[..8].copy_from_slice(&low[lane].to_le_bytes());
            tag[8..].copy_from_slice(&high[lane].to_le_bytes());
        }
    }

    /// Bit `i` says whether record `i` of this half carries its tag. All bytes are compared.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn compare_tags(&self, half: usize, buffer: &[u8], tags: poly::Tags) -> u8 {
        let mut received = [[0; poly::LANES]; 2];
        for lane in 0..poly::LANES.min(self.count - half * poly::LANES) {
            let record = half * poly::LANES + lane;
            let tag = &buffer[self.starts[record] + self.lens[record]..][..TAG_LEN];
            for (words, bytes) in received.iter_mut().zip(tag.as_chunks().0) {
                words[lane] = u64::from_le_bytes(*bytes);
            }
        }
        let difference = _mm512_or_si512(
            _mm512_xor_si512(tags.0[0], memory::load_double_words(&received[0])),
            _mm512_xor_si512(tags.0[1], memory::load_double_words(&received[1])),
        );
        _mm512_testn_epi64_mask(difference, difference)
    }

    /// XORs the keystream, from block 1 on, to the records that `chosen` has a bit for.
    ///
    /// Jobs are numbered block by block, record by record within a block, and fill the lanes in
    /// this order: only the last pass may have lanes to spare.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn apply_keystream(&self, key: &[u32; 8], nonces: &Nonces, buffer: &mut [u8], chosen: u16) {
        let longest = self.lens[..self.count].iter().copied().max().unwrap_or(0);
        let shortest = self.lens[..self.count].iter().copied().min().unwrap_or(0);
        let dense = if self.count == GROUP && chosen == !0 {
            shortest / BLOCK_LEN
        } else {
            0
        };
        let jobs = self.count * longest.div_ceil(BLOCK_LEN);
        let mut lanes = LaneJobs::new(self.count);
        let mut cursor = Cursor {
            record: 0,
            block: 0,
        };
        let mut done = 0;
        while done < jobs {
            if jobs - done > chacha::LANES {
                let at = [lanes.next(nonces), lanes.next(nonces)];
                let [x, y] = chacha::blocks_twice(key, at);
                if cursor.block + 2 <= dense {
                    self.xor_dense(chacha::transpose(x), cursor.block, buffer);
                    self.xor_dense(chacha::transpose(y), cursor.block + 1, buffer);
                    cursor.block += 2;
                } else {
                    self.xor(chacha::transpose(x), &mut cursor, buffer, chosen);
                    self.xor(chacha::transpose(y), &mut cursor, buffer, chosen);
                }
                done += 2 * chacha::LANES;
            } else {
                let x = chacha::blocks(key, lanes.next(nonces));
                self.xor(chacha::transpose(x), &mut cursor, buffer, chosen);
                done += chacha::LANES;
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn xor_dense(&self, keystream: chacha::Blocks, block: usize, buffer: &mut [u8]) {
        macro_rules! xor {
            ($($lane:literal)+) => {$(
                let start = self.starts[$lane] + block * BLOCK_LEN;
                let data = buffer[start..].first_chunk_mut().expect("the caller counted whole blocks");
                memory::store(data, _mm512_xor_si512(memory::load(data), keystream[$lane]));
            )+};
        }
        xor!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn xor(&self, keystream: chacha::Blocks, cursor: &mut Cursor, buffer: &mut [u8], chosen: u16) {
        for block in keystream {
            let Cursor {
                record,
                block: index,
            } = *cursor;
            let offset = index * BLOCK_LEN;
            if offset < self.lens[record] && chosen >> record & 1 == 1 {
                let data = &mut buffer[self.starts[record]..][..self.lens[record]][offset..];
                if let Some(whole) = data.first_chunk_mut() {
                    memory::store(whole, _mm512_xor_si512(memory::load(whole), block));
                } else {
                    let sum = _mm512_xor_si512(memory::load_partial(data), block);
                    memory::store_partial(data, sum);
                }
            }
            cursor.advance(self.count);
        }
    }
}

/// The job of a lane: a record, and a block of its data.
struct Cursor {
    record: usize,
    block: usize,
}

impl Cursor {
    fn advance(&mut self, count: usize) {
        self.record += 1;
        if self.record == count {
            self.record = 0;
            self.block += 1;
        }
    }
}

/// The jobs of sixteen lanes, as vectors.
struct LaneJobs {
    records: __m512i,
    /// The block counter, which for the data "starts at 1".
    blocks: __m512i,
    count: __m512i,
    record_step: __m512i,
    block_step: __m512i,
}

impl LaneJobs {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn new(count: usize) -> Self {
        let splat = |value: usize| _mm512_set1_epi32(value as i32);
        Self {
            records: memory::load_words(&core::array::from_fn(|lane| (lane % count) as u32)),
            blocks: memory::load_words(&core::array::from_fn(|lane| (1 + lane / count) as u32)),
            count: splat(count),
            record_step: splat(chacha::LANES % count),
            block_step: splat(chacha::LANES / count),
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn next(&mut self, nonces: &Nonces) -> Positions {
        let at = Positions {
            block: self.blocks,
            nonce_low: _mm512_permutexvar_epi32(self.records, nonces.low),
            nonce_high: _mm512_permutexvar_epi32(self.records, nonces.high),
        };
        self.records = _mm512_add_epi32(self.records, self.record_step);
        self.blocks = _mm512_add_epi32(self.blocks, self.block_step);
        let wrapped = _mm512_cmpge_epu32_mask(self.records, self.count);
        self.records = _mm512_mask_sub_epi32(self.records, wrapped, self.records, self.count);
        let one = _mm512_set1_epi32(1);
        self.blocks = _mm512_mask_add_epi32(self.blocks, wrapped, self.blocks, one);
        at
    }
}
