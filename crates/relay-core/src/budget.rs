//! Token buckets of bytes: one for each end, and one of all workers.

use culvert_base::BootTime;
use std::sync::atomic::{AtomicU64, Ordering};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A bucket holds what its rate gives in this time.
const DEPTH_NS: u64 = NANOS_PER_SECOND;

/// The bytes of one end, kept as the instant at which the bucket is full again.
///
/// A batch passes as long as the bucket is not empty: it overdraws by one batch at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByteBucket {
    full_at_ns: u64,
}

impl ByteBucket {
    /// Takes `bytes`; false, and nothing taken, where the bucket is empty.
    pub(crate) fn take(&mut self, bytes: usize, rate_bytes_per_s: u64, now: BootTime) -> bool {
        match after(self.full_at_ns, bytes, rate_bytes_per_s, now) {
            Some(full_at_ns) => {
                self.full_at_ns = full_at_ns;
                true
            }
            None => false,
        }
    }
}

/// The bytes that all workers of a relay forward together.
#[derive(Debug)]
pub struct SharedBudget {
    rate_bytes_per_s: Option<u64>,
    full_at_ns: AtomicU64,
}

impl SharedBudget {
    /// `None`: without a limit.
    #[must_use]
    pub const fn new(rate_bytes_per_s: Option<u64>) -> Self {
        Self {
            rate_bytes_per_s,
            full_at_ns: AtomicU64::new(0),
        }
    }

    /// Takes `bytes`; false, and nothing taken, where there are none.
    pub fn take(&self, bytes: usize, now: BootTime) -> bool {
        let Some(rate) = self.rate_bytes_per_s else {
            return true;
        };
        let taken = self
            .full_at_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                after(full_at, bytes, rate, now)
            });
        taken.is_ok()
    }
}

/// The instant at which a bucket is full once `bytes` were taken; `None` where it is empty.
fn after(full_at_ns: u64, bytes: usize, rate_bytes_per_s: u64, now: BootTime) -> Option<u64> {
    let now = now.as_nanos();
    // After a clock that was set back the bucket fills from here on.
    let full_at = full_at_ns.clamp(now, now.saturating_add(DEPTH_NS));
    if full_at - now >= DEPTH_NS {
        return None;
    }
    let cost = (bytes as u64)
        .saturating_mul(NANOS_PER_SECOND)
        .checked_div(rate_bytes_per_s)?;
    // An end that sends one huge batch waits for it, and no longer than for a full bucket more.
    Some(full_at.saturating_add(cost.min(2 * DEPTH_NS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> BootTime {
        BootTime::from_millis(millis)
    }

    #[test]
    fn a_second_of_the_rate_passes_at_once_and_then_the_rate() {
        let mut bucket = ByteBucket::default();
        for _ in 0..10 {
            assert!(bucket.take(100, 1_000, at(0)));
        }
        assert!(!bucket.take(100, 1_000, at(0)));
        assert!(bucket.take(100, 1_000, at(100)));
        assert!(!bucket.take(100, 1_000, at(100)));
    }

    #[test]
    fn a_rate_of_zero_gives_nothing() {
        assert!(!ByteBucket::default().take(1, 0, at(5)));
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_more_than_a_full_bucket() {
        let mut bucket = ByteBucket::default();
        assert!(bucket.take(1_000, 1_000, at(100_000)));
        assert!(!bucket.take(1_000, 1_000, at(0)));
        assert!(!bucket.take(1_000, 1_000, at(0)));
    }

    #[test]
    fn workers_share_one_budget() {
        let budget = SharedBudget::new(Some(1_000));
        assert!(budget.take(600, at(0)) && budget.take(600, at(0)));
        assert!(!budget.take(1, at(0)));
        assert!(SharedBudget::new(None).take(usize::MAX, at(0)));
    }
}
