//! The ranges from which names get their addresses.

use crate::{Error, NAMES_MAX};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest prefix of an IPv4 range: 254 names, as a home network has machines.
const V4_PREFIX_LEN_MAX: u8 = 24;

/// The longest prefix of an IPv6 range: as many as in IPv4.
const V6_PREFIX_LEN_MAX: u8 = 120;

/// The two addresses of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addresses {
    /// For A.
    pub v4: Ipv4Addr,
    /// For AAAA.
    pub v6: Ipv6Addr,
}

/// The ranges from which names get their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    v4: Ipv4Net,
    v6: Ipv6Net,
}

/// An index of addresses: the distance from the first address of each range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offset(u32);

impl Offset {
    /// The index of the addresses, see [`Ranges::offset`].
    pub(crate) const fn index(self) -> u32 {
        self.0 - 1
    }
}

impl Ranges {
    /// # Errors
    ///
    /// Ranges with host bits, with fewer than 254 addresses, and ranges that touch the unspecified,
    /// loopback, multicast, link-local or broadcast addresses.
    pub fn new(v4: Ipv4Net, v6: Ipv6Net) -> Result<Self, Error> {
        let fault = |given: String, meant: String, len: u8, longest: u8, routable: bool| {
            if given != meant {
                return Err(Error::HostBits { given, meant });
            }
            if len > longest {
                return Err(Error::TooSmall { given, longest });
            }
            routable.then_some(()).ok_or(Error::NotRoutable(given))
        };
        fault(
            v4.to_string(),
            v4.trunc().to_string(),
            v4.prefix_len(),
            V4_PREFIX_LEN_MAX,
            NOT_ROUTABLE_V4.iter().all(|other| !overlap(&v4, other)),
        )?;
        fault(
            v6.to_string(),
            v6.trunc().to_string(),
            v6.prefix_len(),
            V6_PREFIX_LEN_MAX,
            NOT_ROUTABLE_V6
                .iter()
                .all(|other| !v6.contains(other) && !other.contains(&v6)),
        )?;
        Ok(Self { v4, v6 })
    }

    /// The IPv4 range.
    pub fn v4(&self) -> Ipv4Net {
        self.v4
    }

    /// The IPv6 range.
    pub fn v6(&self) -> Ipv6Net {
        self.v6
    }

    /// True if an address lies in one of the ranges, taken by a name or not.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.contains(&address),
            IpAddr::V6(address) => self.v6.contains(&address),
        }
    }

    /// The number of names that the ranges have addresses for. The first address of a range names
    /// the range, and the last one is a broadcast address to some systems.
    pub(crate) fn capacity(&self) -> u32 {
        let v4_bits = 32 - u32::from(self.v4.prefix_len());
        let v6_bits = 128 - u32::from(self.v6.prefix_len());
        let bits = v4_bits.min(v6_bits).min(31);
        (1 << bits) - 2
    }

    /// The largest number of names that may have addresses at once.
    pub(crate) fn names_max(&self) -> usize {
        usize::try_from(self.capacity()).map_or(NAMES_MAX, |capacity| capacity.min(NAMES_MAX))
    }

    /// `index` below [`capacity`](Self::capacity).
    pub(crate) fn offset(&self, index: u32) -> Offset {
        debug_assert!(index < self.capacity());
        Offset(index + 1)
    }

    pub(crate) fn addresses(&self, Offset(offset): Offset) -> Addresses {
        let v4 = u32::from(self.v4.network()) | offset;
        let v6 = u128::from(self.v6.network()) | u128::from(offset);
        Addresses {
            v4: v4.into(),
            v6: v6.into(),
        }
    }

    /// `None` for addresses outside of the ranges, and for those behind the last that is given out.
    pub(crate) fn offset_of(&self, address: IpAddr) -> Option<Offset> {
        let offset = match address.to_canonical() {
            IpAddr::V4(address) if self.v4.contains(&address) => {
                u32::from(address) - u32::from(self.v4.network())
            }
            IpAddr::V6(address) if self.v6.contains(&address) => {
                u32::try_from(u128::from(address) - u128::from(self.v6.network())).ok()?
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        (1..=self.capacity())
            .contains(&offset)
            .then_some(Offset(offset))
    }
}

impl Default for Ranges {
    /// 100.96.0.0/11 and fd00:2021:1111:8000::/107: two million names.
    fn default() -> Self {
        Self {
            v4: Ipv4Net::new_assert(Ipv4Addr::new(100, 96, 0, 0), 11),
            v6: Ipv6Net::new_assert(
                Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 0, 0),
                107,
            ),
        }
    }
}

