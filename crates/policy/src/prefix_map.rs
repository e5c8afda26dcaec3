//! A map that finds the longest range around an address.

use culvert_base::Prefix;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A map from ranges to values, which finds the longest range around an address.
///
/// It looks the address up once for each length in use, longest first: at most 33 or 129 times,
/// in practice a handful, and every change touches one entry alone.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values()
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
        let counts = match prefix.address() {
            IpAddr::V4(_) => self.v4_lens.as_mut_slice(),
            IpAddr::V6(_) => self.v6_lens.as_mut_slice(),
        };
        &mut counts[usize::from(prefix.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn address(bits: u128, is_ipv4: bool) -> IpAddr {
        if is_ipv4 {
            Ipv4Addr::from_bits((bits >> 96) as u32).into()
        } else {
            Ipv6Addr::from_bits(bits).into()
        }
    }

    /// The address with one bit turned over.
    fn flipped(address: IpAddr, bit: u32) -> IpAddr {
        match address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() ^ 1 << (bit % 32)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() ^ 1 << bit).into(),
        }
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        // Few distinct leading bits, so that ranges nest and addresses hit them.
        let sparse = prop_oneof![
            any::<u128>(),
            (0_u128..16).prop_map(|n| n << 124 | n << 96 | n)
        ];
        (sparse, any::<bool>(), 0_u8..=128).prop_map(|(bits, v4, len)| {
            let len = if v4 { len % 33 } else { len };
            Prefix::around(address(bits, v4), len).unwrap()
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
                flips.iter().map(|&bit| flipped(range.address(), bit)).chain([range.address()])
            });
            for address in near.chain(probes.iter().map(|&(bits, v4)| address(bits, v4))) {
                let naive = left.iter().filter(|range| range.contains(address)).map(|range| range.len()).max();
                prop_assert_eq!(map.longest(address).copied(), naive, "{}", address);
            }
        }
    }
}
