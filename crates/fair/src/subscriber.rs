//! The holders of entries: the networks that an address belongs to, the finest first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The share of a network, as a multiple of one subscriber's share: for IPv6 prefixes of 64, 56, 48 and
/// 32 bits.
///
/// A host has a /64, a household a /56, a site a /48 (RFC 6177), an internet provider a /32. Each step
/// doubles: an attacker who owns the whole network gets little for it, and a crowd of honest subscribers
/// of one network has more than a single one.
pub const MULTIPLES: [u32; 4] = [1, 2, 4, 8];

/// Bits of the prefixes that [`MULTIPLES`] are about.
const PREFIX_BITS: [u32; 4] = [64, 56, 48, 32];

/// The share of a proxy, as a multiple. A proxy speaks for many, so it gives way only if it holds a
/// thousand times as many entries as anybody else.
const PROXY_MULTIPLE: u32 = 1_024;

/// Bytes of a subscriber: its kind, and 64 bits.
pub const SUBSCRIBER_LEN: usize = 9;

/// The first byte of a subscriber, by its kind.
const TAG_V4: u8 = 4;
const TAG_V6: u8 = 6;
const TAG_KEY: u8 = b'k';
const TAG_PROXY: u8 = b'p';

/// The holder of an entry, or the asker for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One(Network),
    /// The first half of an IPv6 address.
    V6(u64),
}

/// A network, or whatever else has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network {
    bits: u64,
    class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    Everybody,
    V4,
    /// The index in [`PREFIX_BITS`].
    V6(u8),
    Key,
    Proxy,
}

impl Subscriber {
    /// The subscriber at an address. IPv4 addresses that are mapped to IPv6 are the IPv4 address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::one(u64::from(v4.to_bits()), Class::V4),
            IpAddr::V6(v6) => Self(Kind::V6(first_half(v6))),
        }
    }

    /// A proxy at an address. It is trusted and speaks for many: it has no share of its own to exceed, and
    /// counts for a thousandth.
    #[must_use]
    pub fn proxy(address: IpAddr) -> Self {
        let bits = match address.to_canonical() {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => first_half(v6),
        };
        Self::one(bits, Class::Proxy)
    }

    /// Somebody who is known by other things than an address, such as an account: by a hash of them. Two of
    /// one hash share a share.
    #[must_use]
    pub const fn key(hash: u64) -> Self {
        Self::one(hash, Class::Key)
    }

    const fn one(bits: u64, class: Class) -> Self {
        Self(Kind::One(Network { bits, class }))
    }

    /// The subscriber in the form in which a database keeps it. Subscribers of one network begin alike
    /// ([`Self::shares`]).
    #[must_use]
    pub fn to_bytes(self) -> [u8; SUBSCRIBER_LEN] {
        let (tag, bits) = match self.0 {
            Kind::V6(bits) => (TAG_V6, bits),
            Kind::One(Network { bits, class }) => match class {
                Class::V4 => (TAG_V4, bits),
                Class::Proxy => (TAG_PROXY, bits),
                Class::Key | Class::Everybody | Class::V6(_) => (TAG_KEY, bits),
            },
        };
        let mut bytes = [tag; SUBSCRIBER_LEN];
        bytes[1..].copy_from_slice(&bits.to_be_bytes());
        bytes
    }

    /// The subscriber of [`Self::to_bytes`]; none for other bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; SUBSCRIBER_LEN]) -> Option<Self> {
        let [tag, bits @ ..] = bytes;
        let bits = u64::from_be_bytes(bits);
        match tag {
            TAG_V4 => Some(Self::one(bits, Class::V4)),
            TAG_V6 => Some(Self(Kind::V6(bits))),
            TAG_KEY => Some(Self::one(bits, Class::Key)),
            TAG_PROXY => Some(Self::one(bits, Class::Proxy)),
            _ => None,
        }
    }

    /// The networks of the subscriber that have a share, the finest first: how many of its bytes all subscribers of
    /// the network have in common, and the share as a multiple of one subscriber's.
    pub fn shares(self) -> impl Iterator<Item = (usize, u32)> {
        let bounded = self.networks().filter(|network| network.is_bounded());
        bounded.map(|network| {
            let common = match network.class {
                Class::V6(step) => 1 + (PREFIX_BITS[usize::from(step)] / 8) as usize,
                _ => SUBSCRIBER_LEN,
            };
            (common, network.multiple())
        })
    }

    /// The address, or the first one of its IPv6 /64; none for what is no address.
    #[must_use]
    pub fn address(self) -> Option<IpAddr> {
        match self.0 {
            Kind::V6(bits) => Some(Ipv6Addr::from_bits(u128::from(bits) << 64).into()),
            Kind::One(Network {
                bits,
                class: Class::V4,
            }) => u32::try_from(bits)
                .ok()
                .map(|bits| Ipv4Addr::from_bits(bits).into()),
            Kind::One(_) => None,
        }
    }

    /// The networks that the subscriber is in, the finest first.
    pub(crate) fn networks(self) -> impl DoubleEndedIterator<Item = Network> + Clone {
        let (count, bits) = match self.0 {
            Kind::One(_) => (1, 0),
            Kind::V6(bits) => (PREFIX_BITS.len(), bits),
        };
        (0..count).map(move |step| match self.0 {
            Kind::One(network) => network,
            Kind::V6(_) => Network {
                bits: bits & (u64::MAX << (64 - PREFIX_BITS[step])),
                // One of four.
                class: Class::V6(u8::try_from(step).unwrap_or(u8::MAX)),
            },
        })
    }

    /// The finest of the networks.
    pub(crate) fn finest(self) -> Network {
        match self.0 {
            Kind::One(network) => network,
            Kind::V6(bits) => Network {
                bits,
                class: Class::V6(0),
            },
        }
    }
}

