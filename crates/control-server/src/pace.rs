//! How often somebody may do something, without a record of everybody.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets that all keys share: 16,384 of 16 bytes are 256 KiB. Two keys that fall into one share
/// its limit; nobody can choose whose, since the hash is keyed.
const BUCKETS: usize = 1 << 14;

/// A token bucket for each key: `burst` at once, `rate_per_s` in the long run.
#[derive(Debug)]
pub(super) struct Pace {
    one: Duration,
    full: Duration,
    hasher: RandomState,
    /// For each bucket, since the start, when it will be full again.
    full_at: Mutex<Vec<Duration>>,
    start: Instant,
}

impl Pace {
    /// Neither number is 0.
    pub(super) fn new(rate_per_s: u32, burst: u32) -> Self {
        let one = Duration::from_secs(1) / rate_per_s;
        Self {
            one,
            full: one * burst,
            hasher: RandomState::new(),
            full_at: Mutex::new(vec![Duration::ZERO; BUCKETS]),
            start: Instant::now(),
        }
    }

    /// Takes one; or says how long to wait for it.
    pub(super) fn take(&self, key: impl Hash, now: Instant) -> Result<(), Duration> {
        let now = now.saturating_duration_since(self.start);
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        // Below 16,384, whatever the width of usize.
        let index = (self.hasher.hash_one(key) % BUCKETS as u64) as usize;
        let full_at = buckets[index].max(now) + self.one;
        match full_at.checked_sub(now + self.full) {
            None | Some(Duration::ZERO) => {
                buckets[index] = full_at;
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_and_others_have_their_own() {
        let pace = Pace::new(1, 3);
        let start = pace.start;
        for _ in 0..3 {
            assert_eq!(pace.take("a", start), Ok(()));
        }
        assert_eq!(pace.take("a", start), Err(Duration::from_secs(1)));
        assert_eq!(pace.take("b", start), Ok(()));
        assert_eq!(pace.take("a", start + Duration::from_secs(1)), Ok(()));
        assert!(pace.take("a", start + Duration::from_secs(1)).is_err());
    }
}
