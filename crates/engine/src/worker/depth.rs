//! How long the TUN's queues should be.
//!
//! The kernel counts a TUN queue in frames, and a frame is anything from a 40-byte packet to a 64 KiB
//! superframe. A length that holds a burst of small datagrams holds 30 MB of superframes: milliseconds
//! of waiting, and far more than the caches, so that every byte is fetched from memory again. So the
//! length follows the size of what arrives.

use culvert_session::Time;
use std::time::Duration;

/// Bytes that a queue should hold: about what a single flow keeps in flight inside the host at
/// 10 Gbit/s and 1.5 ms, and what the second-level caches of two cores hold. Measured:
/// docs/performance.md, "Queue length".
const TARGET_BYTES: u64 = 2 << 20;

/// Frames that a queue holds when nothing is known, and the least: superframes of [`TARGET_BYTES`].
pub(crate) const MIN_FRAMES: u32 = 32;

/// The most frames: what comes in while the worker waits for the core that two other threads have for a
/// time slice each, 6 ms, at 600,000 packets a second. Of 200-byte packets that is 800 KB.
pub(crate) const MAX_FRAMES: u32 = 4096;

/// Frames found in a queue one after the other, without its being empty, after which their average size means
/// something: half of the shortest queue. Frames that come singly need no queue, however small they are.
const SAMPLE_FRAMES: u32 = MIN_FRAMES / 2;

/// How long small frames must have stayed away before the queue is made shorter.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// It is halved once in this time: what it holds above its new length is lost, and the flows that lost should have
/// slowed down before more is.
const HALVE_AFTER: Duration = Duration::from_millis(100);

/// Watches the frames that a worker reads from its bulk queues.
pub(super) struct Depth {
    /// For each queue, what was read since it was last empty or judged.
    samples: Vec<Sample>,
    wanted: u32,
    /// From when on it may be made shorter.
    may_shrink: Time,
}

#[derive(Clone, Copy, Default)]
struct Sample {
    frames: u32,
    bytes: u64,
}

impl Depth {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            samples: vec![Sample::default(); queues],
            wanted: MIN_FRAMES,
            may_shrink: Time::ZERO,
        }
    }

    /// Notes that a queue was found empty.
    pub(super) fn note_empty(&mut self, queue: usize) {
        self.samples[queue] = Sample::default();
    }

    /// Notes a frame of `len` bytes. Returns the queue length to ask for where it changed.
    pub(super) fn note(&mut self, queue: usize, len: usize, now: Time) -> Option<u32> {
        let sample = &mut self.samples[queue];
        sample.frames += 1;
        sample.bytes += len as u64;
        if sample.frames < SAMPLE_FRAMES {
            return None;
        }
        let fitting = fitting(std::mem::take(sample));
        if fitting >= self.wanted {
            self.may_shrink = now.saturating_add(SHRINK_AFTER);
        }
        let before = self.wanted;
        if fitting > self.wanted {
            self.wanted = fitting;
        } else if fitting < self.wanted && now >= self.may_shrink {
            self.wanted = fitting.max(self.wanted / 2);
            self.may_shrink = now.saturating_add(HALVE_AFTER);
        }
        (self.wanted != before).then_some(self.wanted)
    }
}

/// The length that holds [`TARGET_BYTES`] of such frames.
fn fitting(sample: Sample) -> u32 {
    let average = (sample.bytes / u64::from(sample.frames)).max(1);
    let fitting = u32::try_from(TARGET_BYTES / average).unwrap_or(MAX_FRAMES);
    // The nearest power of two: a length that trembles with the average would be set again and again.
    let fitting = fitting.clamp(MIN_FRAMES, MAX_FRAMES);
    let lower = 1 << fitting.ilog2();
    let nearest = if 5 * fitting > 7 * lower {
        2 * lower
    } else {
        lower
    };
    nearest.clamp(MIN_FRAMES, MAX_FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ms: u64) -> Time {
        Time::from_nanos(at_ms * 1_000_000)
    }

    /// So many frames that lie in the queue one behind the other as are judged.
    fn feed(depth: &mut Depth, len: usize, at_ms: u64) -> Option<u32> {
        (0..SAMPLE_FRAMES)
            .filter_map(|_| depth.note(0, len, at(at_ms)))
            .last()
    }

    #[test]
    fn small_packets_that_queue_up_get_a_long_queue_at_once() {
        let mut depth = Depth::new(1);
        assert_eq!(feed(&mut depth, 1500, 0), Some(1024));
        assert_eq!(feed(&mut depth, 1388, 1), Some(2048));
        assert_eq!(feed(&mut depth, 200, 2), Some(MAX_FRAMES));
        assert_eq!(feed(&mut depth, 200, 3), None);
    }

    #[test]
    fn small_packets_that_come_singly_change_nothing() {
        let mut depth = Depth::new(2);
        for at_ms in 0..1000 {
            assert_eq!(depth.note(0, 100, at(at_ms)), None);
            depth.note_empty(0);
            assert_eq!(depth.note(1, 61_000, at(at_ms)), None);
        }
    }

    #[test]
    fn superframes_keep_the_shortest_queue() {
        let mut depth = Depth::new(1);
        assert_eq!(feed(&mut depth, 61_000, 0), None);
    }

    #[test]
    fn a_queue_is_made_shorter_step_by_step_and_only_after_small_packets_stayed_away() {
        let mut depth = Depth::new(1);
        assert_eq!(feed(&mut depth, 15_000, 0), Some(128));
        assert_eq!(feed(&mut depth, 61_000, 500), None);
        assert_eq!(feed(&mut depth, 61_000, 1_000), Some(64));
        assert_eq!(feed(&mut depth, 61_000, 1_050), None);
        assert_eq!(feed(&mut depth, 61_000, 1_100), Some(MIN_FRAMES));
        assert_eq!(feed(&mut depth, 61_000, 1_200), None);
    }
}
