//! Token buckets.

use crate::time::saturating_nanos;
use crate::{ClockTime, Uptime};
use std::marker::PhantomData;
use std::time::Duration;

/// The rate of a token bucket: a burst at once, one token in an interval in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRate {
    one_every: Duration,
    full_in: Duration,
}

impl TokenRate {
    /// One token in `one_every`, and `burst` of them at once. A burst of 0 counts as 1.
    #[must_use]
    pub const fn new(one_every: Duration, burst: u32) -> Self {
        let burst = if burst == 0 { 1 } else { burst };
        Self {
            one_every,
            full_in: one_every.saturating_mul(burst),
        }
    }

    /// `rate_per_s` tokens in a second, and `burst` of them at once. Neither is 0.
    #[must_use]
    pub const fn per_second(rate_per_s: u32, burst: u32) -> Self {
        let nanos = 1_000_000_000 / rate_per_s as u64;
        Self::new(Duration::from_nanos(nanos), burst)
    }

    /// The same burst of a `multiple` of the tokens, by as much of the rate.
    #[must_use]
    pub fn times(self, multiple: u32) -> Self {
        Self {
            one_every: self.one_every / multiple.max(1),
            full_in: self.full_in,
        }
    }
}

/// A token bucket, kept as the instant at which it is full again by its owner's clock `C`.
///
/// A clock that is set back gives nothing, and takes no longer to fill the bucket than one that was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket<C = Uptime> {
    full_at_ns: u64,
    clock: PhantomData<C>,
}

impl<C: ClockTime> TokenBucket<C> {
    /// A full one.
    pub const FULL: Self = Self {
        full_at_ns: 0,
        clock: PhantomData,
    };

    /// Takes a token.
    ///
    /// # Errors
    /// The time until there is one; then none is taken.
    pub fn take(&mut self, rate: TokenRate, now: C) -> Result<(), Duration> {
        let (full_at, wait) = self.after_one(rate, now);
        if wait > 0 {
            // After a clock that was set back the bucket fills from here on.
            self.full_at_ns = full_at - saturating_nanos(rate.one_every);
            return Err(Duration::from_nanos(wait));
        }
        self.full_at_ns = full_at;
        Ok(())
    }

    /// Takes a token, and says how long its owner has to wait for it.
    pub fn take_ahead(&mut self, rate: TokenRate, now: C) -> Duration {
        let (full_at, wait) = self.after_one(rate, now);
        self.full_at_ns = full_at;
        Duration::from_nanos(wait)
    }

    /// The time until there is a token.
    #[must_use]
    pub fn wait(&self, rate: TokenRate, now: C) -> Duration {
        Duration::from_nanos(self.after_one(rate, now).1)
    }

    /// The instant at which the bucket is full once a token was taken, and the time until there is that token.
    fn after_one(&self, rate: TokenRate, now: C) -> (u64, u64) {
        let (now, full_in) = (now.nanos(), saturating_nanos(rate.full_in));
        let latest = now.saturating_add(full_in);
        let full_at = self.full_at_ns.clamp(now, latest.max(now));
        let full_at = full_at.saturating_add(saturating_nanos(rate.one_every));
        (full_at, full_at.saturating_sub(latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: TokenRate = TokenRate::new(SECOND, 3);

    const fn at(span: Duration) -> Uptime {
        Uptime::after(span)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = TokenBucket::FULL;
        let start = 1_000 * SECOND;
        for _ in 0..3 {
            assert_eq!(bucket.take(RATE, at(start)), Ok(()));
        }
        assert_eq!(bucket.take(RATE, at(start)), Err(SECOND));
        assert_eq!(bucket.wait(RATE, at(start + SECOND / 2)), SECOND / 2);
        assert_eq!(bucket.take(RATE, at(start + SECOND)), Ok(()));
        assert_eq!(bucket.take(RATE, at(start + SECOND)), Err(SECOND));
        assert_eq!(bucket.wait(RATE, at(start + 100 * SECOND)), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_nothing_and_fills_as_fast() {
        let mut bucket = TokenBucket::FULL;
        assert_eq!(bucket.take(RATE, at(1_000 * SECOND)), Ok(()));
        assert!(bucket.take(RATE, at(Duration::ZERO)).is_err());
        assert_eq!(bucket.take(RATE, at(SECOND)), Ok(()));
    }

    #[test]
    fn a_multiple_has_as_many_times_the_tokens() {
        let mut bucket = TokenBucket::FULL;
        let passed = (0..100).filter(|_| bucket.take(RATE.times(4), at(SECOND)).is_ok());
        assert_eq!(passed.count(), 12);
    }

    #[test]
    fn a_token_that_is_taken_ahead_is_waited_for() {
        let mut bucket = TokenBucket::FULL;
        let waits = [(); 5].map(|()| bucket.take_ahead(RATE, at(SECOND)));
        assert_eq!(
            waits[..4],
            [Duration::ZERO, Duration::ZERO, Duration::ZERO, SECOND]
        );
    }
}
