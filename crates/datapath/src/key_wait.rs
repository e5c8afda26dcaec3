//! The time that a worker may wait for the control thread. It is bounded, so that a peer whose handshakes follow each
//! other does not make everybody else's packets wait.

use culvert_base::BootTime;
use std::time::Duration;

/// The longest wait at once. The control thread takes some 50 µs, on a busy machine some
/// time slices of 3 ms.
const BURST: Duration = Duration::from_millis(10);

/// Of each so much time, one part may be waited: 1 ms of 100 ms.
const PARTS: u32 = 100;

/// A bucket of time. It fills with the clock and empties with waiting.
pub(crate) struct KeyWait {
    /// The time that could be waited at `counted_at`.
    left: Duration,
    counted_at: BootTime,
}

impl KeyWait {
    pub(crate) fn new(now: BootTime) -> Self {
        Self {
            left: BURST,
            counted_at: now,
        }
    }

    /// The time that may be waited from `now` on.
    pub(crate) fn left(&mut self, now: BootTime) -> Duration {
        let earned = now.saturating_since(self.counted_at) / PARTS;
        self.left = self.left.saturating_add(earned).min(BURST);
        self.counted_at = self.counted_at.max(now);
        self.left
    }

    /// So long has been waited.
    pub(crate) fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

    /// The time in `span` that a worker waits which would wait on and on, from handshake to handshake.
    fn waited_in(span: Duration, between: Duration) -> Duration {
        let mut wait = KeyWait::new(START);
        let mut now = START;
        let mut waited = Duration::ZERO;
        while now.saturating_since(START) < span {
            let left = wait.left(now);
            wait.spend(left);
            waited += left;
            now = now.saturating_add(left).saturating_add(between);
        }
        waited
    }

    #[test]
    fn a_first_handshake_may_take_some_time_slices() {
        assert_eq!(KeyWait::new(START).left(START), BURST);
    }

    #[test]
    fn a_flood_of_handshakes_costs_a_worker_a_hundredth_of_its_time() {
        let span = Duration::from_secs(10);
        for between in [1, 100, 20_000].map(Duration::from_micros) {
            let waited = waited_in(span, between);
            assert!(waited <= BURST + span / PARTS, "{waited:?}");
            assert!(waited >= span / PARTS, "{waited:?}");
        }
    }

    #[test]
    fn what_is_not_waited_is_saved_up_to_one_burst() {
        let mut wait = KeyWait::new(START);
        wait.spend(Duration::from_millis(10));
        assert_eq!(wait.left(START), Duration::ZERO);
        let soon = START.saturating_add(Duration::from_millis(100));
        assert_eq!(wait.left(soon), Duration::from_millis(1));
        assert_eq!(
            wait.left(START),
            Duration::from_millis(1),
            "an older time earns nothing"
        );
        assert_eq!(
            wait.left(soon),
            Duration::from_millis(1),
            "nor does it earn twice"
        );
        let late = START.saturating_add(Duration::from_secs(1000));
        assert_eq!(wait.left(late), BURST);
    }
}
