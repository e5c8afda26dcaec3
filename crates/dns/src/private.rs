//! Addresses that lead to hosts of a private network.

use culvert_policy::{EMBEDDINGS, Prefix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 addresses that are no hosts of the public internet (RFC 6890). Those of documentation are nobody's hosts.
const PRIVATE_V4: [(Ipv4Addr, u8); 10] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Public IPv6 addresses (RFC 4291, section 2.4, and the allocations of IANA), and those of translators (RFC 6052).
const PUBLIC_V6: [(Ipv6Addr, u8); 2] = [
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
];

/// True if an address is no host of the public internet, or holds such an IPv4 address.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => {
            let is_public = is_in(address.into(), &PUBLIC_V6);
            let holds_private = EMBEDDINGS.iter().any(|embedding| {
                let held = embedding.extract(address);
                held.is_some_and(is_private_v4)
            });
            !is_public || holds_private
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    is_in(address.into(), &PRIVATE_V4)
}

fn is_in<A: Copy + Into<IpAddr>>(address: IpAddr, ranges: &[(A, u8)]) -> bool {
    ranges.iter().any(|(first, len)| {
        let range = Prefix::new((*first).into(), *len);
        range.is_ok_and(|range| range.contains(address))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_private_networks_are_known_in_each_form() {
        for text in [
            "10.0.0.1",
            "100.96.0.1",
            "127.0.0.53",
            "169.254.1.1",
            "172.31.255.255",
            "192.168.1.1",
            "255.255.255.255",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::fb",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:c0a8:101::1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in [
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.2.1",
            "203.0.113.7",
            "223.255.255.255",
            "::ffff:203.0.113.7",
            "2001:db8::1",
            "2a00:1450::1",
            "64:ff9b::cb00:7107",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }
}
