//! The addresses of this host under which others may reach it.
//!
//! Used are global addresses of interfaces that are up. Left out are:
//! - loopback, and Culvert's own interfaces;
//! - bridges whose ports all are ends of this host's own containers and virtual machines (`docker0`,
//!   `virbr0`, or one without a port): nobody else is behind them. A bridge that has a network card
//!   among its ports is the host's way out and stays;
//! - link-local, multicast and unspecified addresses;
//! - IPv6 addresses that are not yet proven unique, that go out of use, or that are made to be
//!   temporary.
//!
//! Addresses that are only an offer too many do no harm: nothing answers there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use culvert_netlink::route::address::{AddressHeaderFlags, AddressMessage, AddressScope};
use culvert_netlink::route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use ipnet::IpNet;

use crate::InterfaceName;
use crate::routing::address_of;

/// The most addresses that are offered: each costs a client one datagram of 148 bytes for every
/// handshake. A host with two uplinks, two families and several addresses on each has fewer.
pub const MAX_CANDIDATES: usize = 16;

/// An address under which others may reach this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostAddress {
    /// The index of its interface.
    pub(crate) interface_index: u32,
    pub(crate) address: IpAddr,
}

/// The usable ones of the host's addresses, but those of the interfaces `own`.
pub(crate) fn usable(
    links: &[LinkMessage],
    addresses: &[AddressMessage],
    own: &[InterfaceName],
) -> BTreeSet<HostAddress> {
    let links: BTreeMap<u32, Link<'_>> = links
        .iter()
        .map(|message| (message.header.index, Link::read(message)))
        .collect();
    let mut usable = BTreeSet::new();
    for message in addresses {
        let index = message.header.index;
        let is_link_usable = links.get(&index).is_some_and(|link| {
            let is_own = own.iter().any(|own| own.as_str() == link.name);
            link.up && !link.loopback && !is_own && !joins_guests_only(index, &links)
        });
        if let Some(address) = address_of(message)
            && is_link_usable
            && is_address_usable(message, address)
        {
            usable.insert(HostAddress {
                interface_index: index,
                address,
            });
        }
    }
    usable
}

/// Every address of the host but those of the interfaces `own`.
pub(crate) fn all_but_of(
    links: &[LinkMessage],
    addresses: &[AddressMessage],
    own: &[InterfaceName],
) -> BTreeSet<IpAddr> {
    let is_own = |link: &&LinkMessage| {
        let name = Link::read(link).name;
        own.iter().any(|own| own.as_str() == name)
    };
    let own: BTreeSet<u32> = links
        .iter()
        .filter(is_own)
        .map(|link| link.header.index)
        .collect();
    let others = addresses
        .iter()
        .filter(|message| !own.contains(&message.header.index));
    others.filter_map(address_of).collect()
}

/// The addresses to offer: those of interfaces that lead out first, at most [`MAX_CANDIDATES`].
pub(crate) fn candidates(usable: &BTreeSet<HostAddress>, ways_out: &[u32]) -> Vec<IpAddr> {
    let mut ordered: Vec<&HostAddress> = usable.iter().collect();
    // Stable: by index and address within each half.
    ordered.sort_by_key(|found| !ways_out.contains(&found.interface_index));
    let mut candidates = Vec::new();
    for HostAddress { address, .. } in ordered {
        // One address may be on two interfaces.
        if candidates.len() < MAX_CANDIDATES && !candidates.contains(address) {
            candidates.push(*address);
        }
    }
    candidates
}

/// A network that an interface of the host has an address of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearNetwork {
    pub(crate) prefix: IpNet,
    /// True behind a bridge that joins this host's own containers and virtual machines alone.
    pub(crate) is_of_guests: bool,
}

/// The networks of all interfaces.
pub(crate) fn near_networks(
    links: &[LinkMessage],
    addresses: &[AddressMessage],
) -> Vec<NearNetwork> {
    let links: BTreeMap<u32, Link<'_>> = links
        .iter()
        .map(|message| (message.header.index, Link::read(message)))
        .collect();
    let networks = addresses.iter().filter_map(|message| {
        let prefix = IpNet::new(address_of(message)?, message.header.prefix_len).ok()?;
        Some(NearNetwork {
            prefix,
            is_of_guests: joins_guests_only(message.header.index, &links),
        })
    });
    networks.collect()
}

/// True for an address of a guest: packets to it leave by the most specific network, so that and every other of the same
/// length has to be one of guests.
pub(crate) fn is_of_guest(networks: &[NearNetwork], address: IpAddr) -> bool {
    let around = || {
        networks
            .iter()
            .filter(|near| near.prefix.contains(&address))
    };
    let longest = around().map(|near| near.prefix.prefix_len()).max();
    longest.is_some_and(|longest| {
        let mut nearest = around().filter(|near| near.prefix.prefix_len() == longest);
        nearest.all(|near| near.is_of_guests)
    })
}

