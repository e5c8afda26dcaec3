//! Datagrams that wait for a stream that does not take them yet.

use super::{FRAME_HEADER_LEN, write_frames};
use culvert_base::BootTime;
use std::collections::VecDeque;
use std::time::Duration;

/// The most bytes that wait: 4 ms at 2 Gbit/s. Later datagrams are dropped.
pub const OUTBOX_BYTES: usize = 1 << 20;

/// The time after which a waiting datagram is dropped. A slow stream would otherwise delay everything by what is
/// queued before it, as no tunnel over UDP would.
pub const MAX_WAIT: Duration = Duration::from_millis(15);

/// Batches of which the memory is used again.
const SPARE_BATCHES: usize = 2;

/// Datagrams that wait for a stream, oldest first, already as frames.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<Waiting>,
    spare: Vec<Vec<u8>>,
    bytes: usize,
    dropped: u64,
}

/// A batch.
#[derive(Debug)]
struct Waiting {
    since: BootTime,
    frames: Vec<u8>,
    /// The length of all its frames but the last, which may be shorter.
    frame_len: usize,
    taken: usize,
}

impl Waiting {
    fn left(&self) -> usize {
        self.frames.len() - self.taken
    }

    fn datagrams_left(&self) -> u64 {
        self.left().div_ceil(self.frame_len) as u64
    }
}

impl Outbox {
    /// Puts a batch in: datagrams of `stride` bytes each, of which the last may be shorter. It is dropped if more than
    /// [`OUTBOX_BYTES`] wait then.
    pub fn push(&mut self, datagrams: &[u8], stride: usize, now: BootTime) {
        self.expire(now);
        let stride = stride.clamp(1, datagrams.len().max(1));
        if self.bytes + datagrams.len() > OUTBOX_BYTES {
            self.dropped += datagrams.len().div_ceil(stride) as u64;
            return;
        }
        let mut frames = self.spare.pop().unwrap_or_default();
        write_frames(datagrams, stride, &mut frames);
        if frames.is_empty() {
            return;
        }
        self.bytes += frames.len();
        self.waiting.push_back(Waiting {
            since: now,
            frames,
            frame_len: stride + FRAME_HEADER_LEN,
            taken: 0,
        });
    }

    /// The next frames, whole ones, of one batch: at most `most` bytes if that is enough for one.
    pub fn take(&mut self, most: usize, now: BootTime) -> Option<&[u8]> {
        self.expire(now);
        let first = self.waiting.front_mut()?;
        let begin = first.taken;
        let fitting = (most / first.frame_len).max(1) * first.frame_len;
        let end = (begin + fitting).min(first.frames.len());
        first.taken = end;
        self.bytes -= end - begin;
        Some(&first.frames[begin..end])
    }

    /// Drops datagrams that have waited for [`MAX_WAIT`].
    pub fn expire(&mut self, now: BootTime) {
        while let Some(first) = self.waiting.front() {
            let is_late = now.saturating_since(first.since) >= MAX_WAIT;
            if first.left() > 0 && !is_late {
                return;
            }
            self.bytes -= first.left();
            self.dropped += first.datagrams_left();
            if let Some(mut gone) = self.waiting.pop_front()
                && self.spare.len() < SPARE_BATCHES
            {
                gone.frames.clear();
                self.spare.push(gone.frames);
            }
        }
    }

    /// The time at which the oldest datagram will have waited for too long.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let first = self.waiting.iter().find(|batch| batch.left() > 0)?;
        Some(first.since.saturating_add(MAX_WAIT))
    }

    /// True if nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Datagrams that were dropped so far.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Gives its memory back where it holds nothing.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.waiting = VecDeque::new();
            self.spare = Vec::new();
        }
    }
}
