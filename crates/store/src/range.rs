//! Networks from which machines get their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its first address, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u128,
    /// Addresses in it, at least 8, at most 2^127.
    size: u128,
    /// Bytes of an address.
    len: usize,
}

/// Fewest host bits of a range: 8 addresses, of which a few machines can live.
const MIN_HOST_BITS: u32 = 3;

impl Range {
    /// From `address/length`, of addresses with `len` bytes (4 or 16).
    ///
    /// # Errors
    /// A text for people that says what is wrong.
    pub fn parse(text: &str, len: usize) -> Result<Self, String> {
        let example = if len == 4 {
            "100.64.0.0/11"
        } else {
            "fd00:2021:1111::/107"
        };
        let expected = || format!("expected a network such as {example}");
        let (address, prefix) = text.split_once('/').ok_or_else(expected)?;
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let (first, bits) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let prefix: u32 = prefix.parse().map_err(|_| expected())?;
        if bits != 8 * len as u32 || prefix == 0 || prefix > bits {
            return Err(expected());
        }
        let host_bits = bits - prefix;
        if host_bits < MIN_HOST_BITS {
            let longest = bits - MIN_HOST_BITS;
            return Err(format!("too small: the prefix is at most /{longest}"));
        }
        let size = 1_u128 << host_bits;
        if first % size != 0 {
            return Err(format!(
                "{address} is not the first address of its /{prefix}"
            ));
        }
        Ok(Self { first, size, len })
    }

    /// True if an address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.len == other.len
            && self.first < other.first + other.size
            && other.first < self.first + self.size
    }

    /// True if the address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (number, len) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 4),
            IpAddr::V6(address) => (u128::from(address), 16),
        };
        self.len == len && number >= self.first && number - self.first < self.size
    }

    /// The number of addresses that machines can have: all but the first (the network's own, or the
    /// anycast address of its routers) and the last (the broadcast address of IPv4).
    pub fn hosts(&self) -> u128 {
        self.size - 2
    }

    /// The `index`th of [`Self::hosts`], from 0; beyond the last it begins anew.
    pub fn host(&self, index: u128) -> u128 {
        self.first + 1 + index % self.hosts()
    }

    /// An address as databases keep it: in the order of the network, so that they sort.
    pub fn bytes(&self, address: u128) -> Vec<u8> {
        address.to_be_bytes()[16 - self.len..].to_vec()
    }
}

/// An IPv4 address from its number.
pub fn ipv4(number: u128) -> Option<Ipv4Addr> {
    u32::try_from(number).ok().map(Ipv4Addr::from)
}

/// An IPv6 address from its number.
pub fn ipv6(number: u128) -> Ipv6Addr {
    Ipv6Addr::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_network_of_its_family_with_room() {
        for (text, len, good) in [
            ("100.64.0.0/11", 4, true),
            ("10.0.0.8/29", 4, true),
            ("10.0.0.4/30", 4, false),
            ("10.0.0.1/24", 4, false),
            ("0.0.0.0/0", 4, false),
            ("10.0.0.0/33", 4, false),
            ("10.0.0.0", 4, false),
            ("fd00::/107", 4, false),
            ("fd00::/107", 16, true),
            ("fd00::/1", 16, false),
            ("8000::/1", 16, true),
            ("fd00::/126", 16, false),
            ("10.0.0.0/8", 16, false),
        ] {
            assert_eq!(Range::parse(text, len).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn a_range_that_is_too_small_is_told_how_small_it_may_be() {
        for (text, len, longest) in [("10.0.0.4/30", 4, "/29"), ("fd00::/126", 16, "/125")] {
            let told = Range::parse(text, len).unwrap_err();
            assert_eq!(told, format!("too small: the prefix is at most {longest}"));
        }
    }

    #[test]
    fn hosts_are_all_but_the_first_and_the_last_address() {
        let range = Range::parse("10.0.0.8/29", 4).unwrap();
        assert_eq!(range.hosts(), 6);
        let hosts: Vec<_> = (0..7).map(|at| ipv4(range.host(at)).unwrap()).collect();
        let expected: Vec<Ipv4Addr> = (9..=14)
            .chain([9])
            .map(|at| [10, 0, 0, at].into())
            .collect();
        assert_eq!(hosts, expected);
        assert_eq!(range.bytes(range.host(0)), [10, 0, 0, 9]);
    }

    #[test]
    fn overlap_is_of_one_family_only() {
        let range = |text, len| Range::parse(text, len).unwrap();
        let machines = range("100.64.0.0/11", 4);
        assert!(machines.overlaps(&range("100.64.8.0/24", 4)));
        assert!(!machines.overlaps(&range("100.96.0.0/11", 4)));
        assert!(!machines.overlaps(&range("::6440:0/107", 16)));
    }
}
