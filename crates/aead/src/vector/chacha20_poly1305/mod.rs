//! ChaCha20-Poly1305 of a whole batch
//! ([ADR 0003](../../../../../docs/adr/0003-batched-chacha20-poly1305.md)).
//!
//! The records of a batch share the key and differ in their nonces, so the lanes of a vector may
//! hold blocks of different records. No lane stays unused at the end of a record, and one pass
//! makes the one-time Poly1305 keys of sixteen records.
//!
//! A batch is worked on in groups of sixteen records, which the first-level cache holds.

mod chacha;
mod group;
mod jobs;
mod one_time_keys;
mod poly;

use super::memory;
use super::openable::openable;
use crate::{KEY_LEN, Layout, Opened};
use chacha::LANES;
use core::arch::x86_64::*;
use group::{GROUP, Group};
use jobs::Jobs;
use one_time_keys::OneTimeKeys;
use zeroize::Zeroize;

/// The longest buffer that is worked on here: offsets are 32-bit lanes, and their differences must
/// fit a signed one.
const MAX_BUFFER_LEN: usize = 1 << 30;

/// The stack depth of a batch in vectors: the frames of `seal` or `open`, of `crypt` and of
/// `poly::tags` are 6 KiB together in an optimised build.
const STACK_VECTORS: usize = 104;

/// A key, and the proof that this processor has the instructions.
pub(crate) struct Wide {
    /// The key as the little-endian words of the ChaCha20 state. Boxed, so that moving it leaves
    /// no copies behind.
    key: Box<[u32; KEY_LEN / 4]>,
}

impl Wide {
    /// `None` where the processor or the operating system lacks AVX-512 with IFMA and VBMI2.
    pub(super) fn detect(bytes: &[u8; KEY_LEN]) -> Option<Self> {
        let present = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512vbmi2");
        present.then(|| {
            let mut key = Box::new([0; KEY_LEN / 4]);
            for (word, bytes) in key.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            Self { key }
        })
    }

    /// True if a batch can be processed here, and is faster that way than record by record. A
    /// single record is not: its 24 blocks leave lanes empty, and its Poly1305 leaves seven of
    /// eight empty.
    pub(super) fn gains(&self, layout: Layout, buffer_len: usize) -> bool {
        buffer_len <= MAX_BUFFER_LEN && layout.count(buffer_len) > 1
    }

    /// As [`crate::Key::seal_batch`], for at most [`MAX_BUFFER_LEN`] bytes.
    pub(super) fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        assert!(buffer.len() <= MAX_BUFFER_LEN);
        // SAFETY: a `Wide` exists only where `detect` found the features.
        unsafe {
            seal(&self.key, first_nonce, buffer, layout);
            memory::wipe_stack::<STACK_VECTORS>();
        }
    }

    /// As [`crate::Key::open_batch`], for at most [`MAX_BUFFER_LEN`] bytes; refused records stay
    /// as they were.
    pub(super) fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        assert!(buffer.len() <= MAX_BUFFER_LEN);
        // SAFETY: a `Wide` exists only where `detect` found the features.
        unsafe {
            let opened = open(&self.key, nonces, buffer, layout);
            memory::wipe_stack::<STACK_VECTORS>();
            opened
        }
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
#[inline(never)]
fn seal(key: &[u32; 8], first_nonce: u64, buffer: &mut [u8], layout: Layout) {
    let count = layout.count(buffer.len());
    for first in (0..count).step_by(GROUP) {
        let group = Group::new(first..(first + GROUP).min(count), buffer.len(), layout);
        let counters = core::array::from_fn(|lane| first_nonce.wrapping_add((first + lane) as u64));
        crypt(Direction::Seal, key, &group, &counters, buffer);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
#[inline(never)]
fn open(key: &[u32; 8], nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
    let count = openable(nonces, buffer.len(), layout);
    let mut opened = Opened::NONE;
    for first in (0..count).step_by(GROUP) {
        let group = Group::new(first..(first + GROUP).min(count), buffer.len(), layout);
        let counters =
            core::array::from_fn(|lane| nonces.get(first + lane).copied().unwrap_or_default());
        let authentic = crypt(Direction::Open, key, &group, &counters, buffer);
        for lane in (0..group.count).filter(|lane| authentic >> lane & 1 == 1) {
            opened.set(first + lane);
        }
    }
    opened
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Seal,
    Open,
}

/// Seals or opens a group. Bit `i` of what it returns says whether record `i` has been sealed, or
/// was authentic and has been opened.
///
/// One function for both, so that there is one copy of the rounds and its state stays in registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
fn crypt(
    direction: Direction,
    key: &[u32; 8],
    group: &Group,
    counters: &[u64; GROUP],
    buffer: &mut [u8],
) -> u16 {
    let mut jobs = Jobs::new(group, counters);
    let mut one_time = None;
    let mut chosen = group.all();
    let mut words = [[_mm512_setzero_si512(); LANES]; 2];
    while jobs.left() > 0 {
        let x = jobs.take();
        let y = (jobs.left() > 0).then(|| jobs.take());
        match y {
            Some(y) => chacha::blocks_twice(key, &[x.at, y.at], &mut words),
            None => words[0] = chacha::blocks(key, x.at),
        }
        if one_time.is_none() {
            let keys = OneTimeKeys::new(&words[0]);
            if direction == Direction::Open {
                chosen = group.authentic(&keys, buffer);
                if chosen == 0 {
                    break;
                }
            }
            one_time = Some(keys);
        }
        let ends = group.ends(chosen);
        x.xor(&words[0], ends, buffer);
        if let Some(y) = y {
            y.xor(&words[1], ends, buffer);
        }
    }
    if let (Direction::Seal, Some(keys)) = (direction, one_time) {
        group.write_tags(&keys, buffer);
    }
    chosen
}
