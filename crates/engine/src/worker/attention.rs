//! Looking for the answer to what is urgent, rather than being woken for it.
//!
//! A worker that sleeps is woken through the scheduler and, in a virtual machine, by a processor that has to
//! be started again: some 20 to 50 µs, at each hop of a ping or a name look-up. Who has just sent one
//! expects an answer, from a near peer within [`LOOK`]. So the worker looks for that long while it has
//! nothing else to do, and gives its processor to any thread that wants it between two looks.
//!
//! Looks are rare, so that they cost little: at most one in [`NEAREST`], and where no answer comes in time,
//! as from a peer far away, each is twice as far from the next, up to [`FARTHEST`].

use culvert_session::Time;
use std::time::Duration;

/// How long a worker looks: an idle round trip here takes 100 µs once the first end has sent.
const LOOK: Duration = Duration::from_micros(150);

/// From the start of one look to the next where answers come in time: under a tenth of a processor.
const NEAREST: Duration = Duration::from_millis(2);

/// The same where they don't: 150 µs a second are nothing, and a peer that has come near is noticed soon.
const FARTHEST: Duration = Duration::from_secs(1);

/// When one worker looks.
pub(super) struct Attention {
    /// When the look that goes on began.
    began: Option<Time>,
    next: Time,
    distance: Duration,
}

impl Attention {
    pub(super) fn new() -> Self {
        Self {
            began: None,
            next: Time::ZERO,
            distance: NEAREST,
        }
    }

    /// Something urgent has left at `now`. True where a look begins.
    pub(super) fn sent(&mut self, now: Time) -> bool {
        let begins = self.began.is_none() && now >= self.next;
        if begins {
            self.began = Some(now);
            self.next = now.saturating_add(self.distance);
        }
        begins
    }

    /// Something has arrived. True where a look ends with it.
    pub(super) fn arrived(&mut self) -> bool {
        let answered = self.began.take().is_some();
        if answered {
            self.distance = NEAREST;
        }
        answered
    }

    /// Whether to look again, at `now`, rather than sleep.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let Some(began) = self.began else {
            return false;
        };
        if !now.has_passed(began, LOOK) {
            return true;
        }
        self.began = None;
        self.distance = (self.distance * 2).min(FARTHEST);
        self.next = began.saturating_add(self.distance);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn a_worker_looks_for_an_answer_until_it_comes() {
        let mut attention = Attention::new();
        assert!(!attention.is_due(at(10_000)), "nothing was asked");
        assert!(attention.sent(at(10_000)));
        assert!(attention.is_due(at(10_149)));
        assert!(attention.arrived());
        assert!(!attention.is_due(at(10_149)));
        assert!(!attention.arrived(), "a look ends once");
    }

    #[test]
    fn a_worker_looks_for_a_moment_only() {
        let mut attention = Attention::new();
        attention.sent(at(10_000));
        assert!(!attention.is_due(at(10_150)));
        assert!(!attention.arrived(), "too late");
    }

    #[test]
    fn looks_are_two_milliseconds_apart_however_much_is_sent() {
        let mut attention = Attention::new();
        assert!(attention.sent(at(10_000)));
        assert!(!attention.sent(at(10_001)), "it looks already");
        attention.arrived();
        assert!(!attention.sent(at(11_999)));
        assert!(attention.sent(at(12_000)));
    }

    #[test]
    fn looks_that_bring_nothing_become_rare_until_one_does() {
        let mut attention = Attention::new();
        let mut now = 10_000;
        let mut looks = Vec::new();
        while looks.len() < 13 {
            if attention.sent(at(now)) {
                looks.push(now);
            }
            now += 1000;
            attention.is_due(at(now));
        }
        let apart: Vec<u64> = looks
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) / 1000)
            .collect();
        assert_eq!(
            apart,
            [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000]
        );
        while !attention.sent(at(now)) {
            now += 1000;
        }
        assert!(attention.arrived());
        let answered = now;
        while !attention.sent(at(now)) {
            now += 100;
        }
        assert!(now - answered <= 1_000_000);
        attention.arrived();
        assert!(attention.sent(at(now + 2000)));
    }
}
