//! Ranges of which the narrowest counts, as ranges that do not overlap.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use culvert_policy::Prefix;

/// The addresses from the first to the last, in the form that `nft` takes.
pub(super) fn shown(is_ipv4: bool, first: u128, last: u128) -> String {
    let address = |number: u128| -> IpAddr {
        match is_ipv4 {
            // All four bytes of an IPv4 address.
            true => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
            false => Ipv6Addr::from_bits(number).into(),
        }
    };
    match first == last {
        true => address(first).to_string(),
        false => format!("{}-{}", address(first), address(last)),
    }
}

/// Each address of a family with the value of the narrowest range around it: first address, last
/// address, value, in the order of addresses.
pub(super) fn flatten<V: Copy>(
    ranges: &BTreeMap<Prefix, V>,
    is_ipv4: bool,
) -> Vec<(u128, u128, V)> {
    let mut flat = Vec::new();
    // The ranges around the address that was reached, the widest first.
    let mut around: Vec<(u128, V)> = Vec::new();
    let mut reached = 0;
    let mut tell = |from: u128, to: u128, value: V| {
        if from <= to {
            flat.push((from, to, value));
        }
    };
    // Ranges sort by address, then by length: each comes after those around it.
    let of_family = ranges
        .iter()
        .filter(|(range, _)| range.address().is_ipv4() == is_ipv4);
    for (range, value) in of_family {
        let (first, last) = ends(*range);
        while let Some((end, outer)) = around.pop_if(|(end, _)| *end < first) {
            tell(reached, end, outer);
            reached = end + 1;
        }
        if let Some((_, outer)) = around.last()
            && reached < first
        {
            tell(reached, first - 1, *outer);
        }
        reached = first;
        around.push((last, *value));
    }
    while let Some((end, value)) = around.pop() {
        tell(reached, end, value);
        match end.checked_add(1) {
            Some(next) => reached = reached.max(next),
            // All ranges around it end here as well.
            None => break,
        }
    }
    flat
}

fn ends(range: Prefix) -> (u128, u128) {
    let (first, width) = match range.address() {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let host_bits = width - u32::from(range.len());
    let span = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
    (first, first | span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(texts: &[(&str, u8)]) -> BTreeMap<Prefix, u8> {
        let each = texts.iter();
        each.map(|(text, value)| (text.parse().unwrap(), *value))
            .collect()
    }

    fn told(ranges: &BTreeMap<Prefix, u8>, is_ipv4: bool) -> Vec<(String, u8)> {
        let flat = flatten(ranges, is_ipv4).into_iter();
        flat.map(|(first, last, value)| (shown(is_ipv4, first, last), value))
            .collect()
    }

    #[test]
    fn the_narrower_range_is_cut_out_of_the_wider() {
        let ranges = map(&[
            ("10.0.0.0/8", 1),
            ("10.1.2.3/32", 2),
            ("10.1.2.0/24", 3),
            ("fd00::/64", 4),
        ]);
        let expected = [
            ("10.0.0.0-10.1.1.255", 1),
            ("10.1.2.0-10.1.2.2", 3),
            ("10.1.2.3", 2),
            ("10.1.2.4-10.1.2.255", 3),
            ("10.1.3.0-10.255.255.255", 1),
        ];
        let expected = expected.map(|(text, value)| (text.to_owned(), value));
        assert_eq!(told(&ranges, true), expected);
        let all = "fd00::-fd00::ffff:ffff:ffff:ffff".to_owned();
        assert_eq!(told(&ranges, false), [(all, 4)]);
    }

    #[test]
    fn everything_and_nothing_are_ranges() {
        let everything = map(&[("0.0.0.0/0", 1), ("::/0", 2), ("ffff::/16", 3)]);
        assert_eq!(
            told(&everything, true),
            [("0.0.0.0-255.255.255.255".to_owned(), 1)]
        );
        assert_eq!(told(&everything, false).len(), 2);
        assert_eq!(told(&BTreeMap::new(), true), []);
    }

    proptest! {
        #[test]
        fn every_address_has_the_value_of_the_narrowest_range_around_it(
            ranges in prop::collection::vec((0_u32..4096, 20_u8..=32, any::<u8>()), 0..12),
            probes in prop::collection::vec(0_u32..4200, 1..64),
        ) {
            let around = |bits: u32, len| Prefix::around(Ipv4Addr::from_bits(bits).into(), len).unwrap();
            let ranges: BTreeMap<Prefix, u8> =
                ranges.into_iter().map(|(bits, len, value)| (around(bits, len), value)).collect();
            let flat = flatten(&ranges, true);
            prop_assert!(flat.windows(2).all(|pair| pair[0].1 < pair[1].0), "{flat:?}");
            for probe in probes {
                let address = Ipv4Addr::from_bits(probe).into();
                let narrowest = ranges.iter().filter(|(range, _)| range.contains(address))
                    .max_by_key(|(range, _)| range.len()).map(|(_, value)| *value);
                let found = flat.iter().find(|(first, last, _)| (*first..=*last).contains(&probe.into()));
                prop_assert_eq!(found.map(|(_, _, value)| *value), narrowest);
            }
        }
    }
}
