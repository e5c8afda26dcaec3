//! The rates of source addresses that hold while under load (§5.3): of those that have shown a cookie, and of those that
//! need none.

use crate::crypto;
use culvert_base::BootTime;
use culvert_fair::{RateLimit, Subscriber};
use std::net::IpAddr;
use std::time::Duration;

/// Handshake messages per second that one source may have processed while we are under load. A source is
/// an IPv4 address or an IPv6 /64; a /56, a /48 and a /32 may have twice, four and eight times as many
/// ([`culvert_fair::MULTIPLES`]). So a site of 65,536 /64s costs us 80 messages a second: with four
/// Diffie-Hellman of 40 µs each, 1.3 % of a processor.
pub const RATE_PER_SECOND: u32 = 20;

/// The number of them that may come at once.
pub const RATE_BURST: u32 = 5;

const COST: Duration = Duration::from_nanos(1_000_000_000 / RATE_PER_SECOND as u64);

/// Under load, a source may have [`RATE_BURST`] messages processed without a cookie, and one in this time: a peer that
/// has no session yet sends one, and another in five seconds where it is lost. With a cookie alone, each new
/// session would take those five seconds, because a cookie reply causes no retransmission (§5.4.7).
const COOKIELESS_EVERY: Duration = Duration::from_secs(1);

/// Messages per second that all sources together may have processed without a cookie, and how many at once.
/// Sources can be forged here, so whoever has many uses this up, and everybody needs a cookie then. With four
/// Diffie-Hellman of 40 µs each they cost 1.6 % of a processor. It takes a hundred IPv4 addresses, or twelve IPv6 /32.
const COOKIELESS_PER_SECOND: u32 = 100;

/// The rate of each source. Only sources that own their address (they sent a valid cookie) come this far.
/// However many they are, no source is refused because of the number of the others: memory is constant.
pub(crate) struct SourceRates(RateLimit<BootTime>);

impl SourceRates {
    /// Rates that nobody has used yet. `seed` is secret, so that nobody knows whose tokens they share.
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let key = hash_key(b"source rates", seed);
        Self(RateLimit::new(COST, RATE_BURST, key))
    }

    /// True if a message from `source` may be processed at `now`.
    pub(crate) fn allow(&mut self, source: IpAddr, now: BootTime) -> bool {
        self.0.take(Subscriber::of(source), now).is_ok()
    }
}

/// Messages that need no cookie while under load: a few of each source, and of all sources together. A flood of one
/// address or one site thus leaves handshakes of all others as they are.
///
/// The buckets are not those of [`SourceRates`], because anyone who forges an address can empty
/// them.
pub(crate) struct CookielessRates {
    sources: RateLimit<BootTime>,
    /// The time at which the bucket of all sources will be full again.
    full_at: BootTime,
}

impl CookielessRates {
    /// Rates that nobody has used yet; `seed` as for [`SourceRates::new`].
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let key = hash_key(b"cookieless rates", seed);
        Self {
            sources: RateLimit::new(COOKIELESS_EVERY, RATE_BURST, key),
            full_at: BootTime::ZERO,
        }
    }

    /// True if a message that claims to be from `source` may be processed at `now`.
    pub(crate) fn allow(&mut self, source: IpAddr, now: BootTime) -> bool {
        const SECOND: Duration = Duration::from_secs(1);
        let full_at = self.full_at.max(now);
        let charged = full_at.saturating_add(SECOND / COOKIELESS_PER_SECOND);
        if charged.saturating_since(now) > SECOND {
            return false;
        }
        let is_allowed = self.sources.take(Subscriber::of(source), now);
        if is_allowed.is_ok() {
            self.full_at = charged;
        }
        is_allowed.is_ok()
    }
}

