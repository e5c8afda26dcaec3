//! CoDel (Nichols and Jacobson, RFC 8289) for a TUN queue: it looks at how long packets wait, not at how many do.
//!
//! A burst may fill a queue: it drains by itself. A backlog that doesn't drain within the time that a sender needs to
//! hear of it is of no use to anyone. It makes later packets wait, and its bytes leave the processor's caches before
//! they are read. Its senders are told, one at a time and more often the longer it lasts.

use culvert_base::BootTime;
use culvert_base::frames::{MIN_BOUND_BYTES, counted_bytes};
use std::time::Duration;

/// A wait that is too long where it lasts (`TARGET` of RFC 8289 section 4.2).
const TARGET: Duration = Duration::from_millis(5);

/// A backlog that is too long where it lasts, however fast it moves: the lowest bound of a queue, for the same reasons.
const TARGET_BYTES: u64 = MIN_BOUND_BYTES;

/// The time for which it must last: the longest usual round trip, so that a sender who was told has had time to slow
/// down (`INTERVAL` of RFC 8289 section 4.2).
const INTERVAL: Duration = Duration::from_millis(100);

/// A queue that stands again so soon after it stood is treated as if it had never drained (RFC 8289 section 5.4).
const SOON: Duration = Duration::from_millis(1600);

/// The state of one queue.
#[derive(Default)]
pub(crate) struct Codel {
    /// A place in the stream of what was queued, and when it was the last: when it is taken, it has waited since then.
    probe: u64,
    probed_at: BootTime,
    /// The wait of the last probe; after an idle time also that time, which lasts until the first packet is read.
    delay: Duration,
    /// From when on it is told, where it is too long.
    stands_from: Option<BootTime>,
    is_telling: bool,
    /// The number of times that senders were told while it stood, and that number when it last stopped standing.
    told: u32,
    told_before: u32,
    next: BootTime,
}

impl Codel {
    /// Notes that the queue was found empty with `taken` bytes taken from it.
    pub(crate) fn found_empty(&mut self, taken: u64, now: BootTime) {
        (self.probe, self.probed_at) = (taken, now);
        self.delay = Duration::ZERO;
        self.drained();
    }

    /// Notes that, with a frame of `frame_len` bytes the last, `taken` bytes have been taken and `waiting` are left.
    /// True if the sender of this frame is to be told.
    pub(crate) fn note(
        &mut self,
        taken: u64,
        waiting: u64,
        frame_len: usize,
        now: BootTime,
    ) -> bool {
        let waited = now.saturating_since(self.probed_at);
        if taken.wrapping_sub(self.probe).cast_signed() >= 0 {
            self.delay = waited;
            (self.probe, self.probed_at) = (taken.wrapping_add(waiting), now);
        } else {
            self.delay = self.delay.max(waited);
        }
        // With fewer than two frames left, nothing shorter could keep a slow link busy.
        let least = 2 * counted_bytes(frame_len);
        let is_long = waiting > TARGET_BYTES || (waiting > least && self.delay > TARGET);
        if is_long {
            self.tell(now)
        } else {
            self.drained();
            false
        }
    }

    fn drained(&mut self) {
        self.stands_from = None;
        self.is_telling = false;
    }

    /// The queue is too long. True if somebody is to be told now (`dodequeue` and `deque` of RFC 8289 section 5).
    fn tell(&mut self, now: BootTime) -> bool {
        let stands_from = *self.stands_from.get_or_insert(now.saturating_add(INTERVAL));
        if self.is_telling {
            if now < self.next {
                return false;
            }
            self.told = self.told.saturating_add(1);
            // A queue that is read so seldom that it falls behind does not catch up: one is told at a time.
            let behind = now.saturating_since(self.next) > INTERVAL;
            let from = if behind { now } else { self.next };
            self.next = from.saturating_add(between(self.told));
            return true;
        }
        if now < stands_from {
            return false;
        }
        // As often as it was in the end, where that was a moment ago.
        let lately = self.told.saturating_sub(self.told_before);
        let is_soon = now.saturating_since(self.next) < SOON;
        self.told = if is_soon { lately.max(1) } else { 1 };
        self.told_before = self.told;
        self.is_telling = true;
        self.next = now.saturating_add(between(self.told));
        true
    }
}

/// The time between two tellings: it shrinks with the square root of their number, to which TCP's throughput answers in
/// proportion (RFC 8289 section 3.3).
fn between(told: u32) -> Duration {
    INTERVAL.div_f64(f64::from(told.max(1)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 64_000;
    const COST: u64 = FRAME as u64;

    /// A queue from which a frame is read each `each_us`, with as much left as `waiting` says at that millisecond.
    /// Returns the milliseconds at which somebody was told.
    fn run(each_us: u64, ms: u64, waiting: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut codel = Codel::default();
        let frames = ms * 1_000 / each_us;
        let mut told = Vec::new();
        for frame in 1..=frames {
            let now_us = frame * each_us;
            let now = BootTime::from_nanos(now_us * 1_000);
            let waiting = waiting(now_us / 1_000);
            if waiting == 0 {
                codel.found_empty(frame * COST, now);
            } else if codel.note(frame * COST, waiting, FRAME, now) {
                told.push(now_us / 1_000);
            }
        }
        told
    }

    #[test]
    fn a_burst_that_drains_within_the_interval_tells_nobody() {
        let told = run(50, 1_000, |ms| if ms % 100 < 90 { 12 << 20 } else { 0 });
        assert_eq!(told, [0_u64; 0]);
    }

    #[test]
    fn a_short_queue_that_moves_fast_may_stand() {
        assert_eq!(run(50, 1_000, |_| 1 << 20), [0_u64; 0]);
    }

    #[test]
    fn what_stands_longer_than_the_interval_is_told_ever_more_often() {
        let told = run(50, 1_000, |_| 4 << 20);
        assert_eq!(told[0], 100);
        let gaps: Vec<u64> = told.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((99..=101).contains(&gaps[0]), "{gaps:?}");
        assert!(
            gaps.windows(2).all(|pair| pair[1] <= pair[0] + 1),
            "{gaps:?}"
        );
        assert!(told.len() > 15 && told.len() < 40, "{told:?}");
    }

    #[test]
    fn few_bytes_that_move_slowly_stand_too() {
        // A frame in 5 ms is 100 Mbit/s: five that wait are 25 ms.
        let told = run(5_000, 1_000, |_| 5 * COST);
        assert!(!told.is_empty());
        assert_eq!(
            run(5_000, 1_000, |_| COST),
            [0_u64; 0],
            "the link needs something"
        );
    }

    #[test]
    fn a_queue_that_was_empty_starts_anew() {
        let told = run(50, 390, |ms| if ms % 99 == 0 { 0 } else { 4 << 20 });
        assert_eq!(told, [0_u64; 0]);
    }

    #[test]
    fn one_that_stands_again_soon_is_told_as_often_as_in_the_end() {
        let told = run(50, 2_000, |ms| {
            if (1_000..1_010).contains(&ms) {
                0
            } else {
                4 << 20
            }
        });
        let again: Vec<u64> = told.iter().copied().filter(|ms| *ms > 1_010).collect();
        assert!((1_109..=1_111).contains(&again[0]), "{again:?}");
        assert!(again[1] - again[0] < 40, "{again:?}");
    }
}
