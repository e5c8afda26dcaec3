//! The pause before a failed sink is tried again.

use std::time::Duration;

const FIRST_MS: u64 = 1_000;
/// A collector that comes back has everything within a minute.
const LONGEST_MS: u64 = 60_000;

/// Doubles from a second to a minute; half of it is drawn, so that several sinks of several portals
/// don't come back to one collector at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    pub(super) fn next(&mut self, random: u64) -> Duration {
        let whole_ms = (FIRST_MS << self.failures.min(16)).min(LONGEST_MS);
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(whole_ms / 2 + random % (whole_ms / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        for whole_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            let wait_ms = backoff.next(u64::MAX).as_millis() as u64;
            assert!((whole_ms / 2..=whole_ms).contains(&wait_ms), "{wait_ms}");
        }
        backoff.reset();
        assert_eq!(backoff.next(0).as_millis(), 500);
    }
}