/// The properties of a link that decide about its addresses.
#[derive(Debug)]
struct Link<'a> {
    name: &'a str,
    up: bool,
    loopback: bool,
    kind: Option<&'a InfoKind>,
    /// The index of the bridge, bond or VRF that it belongs to.
    controller: Option<u32>,
}

impl<'a> Link<'a> {
    fn read(message: &'a LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            name: "",
            up: flags.contains(LinkFlags::Up),
            loopback: flags.contains(LinkFlags::Loopback),
            kind: None,
            controller: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Controller(index) => link.controller = Some(*index),
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        link
    }

    /// True if it is the host's end of a pair or tap whose other end a container or virtual machine
    /// has.
    fn leads_to_a_guest(&self) -> bool {
        matches!(
            self.kind,
            Some(InfoKind::Veth | InfoKind::Tun | InfoKind::Netkit)
        )
    }
}

fn joins_guests_only(index: u32, links: &BTreeMap<u32, Link<'_>>) -> bool {
    let is_bridge = links
        .get(&index)
        .is_some_and(|link| matches!(link.kind, Some(InfoKind::Bridge)));
    let mut ports = links.values().filter(|link| link.controller == Some(index));
    is_bridge && ports.all(Link::leads_to_a_guest)
}

fn is_address_usable(message: &AddressMessage, address: IpAddr) -> bool {
    let flags = message.header.flags;
    let has = |flag| flags.contains(flag);
    let lasting = match address {
        // Of IPv4, a secondary address is one more of the same network.
        IpAddr::V4(_) => true,
        IpAddr::V6(_) => {
            let unproven =
                has(AddressHeaderFlags::Tentative) && !has(AddressHeaderFlags::Optimistic);
            // `IFA_F_TEMPORARY` is the same bit as `IFA_F_SECONDARY`.
            !(unproven
                || has(AddressHeaderFlags::Dadfailed)
                || has(AddressHeaderFlags::Deprecated)
                || has(AddressHeaderFlags::Secondary))
        }
    };
    lasting && message.header.scope == AddressScope::Universe && is_global(address)
}

/// True if an address can mean the same host to somebody else, on the Internet or in a private
/// network.
fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    !(address.octets()[0] == 0
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast())
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || address.to_ipv4_mapped().is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_guest_is_whom_the_most_specific_network_alone_holds_behind_a_bridge_of_guests() {
        let near = |prefix: &str, is_of_guests| NearNetwork {
            prefix: prefix.parse().unwrap(),
            is_of_guests,
        };
        let networks = [
            near("10.0.0.2/8", false),
            near("10.88.0.1/16", true),
            near("10.88.7.1/24", false),
            near("172.17.0.1/16", true),
            near("192.168.1.2/24", false),
            near("192.168.1.1/24", true),
            near("fd00:5::1/64", true),
            near("fe80::1/64", true),
            near("fe80::2/64", false),
        ];
        for (address, is_guest) in [
            ("172.17.0.9", true),
            ("172.18.0.9", false),
            ("10.88.1.1", true),
            ("10.89.1.1", false),
            ("10.88.7.9", false),
            ("192.168.1.9", false),
            ("fd00:5::9", true),
            ("fe80::9", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_of_guest(&networks, address), is_guest, "{address}");
        }
    }

    #[test]
    fn addresses_that_mean_something_only_here_are_not_global() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(
                !is_global(address.parse().expect("an address")),
                "{address}"
            );
        }
        for address in [
            "10.0.0.1",
            "100.64.0.1",
            "192.0.2.1",
            "fd00::1",
            "2001:db8::1",
        ] {
            assert!(is_global(address.parse().expect("an address")), "{address}");
        }
    }

    proptest! {
        #[test]
        fn candidates_are_bounded_and_single_and_those_of_ways_out_come_first(
            found in proptest::collection::btree_set((0_u32..4, 0_u8..30), 0..60),
            ways_out in proptest::collection::vec(0_u32..4, 0..3),
        ) {
            let usable: BTreeSet<HostAddress> = found
                .into_iter()
                .map(|(interface_index, last)| HostAddress {
                    interface_index,
                    address: IpAddr::from([10, 0, 0, last]),
                })
                .collect();
            let candidates = candidates(&usable, &ways_out);
            let single: BTreeSet<&IpAddr> = candidates.iter().collect();
            prop_assert_eq!(single.len(), candidates.len());
            let all: BTreeSet<IpAddr> = usable.iter().map(|found| found.address).collect();
            prop_assert_eq!(candidates.len(), all.len().min(MAX_CANDIDATES));
            let leads_out = |address: &IpAddr| usable.iter().any(|found| {
                found.address == *address && ways_out.contains(&found.interface_index)
            });
            let rest = candidates.iter().skip_while(|address| leads_out(address));
            prop_assert!(rest.into_iter().all(|address| !leads_out(address)));
        }
    }
}
