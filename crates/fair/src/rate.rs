//! Token buckets of subscribers, in constant memory.

use crate::subscriber::{MULTIPLES, Subscriber};
use culvert_base::{ClockTime, TokenBucket, TokenRate, Uptime};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Buckets that all networks share: 65,536 of 8 bytes are 512 KiB. Two networks that fall into one share
/// its tokens, which a thousand active ones do with a chance of 1.5 %. A stranger can't choose whose bucket to
/// fall into, since the hash is keyed, and can't reach many: what a /48 sends beyond its own rate touches no
/// bucket of its /64s.
pub const BUCKETS: usize = 1 << 16;

/// A token bucket for each network of a subscriber: `burst` at once and one in `one_every` in the long run for
/// the finest, and [multiples](crate::MULTIPLES) of both for the wider ones. All must have a token.
///
/// Nobody is refused for want of memory: there is nothing to fill.
#[derive(Clone, Debug)]
pub struct RateLimit<C = Uptime> {
    rate: TokenRate,
    key: [u64; 2],
    buckets: Vec<TokenBucket<C>>,
}

impl<C: ClockTime> RateLimit<C> {
    /// A limit that nobody has used yet. `burst` of 0 counts as 1; `key` is secret and random.
    #[must_use]
    pub fn new(one_every: Duration, burst: u32, key: [u64; 2]) -> Self {
        Self {
            rate: TokenRate::new(one_every, burst),
            key,
            buckets: vec![TokenBucket::FULL; BUCKETS],
        }
    }

    /// Takes a token from each network of the subscriber. It costs a keyed hash and a look into the table for
    /// each: 0.1 µs for IPv6 on a server's processor.
    ///
    /// # Errors
    /// The time to wait, if one of them has none; then no token is taken.
    pub fn take(&mut self, subscriber: Subscriber, now: C) -> Result<(), Duration> {
        let mut buckets = [None; MULTIPLES.len()];
        for (slot, network) in buckets.iter_mut().zip(subscriber.networks().rev()) {
            *slot = Some((self.bucket(&network), self.rate.times(network.multiple())));
        }
        let buckets = buckets.into_iter().flatten();
        let waits = buckets
            .clone()
            .map(|(bucket, rate)| self.buckets[bucket].wait(rate, now));
        let wait = waits.max().unwrap_or_default();
        if !wait.is_zero() {
            return Err(wait);
        }
        for (bucket, rate) in buckets {
            // It was there a moment ago; two networks that share a bucket owe the second one.
            self.buckets[bucket].take_ahead(rate, now);
        }
        Ok(())
    }

    fn bucket(&self, network: &impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        network.hash(&mut hasher);
        // Below 65,536, whatever the width of usize.
        (hasher.finish() % BUCKETS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [1, 2];
    const SECOND: Duration = Duration::from_secs(1);

    const fn after(span: Duration) -> Uptime {
        Uptime::after(span)
    }

    fn at(address: &str) -> Subscriber {
        Subscriber::of(address.parse().unwrap())
    }

    /// The `number`th /64 of one /48.
    fn of_site(number: u16) -> Subscriber {
        at(&format!("2001:db8:1:{number:x}::1"))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut limit = RateLimit::new(SECOND / 10, 5, KEY);
        let who = at("203.0.113.7");
        for _ in 0..5 {
            assert_eq!(limit.take(who, after(SECOND)), Ok(()));
        }
        assert_eq!(limit.take(who, after(SECOND)), Err(SECOND / 10));
        assert_eq!(limit.take(who, after(SECOND + SECOND / 10)), Ok(()));
        assert!(limit.take(who, after(SECOND + SECOND / 10)).is_err());
    }

    #[test]
    fn refusals_do_not_lengthen_the_wait() {
        let mut limit = RateLimit::new(SECOND / 10, 1, KEY);
        let who = at("203.0.113.7");
        assert_eq!(limit.take(who, after(SECOND)), Ok(()));
        for _ in 0..1000 {
            assert_eq!(limit.take(who, after(SECOND)), Err(SECOND / 10));
        }
    }

    #[test]
    fn addresses_of_one_ipv6_subscriber_share_a_limit() {
        let mut limit = RateLimit::new(SECOND, 1, KEY);
        assert_eq!(limit.take(at("2001:db8::1"), after(SECOND)), Ok(()));
        assert!(limit.take(at("2001:db8::2"), after(SECOND)).is_err());
        assert_eq!(limit.take(at("2001:db8:0:1::1"), after(SECOND)), Ok(()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "65,536 hashes and more take minutes there")]
    fn a_site_of_65536_subscribers_has_four_times_the_tokens_of_one() {
        let mut limit = RateLimit::new(SECOND / 20, 5, KEY);
        let mut taken = 0;
        for number in 0..=u16::MAX {
            taken += u32::from(limit.take(of_site(number), after(SECOND)).is_ok());
        }
        assert_eq!(taken, 4 * 5);
        for number in 0..=u16::MAX {
            taken += u32::from(limit.take(of_site(number), after(SECOND * 2)).is_ok());
        }
        assert_eq!(taken, 2 * 4 * 5, "a second fills a bucket of five");
    }

    #[test]
    #[cfg_attr(miri, ignore = "65,536 hashes and more take minutes there")]
    fn whoever_is_refused_uses_up_no_tokens_of_others() {
        let mut limit = RateLimit::new(SECOND, 1, KEY);
        for number in 0..=u16::MAX {
            let _ = limit.take(of_site(number), after(SECOND));
        }
        let used = limit.buckets.iter();
        let used = used.filter(|bucket| **bucket != TokenBucket::FULL);
        assert!(used.count() <= 3 * 4);
    }
}
