//! Retries of an offload that the kernel has refused.
//!
//! A refusal may say that this kernel, or this route, does not have the offload; or that memory was short for a moment. One
//! says the same as the other. So the offload is given up only after several refusals in a row, and tried again after a time
//! that doubles from refusal to refusal.

use culvert_base::BootTime;
use std::time::Duration;

/// Refusals in a row after which an offload is left alone for a while. A kernel without it costs as many repeated sends;
/// one that refuses one send in twenty gives it up once in thousands of sends.
const TOLERATED: u8 = 3;

/// The time for which it is left alone at first: a host that ran out of memory has some again.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest time for which it is left alone: as long as a path that was found narrow is believed to be (RFC 1191
/// section 6.3). By then one send in ten minutes is spent in vain.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The state of one offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffloadRetry {
    refusals: u8,
    pause: Duration,
    again_at: Option<BootTime>,
}

impl OffloadRetry {
    /// True if it may be used.
    pub(crate) fn allows(&self, now: BootTime) -> bool {
        self.again_at.is_none_or(|at| now >= at)
    }

    /// The time from which it may be used again, unless it may be used at all times.
    pub(crate) const fn again_at(&self) -> Option<BootTime> {
        self.again_at
    }

    /// True if a send that the kernel takes changes anything.
    pub(crate) const fn had_refusals(&self) -> bool {
        self.refusals > 0
    }

    /// The kernel has refused it. True where it is left alone from here on.
    pub(crate) fn refused(&mut self, now: BootTime) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals < TOLERATED {
            return false;
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.again_at = Some(now.saturating_add(self.pause));
        true
    }

    /// The kernel has taken it.
    pub(crate) fn accepted(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(since_start: Duration) -> BootTime {
        BootTime::ZERO.saturating_add(since_start)
    }

    #[test]
    fn one_refusal_in_twenty_does_not_turn_an_offload_off() {
        let mut offload = OffloadRetry::default();
        for send in 0..1000 {
            let now = at(Duration::from_micros(send));
            assert!(offload.allows(now));
            if send % 20 == 19 {
                assert!(!offload.refused(now));
            } else {
                offload.accepted();
            }
        }
    }

    #[test]
    fn a_kernel_without_an_offload_is_asked_again_after_pauses_that_double_up_to_ten_minutes() {
        let mut offload = OffloadRetry::default();
        let mut now = at(Duration::ZERO);
        assert!(!offload.refused(now));
        assert!(!offload.refused(now));
        let mut expected = FIRST_PAUSE;
        for _ in 0..30 {
            assert!(offload.allows(now));
            assert!(offload.refused(now));
            let again = now.saturating_add(expected);
            assert_eq!(offload.again_at(), Some(again));
            assert!(!offload.allows(BootTime::from_nanos(again.as_nanos() - 1)));
            now = again;
            expected = (expected * 2).min(LONGEST_PAUSE);
        }
        assert_eq!(expected, LONGEST_PAUSE);
        offload.accepted();
        assert_eq!(offload, OffloadRetry::default());
    }
}
