//! The networks of the tunnel, as an administrator gives them: one of each family, of which machines
//! have one half and names the other.

use culvert_policy::Prefix;
use culvert_portal_base::Fault;
use culvert_wire::messages::Ranges;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The shortest IPv4 prefix: all of `10.0.0.0/8`, the largest network that is private.
const V4_SHORTEST: u8 = 8;
/// The longest: each half has the 254 addresses that a client wants for names at least.
const V4_LONGEST: u8 = 23;

/// The shortest IPv6 prefix: the half of all unique local addresses that may be used (RFC 4193).
const V6_SHORTEST: u8 = 8;
/// The longest: as many addresses as in IPv4.
const V6_LONGEST: u8 = 119;

/// The shortest prefix of the part of each half of an IPv6 network that is used. At this
/// length it has as many addresses as a half of `100.64.0.0/10`, so one number tells both addresses
/// of a machine or a name.
const V6_USED: u8 = 107;

/// Destinations that no packet in a tunnel may have: this host, its link, multicast, and IPv4 in
/// disguise.
const NOT_ROUTABLE: [(IpAddr, u8); 7] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 3),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 80),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
];

/// The networks inside the tunnel: the halves of machines and of names, joined where they are neighbours.
pub(super) fn tunnel(ranges: &Ranges) -> Vec<Prefix> {
    let mut networks = Vec::new();
    for (machines, names) in [
        (&ranges.machines_ipv4, &ranges.names_ipv4),
        (&ranges.machines_ipv6, &ranges.names_ipv6),
    ] {
        let halves: Vec<Prefix> = [machines, names]
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect();
        let whole = match halves[..] {
            [one, other] if one.len() == other.len() && one.len() > 0 => {
                let whole = Prefix::around(one.address(), one.len() - 1).ok();
                whole.filter(|whole| one != other && whole.contains(other.address()))
            }
            _ => None,
        };
        match whole {
            Some(whole) => networks.push(whole),
            None => networks.extend(halves),
        }
    }
    networks
}

/// Puts the halves of an IPv4 network in the place of those that are used now.
pub(super) fn set_ipv4(ranges: &mut Ranges, text: &str) -> Result<(), Fault> {
    let example = "expected an IPv4 network such as 100.64.0.0/10";
    let network = network("range4", text, example)?;
    let IpAddr::V4(first) = network.address() else {
        return Err(Fault::invalid("range4", example));
    };
    check("range4", network, V4_SHORTEST, V4_LONGEST)?;
    let len = network.len() + 1;
    let second = Ipv4Addr::from_bits(first.to_bits() + (1 << (32 - len)));
    ranges.machines_ipv4 = format!("{first}/{len}");
    ranges.names_ipv4 = format!("{second}/{len}");
    Ok(())
}

/// The same for IPv6. Of a half that is larger than need be, the beginning is used.
pub(super) fn set_ipv6(ranges: &mut Ranges, text: &str) -> Result<(), Fault> {
    let example = "expected an IPv6 network such as fd00:2021:1111::/48";
    let network = network("range6", text, example)?;
    let IpAddr::V6(first) = network.address() else {
        return Err(Fault::invalid("range6", example));
    };
    check("range6", network, V6_SHORTEST, V6_LONGEST)?;
    let half = network.len() + 1;
    let second = Ipv6Addr::from_bits(first.to_bits() + (1 << (128 - half)));
    let len = half.max(V6_USED);
    ranges.machines_ipv6 = format!("{first}/{len}");
    ranges.names_ipv6 = format!("{second}/{len}");
    Ok(())
}

fn network(field: &str, text: &str, example: &str) -> Result<Prefix, Fault> {
    if !text.contains('/') {
        return Err(Fault::invalid(field, example));
    }
    let parsed: Result<Prefix, _> = text.parse();
    parsed.map_err(|error| Fault::invalid(field, format_args!("{example}: {error}")))
}

