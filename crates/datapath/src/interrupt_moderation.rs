//! Pausing between turns under a stream of single UDP packets, as network cards do.
//!
//! Such a stream fills no superframe: each packet is a read of its own. A worker that is as fast as its sender finds
//! one or two at a time. Each time costs a poll and a send through the whole network stack. A pause of [`PAUSE`] while
//! the queue is empty lets a batch come together in the TUN instead, and leaves the core to the programs that send and
//! receive. It is as long as what drivers of network cards wait by default before they interrupt (`ethtool -c`).
//!
//! TCP never pauses: it sends superframes, and would lose its own clock.

use crate::mix::Mix;
use culvert_base::BootTime;
use std::time::Duration;

/// The length of a pause.
pub const PAUSE: Duration = Duration::from_micros(50);

/// The stream is judged anew after this time.
const WINDOW: Duration = Duration::from_millis(1);

/// Watches what a worker carries out.
pub(crate) struct InterruptModeration {
    mix: Mix,
    is_on: bool,
}

impl InterruptModeration {
    pub(crate) fn new() -> Self {
        Self {
            mix: Mix::new(BootTime::ZERO),
            is_on: false,
        }
    }

    /// Notes a frame: a single packet of UDP, or anything else.
    pub(crate) fn note(&mut self, is_single_udp: bool) {
        self.mix.note(is_single_udp, 1);
    }

    /// True if the worker is to pause, at `now`, before looking again.
    pub(crate) fn is_due(&mut self, now: BootTime) -> bool {
        if now.has_passed(self.mix.began(), WINDOW) {
            // A window that began long ago holds little for its length: then there is no stream.
            self.is_on = self.mix.judge(now);
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> BootTime {
        BootTime::from_nanos(micros * 1000)
    }

    #[test]
    fn a_stream_of_udp_packets_is_moderated_and_ends_with_it() {
        let mut coalescing = InterruptModeration::new();
        assert!(!coalescing.is_due(at(10_000)));
        for _ in 0..50 {
            coalescing.note(true);
        }
        assert!(!coalescing.is_due(at(10_999)));
        assert!(coalescing.is_due(at(11_000)));
        assert!(coalescing.is_due(at(11_500)));
        assert!(!coalescing.is_due(at(12_000)), "nothing came since");
    }

    #[test]
    fn a_stream_with_tcp_beside_it_is_not_moderated() {
        let mut coalescing = InterruptModeration::new();
        coalescing.is_due(at(10_000));
        for _ in 0..100 {
            coalescing.note(true);
        }
        for _ in 0..13 {
            coalescing.note(false);
        }
        assert!(!coalescing.is_due(at(11_000)));
    }

    #[test]
    fn packets_that_came_slowly_are_no_stream() {
        let mut coalescing = InterruptModeration::new();
        coalescing.is_due(at(10_000));
        for _ in 0..100 {
            coalescing.note(true);
        }
        assert!(!coalescing.is_due(at(20_000)));
    }
}
