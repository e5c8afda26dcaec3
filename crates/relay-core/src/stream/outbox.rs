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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(millis: u64) -> BootTime {
        BootTime::from_millis(1_000 + millis)
    }

    #[test]
    fn whole_frames_are_taken_oldest_first() {
        let mut outbox = Outbox::default();
        outbox.push(&[1; 250], 100, at(0));
        outbox.push(&[2; 10], 10, at(0));
        assert_eq!(outbox.take(210, at(1)).unwrap().len(), 204);
        let last = outbox.take(1, at(1)).unwrap();
        assert_eq!((last.len(), &last[..3]), (52, &[0, 50, 1][..]));
        assert_eq!(outbox.take(1, at(1)).unwrap().len(), 12);
        assert_eq!(outbox.take(1, at(1)), None);
        assert!(outbox.is_empty());
        assert_eq!(outbox.dropped(), 0);
    }

    #[test]
    fn the_newest_is_dropped_when_it_is_full_and_the_oldest_when_it_has_waited_too_long() {
        let mut outbox = Outbox::default();
        let batch = vec![7; 60_000];
        let fit = OUTBOX_BYTES / 60_000;
        for _ in 0..fit + 3 {
            outbox.push(&batch, 1_000, at(0));
        }
        assert_eq!(outbox.dropped(), 3 * 60);
        assert_eq!(outbox.poll_timeout(), Some(at(15)));
        assert_eq!(outbox.take(1_002, at(14)).map(<[u8]>::len), Some(1_002));
        outbox.push(&[9; 500], 500, at(14));
        outbox.expire(at(15));
        assert_eq!(outbox.dropped(), 3 * 60 + fit as u64 * 60 - 1);
        assert_eq!(outbox.take(9_999, at(15)).map(<[u8]>::len), Some(502));
        assert_eq!(outbox.poll_timeout(), None);
        outbox.rest();
        assert!(outbox.is_empty());
    }

    #[test]
    fn datagrams_that_no_frame_holds_are_left_out() {
        let mut outbox = Outbox::default();
        outbox.push(&[], 0, at(0));
        outbox.push(&vec![0; 65_508], 65_508, at(0));
        assert!(outbox.is_empty() && outbox.take(9, at(0)).is_none());
    }

    proptest! {
        #[test]
        fn every_datagram_is_taken_or_counted_as_dropped_and_no_more_wait_than_may(
            steps in proptest::collection::vec((0_usize..70_000, 1_usize..3_000, 0_u64..10, 0_usize..5), 0..200),
        ) {
            let (mut outbox, mut now, mut offered, mut taken) = (Outbox::default(), 0, 0, 0);
            for (len, stride, pause, takes) in steps {
                now += pause;
                offered += len.div_ceil(stride);
                outbox.push(&vec![5; len], stride, at(now));
                prop_assert!(outbox.bytes <= OUTBOX_BYTES + OUTBOX_BYTES * FRAME_HEADER_LEN);
                for _ in 0..takes {
                    if let Some(mut frames) = outbox.take(16_000, at(now)) {
                        while let [high, low, rest @ ..] = frames {
                            frames = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
                            taken += 1;
                        }
                        prop_assert!(frames.is_empty(), "a frame is cut");
                    }
                }
            }
            outbox.expire(at(now + 15));
            prop_assert!(outbox.is_empty());
            prop_assert_eq!(taken + outbox.dropped() as usize, offered);
        }
    }
}
