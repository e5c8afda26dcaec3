//! The token bucket per source address that holds while under load (§5.3).

use crate::time::Time;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Handshake messages per second that one source may have processed while we are under load.
pub const RATE_PER_SECOND: u32 = 20;

/// How many of them may come at once.
pub const RATE_BURST: u32 = 5;

/// The most sources remembered. A source is forgotten one second after its last message, and takes
/// a table entry of about 64 bytes: half a megabyte at most. Only sources that own their address
/// (they sent a valid cookie) come this far, so filling the table takes as many real hosts; while
/// it is full, further sources are refused.
pub const MAX_RATED_SOURCES: usize = 8192;

const COST: Duration = Duration::from_nanos(1_000_000_000 / RATE_PER_SECOND as u64);
const TOKENS_MAX: Duration = COST.saturating_mul(RATE_BURST);
/// After this long a bucket is full again in any case (5 messages / 20 per second, rounded up).
const FORGET_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct RateLimit {
    buckets: BTreeMap<IpAddr, Bucket>,
    last_sweep: Time,
}

/// Tokens are kept as the time in which they accrue.
struct Bucket {
    tokens: Duration,
    refilled_at: Time,
}

impl RateLimit {
    /// Whether a message from `source` may be processed at `now`.
    pub(crate) fn allow(&mut self, source: IpAddr, now: Time) -> bool {
        self.sweep(now);
        let source = network(source);
        if !self.buckets.contains_key(&source) && self.buckets.len() >= MAX_RATED_SOURCES {
            return false;
        }
        let bucket = self.buckets.entry(source).or_insert(Bucket {
            tokens: TOKENS_MAX,
            refilled_at: now,
        });
        let accrued = now.saturating_since(bucket.refilled_at);
        bucket.tokens = bucket.tokens.saturating_add(accrued).min(TOKENS_MAX);
        bucket.refilled_at = now;
        match bucket.tokens.checked_sub(COST) {
            Some(left) => {
                bucket.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Forgets, once per second, the sources that were silent for a second.
    fn sweep(&mut self, now: Time) {
        if now.has_passed(self.last_sweep, FORGET_AFTER) {
            self.last_sweep = now;
            self.buckets
                .retain(|_, bucket| !now.has_passed(bucket.refilled_at, FORGET_AFTER));
        }
    }
}

/// One host owns a whole IPv6 /64 as a rule, so that is what is limited.
fn network(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(_) => source,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn five_pass_at_once_and_then_twenty_a_second() {
        let mut limit = RateLimit::default();
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let burst = (0..10).filter(|_| limit.allow(source, at(5000))).count();
        assert_eq!(burst, 5);
        let later = (5001..=6000)
            .filter(|&ms| limit.allow(source, at(ms)))
            .count();
        assert_eq!(later, 20);
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_source() {
        let mut limit = RateLimit::default();
        let allowed = (0u16..10)
            .filter(|&host| {
                let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host);
                limit.allow(address.into(), at(5000))
            })
            .count();
        assert_eq!(allowed, 5);
        let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1);
        assert!(limit.allow(other.into(), at(5000)));
    }

    #[test]
    fn the_table_is_bounded_and_silent_sources_are_forgotten() {
        let mut limit = RateLimit::default();
        let address = |host: u32| IpAddr::V4(Ipv4Addr::from_bits(host));
        let allowed = (0..20_000)
            .filter(|&host| limit.allow(address(host), at(5000)))
            .count();
        assert_eq!(allowed, MAX_RATED_SOURCES);
        assert!(!limit.allow(address(20_001), at(5500)));
        assert!(limit.allow(address(20_001), at(6001)));
        assert_eq!(limit.buckets.len(), 1);
    }
}
