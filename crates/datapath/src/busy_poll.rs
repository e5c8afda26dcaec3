//! Adaptive busy polling: a worker polls briefly after a latency-sensitive packet, which saves one wake-up per hop.
//!
//! The scheduler wakes a worker that sleeps, and in a virtual machine it first starts a processor. A ping or a name
//! look-up pays that at each hop. A worker that has carried such a packet expects an answer from the other side: out
//! of the tunnel from a near peer, or out of the TUN from a near host behind a gateway. Both come within
//! [`POLL_FOR`]. The worker polls for that long while it has nothing else to do. It yields its processor between two
//! polls.
//!
//! Polling is rare, so that it costs little: it begins at most once in [`MIN_INTERVAL`]. The interval doubles each time
//! no answer comes, as from a peer far away, up to [`MAX_INTERVAL`].

use culvert_base::BootTime;
use std::time::Duration;

/// The longest time of one poll: three quarters of an idle ping between two ends on one machine
/// (`docs/performance.md`). The first quarter is over when the first end has sent the ping.
const POLL_FOR: Duration = Duration::from_micros(150);

/// The time from one start of polling to the next, if answers come in time: under a tenth of a processor.
const MIN_INTERVAL: Duration = Duration::from_millis(2);

/// The longest interval, if no answers come: 150 µs a second are nothing, and a peer that has come near is noticed
/// soon.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// The side that an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The TUN.
    Inside,
    /// A peer.
    Outside,
}

/// The busy polling of one worker.
pub(crate) struct BusyPoll {
    /// The start of the poll under way, and the side that is polled.
    under_way: Option<(BootTime, Side)>,
    next: BootTime,
    interval: Duration,
}

impl BusyPoll {
    pub(crate) fn new() -> Self {
        Self {
            under_way: None,
            next: BootTime::ZERO,
            interval: MIN_INTERVAL,
        }
    }

    /// A priority packet has been carried at `now` and may be answered from `side`. True if polling begins.
    pub(crate) fn expect(&mut self, side: Side, now: BootTime) -> bool {
        let begins = self.under_way.is_none() && now >= self.next;
        if begins {
            self.under_way = Some((now, side));
            self.next = now.saturating_add(self.interval);
        }
        begins
    }

    /// Something has arrived from `side`, by `now`. True if it ends a poll.
    ///
    /// A busy worker does not poll. A packet that it takes much later is no answer.
    pub(crate) fn arrived(&mut self, side: Side, now: BootTime) -> bool {
        let is_answered =
            self.is_due(now) && self.under_way.is_some_and(|(_, expected)| expected == side);
        if is_answered {
            self.under_way = None;
            self.interval = MIN_INTERVAL;
        }
        is_answered
    }

    /// True if the worker polls once more at `now`, and does not sleep.
    pub(crate) fn is_due(&mut self, now: BootTime) -> bool {
        let Some((began, _)) = self.under_way else {
            return false;
        };
        if !now.has_passed(began, POLL_FOR) {
            return true;
        }
        self.under_way = None;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.next = began.saturating_add(self.interval);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Side::{Inside, Outside};
    use super::*;

    const fn at(micros: u64) -> BootTime {
        BootTime::from_nanos(micros * 1000)
    }

    #[test]
    fn a_worker_polls_for_an_answer_until_it_comes() {
        let mut poll = BusyPoll::new();
        assert!(!poll.is_due(at(10_000)), "nothing was asked");
        assert!(poll.expect(Outside, at(10_000)));
        assert!(!poll.arrived(Inside, at(10_001)), "no answer");
        assert!(poll.is_due(at(10_149)));
        assert!(poll.arrived(Outside, at(10_149)));
        assert!(!poll.is_due(at(10_149)));
        assert!(!poll.arrived(Outside, at(10_149)), "a poll ends once");
    }

    #[test]
    fn a_worker_polls_for_a_moment_only() {
        let mut poll = BusyPoll::new();
        poll.expect(Inside, at(10_000));
        assert!(!poll.is_due(at(10_150)));
        assert!(!poll.arrived(Inside, at(10_151)));
    }

    #[test]
    fn what_comes_late_to_a_busy_worker_is_no_answer() {
        let mut poll = BusyPoll::new();
        poll.expect(Outside, at(10_000));
        assert!(!poll.arrived(Outside, at(13_000)));
        assert!(
            !poll.expect(Outside, at(13_999)),
            "the poll brought nothing"
        );
        assert!(poll.expect(Outside, at(14_000)));
    }

    #[test]
    fn polls_are_two_milliseconds_apart_however_much_is_carried() {
        let mut poll = BusyPoll::new();
        assert!(poll.expect(Inside, at(10_000)));
        assert!(!poll.expect(Inside, at(10_001)), "it polls already");
        poll.arrived(Inside, at(10_002));
        assert!(!poll.expect(Outside, at(11_999)));
        assert!(poll.expect(Outside, at(12_000)));
    }

    #[test]
    fn polls_that_bring_nothing_become_rare_until_one_does() {
        let mut poll = BusyPoll::new();
        let mut now_ms = 10;
        let mut polls_ms = Vec::new();
        while polls_ms.len() < 13 {
            if poll.expect(Outside, at(now_ms * 1000)) {
                polls_ms.push(now_ms);
            }
            now_ms += 1;
            poll.is_due(at(now_ms * 1000));
        }
        let apart_ms: Vec<u64> = polls_ms.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(
            apart_ms,
            [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000]
        );

        let answered = at(polls_ms[12] * 1000 + 1_000_000);
        assert!(poll.expect(Outside, answered));
        assert!(poll.arrived(Outside, answered));
        let soon = answered.saturating_add(MAX_INTERVAL);
        assert!(poll.expect(Outside, soon));
        poll.arrived(Outside, soon);
        assert!(poll.expect(Outside, soon.saturating_add(MIN_INTERVAL)));
    }
}
