//! What the routing table says about a destination and about one of our addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::socket::{new_socket, set_mark};
use culvert_base::{Family, LocalAddress};

/// The MTU of the path to `to` for packets marked `mark`, in bytes of IP packet: the route's, or less if an ICMP message
/// has said so.
///
/// # Errors
/// The kernel's, such as `ENETUNREACH` without a route.
pub fn path_mtu(to: SocketAddr, mark: u32) -> io::Result<u16> {
    let to = crate::address::canonical(to);
    let family = Family::of(to.ip());
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

/// Whether datagrams to `to` marked `mark` can still leave from `source`: the address is still ours, and the route from
/// it to `to` leaves by the interface it was learned on (not asked when that is 0). A source that fails is to be
/// forgotten, so that the kernel chooses anew.
///
/// # Errors
/// The kernel's, from netlink; having no route is an answer, not an error.
pub fn source_still_valid(to: SocketAddr, source: LocalAddress, mark: u32) -> io::Result<bool> {
    if Family::of(to.ip()) != Family::of(source.ip) || !is_our_address(source) {
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

/// Whether `source` is an address of this machine, by binding a throw-away socket to it.
pub fn is_our_address(source: LocalAddress) -> bool {
    let address = match source.ip.to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), 0),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, source.interface).into()
        }
        IpAddr::V6(ip) => SocketAddr::new(ip.into(), 0),
    };
    new_socket(Family::of(source.ip))
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

/// Bytes of `struct nlmsghdr`.
const MESSAGE_HEADER_BYTES: usize = 16;
/// Bytes of `struct rtmsg`: family, two prefix lengths, class, table, protocol, scope, type, flags.
const ROUTE_HEADER_BYTES: usize = 12;
/// Attributes by which rules tell flows apart (`linux/rtnetlink.h`, Linux 4.17); libc has no names for them.
const RTA_IP_PROTO: u16 = 27;
const RTA_DPORT: u16 = 29;
/// Room for the answer about one route, which has some 200 bytes and a few hundred with metrics and next hops.
const ANSWER_BYTES: usize = 8 * 1024;

/// The interface by which the kernel would send from `source`, or from an address that it chooses, to `to`
/// (`RTM_GETROUTE`).
fn outgoing_interface(
    to: SocketAddr,
    source: Option<LocalAddress>,
    mark: u32,
) -> io::Result<Option<u32>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None, // NETLINK_ROUTE is protocol 0
    )?;
    let request = route_request(to, source, mark);
    rustix::net::sendto(
        &socket,
        &request,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    read_answer(&socket)
}

fn route_request(to: SocketAddr, source: Option<LocalAddress>, mark: u32) -> Vec<u8> {
    let (family, to_octets) = octets(to.ip());
    let bits = (to_octets.len() * 8) as u8;
    let mut request = vec![0; MESSAGE_HEADER_BYTES + ROUTE_HEADER_BYTES];
    request[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[MESSAGE_HEADER_BYTES] = family;
    request[MESSAGE_HEADER_BYTES + 1] = bits;
    push_attribute(&mut request, libc::RTA_DST, &to_octets);
    if let Some(source) = source {
        request[MESSAGE_HEADER_BYTES + 2] = bits;
        push_attribute(&mut request, libc::RTA_SRC, &octets(source.ip).1);
    }
    push_attribute(&mut request, libc::RTA_MARK, &mark.to_ne_bytes());
    // A rule may lead UDP, or one port of the peer's, another way than all else.
    push_attribute(&mut request, RTA_IP_PROTO, &[libc::IPPROTO_UDP as u8]);
    push_attribute(&mut request, RTA_DPORT, &to.port().to_be_bytes());
    if let SocketAddr::V6(to) = to
        && to.scope_id() != 0
    {
        push_attribute(&mut request, libc::RTA_OIF, &to.scope_id().to_ne_bytes());
    }
    let length = request.len() as u32;
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request
}

fn push_attribute(request: &mut Vec<u8>, kind: u16, data: &[u8]) {
    request.extend_from_slice(&((4 + data.len()) as u16).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(data);
    request.resize(request.len().next_multiple_of(4), 0);
}

fn octets(ip: IpAddr) -> (u8, Vec<u8>) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, ip.octets().to_vec()),
    }
}

/// The kernel answers while the request is being sent: one message, the route or an error.
fn read_answer(socket: &OwnedFd) -> io::Result<Option<u32>> {
    let mut buffer = vec![0; ANSWER_BYTES];
    let (length, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
    let answer = &buffer[..length];
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = u16_at(answer, 4).ok_or_else(invalid)?;
    if kind == libc::NLMSG_ERROR as u16 {
        let error = u32_at(answer, MESSAGE_HEADER_BYTES)
            .ok_or_else(invalid)?
            .cast_signed();
        return Err(io::Error::from_raw_os_error(error.wrapping_neg()));
    }
    let attributes = answer
        .get(MESSAGE_HEADER_BYTES + ROUTE_HEADER_BYTES..)
        .ok_or_else(invalid)?;
    Ok(attribute_u32(attributes, libc::RTA_OIF))
}

fn attribute_u32(mut attributes: &[u8], kind: u16) -> Option<u32> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == kind {
            return u32_at(value, 0);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
