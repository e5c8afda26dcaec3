//! Taking over sockets that an earlier process left with somebody who kept them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType, ipproto};

use crate::group::Group;
use crate::socket::{Socket, set_mark, share_out};
use crate::{UdpError, socket, system};
use culvert_base::Family;

impl Socket {
    /// Takes over the sockets of a group, in the order in which [`bind_group`](Self::bind_group) made them, with
    /// whatever waits in them. They must be on `port` (0: on any), and carry `mark` from here on.
    ///
    /// # Errors
    /// [`UdpError::NotItsSockets`] where they are not just what `bind_group` would make now; the system's. The
    /// descriptors are closed then.
    pub fn take_over_group(
        family: Family,
        port: u16,
        group: Group,
        mark: u32,
        sockets: Vec<OwnedFd>,
    ) -> Result<Vec<Self>, UdpError> {
        let refused = |why| UdpError::NotItsSockets {
            family: family.name(),
            why,
        };
        if sockets.len() != group.sockets() {
            return Err(refused("there are more or fewer than the workers need"));
        }
        let shared = sockets.len() > 1;
        let mut taken: Vec<Self> = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let bound = bound_port(&socket, family, shared).map_err(refused)?;
            let wanted = match taken.first() {
                Some(first) => first.port,
                None if port == 0 => bound,
                None => port,
            };
            if bound != wanted {
                return Err(refused("one is on another port"));
            }
            taken.push(prepare(socket, family, bound, mark)?);
        }
        share_out(&mut taken, group)?;
        Ok(taken)
    }
}

/// The port, where it is a UDP socket as [`Socket::bind_group`] makes them.
fn bound_port(socket: &OwnedFd, family: Family, shared: bool) -> Result<u16, &'static str> {
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    let is_udp = sockopt::socket_type(socket) == Ok(SocketType::DGRAM)
        && sockopt::socket_protocol(socket) == Ok(Some(ipproto::UDP))
        && sockopt::socket_domain(socket) == Ok(domain);
    if !is_udp {
        return Err("one is no UDP socket of that family");
    }
    if !is_here(socket) {
        return Err("one is of another network namespace, or this kernel does not tell");
    }
    if sockopt::socket_reuseport(socket) != Ok(shared) {
        return Err("one shares its port otherwise");
    }
    if family == Family::V6 && sockopt::ipv6_v6only(socket) != Ok(true) {
        return Err("one takes IPv4 as well");
    }
    if rustix::net::getpeername(socket).is_ok() {
        return Err("one is connected");
    }
    let bound = rustix::net::getsockname(socket).and_then(SocketAddr::try_from);
    match bound {
        Ok(at) if at.port() != 0 && at.ip() == family.wildcard() => Ok(at.port()),
        _ => Err("one is not bound to every address"),
    }
}

/// True if it is of the network namespace of this thread. A socket stays in the namespace in which it
/// was made, even if its process moves to another one.
fn is_here(socket: &OwnedFd) -> bool {
    let here = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let here = here.map_err(Into::into);
    let here = here.and_then(|it| system::network_namespace(it.as_fd()));
    match (here, system::network_namespace(socket.as_fd())) {
        (Ok(here), Ok(there)) => here == there,
        _ => false,
    }
}

fn prepare(socket: OwnedFd, family: Family, port: u16, mark: u32) -> Result<Socket, UdpError> {
    let failed = |source| UdpError::System {
        action: "set up a UDP socket that was kept",
        source,
    };
    rustix::fs::fcntl_setfl(&socket, OFlags::RDWR | OFlags::NONBLOCK)
        .map_err(|error| failed(error.into()))?;
    set_mark(socket.as_fd(), mark).map_err(failed)?;
    let features = socket::set_options(&socket, family).map_err(failed)?;
    Ok(Socket {
        socket,
        family,
        features,
        port,
        arrivals: None,
    })
}
