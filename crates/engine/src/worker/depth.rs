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

/// Frames after which the average means something.
const SAMPLE_FRAMES: u64 = 32;

/// How long small frames must have stayed away before the queue is made shorter.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// It is halved once in this time: what it holds above its new length is lost, and flows that have lost something
/// should have slowed down before more is. Cut to a sixteenth at once, a queue of four flows stood still for half a
/// second. Nor are the steps smaller: at each of them the kernel takes the queue out of service for a moment, and
/// what is sent meanwhile is lost too.
const HALVE_AFTER: Duration = Duration::from_millis(50);

/// Watches the frames that a worker reads from its bulk queues.
pub(super) struct Depth {
    frames: u64,
    bytes: u64,
    wanted: u32,
    /// From when on it may be made shorter.
    may_shrink: Time,
}

impl Depth {
    pub(super) fn new() -> Self {
        Self {
            frames: 0,
            bytes: 0,
            wanted: MIN_FRAMES,
            may_shrink: Time::ZERO,
        }
    }

    /// Notes a frame of `len` bytes. Returns the queue length to ask for where it changed.
    pub(super) fn note(&mut self, len: usize, now: Time) -> Option<u32> {
        self.frames += 1;
        self.bytes += len as u64;
        if self.frames < SAMPLE_FRAMES {
            return None;
        }
        let average = (self.bytes / self.frames).max(1);
        self.frames = 0;
        self.bytes = 0;
        let fitting = u32::try_from(TARGET_BYTES / average).unwrap_or(MAX_FRAMES);
        // The nearest power of two: a length that trembles with the average would be set again and again.
        let fitting = fitting.clamp(MIN_FRAMES, MAX_FRAMES);
        let lower = 1 << fitting.ilog2();
        let fitting = if 5 * fitting > 7 * lower {
            2 * lower
        } else {
            lower
        };
        let fitting = fitting.clamp(MIN_FRAMES, MAX_FRAMES);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(depth: &mut Depth, len: usize, at_ms: u64) -> Option<u32> {
        let now = Time::from_nanos(at_ms * 1_000_000);
        (0..SAMPLE_FRAMES)
            .filter_map(|_| depth.note(len, now))
            .last()
    }

    #[test]
    fn small_packets_get_a_long_queue_at_once() {
        let mut depth = Depth::new();
        assert_eq!(feed(&mut depth, 1500, 0), Some(1024));
        assert_eq!(feed(&mut depth, 1388, 1), Some(2048));
        assert_eq!(feed(&mut depth, 200, 2), Some(MAX_FRAMES));
        assert_eq!(feed(&mut depth, 200, 3), None);
    }

    #[test]
    fn superframes_keep_the_shortest_queue() {
        let mut depth = Depth::new();
        assert_eq!(feed(&mut depth, 61_000, 0), None);
    }

    #[test]
    fn a_queue_is_halved_time_and_again_and_only_after_small_packets_stayed_away() {
        let mut depth = Depth::new();
        feed(&mut depth, 1350, 0);
        assert_eq!(feed(&mut depth, 61_000, 500), None);
        assert_eq!(feed(&mut depth, 61_000, 1_000), Some(1024));
        assert_eq!(feed(&mut depth, 61_000, 1_049), None, "so soon");
        let mut before = 1024;
        let mut steps = 1;
        while let Some(wanted) = feed(&mut depth, 61_000, 1_000 + 50 * steps) {
            assert!(wanted < before && wanted >= MIN_FRAMES);
            (before, steps) = (wanted, steps + 1);
        }
        assert_eq!((before, steps), (MIN_FRAMES, 6));
    }
}
