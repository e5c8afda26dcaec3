//! Address ranges.

use crate::quotable;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address range in CIDR form. The bits of the address past the length are zero.
///
/// Ranges sort by family, first address, length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// One range given to a WireGuard peer or taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedIpChange {
    /// `allowed_ip=10.0.0.0/8`: the peer gets the range, whoever had it before.
    Add(Prefix),
    /// `allowed_ip=-10.0.0.0/8`: the peer loses the range if it has it; another peer's range stays.
    Remove(Prefix),
}

/// The text or the numbers are no address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Not of the form ADDRESS/LENGTH. The text is shortened by [`quotable()`].
    #[error("`{0}` is no address range: write one as 10.0.0.0/8 or fd00::/64")]
    Form(String),
    /// Longer than an address.
    #[error(transparent)]
    Length(#[from] PrefixLengthError),
    /// Bits behind the prefix are set.
    #[error(
        "{address}/{} has bits set behind its prefix: write {range} for the range, or {} for the one address",
        range.len(), Prefix::host(*address)
    )]
    HostBits {
        /// The address as it was given.
        address: IpAddr,
        /// The range around it.
        range: Prefix,
    },
}

/// A prefix is longer than an address of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prefix length of {len} exceeds the {width} bits of an address")]
pub struct PrefixLengthError {
    /// The length that was given, in bits.
    pub len: u8,
    /// Bits of an address of that family.
    pub width: u8,
}

impl Prefix {
    /// The range of addresses that share the first `len` bits of `address`.
    ///
    /// # Errors
    /// [`PrefixError::Length`] beyond the 32 or 128 bits of an address, and [`PrefixError::HostBits`] where a bit
    /// behind the length is set: `10.1.2.3/8` means either less or more than its writer gets, so the error names both.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, PrefixError> {
        let range = Self::around(address, len)?;
        if range.address == address {
            Ok(range)
        } else {
            Err(PrefixError::HostBits { address, range })
        }
    }

    /// The range of length `len` that holds `address`; the other bits of `address` are cleared.
    ///
    /// # Errors
    /// [`PrefixLengthError`] beyond the 32 or 128 bits of an address.
    #[inline]
    pub const fn around(address: IpAddr, len: u8) -> Result<Self, PrefixLengthError> {
        let width = width(address);
        if len > width {
            return Err(PrefixLengthError { len, width });
        }
        let address = from_bits(mask(bits(address), len), address.is_ipv4());
        Ok(Self { address, len })
    }

    /// The range of one address.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        let len = width(address);
        Self { address, len }
    }

    /// The first address.
    #[must_use]
    #[inline]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The length in bits.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bits, not of a container"
    )]
    #[must_use]
    #[inline]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// True if the address is in the range. An IPv4 address is in no IPv6 range and the reverse.
    #[must_use]
    #[inline]
    pub const fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(bits(address), self.len) == bits(self.address)
    }

    /// True for the range of a single address.
    #[must_use]
    pub const fn is_host(self) -> bool {
        self.len == width(self.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.len)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `10.0.0.0/8`. A length is required: an address alone is written without a slash.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let refused = || PrefixError::Form(quotable(text));
        let (address, len) = text.split_once('/').ok_or_else(refused)?;
        let address = address.parse().map_err(|_| refused())?;
        // `u8::from_str` takes a sign, a range does not.
        if !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(refused());
        }
        Self::new(address, len.parse().map_err(|_| refused())?)
    }
}

/// The address as the leading bits of a 128-bit number.
const fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => (v4.to_bits() as u128) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const fn from_bits(bits: u128, is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    }
}

const fn mask(bits: u128, len: u8) -> u128 {
    match u128::BITS - len as u32 {
        u128::BITS => 0,
        unused => bits >> unused << unused,
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_are_refused_with_both_remedies() {
        let error = "10.1.2.3/8".parse::<Prefix>().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("10.0.0.0/8"), "{text}");
        assert!(text.contains("10.1.2.3/32"), "{text}");
        let error = "fd00::1/64".parse::<Prefix>().unwrap_err().to_string();
        assert!(error.contains("fd00::/64") && error.contains("fd00::1/128"));
    }

    #[test]
    fn a_range_reads_what_it_writes_and_nothing_else() {
        for text in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "::/0",
            "fd00:1::/32",
            "1.2.3.4/32",
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
            "10/8",
            "a/8",
            "10.0.0.0/256",
            "10.0.0.0/8 ",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn families_do_not_mix() {
        let all: Prefix = "::/0".parse().unwrap();
        assert!(!all.contains([10, 0, 0, 1].into()));
        assert!(all.contains(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn a_range_around_an_address_clears_its_other_bits() {
        let around = |address: &str, len| Prefix::around(address.parse().unwrap(), len);
        assert_eq!(around("10.1.2.3", 8).unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(around("10.1.2.3", 0).unwrap().to_string(), "0.0.0.0/0");
        assert_eq!(around("fd00::1", 64).unwrap().to_string(), "fd00::/64");
        assert_eq!(
            around("10.0.0.0", 33),
            Err(PrefixLengthError { len: 33, width: 32 })
        );
        assert_eq!(
            around("::", 129),
            Err(PrefixLengthError {
                len: 129,
                width: 128
            })
        );
    }
}
