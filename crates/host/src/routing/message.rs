//! Routes and addresses as rtnetlink writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use culvert_netlink::route::AddressFamily;
use culvert_netlink::route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressScope,
};
use culvert_netlink::route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use culvert_netlink::route::rule::{RuleAttribute, RuleMessage};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::wanted::Table;
use crate::Family;

/// Of whom rules and routes say that they are. systemd-networkd removes those of everyone but the
/// kernel from its links, and rules altogether.
pub(super) const PROTOCOL: RouteProtocol = RouteProtocol::Kernel;

/// The metric of routes into the tunnel.
const TUNNEL_METRIC: u32 = 100;

/// The metric of the routes that remain when those into the tunnel vanish with its interface: behind
/// every other.
const UNREACHABLE_METRIC: u32 = u32::MAX;

/// "No prefix is too short", as the kernel writes it.
pub(super) const SUPPRESS_NOTHING: u32 = u32::MAX;

/// The kernel's table of ordinary routes.
pub(super) const MAIN_TABLE: u32 = 254;

/// A route of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) prefix: IpNet,
    pub(super) table: Table,
    pub(super) target: Target,
}

/// The target of a route of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Into the interface of this index.
    Tunnel(u32),
    /// Nowhere: the sender gets an error.
    Unreachable,
}

impl Route {
    pub(super) fn message(self) -> RouteMessage {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = address_family(Family::of(self.prefix.addr()));
        header.destination_prefix_length = self.prefix.prefix_len();
        header.protocol = PROTOCOL;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(self.prefix.network())),
            RouteAttribute::Table(self.table.get()),
        ];
        match self.target {
            Target::Tunnel(index) => {
                header.kind = RouteType::Unicast;
                header.scope = RouteScope::Link;
                let metric = RouteAttribute::Priority(TUNNEL_METRIC);
                message
                    .attributes
                    .extend([RouteAttribute::Oif(index), metric]);
            }
            Target::Unreachable => {
                header.kind = RouteType::Unreachable;
                header.scope = RouteScope::Universe;
                message
                    .attributes
                    .push(RouteAttribute::Priority(UNREACHABLE_METRIC));
            }
        }
        message
    }

    /// Reads a message if it is a route as we make them.
    pub(super) fn read(message: &RouteMessage) -> Option<Self> {
        let RouteHeader {
            protocol,
            kind,
            tos,
            source_prefix_length,
            ..
        } = message.header;
        if protocol != PROTOCOL || tos != 0 || source_prefix_length != 0 {
            return None;
        }
        let mut priority = None;
        let mut interface = None;
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Priority(value) => priority = Some(*value),
                RouteAttribute::Oif(value) => interface = Some(*value),
                RouteAttribute::Destination(_)
                | RouteAttribute::Table(_)
                | RouteAttribute::CacheInfo(_)
                | RouteAttribute::Preference(_) => {}
                // A gateway, a source, a metric: not ours.
                _ => return None,
            }
        }
        let target = match (kind, priority?) {
            (RouteType::Unicast, TUNNEL_METRIC) => Target::Tunnel(interface?),
            // IPv6 names the loopback interface here.
            (RouteType::Unreachable, UNREACHABLE_METRIC) => Target::Unreachable,
            _ => return None,
        };
        Some(Self {
            prefix: destination(message)?,
            table: Table::new(table_of(message)).ok()?,
            target,
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            prefix,
            table,
            target,
        } = self;
        match target {
            Target::Tunnel(_) => write!(f, "route {prefix} into the tunnel, table {table}"),
            Target::Unreachable => write!(f, "unreachable route {prefix}, table {table}"),
        }
    }
}

/// The destination of a route.
pub(super) fn destination(message: &RouteMessage) -> Option<IpNet> {
    let length = message.header.destination_prefix_length;
    let address = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        });
    // The default route has none.
    let address = match (address, message.header.address_family) {
        (Some(address), _) => address,
        (None, AddressFamily::Inet) if length == 0 => IpAddr::from([0; 4]),
        (None, AddressFamily::Inet6) if length == 0 => IpAddr::from([0; 16]),
        _ => return None,
    };
    IpNet::new(address, length).ok()
}

/// The table of any route.
pub(crate) fn table_of(message: &RouteMessage) -> u32 {
    let attribute = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    attribute.unwrap_or_else(|| message.header.table.into())
}

/// The ranges that may be a host's local network: private use (RFC 1918, RFC 4193) and the link
/// itself (RFC 3927, RFC 4291).
///
/// If everything goes into the tunnel, only these may be led elsewhere by what the table `main`
/// knows in particular. Otherwise whoever hands out addresses could take any part of the Internet out
/// of the tunnel again, by a route (DHCP option 121, CVE-2024-3661) or by a link that pretends to be
/// large (CVE-2023-36672).
pub(super) fn local_ranges(family: Family) -> &'static [IpNet] {
    const fn v4(octets: [u8; 4], prefix_len: u8) -> IpNet {
        let [a, b, c, d] = octets;
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_len))
    }
    const fn v6(first: u16, prefix_len: u8) -> IpNet {
        let address = Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0);
        IpNet::V6(Ipv6Net::new_assert(address, prefix_len))
    }
    const V4: [IpNet; 4] = [
        v4([10, 0, 0, 0], 8),
        v4([172, 16, 0, 0], 12),
        v4([192, 168, 0, 0], 16),
        v4([169, 254, 0, 0], 16),
    ];
    const V6: [IpNet; 2] = [v6(0xfc00, 7), v6(0xfe80, 10)];
    match family {
        Family::V4 => &V4,
        Family::V6 => &V6,
    }
}

/// The table that any rule leads to.
pub(crate) fn rule_table(message: &RuleMessage) -> u32 {
    let attribute = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RuleAttribute::Table(table) => Some(*table),
            _ => None,
        });
    attribute.unwrap_or_else(|| message.header.table.into())
}

/// An address of the tunnel. It is used at once, without asking the link whether somebody else has
/// it, and makes no route: the prefixes say which addresses are behind the tunnel.
pub(super) fn address_message(index: u32, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(Family::of(address));
    message.header.prefix_len = host_length(address);
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
        AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
    ];
    message
}

/// The address of a message, of any address; IPv6 has no `Local`, as it has no far end.
pub(crate) fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    let attributes = || message.attributes.iter();
    let local = attributes().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = attributes().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    local.or(address)
}

/// True if a message is about an address as [`address_message`] makes them.
pub(super) fn is_alone(message: &AddressMessage, address: IpAddr) -> bool {
    message.header.prefix_len == host_length(address)
}

/// The length of a prefix that holds this address alone.
pub(super) fn host_length(address: IpAddr) -> u8 {
    IpNet::from(address).prefix_len()
}

pub(super) fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

pub(super) fn family_of(family: AddressFamily) -> Option<Family> {
    match family {
        AddressFamily::Inet => Some(Family::V4),
        AddressFamily::Inet6 => Some(Family::V6),
        _ => None,
    }
}
