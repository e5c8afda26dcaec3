//! The rate limit of a subscriber's requests before anybody knows who it is.

use culvert_base::Uptime;
use culvert_fair::Subscriber;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token bucket for each address: `burst` at once, one in `one_every` in the long run; a wider IPv6 network has
/// a multiple of both. Memory is the same whatever comes: half a mebibyte.
#[derive(Debug)]
pub struct RateLimit {
    limit: Mutex<culvert_fair::RateLimit>,
    hasher: RandomState,
    start: Instant,
}

impl RateLimit {
    /// A limit that nobody has used yet. `burst` is not 0.
    pub fn new(one_every: Duration, burst: u32) -> Self {
        let hasher = RandomState::new();
        // The hashes of a keyed hasher are as secret as its key.
        let key = [hasher.hash_one(0u8), hasher.hash_one(1u8)];
        Self {
            limit: Mutex::new(culvert_fair::RateLimit::new(one_every, burst, key)),
            hasher,
            start: Instant::now(),
        }
    }

    /// Takes one; or says how long to wait for it.
    pub fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.take_of(Subscriber::of(address), now)
    }

    /// The same for what is no address.
    pub fn take_for(&self, key: &impl Hash, now: Instant) -> Result<(), Duration> {
        self.take_of(Subscriber::key(self.hasher.hash_one(key)), now)
    }

    fn take_of(&self, subscriber: Subscriber, now: Instant) -> Result<(), Duration> {
        let now = Uptime::after(now.saturating_duration_since(self.start));
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        limit.take(subscriber, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_address_and_a_name_have_limits_of_their_own() {
        let limit = RateLimit::new(SECOND, 1);
        let now = limit.start;
        let [one, other] = ["203.0.113.7", "203.0.113.8"].map(|text| text.parse().unwrap());
        assert_eq!(limit.take(one, now), Ok(()));
        assert_eq!(limit.take(one, now), Err(SECOND));
        assert_eq!(limit.take(other, now), Ok(()));
        assert_eq!(limit.take_for(&"ada", now), Ok(()));
        assert_eq!(limit.take_for(&"ada", now), Err(SECOND));
        assert_eq!(limit.take_for(&"bob", now), Ok(()));
        assert_eq!(limit.take(one, now + SECOND), Ok(()));
    }
}
