//! The listening sockets of a relay.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Connections that wait for the relay's attention: a storm of all clients after an outage.
const BACKLOG: i32 = 1_024;

/// Listens at the port on all addresses of each family that the machine has.
///
/// # Errors
/// The system's.
pub fn listen_everywhere(port: u16) -> io::Result<Vec<TcpListener>> {
    let v4 = listen((Ipv4Addr::UNSPECIFIED, port).into())?;
    // Both families have the same port, also if any would do.
    let port = v4.local_addr()?.port();
    match listen((Ipv6Addr::UNSPECIFIED, port).into()) {
        Ok(v6) => Ok(vec![v4, v6]),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // The machine has no IPv6.
        Err(_) => Ok(vec![v4]),
    }
}

/// Listens at one address. An IPv6 one takes no IPv4 connections.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of before the last start may linger.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