/// This network, loopback, link-local, and multicast to the end.
const NOT_ROUTABLE_V4: [Ipv4Net; 4] = [
    Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 8),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Unspecified, loopback and IPv4 in disguise; link-local; multicast.
const NOT_ROUTABLE_V6: [Ipv6Net; 3] = [
    Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 80),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

fn overlap(a: &Ipv4Net, b: &Ipv4Net) -> bool {
    a.contains(b) || b.contains(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(v4: &str, v6: &str) -> Result<Ranges, Error> {
        Ranges::new(v4.parse().unwrap(), v6.parse().unwrap())
    }

    #[test]
    fn the_default_ranges_are_those_of_the_contract() {
        let default = ranges("100.96.0.0/11", "fd00:2021:1111:8000::/107").unwrap();
        assert_eq!(Ranges::default(), default);
        assert_eq!(default.capacity(), (1 << 21) - 2);
    }

    #[test]
    fn a_range_that_cannot_serve_is_refused_with_the_fix() {
        let good = ("100.96.0.0/11", "fd00::/64");
        assert_eq!(
            ranges("100.96.0.1/11", good.1).unwrap_err().to_string(),
            "the range 100.96.0.1/11 begins inside itself: write 100.96.0.0/11"
        );
        assert_eq!(
            ranges(good.0, "fd00::/121").unwrap_err().to_string(),
            "the range fd00::/121 is too small for names: take a prefix of /120 or shorter"
        );
        for v4 in [
            "0.0.0.0/0",
            "127.0.0.0/8",
            "169.254.1.0/24",
            "224.0.0.0/4",
            "255.255.255.0/24",
        ] {
            assert_eq!(ranges(v4, good.1), Err(Error::NotRoutable(v4.to_owned())));
        }
        for v6 in ["::/0", "::ffff:0.0.0.0/96", "fe80::/64", "ff02::/16"] {
            assert_eq!(ranges(good.0, v6), Err(Error::NotRoutable(v6.to_owned())));
        }
    }

    #[test]
    fn the_first_and_the_last_address_of_a_range_are_not_given_out() {
        let ranges = ranges("10.9.8.0/24", "fd00::/64").unwrap();
        assert_eq!(ranges.capacity(), 254);
        for address in [
            "10.9.8.0",
            "10.9.8.255",
            "fd00::",
            "fd00::ff",
            "fd00::1:0:1",
            "10.9.9.1",
        ] {
            assert_eq!(
                ranges.offset_of(address.parse().unwrap()),
                None,
                "{address}"
            );
        }
    }

    proptest! {
        #[test]
        fn an_address_leads_back_to_its_offset(index in 0_u32..(1 << 21) - 2) {
            let ranges = Ranges::default();
            let offset = ranges.offset(index);
            let addresses = ranges.addresses(offset);
            prop_assert_eq!(ranges.offset_of(addresses.v4.into()), Some(offset));
            prop_assert_eq!(ranges.offset_of(addresses.v6.into()), Some(offset));
            prop_assert_eq!(ranges.offset_of(addresses.v4.to_ipv6_mapped().into()), Some(offset));
            prop_assert!(ranges.contains(addresses.v4.into()) && ranges.contains(addresses.v6.into()));
        }
    }
}
