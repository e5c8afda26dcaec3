//! Looking for the answer to what is urgent, rather than being woken for it.
//!
//! A worker that sleeps is woken through the scheduler and, in a virtual machine, by a processor that has to
//! be started again, at each hop of a ping or a name look-up. A worker that has carried one
//! expects an answer from the other side: out of the tunnel from a near peer, out of the TUN from a near host
//! behind a gateway, both within [`LOOK`]. So it looks for that long while it has nothing else to do, and gives
//! its processor to any thread that wants it between two looks.
//!
//! Looks are rare, so that they cost little: at most one in [`NEAREST`], and where no answer comes in time,
//! as from a peer far away, each is twice as far from the next, up to [`FARTHEST`].

use culvert_session::Time;
use std::time::Duration;

/// How long a worker looks: three quarters of an idle ping between two ends on one machine (`docs/performance.md`). The
/// first quarter is over when the first end has sent it.
const LOOK: Duration = Duration::from_micros(150);

/// From the start of one look to the next where answers come in time: under a tenth of a processor.
const NEAREST: Duration = Duration::from_millis(2);

/// The same where they don't: 150 µs a second are nothing, and a peer that has come near is noticed soon.
const FARTHEST: Duration = Duration::from_secs(1);

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The TUN.
    Inside,
    /// A peer.
    Outside,
}

/// When one worker looks.
pub(super) struct Attention {
    /// When the look that goes on began, and for what.
    look: Option<(Time, Side)>,
    next: Time,
    distance: Duration,
}

impl Attention {
    pub(super) fn new() -> Self {
        Self {
            look: None,
            next: Time::ZERO,
            distance: NEAREST,
        }
    }

    /// Something urgent has been carried at `now` and may be answered from `side`. True where a look begins.
    pub(super) fn expect(&mut self, side: Side, now: Time) -> bool {
        let begins = self.look.is_none() && now >= self.next;
        if begins {
            self.look = Some((now, side));
            self.next = now.saturating_add(self.distance);
        }
        begins
    }

    /// Something has arrived from `side`, by `now`. True where a look ends with it.
    ///
    /// A worker that is busy does not look, and what comes to it much later is no answer.
    pub(super) fn arrived(&mut self, side: Side, now: Time) -> bool {
        let is_answered =
            self.is_due(now) && self.look.is_some_and(|(_, expected)| expected == side);
        if is_answered {
            self.look = None;
            self.distance = NEAREST;
        }
        is_answered
    }

    /// Whether to look again, at `now`, rather than sleep.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let Some((began, _)) = self.look else {
            return false;
        };
        if !now.has_passed(began, LOOK) {
            return true;
        }
        self.look = None;
        self.distance = (self.distance * 2).min(FARTHEST);
        self.next = began.saturating_add(self.distance);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Side::{Inside, Outside};
    use super::*;

    const fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn a_worker_looks_for_an_answer_until_it_comes() {
        let mut attention = Attention::new();
        assert!(!attention.is_due(at(10_000)), "nothing was asked");
        assert!(attention.expect(Outside, at(10_000)));
        assert!(!attention.arrived(Inside, at(10_001)), "no answer");
        assert!(attention.is_due(at(10_149)));
        assert!(attention.arrived(Outside, at(10_149)));
        assert!(!attention.is_due(at(10_149)));
        assert!(!attention.arrived(Outside, at(10_149)), "a look ends once");
    }

    #[test]
    fn a_worker_looks_for_a_moment_only() {
        let mut attention = Attention::new();
        attention.expect(Inside, at(10_000));
        assert!(!attention.is_due(at(10_150)));
        assert!(!attention.arrived(Inside, at(10_151)));
    }

    #[test]
    fn what_comes_late_to_a_busy_worker_is_no_answer() {
        let mut attention = Attention::new();
        attention.expect(Outside, at(10_000));
        assert!(!attention.arrived(Outside, at(13_000)));
        assert!(
            !attention.expect(Outside, at(13_999)),
            "the look brought nothing"
        );
        assert!(attention.expect(Outside, at(14_000)));
    }

    #[test]
    fn looks_are_two_milliseconds_apart_however_much_is_carried() {
        let mut attention = Attention::new();
        assert!(attention.expect(Inside, at(10_000)));
        assert!(!attention.expect(Inside, at(10_001)), "it looks already");
        attention.arrived(Inside, at(10_002));
        assert!(!attention.expect(Outside, at(11_999)));
        assert!(attention.expect(Outside, at(12_000)));
    }

    #[test]
    fn looks_that_bring_nothing_become_rare_until_one_does() {
        let mut attention = Attention::new();
        let mut now_ms = 10;
        let mut looks_ms = Vec::new();
        while looks_ms.len() < 13 {
            if attention.expect(Outside, at(now_ms * 1000)) {
                looks_ms.push(now_ms);
            }
            now_ms += 1;
            attention.is_due(at(now_ms * 1000));
        }
        let apart_ms: Vec<u64> = looks_ms.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(
            apart_ms,
            [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000]
        );

        let answered = at(looks_ms[12] * 1000 + 1_000_000);
        assert!(attention.expect(Outside, answered));
        assert!(attention.arrived(Outside, answered));
        let soon = answered.saturating_add(FARTHEST);
        assert!(attention.expect(Outside, soon));
        attention.arrived(Outside, soon);
        assert!(attention.expect(Outside, soon.saturating_add(NEAREST)));
    }
}
