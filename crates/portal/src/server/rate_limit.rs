//! How much one address may ask before anybody knows who it is.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets that all addresses share: 65,536 of 16 bytes are 1 MiB. Two addresses that fall into one
/// share its limit, which a thousand active addresses do with a chance of 1.5 %; nobody can choose
/// whose bucket to fall into, since the hash is keyed.
const BUCKETS: usize = 1 << 16;

/// A token bucket for each address: `burst` at once, one in `one_every` in the long run. Memory is the
/// same whatever comes.
#[derive(Debug)]
pub(crate) struct RateLimit {
    one_every: Duration,
    burst: u32,
    hasher: RandomState,
    /// For each bucket, since the start, when it will be full again.
    full_at: Mutex<Vec<Duration>>,
    start: Instant,
}

impl RateLimit {
    /// A limit that nobody has used yet. `burst` is not 0.
    pub(crate) fn new(one_every: Duration, burst: u32) -> Self {
        Self {
            one_every,
            burst,
            hasher: RandomState::new(),
            full_at: Mutex::new(vec![Duration::ZERO; BUCKETS]),
            start: Instant::now(),
        }
    }

    /// Takes one; or says how long to wait for it.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.take_for(&one_subscriber(address), now)
    }

    /// The same for what is no address.
    pub(crate) fn take_for(&self, key: &impl Hash, now: Instant) -> Result<(), Duration> {
        let now = now.saturating_duration_since(self.start);
        let one = self.one_every;
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        // Below 65,536, whatever the width of usize.
        let index = (self.hasher.hash_one(key) % BUCKETS as u64) as usize;
        let full_at = buckets[index].max(now) + one;
        let full = one * self.burst;
        match full_at.checked_sub(now + full) {
            None | Some(Duration::ZERO) => {
                buckets[index] = full_at;
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }
}

/// One subscriber of IPv6 has a /64 at least, and may use every address of it.
fn one_subscriber(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limit = RateLimit::new(Duration::from_millis(100), 5);
        let start = limit.start;
        let address = ip("203.0.113.7");
        for _ in 0..5 {
            assert_eq!(limit.take(address, start), Ok(()));
        }
        let wait = limit.take(address, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(limit.take(address, start + wait), Ok(()));
        assert!(limit.take(address, start + wait).is_err());
    }

    #[test]
    fn refusals_do_not_lengthen_the_wait() {
        let limit = RateLimit::new(Duration::from_millis(100), 1);
        let start = limit.start;
        let address = ip("203.0.113.7");
        assert_eq!(limit.take(address, start), Ok(()));
        for _ in 0..1000 {
            assert_eq!(limit.take(address, start), Err(Duration::from_millis(100)));
        }
    }

    #[test]
    fn addresses_of_one_ipv6_subscriber_share_a_limit() {
        let limit = RateLimit::new(Duration::from_secs(1), 1);
        let start = limit.start;
        assert_eq!(limit.take(ip("2001:db8::1"), start), Ok(()));
        assert!(limit.take(ip("2001:db8::2"), start).is_err());
    }
}
