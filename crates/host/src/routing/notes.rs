//! Notes for an administrator about a host that is set up as wanted, and still may not work as
//! wanted.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use culvert_netlink::route::address::{AddressMessage, AddressScope};
use culvert_netlink::route::link::{LinkAttribute, LinkMessage};
use culvert_netlink::route::rule::{RuleAction, RuleAttribute, RuleMessage};
use ipnet::IpNet;

use super::message::{address_of, rule_table};
use super::plan::Ipv6;
use super::wanted::Wanted;
use crate::{Family, InterfaceName};

/// The most notes: a host has some interfaces and rules, and who has more needs no longer list.
const MAX_NOTES: usize = 16;

/// The kernel's table of the host's own addresses.
const LOCAL_TABLE: u32 = 255;

/// The value of `rp_filter` that drops what does not come the way that an answer would go.
const STRICT: u8 = 1;

/// A note for an administrator about a set-up that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The kernel runs without IPv6: addresses and prefixes of it were passed over.
    NoIpv6,
    /// IPv6 is off on the interface: prefixes of it are unreachable.
    Ipv6OffOnInterface {
        /// The interface.
        interface: InterfaceName,
    },
    /// The tunnel's address lies in a network that the host is in: an address there may be meant by both.
    AddressTaken {
        /// The tunnel's.
        address: IpAddr,
        /// The other network.
        network: IpNet,
        /// The name of the interface before it.
        interface: String,
    },
    /// A prefix holds an address of the host: its neighbours there are reached through the tunnel.
    OwnNetwork {
        /// The prefix.
        prefix: IpNet,
        /// The host's address.
        address: IpAddr,
        /// The name of its interface.
        interface: String,
    },
    /// A rule of somebody else comes before ours, and leads packets of all kinds elsewhere.
    EarlierRule {
        /// Its preference.
        preference: u32,
        /// The table to which it leads.
        table: u32,
        /// The preference of our first rule.
        ours: u32,
    },
    /// Everything goes into the tunnel, and an interface drops what would be answered by another way: all
    /// that carries the tunnel.
    StrictReversePath {
        /// The name of the interface.
        interface: String,
    },
}

impl Note {
    /// True if the tunnel's interface has no IPv6 because of it.
    #[must_use]
    pub const fn is_lack_of_ipv6(&self) -> bool {
        matches!(self, Self::NoIpv6 | Self::Ipv6OffOnInterface { .. })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIpv6 => f.write_str("this kernel runs without IPv6: resources have IPv4 only"),
            Self::Ipv6OffOnInterface { interface } => write!(
                f,
                "IPv6 is off on {interface}, so IPv6 resources are unreachable: \
                 `sysctl -w net/ipv6/conf/{interface}/disable_ipv6=0` or, for interfaces yet to \
                 come, `sysctl -w net.ipv6.conf.default.disable_ipv6=0`"
            ),
            Self::AddressTaken {
                address,
                network,
                interface,
            } => write!(
                f,
                "the tunnel's address {address} lies in {network}, the network of {interface}: give the \
                 tunnels other ranges at the portal, or that network another"
            ),
            Self::OwnNetwork {
                prefix,
                address,
                interface,
            } => write!(
                f,
                "the resource {prefix} holds this machine's own network ({address} of {interface}): what \
                 is there is reached through the tunnel alone; a smaller resource leaves the rest"
            ),
            Self::EarlierRule {
                preference,
                table,
                ours,
            } => write!(
                f,
                "a rule of another program comes before the tunnel's, `ip rule list pref {preference}`: \
                 what table {table} knows a route for does not go into the tunnel; remove it, or add it \
                 again behind {ours}"
            ),
            Self::StrictReversePath { interface } => write!(
                f,
                "{interface} drops what carries the tunnel, since everything goes into the tunnel and its \
                 reverse-path filter is strict: `sysctl -w net/ipv4/conf/{interface}/rp_filter=2`, and \
                 the same for `all`"
            ),
        }
    }
}

/// The configuration of the host beside the tunnel.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) links: Vec<LinkMessage>,
    /// The addresses of all interfaces.
    pub(super) addresses: Vec<AddressMessage>,
    /// The rules of all programs.
    pub(super) rules: Vec<RuleMessage>,
}

