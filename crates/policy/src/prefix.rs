//! Address ranges, and a map that finds the longest one around an address.

use crate::TargetError;
use std::collections::BTreeMap;
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

impl Prefix {
    /// The range of addresses that share the first `len` bits of `address`.
    ///
    /// # Errors
    /// [`TargetError::PrefixLength`] beyond the 32 or 128 bits of an address, and
    /// [`TargetError::HostBits`] if a bit behind the length is set. The author of `10.1.2.3/8`
    /// means either less or more than they get, so the error tells them both.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, TargetError> {
        let range = Self::around(address, len)?;
        if range.address == address {
            Ok(range)
        } else {
            Err(TargetError::HostBits { address, range })
        }
    }

    /// The range of length `len` that holds `address`, whatever its other bits are.
    ///
    /// # Errors
    /// [`TargetError::PrefixLength`].
    pub fn around(address: IpAddr, len: u8) -> Result<Self, TargetError> {
        let width = width(address);
        if len > width {
            return Err(TargetError::PrefixLength { len, width });
        }
        let kept = mask(bits(address), len);
        Ok(Self {
            address: from_bits(kept, address.is_ipv4()),
            len,
        })
    }

    /// The range of one address.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        let len = width(address);
        Self { address, len }
    }

    /// A range that is known to be one: see the test of [`crate::never_forwarded`].
    pub(crate) const fn constant(address: IpAddr, len: u8) -> Self {
        Self { address, len }
    }

    /// The first address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The number of leading bits that count.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bits, not of a container"
    )]
    #[must_use]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// True if the address is in the range. An IPv4 address is in no IPv6 range and the reverse.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(bits(address), self.len) == bits(self.address)
    }

    /// True if it is a single address.
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
    type Err = TargetError;

    /// Reads `10.0.0.0/8`. A length is required: an address alone is written without a slash, and
    /// is another kind of target.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let refused = || TargetError::Prefix(quotable(text));
        let (address, len) = text.split_once('/').ok_or_else(refused)?;
        let address = address.parse().map_err(|_| refused())?;
        // `u8::from_str` takes a sign, a range does not.
        if !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(refused());
        }
        Self::new(address, len.parse().map_err(|_| refused())?)
    }
}

/// As much of a refused text as an error repeats: enough for any address range.
pub(crate) fn quotable(text: &str) -> String {
    const MAX_CHARS: usize = 64;
    text.chars().take(MAX_CHARS).collect()
}

/// A map from ranges to values, which finds the longest range around an address.
///
/// It looks the address up once for each length in use, longest first: at most 33 or 129 times,
/// in practice a handful, and every change touches one entry alone.
#[derive(Clone, Debug)]
pub(crate) struct PrefixMap<T> {
    entries: BTreeMap<Prefix, T>,
    /// Entries of each length.
    v4_lens: [u32; 33],
    v6_lens: [u32; 129],
}

impl<T> Default for PrefixMap<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            v4_lens: [0; 33],
            v6_lens: [0; 129],
        }
    }
}

impl<T: Default> PrefixMap<T> {
    /// The value of exactly this range, made if it is missing.
    pub(crate) fn entry(&mut self, prefix: Prefix) -> &mut T {
        if !self.entries.contains_key(&prefix) {
            *self.count_mut(prefix) += 1;
        }
        self.entries.entry(prefix).or_default()
    }
}

impl<T> PrefixMap<T> {
    pub(crate) fn remove(&mut self, prefix: Prefix) {
        if self.entries.remove(&prefix).is_some() {
            *self.count_mut(prefix) -= 1;
        }
    }

    pub(crate) fn get(&self, prefix: Prefix) -> Option<&T> {
        self.entries.get(&prefix)
    }

    pub(crate) fn get_mut(&mut self, prefix: Prefix) -> Option<&mut T> {
        self.entries.get_mut(&prefix)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut()
    }

    /// The value of the longest range that holds the address.
    pub(crate) fn longest(&self, address: IpAddr) -> Option<&T> {
        let counts = match address {
            IpAddr::V4(_) => self.v4_lens.as_slice(),
            IpAddr::V6(_) => self.v6_lens.as_slice(),
        };
        let used = counts
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, count)| **count > 0);
        used.filter_map(|(len, _)| Prefix::around(address, len as u8).ok())
            .find_map(|prefix| self.entries.get(&prefix))
    }

    fn count_mut(&mut self, prefix: Prefix) -> &mut u32 {
        let counts = match prefix.address {
            IpAddr::V4(_) => self.v4_lens.as_mut_slice(),
            IpAddr::V6(_) => self.v6_lens.as_mut_slice(),
        };
        &mut counts[usize::from(prefix.len)]
    }
}

/// The address as the leading bits of a 128-bit number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_bits(bits: u128, is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        Ipv4Addr::from_bits((bits >> 96) as u32).into()
    } else {
        Ipv6Addr::from_bits(bits).into()
    }
}

fn mask(bits: u128, len: u8) -> u128 {
    match u128::BITS - u32::from(len) {
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
    use proptest::prelude::*;

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

    fn prefix() -> impl Strategy<Value = Prefix> {
        // Few distinct leading bits, so that ranges nest and addresses hit them.
        let sparse = prop_oneof![
            any::<u128>(),
            (0_u128..16).prop_map(|n| n << 124 | n << 96 | n)
        ];
        (sparse, any::<bool>(), 0_u8..=128).prop_map(|(bits, v4, len)| {
            let len = if v4 { len % 33 } else { len };
            Prefix::around(from_bits(bits, v4), len).unwrap()
        })
    }

    proptest! {
        #[test]
        fn the_longest_range_that_holds_an_address_is_found(
            ranges in prop::collection::vec(prefix(), 0..40),
            removed in 0_usize..10,
            probes in prop::collection::vec((any::<u128>(), any::<bool>()), 1..10),
            flips in prop::collection::vec(0_u32..128, 4),
        ) {
            let mut map = PrefixMap::<u8>::default();
            for range in &ranges {
                *map.entry(*range) = range.len();
            }
            for range in ranges.iter().take(removed) {
                map.remove(*range);
            }
            let left: Vec<Prefix> = ranges
                .iter()
                .filter(|range| !ranges.iter().take(removed).any(|gone| gone == *range))
                .copied()
                .collect();
            let near = ranges.iter().flat_map(|range| {
                let flipped = |flip: &u32| from_bits(bits(range.address) ^ 1 << flip, range.address.is_ipv4());
                flips.iter().map(flipped).chain([range.address])
            });
            for address in near.chain(probes.iter().map(|&(bits, v4)| from_bits(bits, v4))) {
                let naive = left.iter().filter(|range| range.contains(address)).map(|range| range.len()).max();
                prop_assert_eq!(map.longest(address).copied(), naive, "{}", address);
            }
        }
    }
}
