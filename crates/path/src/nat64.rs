//! IPv4 addresses on networks that have IPv6 alone: the addresses of a NAT64 (RFC 6052), and its prefix (RFC 7050).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The name whose IPv6 addresses tell the prefix of a NAT64 (RFC 7050 §2.2). It has IPv4 addresses alone.
pub const IPV4_ONLY_NAME: &str = "ipv4only.arpa";

/// Those addresses.
pub const IPV4_ONLY_ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];

/// Lengths in bits that a prefix may have (RFC 6052 §2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// Bits 64 to 71 of an address are zero: no byte of the IPv4 address is there.
const RESERVED_BYTE: usize = 8;

/// The prefix by which a NAT64 is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat64Prefix {
    prefix: Ipv6Addr,
    len: u8,
}

impl Nat64Prefix {
    /// `64:ff9b::/96`. No private IPv4 address is reached by it (RFC 6052 §3.1).
    pub const WELL_KNOWN: Self = Self {
        prefix: Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
        len: 96,
    };

    /// A prefix of one of the lengths of RFC 6052; what comes after it is cleared.
    #[must_use]
    pub fn new(prefix: Ipv6Addr, len: u8) -> Option<Self> {
        if !LENGTHS.contains(&len) {
            return None;
        }
        let masked = u128::from(prefix) & (u128::MAX << (128 - u32::from(len)));
        let prefix = Ipv6Addr::from(masked);
        // With the longest one the reserved byte is inside.
        (prefix.octets()[RESERVED_BYTE] == 0).then_some(Self { prefix, len })
    }

    /// The prefix that the IPv6 addresses of [`IPV4_ONLY_NAME`] tell. None if they tell none, or more than one: then
    /// somebody else has answered.
    #[must_use]
    pub fn discover(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let mut found = None;
        for address in addresses {
            let IpAddr::V6(address) = address else {
                continue;
            };
            let prefixes = LENGTHS.iter().filter_map(|len| Self::new(address, *len));
            let mut fitting = prefixes.filter(|prefix| {
                let embeds = |known: &Ipv4Addr| prefix.embed(*known) == address;
                IPV4_ONLY_ADDRESSES.iter().any(embeds)
            });
            let (Some(prefix), None) = (fitting.next(), fitting.next()) else {
                continue;
            };
            if found.is_some_and(|earlier| earlier != prefix) {
                return None;
            }
            found = Some(prefix);
        }
        found
    }

    /// The IPv6 address of an IPv4 address.
    #[must_use]
    pub fn embed(self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.prefix.octets();
        let first = usize::from(self.len / 8);
        let places = (first..octets.len()).filter(|place| *place != RESERVED_BYTE);
        for (place, octet) in places.zip(address.octets()) {
            octets[place] = octet;
        }
        octets.into()
    }

    /// The address by which the NAT64 leads to `to`; none if `to` is no IPv4 address, or one to which no NAT64 leads.
    #[must_use]
    pub fn reach(self, to: SocketAddr) -> Option<SocketAddr> {
        let IpAddr::V4(address) = to.ip() else {
            return None;
        };
        let leads_nowhere = address.is_loopback()
            || address.is_link_local()
            || address.is_unspecified()
            || address.is_multicast()
            || address.is_broadcast()
            || (self == Self::WELL_KNOWN && address.is_private());
        (!leads_nowhere).then(|| SocketAddr::new(self.embed(address).into(), to.port()))
    }
}

impl std::fmt::Display for Nat64Prefix {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.prefix, self.len)
    }
}

/// Addresses as a host without IPv4 reaches them: those of IPv4 by the NAT64, the others as they are. Without a prefix
/// nothing changes.
#[must_use]
pub fn reach_all(prefix: Option<Nat64Prefix>, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let reach = |address: &SocketAddr| {
        let translated = prefix.and_then(|prefix| prefix.reach(*address));
        translated.unwrap_or(*address)
    };
    addresses.iter().map(reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6052 §2.4.
    #[test]
    fn addresses_are_embedded_as_in_the_examples_of_the_standard() {
        let address = Ipv4Addr::new(192, 0, 2, 33);
        for (prefix, len, expected) in [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::", 96, "64:ff9b::192.0.2.33"),
        ] {
            let prefix = Nat64Prefix::new(prefix.parse().unwrap(), len).unwrap();
            let expected: Ipv6Addr = expected.parse().unwrap();
            assert_eq!(prefix.embed(address), expected, "{prefix}");
            let known = IPV4_ONLY_ADDRESSES.map(|known| prefix.embed(known).into());
            assert_eq!(Nat64Prefix::discover(known), Some(prefix));
        }
        assert_eq!(Nat64Prefix::new(Ipv6Addr::LOCALHOST, 72), None);
    }

    #[test]
    fn answers_that_tell_no_prefix_or_two_are_not_believed() {
        let of = |texts: &[&str]| {
            let addresses = texts.iter().map(|text| text.parse::<IpAddr>().unwrap());
            Nat64Prefix::discover(addresses)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["192.0.0.170", "192.0.0.171"]), None, "no translation");
        assert_eq!(of(&["2001:db8::1"]), None, "a captive network");
        let well_known = Some(Nat64Prefix::WELL_KNOWN);
        assert_eq!(of(&["64:ff9b::192.0.0.170"]), well_known);
        let both = ["192.0.0.170", "64:ff9b::192.0.0.171"];
        assert_eq!(of(&both), well_known);
        let two = ["64:ff9b::192.0.0.170", "2001:db8:64::192.0.0.170"];
        assert_eq!(of(&two), None);
    }

    #[test]
    fn only_addresses_to_which_a_translator_leads_are_translated() {
        let own = Nat64Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
        let all: Vec<SocketAddr> = [
            "192.0.2.1:3478",
            "10.0.0.1:7",
            "127.0.0.1:7",
            "[2001:db8::1]:7",
        ]
        .map(|text| text.parse().unwrap())
        .to_vec();
        let texts = |prefix| -> Vec<String> {
            let reached = reach_all(prefix, &all);
            reached.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            texts(Some(own)),
            [
                "[2001:db8:64::c000:201]:3478",
                "[2001:db8:64::a00:1]:7",
                "127.0.0.1:7",
                "[2001:db8::1]:7"
            ]
        );
        // The well-known prefix stands for no private address.
        assert_eq!(texts(Some(Nat64Prefix::WELL_KNOWN))[1], "10.0.0.1:7");
        assert_eq!(reach_all(None, &all), all);
    }
}
