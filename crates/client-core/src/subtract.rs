//! Subtracts prefixes from a prefix: the range of one target without the smaller ranges inside it.

use culvert_policy::Prefix;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Adds to `pieces` what is left of `range` without `holes`, as few ranges as can be, until there are
/// `most`. Pieces beyond that are left out: they have no route then, so that nothing goes astray.
pub(super) fn subtract_prefixes(
    range: Prefix,
    holes: &BTreeSet<Prefix>,
    most: usize,
    pieces: &mut BTreeSet<Prefix>,
) {
    // Ranges sort by address, then by length: those inside `range` follow it directly.
    let hole = holes
        .range(range..)
        .next()
        .filter(|hole| range.contains(hole.address()));
    match hole {
        _ if pieces.len() >= most => {}
        None => {
            pieces.insert(range);
        }
        Some(hole) if *hole == range => {}
        Some(_) => {
            for half in halves(range).into_iter().flatten() {
                subtract_prefixes(half, holes, most, pieces);
            }
        }
    }
}

/// The two halves of a range; none where it is one address.
fn halves(range: Prefix) -> [Option<Prefix>; 2] {
    let len = range.len() + 1;
    let upper = match range.address() {
        IpAddr::V4(address) if len <= 32 => {
            Ipv4Addr::from_bits(address.to_bits() | 1 << (32 - len)).into()
        }
        IpAddr::V6(address) if len <= 128 => {
            Ipv6Addr::from_bits(address.to_bits() | 1 << (128 - len)).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return [None, None],
    };
    [range.address(), upper].map(|address| Prefix::around(address, len).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_hole_leaves_its_siblings() {
        let mut pieces = BTreeSet::new();
        let holes = BTreeSet::from([prefix("10.64.0.0/10"), prefix("11.0.0.0/8")]);
        subtract_prefixes(prefix("10.0.0.0/8"), &holes, 100, &mut pieces);
        let expected = ["10.0.0.0/10", "10.128.0.0/9"].map(prefix);
        assert_eq!(pieces, expected.into());
    }

    #[test]
    fn what_exceeds_the_bound_is_left_out() {
        let mut pieces = BTreeSet::new();
        let holes = BTreeSet::from([prefix("10.0.0.1/32")]);
        subtract_prefixes(prefix("10.0.0.0/8"), &holes, 5, &mut pieces);
        assert_eq!(pieces.len(), 5);
    }

    #[test]
    fn prefixes_are_subtracted_from_the_whole_internet() {
        let mut pieces = BTreeSet::new();
        let holes = BTreeSet::from([prefix("::1/128"), prefix("ffff::/16")]);
        subtract_prefixes(prefix("::/0"), &holes, 1000, &mut pieces);
        assert_eq!(pieces.len(), 127 + 15);
    }

    proptest! {
        #[test]
        fn an_address_is_kept_exactly_if_no_hole_has_it(
            bits in any::<u32>(),
            len in 0_u8..=32,
            holes in prop::collection::vec((any::<u32>(), 0_u8..=32), 0..12),
            flips in prop::collection::vec(0_u32..32, 8),
        ) {
            let around = |bits: u32, len| Prefix::around(Ipv4Addr::from_bits(bits).into(), len).unwrap();
            let range = around(bits, len);
            // Most holes share leading bits with the range, so that they lie inside.
            let holes: BTreeSet<Prefix> = holes
                .into_iter()
                .map(|(other, hole_len)| {
                    let mask = u32::MAX.checked_shr(u32::from(len)).unwrap_or(0);
                    around(bits & !mask | other & mask, hole_len.max(len))
                })
                .collect();
            let mut pieces = BTreeSet::new();
            subtract_prefixes(range, &holes, 10_000, &mut pieces);
            let mut addresses: Vec<u32> = flips.iter().map(|flip| bits ^ 1 << flip).collect();
            for hole in &holes {
                let IpAddr::V4(first) = hole.address() else { unreachable!() };
                addresses.extend(flips.iter().map(|flip| first.to_bits() ^ 1 << flip));
                addresses.push(first.to_bits());
            }
            for address in addresses {
                let address = Ipv4Addr::from_bits(address).into();
                let expected = range.contains(address) && !holes.iter().any(|hole| hole.contains(address));
                let found = pieces.iter().filter(|piece| piece.contains(address)).count();
                prop_assert_eq!(found, usize::from(expected), "{}", address);
            }
        }
    }
}