impl Surroundings {
    /// The notes about this wanted state; at most [`MAX_NOTES`].
    pub(super) fn notes(&self, wanted: &Wanted, ipv6: Ipv6) -> Vec<Note> {
        let mut notes = Vec::new();
        match ipv6 {
            Ipv6::On => {}
            Ipv6::Off => notes.push(Note::NoIpv6),
            Ipv6::OffOnInterface => notes.push(Note::Ipv6OffOnInterface {
                interface: wanted.interface.clone(),
            }),
        }
        let names = self.names();
        let others = self.addresses.iter().filter_map(|message| {
            let interface = *names.get(&message.header.index)?;
            let is_of_network = message.header.scope == AddressScope::Universe
                && interface != wanted.interface.as_str();
            let address = address_of(message).filter(|_| is_of_network)?;
            let own = IpNet::new(address, message.header.prefix_len).ok()?;
            // An address that is alone, such as that of another tunnel, has no neighbours.
            (own.prefix_len() < own.max_prefix_len()).then_some((interface, own))
        });
        let others: Vec<(&str, IpNet)> = others.collect();
        for (interface, own) in &others {
            notes.extend(taken(wanted, interface, *own));
            notes.extend(swallowed(wanted, interface, *own));
        }
        notes.extend(self.earlier_rules(wanted));
        if wanted.is_full_tunnel(Family::V4) {
            let mut interfaces: Vec<&str> = others
                .iter()
                .filter(|(_, own)| own.addr().is_ipv4())
                .map(|(interface, _)| *interface)
                .collect();
            interfaces.dedup();
            let strict = interfaces.into_iter().filter(|it| is_strict(it));
            notes.extend(strict.map(|interface| Note::StrictReversePath {
                interface: interface.to_owned(),
            }));
        }
        notes.truncate(MAX_NOTES);
        notes
    }

    fn names(&self) -> BTreeMap<u32, &str> {
        self.links
            .iter()
            .filter_map(|link| {
                let name = link
                    .attributes
                    .iter()
                    .find_map(|attribute| match attribute {
                        LinkAttribute::IfName(name) => Some(name.as_str()),
                        _ => None,
                    })?;
                Some((link.header.index, name))
            })
            .collect()
    }

    fn earlier_rules(&self, wanted: &Wanted) -> impl Iterator<Item = Note> {
        let ours = wanted.routing.preference.get();
        let tables = wanted.routing.tables().map(super::Table::get);
        self.rules.iter().filter_map(move |rule| {
            let preference = preference_of_all(rule)?;
            let table = rule_table(rule);
            // Addresses of the host itself come first wherever their rule is.
            let is_others = table != LOCAL_TABLE && !tables.contains(&table);
            let is_earlier = is_others && (1..ours).contains(&preference);
            is_earlier.then_some(Note::EarlierRule {
                preference,
                table,
                ours,
            })
        })
    }
}

/// The tunnel's address that lies in a network of the host.
fn taken(wanted: &Wanted, interface: &str, own: IpNet) -> Option<Note> {
    let mut addresses = wanted.addresses.iter();
    let address = *addresses.find(|address| own.contains(*address))?;
    Some(Note::AddressTaken {
        address,
        network: own.trunc(),
        interface: interface.to_owned(),
    })
}

/// The prefix that holds an address of the host, but for one that takes everything.
fn swallowed(wanted: &Wanted, interface: &str, own: IpNet) -> Option<Note> {
    let mut prefixes = wanted.prefixes.iter();
    let prefix = *prefixes.find(|it| it.prefix_len() > 0 && it.contains(&own.addr()))?;
    Some(Note::OwnNetwork {
        prefix,
        address: own.addr(),
        interface: interface.to_owned(),
    })
}

/// The preference of a rule that leads packets to a table, whatever their source and destination. Those
/// that tell packets apart by a mark do so for packets of their own.
fn preference_of_all(rule: &RuleMessage) -> Option<u32> {
    let header = &rule.header;
    if header.action != RuleAction::ToTable || header.dst_len != 0 || header.src_len != 0 {
        return None;
    }
    let mut preference = 0;
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(value) => preference = *value,
            RuleAttribute::Table(_) | RuleAttribute::Protocol(_) => {}
            RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            _ => return None,
        }
    }
    Some(preference)
}

/// True if an interface drops what would be answered by another one; the stricter of two values counts
/// (`Documentation/networking/ip-sysctl.rst`, `rp_filter`).
fn is_strict(interface: &str) -> bool {
    let value = |of: &str| {
        let path = PathBuf::from(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0_u8)
    };
    value("all").max(value(interface)) == STRICT
}
