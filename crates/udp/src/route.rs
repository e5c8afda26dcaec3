//! Questions to the routing table, about a destination and about one of our addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use culvert_netlink::route::route::{RouteAddress, RouteAttribute, RouteMessage};
use culvert_netlink::route::{AddressFamily, RouteNetlinkMessage};
use culvert_netlink::{Protocol, Socket, exchange};
use rustix::net::sockopt;

use crate::socket::{new_socket, set_mark};
use culvert_base::{Family, LocalAddress};

/// The MTU of the path to `to` for packets marked `mark`, in bytes of IP packet: the route's, or less if an ICMP message
/// has said so.
///
/// # Errors
/// The kernel's, such as `ENETUNREACH` without a route.
pub fn path_mtu(to: SocketAddr, mark: u32) -> io::Result<u16> {
    let to = crate::address::canonical(to);
    let family = Family::of(to.ip().to_canonical());
    let socket = new_socket(family)?;
    if mark != 0 {
        set_mark(socket.as_fd(), mark)?;
    }
    // Connecting a UDP socket sends nothing: it looks up the route.
    rustix::net::connect(&socket, &to)?;
    let mtu = match family {
        Family::V4 => sockopt::ip_mtu(&socket)?,
        Family::V6 => sockopt::ipv6_mtu(&socket)?,
    };
    // The loopback device has 65,536.
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// True if datagrams to `to` marked `mark` can still leave from `source`. The address must still be ours, and the route
/// from it to `to` must leave by the interface it was learned on (not checked if that is 0). A source that fails is to
/// be forgotten, so that the kernel chooses anew.
///
/// # Errors
/// The kernel's, from netlink; having no route is an answer, not an error.
pub fn source_still_valid(to: SocketAddr, source: LocalAddress, mark: u32) -> io::Result<bool> {
    if Family::of(to.ip().to_canonical()) != Family::of(source.ip.to_canonical())
        || !is_our_address(source)
    {
        return Ok(false);
    }
    match outgoing_interface(to, Some(source), mark) {
        Ok(interface) => Ok(source.interface == 0 || interface == Some(source.interface)),
        Err(error) => match error.raw_os_error() {
            Some(
                libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES | libc::ENODEV,
            ) => Ok(false),
            _ => Err(error),
        },
    }
}

/// True if `source` is an address of this machine, by binding a throw-away socket to it.
pub fn is_our_address(source: LocalAddress) -> bool {
    let address = match source.ip.to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), 0),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, source.interface).into()
        }
        IpAddr::V6(ip) => SocketAddr::new(ip.into(), 0),
    };
    new_socket(Family::of(source.ip.to_canonical()))
        .and_then(|socket| rustix::net::bind(&socket, &address))
        .is_ok()
}

/// The index of the interface by which datagrams to `to` marked `mark` leave; `None` without a route.
///
/// # Errors
/// The kernel's, from netlink, such as `ENETUNREACH` where it refuses to send there.
pub fn interface_towards(to: SocketAddr, mark: u32) -> io::Result<Option<u32>> {
    outgoing_interface(crate::address::canonical(to), None, mark)
}

/// The interface by which the kernel would send from `source`, or from an address that it chooses, to `to`
/// (`RTM_GETROUTE`).
fn outgoing_interface(
    to: SocketAddr,
    source: Option<LocalAddress>,
    mark: u32,
) -> io::Result<Option<u32>> {
    let socket = Socket::open(Protocol::Route, 0)?;
    let request = RouteNetlinkMessage::GetRoute(route_request(to, source, mark));
    let entries = exchange(&socket, request, 0)?;
    let route = entries.iter().find_map(|entry| match entry {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    });
    let route = route.ok_or(io::ErrorKind::InvalidData)?;
    Ok(route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }))
}

fn route_request(to: SocketAddr, source: Option<LocalAddress>, mark: u32) -> RouteMessage {
    let mut request = RouteMessage::default();
    let (destination, bits) = route_address(to.ip());
    request.header.address_family = match Family::of(to.ip().to_canonical()) {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    request.header.destination_prefix_length = bits;
    request
        .attributes
        .push(RouteAttribute::Destination(destination));
    if let Some(source) = source {
        let (source, bits) = route_address(source.ip);
        request.header.source_prefix_length = bits;
        request.attributes.push(RouteAttribute::Source(source));
    }
    request.attributes.push(RouteAttribute::Mark(mark));
    // A rule may lead UDP, or one port of the peer's, another way than all else.
    request
        .attributes
        .push(RouteAttribute::IpProto(libc::IPPROTO_UDP as u8));
    request.attributes.push(RouteAttribute::Dport(to.port()));
    if let SocketAddr::V6(to) = to
        && to.scope_id() != 0
    {
        request.attributes.push(RouteAttribute::Oif(to.scope_id()));
    }
    request
}

/// An address and its length in bits.
fn route_address(ip: IpAddr) -> (RouteAddress, u8) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (RouteAddress::Inet(ip), 32),
        IpAddr::V6(ip) => (RouteAddress::Inet6(ip), 128),
    }
}
