//! Addresses from a first to a last one, `10.1.2.3-10.1.2.9`, as firewalls write them. A resource is a prefix, so the
//! answer says which prefixes hold the same addresses.

use crate::{Prefix, TargetError};
use std::net::IpAddr;

/// The most prefixes that a message names: a line of them.
const MAX_NAMED: usize = 8;

/// The error for a text that says from which address to which, in the place of a target; none for any other text.
#[must_use]
pub fn span_error(text: &str) -> Option<TargetError> {
    let (first, last) = ends(text)?;
    if first > last {
        return Some(TargetError::ReversedSpan { first, last });
    }
    let mut networks = networks(first, last).map(|network| network.to_string());
    let mut named: Vec<String> = networks.by_ref().take(MAX_NAMED).collect();
    if networks.next().is_some() {
        named.push("…".to_owned());
    }
    let networks = named.join(", ");
    Some(TargetError::Span {
        first,
        last,
        networks,
    })
}

/// Both ends, of one family. The last may be the last number of an IPv4 address alone: `10.1.2.3-9`.
fn ends(text: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = text.split_once(['-', '–'])?;
    let (first, last) = (first.trim(), last.trim());
    let first: IpAddr = first.parse().ok()?;
    let last = match (first, last.parse::<u8>()) {
        (IpAddr::V4(v4), Ok(number)) => {
            let [a, b, c, _] = v4.octets();
            IpAddr::from([a, b, c, number])
        }
        _ => last.parse().ok()?,
    };
    (first.is_ipv4() == last.is_ipv4()).then_some((first, last))
}

/// The fewest prefixes that hold the addresses from `first` to `last`, and no others. Both are of one family.
fn networks(first: IpAddr, last: IpAddr) -> impl Iterator<Item = Prefix> {
    let width: u32 = if first.is_ipv4() { 32 } else { 128 };
    let last = number(last);
    let mut next = Some(number(first));
    std::iter::from_fn(move || {
        let start = next.filter(|start| *start <= last)?;
        // As large as the alignment of the start allows, and no larger than what is left.
        let mut bits = start.trailing_zeros().min(width);
        let behind_first = |bits: u32| u128::MAX.checked_shr(u128::BITS - bits).unwrap_or(0);
        while behind_first(bits) > last - start {
            bits -= 1;
        }
        next = (start + behind_first(bits)).checked_add(1);
        Prefix::new(address(start, first.is_ipv4()), (width - bits) as u8).ok()
    })
}

const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits() as u128,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const fn address(number: u128, is_ipv4: bool) -> IpAddr {
    match is_ipv4 {
        true => IpAddr::V4(std::net::Ipv4Addr::from_bits(number as u32)),
        false => IpAddr::V6(std::net::Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_from_one_to_another_are_answered_with_prefixes() {
        for (text, networks) in [
            ("10.1.2.3-10.1.2.9", "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31"),
            (
                "10.1.2.3 - 10.1.2.9",
                "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31",
            ),
            ("10.1.2.3–10.1.2.9", "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31"),
            ("10.1.2.3-9", "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31"),
            ("10.0.0.0-10.255.255.255", "10.0.0.0/8"),
            ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
            ("10.0.0.1-10.0.0.1", "10.0.0.1/32"),
            ("fd00::1-fd00::3", "fd00::1/128, fd00::2/127"),
            ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        ] {
            let error = span_error(text).unwrap().to_string();
            assert!(
                error.contains(&format!("write {networks}")),
                "{text}: {error}"
            );
        }
        let error = span_error("10.1.2.9-10.1.2.3").unwrap().to_string();
        assert!(error.contains("ends before it begins"), "{error}");
        let error = span_error("0.0.0.1-255.255.255.254").unwrap().to_string();
        assert!(error.contains(", …"), "{error}");
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "10.1.2.3",
            "10.0.0.0/8",
            "db-1.corp.example",
            "10-1.corp.example",
            "10.1.2.3-db",
            "10.1.2.3-fd00::1",
            "fd00::1-9999999",
            "-",
            "",
        ] {
            assert_eq!(span_error(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_prefixes_follow_each_other_from_end_to_end(a: u32, b: u32) {
            let (first, last) = (a.min(b), a.max(b));
            let networks = networks(address(first.into(), true), address(last.into(), true));
            let mut next = Some(u128::from(first));
            let mut end = None;
            for network in networks {
                prop_assert_eq!(Some(number(network.address())), next);
                end = Some(number(network.address()) + (1 << (32 - network.len())) - 1);
                next = end.map(|end| end + 1);
            }
            prop_assert_eq!(end, Some(u128::from(last)));
        }
    }
}
