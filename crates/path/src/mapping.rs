//! The mapping of the NAT in front of a socket (RFC 4787 §4.1), from the addresses at which others saw it.
//!
//! This is RFC 5780 §4.3 in meaning: one socket asks several addresses and ports from where it is seen. The questions
//! tell nothing of filtering, since each answer comes from the address that was asked.

use culvert_wire::messages::NatMapping;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The address of a socket, as one of those that it asked saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The address that was asked.
    pub by: SocketAddr,
    /// The source address that arrived there.
    pub mapped: SocketAddr,
}

/// The mapping of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// There is no NAT: the socket is seen with its own address.
    None,
    /// All destinations see the same address and port. Hole punching works.
    EndpointIndependent,
    /// Each address sees another port, and all ports of that address see the same one.
    AddressDependent,
    /// Each address and port sees another port. Such a NAT is also called symmetric.
    AddressAndPortDependent,
    /// Each address sees another port. No two ports of one address have answered, which would tell more.
    EndpointDependent,
    /// There is a NAT. All that answered have one address, so others may see another port.
    Unknown,
}

impl Mapping {
    /// The mapping that the answers show; none if there are none. `own` are the addresses from which the socket sends.
    #[must_use]
    pub fn of(seen: &[Seen], own: &[SocketAddr]) -> Option<Self> {
        let mapped: BTreeSet<SocketAddr> = seen.iter().map(|it| it.mapped).collect();
        let mut of_address: BTreeMap<IpAddr, BTreeSet<SocketAddr>> = BTreeMap::new();
        let mut ports: BTreeMap<IpAddr, BTreeSet<u16>> = BTreeMap::new();
        for it in seen {
            let address = it.by.ip();
            of_address.entry(address).or_default().insert(it.mapped);
            ports.entry(address).or_default().insert(it.by.port());
        }
        let differs = |of: &BTreeSet<SocketAddr>| of.len() > 1;
        Some(match mapped.len() {
            0 => return None,
            1 if own.iter().any(|own| mapped.contains(own)) => Self::None,
            1 if of_address.len() > 1 => Self::EndpointIndependent,
            1 => Self::Unknown,
            _ if of_address.values().any(differs) => Self::AddressAndPortDependent,
            _ if ports.values().any(|ports| ports.len() > 1) => Self::AddressDependent,
            _ => Self::EndpointDependent,
        })
    }

    /// True if the peer of a pair can't foresee the port from which this end's datagrams come.
    #[must_use]
    pub const fn is_endpoint_dependent(self) -> bool {
        match self {
            Self::AddressDependent | Self::AddressAndPortDependent | Self::EndpointDependent => {
                true
            }
            Self::None | Self::EndpointIndependent | Self::Unknown => false,
        }
    }

    /// Its name in JSON and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::EndpointIndependent => "endpoint_independent",
            Self::AddressDependent => "address_dependent",
            Self::AddressAndPortDependent => "address_and_port_dependent",
            Self::EndpointDependent => "endpoint_dependent",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Mapping> for NatMapping {
    fn from(mapping: Mapping) -> Self {
        match mapping {
            Mapping::None => Self::None,
            Mapping::EndpointIndependent => Self::EndpointIndependent,
            Mapping::AddressDependent
            | Mapping::AddressAndPortDependent
            | Mapping::EndpointDependent => Self::EndpointDependent,
            Mapping::Unknown => Self::Unknown,
        }
    }
}

/// The NAT in front of an end, for the portal: that of IPv4 if it is seen there, otherwise that of IPv6. IPv6 is rarely
/// translated, so IPv4 is where a NAT stands in the way.
#[must_use]
pub fn nat_mapping(seen: &[Seen], own: &[SocketAddr]) -> Option<NatMapping> {
    let of_family = |is_v4: bool| {
        let seen = seen.iter().filter(|it| it.by.is_ipv4() == is_v4);
        let seen: Vec<Seen> = seen.copied().collect();
        Mapping::of(&seen, own)
    };
    of_family(true).or_else(|| of_family(false)).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "10.0.0.2:50000";

    fn judge(seen: &[(&str, &str)]) -> Option<Mapping> {
        let seen: Vec<Seen> = seen
            .iter()
            .map(|(by, mapped)| Seen {
                by: by.parse().unwrap(),
                mapped: mapped.parse().unwrap(),
            })
            .collect();
        Mapping::of(&seen, &[OWN.parse().unwrap()])
    }

    #[test]
    fn answers_tell_no_more_than_they_show() {
        let (a, a2, b) = ("192.0.2.1:3478", "192.0.2.1:3479", "198.51.100.1:3478");
        let (one, other, third) = ("203.0.113.1:7", "203.0.113.1:8", "203.0.113.1:9");
        for (seen, expected) in [
            (&[][..], None),
            (&[(a, OWN)], Some(Mapping::None)),
            (&[(a, OWN), (b, OWN)], Some(Mapping::None)),
            // One address can't tell whether others see the same.
            (&[(a, one)], Some(Mapping::Unknown)),
            (&[(a, one), (a2, one)], Some(Mapping::Unknown)),
            (
                &[(a, one), (a2, other)],
                Some(Mapping::AddressAndPortDependent),
            ),
            (&[(a, one), (b, one)], Some(Mapping::EndpointIndependent)),
            (
                &[(a, one), (a2, one), (b, one)],
                Some(Mapping::EndpointIndependent),
            ),
            (&[(a, one), (b, other)], Some(Mapping::EndpointDependent)),
            (
                &[(a, one), (a2, one), (b, other)],
                Some(Mapping::AddressDependent),
            ),
            (
                &[(a, one), (a2, other), (b, third)],
                Some(Mapping::AddressAndPortDependent),
            ),
            // A NAT that keeps the port for one destination and has it taken for another.
            (&[(a, OWN), (b, one)], Some(Mapping::EndpointDependent)),
            // Another address of a pool counts like another port.
            (
                &[(a, one), (b, "203.0.113.2:7")],
                Some(Mapping::EndpointDependent),
            ),
            // The same port at another address is a NAT all the same.
            (&[(a, "203.0.113.1:50000")], Some(Mapping::Unknown)),
        ] {
            assert_eq!(judge(seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn the_portal_is_told_of_the_nat_of_ipv4_and_without_ipv4_of_that_of_ipv6() {
        let seen = |by: &str, mapped: &str| Seen {
            by: by.parse().unwrap(),
            mapped: mapped.parse().unwrap(),
        };
        let own = [
            "10.0.0.2:7".parse().unwrap(),
            "[2001:db8::2]:7".parse().unwrap(),
        ];
        let v6 = seen("[2001:db8::1]:3478", "[2001:db8::2]:7");
        let v4 = [
            seen("192.0.2.1:3478", "203.0.113.1:7"),
            seen("192.0.2.2:3478", "203.0.113.1:8"),
        ];
        assert_eq!(nat_mapping(&[], &own), None);
        assert_eq!(nat_mapping(&[v6], &own), Some(NatMapping::None));
        let both = [v6, v4[0], v4[1]];
        assert_eq!(
            nat_mapping(&both, &own),
            Some(NatMapping::EndpointDependent)
        );
    }

    #[test]
    fn only_a_dependent_mapping_hides_the_port() {
        for (mapping, hides) in [
            (Mapping::None, false),
            (Mapping::EndpointIndependent, false),
            (Mapping::Unknown, false),
            (Mapping::AddressDependent, true),
            (Mapping::AddressAndPortDependent, true),
            (Mapping::EndpointDependent, true),
        ] {
            assert_eq!(mapping.is_endpoint_dependent(), hides, "{}", mapping.name());
        }
    }
}