impl Network {
    /// The network that all others are in. It has no share.
    pub(crate) const EVERYBODY: Self = Self {
        bits: 0,
        class: Class::Everybody,
    };

    /// Before and after all others in their order.
    pub(crate) const FIRST: Self = Self::EVERYBODY;
    pub(crate) const LAST: Self = Self {
        bits: u64::MAX,
        class: Class::Proxy,
    };

    /// Its share, as a multiple of one subscriber's share.
    pub(crate) fn multiple(self) -> u32 {
        match self.class {
            Class::Everybody | Class::V4 | Class::Key => 1,
            Class::V6(step) => MULTIPLES[usize::from(step)],
            Class::Proxy => PROXY_MULTIPLE,
        }
    }

    /// True if the share limits it even while the table has room.
    pub(crate) const fn is_bounded(self) -> bool {
        !matches!(self.class, Class::Everybody | Class::Proxy)
    }
}

fn first_half(address: Ipv6Addr) -> u64 {
    // The upper 64 bits of 128.
    u64::try_from(address.to_bits() >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(address: &str) -> Vec<Network> {
        let subscriber = Subscriber::of(address.parse().unwrap());
        subscriber.networks().collect()
    }

    #[test]
    fn a_subscriber_is_the_same_when_it_was_stored_as_bytes() {
        let address = |text: &str| Subscriber::of(text.parse().unwrap());
        let proxy = Subscriber::proxy("192.0.2.1".parse().unwrap());
        for (subscriber, at) in [
            (address("192.0.2.1"), Some("192.0.2.1")),
            (address("2001:db8:1:2::3"), Some("2001:db8:1:2::")),
            (Subscriber::key(u64::MAX), None),
            (proxy, None),
        ] {
            let stored = subscriber.to_bytes();
            assert_eq!(Subscriber::from_bytes(stored), Some(subscriber));
            assert_eq!(subscriber.address().map(|at| at.to_string()).as_deref(), at);
        }
        assert_eq!(Subscriber::from_bytes([0; SUBSCRIBER_LEN]), None);
    }

    #[test]
    fn subscribers_of_one_network_begin_with_the_same_bytes() {
        let one = Subscriber::of("2001:db8:1:1::1".parse().unwrap());
        let shares: Vec<_> = one.shares().collect();
        assert_eq!(shares, [(9, 1), (8, 2), (7, 4), (5, 8)]);
        for (other, common) in [
            ("2001:db8:1:1::2", 9),
            ("2001:db8:1:2::1", 8),
            ("2001:db8:1:100::1", 7),
            ("2001:db8:2:1::1", 5),
        ] {
            let other = Subscriber::of(other.parse().unwrap()).to_bytes();
            let begins_alike = |len: &usize| one.to_bytes()[..*len] == other[..*len];
            let most = shares.iter().map(|(len, _)| *len).find(begins_alike);
            assert_eq!(most, Some(common));
        }
        let shares: Vec<_> = Subscriber::key(1).shares().collect();
        assert_eq!(shares, [(9, 1)]);
        let proxy = Subscriber::proxy("192.0.2.1".parse().unwrap());
        assert_eq!(proxy.shares().count(), 0, "it has no share to exceed");
    }

    #[test]
    fn an_ipv6_address_is_in_four_networks_and_an_ipv4_address_is_alone() {
        let one = networks("2001:db8:1:2::1");
        assert_eq!(one, networks("2001:db8:1:2:ffff::"));
        for (other, shared) in [
            ("2001:db8:1:3::1", 3),
            ("2001:db8:1:102::1", 2),
            ("2001:db8:2:2::1", 1),
            ("2001:db9:1:2::1", 0),
        ] {
            let other = networks(other);
            let same = one.iter().filter(|network| other.contains(network));
            assert_eq!(same.count(), shared);
        }
        assert_eq!(networks("192.0.2.1").len(), 1);
        assert_ne!(networks("192.0.2.1"), networks("192.0.2.2"));
        assert_eq!(networks("::ffff:192.0.2.1"), networks("192.0.2.1"));
    }

    #[test]
    fn the_finest_network_is_the_first() {
        for address in ["2001:db8:1:2::1", "192.0.2.1"] {
            let subscriber = Subscriber::of(address.parse().unwrap());
            assert_eq!(subscriber.networks().next(), Some(subscriber.finest()));
        }
    }

    #[test]
    fn a_proxy_is_not_the_subscriber_at_its_address() {
        let address = "192.0.2.1".parse().unwrap();
        assert_ne!(Subscriber::proxy(address), Subscriber::of(address));
        assert_ne!(Subscriber::key(1), Subscriber::key(2));
    }
}