fn hash_key(label: &[u8], seed: &[u8; 32]) -> [u64; 2] {
    let key = crypto::hash(&[label, seed]);
    [0, 8].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn at(millis: u64) -> BootTime {
        BootTime::from_nanos(millis * 1_000_000)
    }

    fn rates() -> SourceRates {
        SourceRates::new(&[7; 32])
    }

    /// A host of the `network`th /64 of one /48.
    fn of_site(network: u16) -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, 1, network, 0, 0, 0, 1).into()
    }

    #[test]
    fn five_pass_at_once_and_then_twenty_a_second() {
        let mut rates = rates();
        let burst = (0..10).filter(|_| rates.allow(V4, at(5000))).count();
        assert_eq!(burst, 5);
        let later = (5001..=6000).filter(|&ms| rates.allow(V4, at(ms))).count();
        assert_eq!(later, 20);
    }

    #[test]
    fn a_network_of_64_bits_is_one_source() {
        let mut rates = rates();
        let allowed = (0u16..10)
            .filter(|&host| {
                let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host);
                rates.allow(address.into(), at(5000))
            })
            .count();
        assert_eq!(allowed, 5);
        let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1);
        assert!(rates.allow(other.into(), at(5000)));
    }

    #[test]
    fn a_site_of_65536_networks_shuts_nobody_out_and_has_four_times_the_rate_of_one() {
        let mut rates = rates();
        let mut allowed = 0;
        for millis in 5000..=6000 {
            for network in 0..=u16::MAX / 16 {
                // Each /64 comes by, in turns.
                let network = network * 16 + u16::try_from(millis % 16).unwrap();
                allowed += u32::from(rates.allow(of_site(network), at(millis)));
            }
        }
        assert_eq!(allowed, 4 * (RATE_BURST + RATE_PER_SECOND));
        assert!(rates.allow(V4, at(6000)));
        let neighbour = Ipv6Addr::new(0x2001, 0xdb8, 2, 1, 0, 0, 0, 1);
        assert!(rates.allow(neighbour.into(), at(6000)));
    }

    #[test]
    fn many_sources_that_come_at_once_are_not_refused_for_their_number() {
        let mut rates = rates();
        let hosts = 0..20_000u32;
        let allowed = hosts
            .filter(|&host| rates.allow(IpAddr::V4(Ipv4Addr::from_bits(host)), at(5000)))
            .count();
        // Some share tokens with five others, which one in ten thousand does.
        assert!(allowed > 19_990, "{allowed}");
    }

    #[test]
    fn who_shares_tokens_depends_on_the_seed() {
        let refused = |seed| -> Vec<u32> {
            let mut rates = SourceRates::new(&[seed; 32]);
            let host = |host: &u32| IpAddr::V4(Ipv4Addr::from_bits(*host));
            (0..60_000)
                .filter(|it| !rates.allow(host(it), at(5000)))
                .collect()
        };
        assert!(!refused(7).is_empty());
        assert_ne!(refused(7), refused(8));
    }

    fn cookieless() -> CookielessRates {
        CookielessRates::new(&[7; 32])
    }

    #[test]
    fn without_a_cookie_five_pass_at_once_and_then_one_a_second() {
        let mut rates = cookieless();
        let burst = (0..10).filter(|_| rates.allow(V4, at(5000))).count();
        assert_eq!(burst, 5);
        let later = (5001..=15_000)
            .filter(|&ms| rates.allow(V4, at(ms)))
            .count();
        assert_eq!(later, 10);
    }

    #[test]
    fn without_cookies_a_site_of_65536_networks_leaves_what_others_need() {
        let mut rates = cookieless();
        let mut allowed = 0;
        for millis in [5000, 6000] {
            for network in 0..=u16::MAX {
                allowed += u32::from(rates.allow(of_site(network), at(millis)));
            }
        }
        assert_eq!(allowed, 4 * (RATE_BURST + 1));
        assert!(rates.allow(V4, at(6000)));
        let neighbour = Ipv6Addr::new(0x2001, 0xdb8, 2, 1, 0, 0, 0, 1);
        assert!(rates.allow(neighbour.into(), at(6000)));
    }

    #[test]
    fn without_cookies_a_hundred_a_second_pass_however_many_sources_there_are() {
        let mut rates = cookieless();
        let mut allowed = 0;
        for host in 0..20_000u32 {
            // Two seconds, after the hundred that pass at once.
            let source = IpAddr::V4(Ipv4Addr::from_bits(host));
            allowed += u32::from(rates.allow(source, at(5000 + u64::from(host) / 10)));
        }
        assert!((298..=300).contains(&allowed), "{allowed}");
    }

    #[test]
    fn refusals_without_a_cookie_use_up_nothing_of_others() {
        let mut rates = cookieless();
        for _ in 0..1000 {
            rates.allow(V4, at(5000));
        }
        let others = (0..200u32)
            .filter(|&host| rates.allow(IpAddr::V4(Ipv4Addr::from_bits(host)), at(5000)))
            .count();
        assert_eq!(others, 95);
    }
}
