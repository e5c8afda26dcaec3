//! Names of addresses (RFC 1035, §3.5; RFC 3596, §2.5).

use domain::base::name::{Label, ToLabelIter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that a whole reverse name stands for.
pub(crate) fn address(name: &impl ToLabelIter) -> Option<IpAddr> {
    let mut labels = name.iter_labels().filter(|label| !label.is_root()).rev();
    let is = |label: Option<&Label>, text: &str| {
        label.is_some_and(|label| label.as_slice().eq_ignore_ascii_case(text.as_bytes()))
    };
    if !is(labels.next(), "arpa") {
        return None;
    }
    let zone = labels.next();
    if is(zone, "in-addr") {
        let octets = digits::<4>(labels, 10)?;
        return Some(Ipv4Addr::from(octets).into());
    }
    if is(zone, "ip6") {
        let nibbles = digits::<32>(labels, 16)?;
        let bits = nibbles.iter().try_fold(0_u128, |bits, nibble| {
            (*nibble < 16).then(|| bits << 4 | u128::from(*nibble))
        })?;
        return Some(Ipv6Addr::from(bits).into());
    }
    None
}

/// Exactly `COUNT` numbers, each the only way to write it.
fn digits<'a, const COUNT: usize>(
    mut labels: impl Iterator<Item = &'a Label>,
    radix: u32,
) -> Option<[u8; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        let text = std::str::from_utf8(labels.next()?.as_slice()).ok()?;
        if text.starts_with('+') || (text.len() > 1 && text.starts_with('0')) {
            return None;
        }
        *number = u8::from_str_radix(text, radix).ok()?;
    }
    labels.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Name;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<IpAddr> {
        address(&Name::vec_from_str(text).unwrap())
    }

    #[test]
    fn only_whole_reverse_names_stand_for_an_address() {
        assert_eq!(
            read("4.3.2.1.IN-ADDR.ARPA"),
            Some("1.2.3.4".parse().unwrap())
        );
        for text in [
            "3.2.1.in-addr.arpa",
            "5.4.3.2.1.in-addr.arpa",
            "256.3.2.1.in-addr.arpa",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in [
            "04.3.2.1.in-addr.arpa",
            "+4.3.2.1.in-addr.arpa",
            "4.3.2.1.in-addr.test",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&format!("10.{}ip6.arpa", "0.".repeat(31))), None);
        assert_eq!(read("arpa"), None);
    }

    proptest! {
        #[test]
        fn every_address_is_read_from_its_reverse_name(bits in any::<u128>(), v4 in any::<u32>()) {
            for address in [IpAddr::V6(bits.into()), IpAddr::V4(v4.into())] {
                let name = Name::<Vec<u8>>::reverse_from_addr(address).unwrap();
                prop_assert_eq!(super::address(&name), Some(address));
            }
        }
    }
}