/// Refuses what is too large, too small, or used otherwise on every host.
fn check(field: &str, network: Prefix, shortest: u8, longest: u8) -> Result<(), Fault> {
    let wrong = |detail: String| Fault::invalid(field, detail);
    let len = network.len();
    if !(shortest..=longest).contains(&len) {
        return Err(wrong(format!(
            "/{len} does not serve: the prefix is /{shortest} to /{longest}"
        )));
    }
    let forbidden = NOT_ROUTABLE.into_iter().find(|(address, len)| {
        let other = Prefix::around(*address, *len);
        let overlaps =
            |other: Prefix| other.contains(network.address()) || network.contains(other.address());
        other.is_ok_and(overlaps)
    });
    match forbidden {
        Some((address, len)) => Err(wrong(format!(
            "{network} overlaps {address}/{len}, whose addresses no tunnel can carry"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store::AccountSettings;

    fn set(text: &str) -> Result<Ranges, Fault> {
        let mut ranges = AccountSettings::default().ranges;
        match text.contains(':') {
            true => set_ipv6(&mut ranges, text)?,
            false => set_ipv4(&mut ranges, text)?,
        }
        Ok(ranges)
    }

    #[test]
    fn machines_have_one_half_and_names_the_other_as_they_have_from_the_start() {
        let mut ranges = set("10.20.0.0/16").unwrap();
        assert_eq!(ranges.machines_ipv4, "10.20.0.0/17");
        assert_eq!(ranges.names_ipv4, "10.20.128.0/17");
        set_ipv6(&mut ranges, "fd12:3456::/64").unwrap();
        assert_eq!(ranges.machines_ipv6, "fd12:3456::/107");
        assert_eq!(ranges.names_ipv6, "fd12:3456:0:0:8000::/107");
        set_ipv6(&mut ranges, "fd12:3456::/112").unwrap();
        assert_eq!(ranges.machines_ipv6, "fd12:3456::/113");
        assert_eq!(ranges.names_ipv6, "fd12:3456::8000/113");
        set_ipv4(&mut ranges, "100.64.0.0/10").unwrap();
        set_ipv6(&mut ranges, "fd00:2021:1111::/48").unwrap();
        assert_eq!(ranges, AccountSettings::default().ranges);
    }

    #[test]
    fn neighbours_are_one_network_inside_the_tunnel() {
        let networks = |ranges: &Ranges| -> Vec<String> {
            tunnel(ranges).iter().map(ToString::to_string).collect()
        };
        let mut ranges = AccountSettings::default().ranges;
        assert_eq!(
            networks(&ranges),
            [
                "100.64.0.0/10",
                "fd00:2021:1111::/107",
                "fd00:2021:1111:8000::/107"
            ]
        );
        set_ipv6(&mut ranges, "fd12:3456::/112").unwrap();
        assert_eq!(networks(&ranges), ["100.64.0.0/10", "fd12:3456::/112"]);
    }

    #[test]
    fn what_serves_no_tunnel_is_refused_with_what_would() {
        for (text, says) in [
            ("", "such as"),
            ("10.0.0.0", "such as"),
            ("10.0.0.0/33", "such as"),
            ("10.0.0.1/16", "10.0.0.0/16"),
            ("10.0.0.0/24", "/8 to /23"),
            ("8.0.0.0/7", "/8 to /23"),
            ("127.0.0.0/16", "127.0.0.0/8"),
            ("169.254.0.0/16", "169.254.0.0/16"),
            ("224.0.0.0/8", "224.0.0.0/3"),
            ("fd00::/120", "/8 to /119"),
            ("fd00::1/64", "fd00::/64"),
            ("fe80::/64", "fe80::/10"),
            ("::ffff:10.0.0.0/104", "no tunnel can carry"),
            ("::/64", "no tunnel can carry"),
        ] {
            let Err(Fault::Invalid(fields)) = set(text) else {
                panic!("{text}");
            };
            let detail = &fields[0].detail;
            assert!(detail.contains(says), "{text}: {detail}");
        }
        let mut ranges = AccountSettings::default().ranges;
        assert!(set_ipv4(&mut ranges, "fd00::/16").is_err());
        assert!(set_ipv6(&mut ranges, "10.0.0.0/16").is_err());
    }
}
