//! A rate limit for each key, without a record of every key.

use culvert_base::{TokenBucket, TokenRate, Uptime};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets that all keys share: 16,384 of 8 bytes are 128 KiB. Two keys that fall into one share
/// its limit; nobody can choose whose, since the hash is keyed.
const BUCKETS: usize = 1 << 14;

/// A token bucket for each key: `burst` at once, `rate_per_s` in the long run.
#[derive(Debug)]
pub(super) struct Pace {
    rate: TokenRate,
    hasher: RandomState,
    buckets: Mutex<Vec<TokenBucket>>,
    start: Instant,
}

impl Pace {
    /// Neither number is 0.
    pub(super) fn new(rate_per_s: u32, burst: u32) -> Self {
        Self {
            rate: TokenRate::per_second(rate_per_s, burst),
            hasher: RandomState::new(),
            buckets: Mutex::new(vec![TokenBucket::FULL; BUCKETS]),
            start: Instant::now(),
        }
    }

    /// Takes one; or says how long to wait for it.
    pub(super) fn take(&self, key: impl Hash, now: Instant) -> Result<(), Duration> {
        let now = Uptime::after(now.saturating_duration_since(self.start));
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        // Below 16,384, whatever the width of usize.
        let index = (self.hasher.hash_one(key) % BUCKETS as u64) as usize;
        buckets[index].take(self.rate, now)
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
