//! The pace at which the window shows changes: what it costs decides, so that a service with many changes never costs more
//! than a small part of a processor.

/// The window waits for this many times what the last change cost: it uses at most one part in so many.
const COST: u64 = 30;

/// The longest wait, in milliseconds, whatever a change costs: a person may look at what changes.
const MAX_WAIT_MS: u64 = 2_000;

/// The pace of changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    shown_at_ms: u64,
    used_us: u64,
}

impl Pace {
    /// Notes that a change is shown at `now_ms`. Until then the window has used `used_us` of a processor.
    pub const fn shown(&mut self, now_ms: u64, used_us: u64) {
        self.shown_at_ms = now_ms;
        self.used_us = used_us;
    }

    /// Milliseconds until the next change is shown; 0 is at once.
    #[must_use]
    pub fn wait_ms(&self, now_ms: u64, used_us: u64) -> u64 {
        let cost_us = used_us.saturating_sub(self.used_us);
        let wait_ms = (cost_us.saturating_mul(COST) / 1_000).min(MAX_WAIT_MS);
        self.shown_at_ms
            .saturating_add(wait_ms)
            .saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_waits_for_what_the_last_one_cost() {
        let mut pace = Pace::default();
        pace.shown(1_000, 50_000);
        // 4 ms of a processor.
        assert_eq!(pace.wait_ms(1_000, 54_000), 120);
        assert_eq!(pace.wait_ms(1_100, 54_000), 20);
        assert_eq!(pace.wait_ms(1_120, 54_000), 0);
        assert_eq!(pace.wait_ms(1_500, 54_000), 0);
        assert_eq!(pace.wait_ms(1_000, 50_000), 0);
    }

    #[test]
    fn no_wait_is_longer_than_two_seconds() {
        let mut pace = Pace::default();
        pace.shown(1_000, 0);
        assert_eq!(pace.wait_ms(1_000, u64::MAX), 2_000);
    }

    #[test]
    fn a_busy_service_costs_a_small_part() {
        // Ten changes a second for a minute; each costs 20 ms.
        let (mut pace, mut used_us) = (Pace::default(), 0);
        for now_ms in (0..60_000).step_by(100) {
            if pace.wait_ms(now_ms, used_us) == 0 {
                pace.shown(now_ms, used_us);
                used_us += 20_000;
            }
        }
        assert!(used_us * 100 / 60_000_000 < 4, "{used_us}");
    }
}
