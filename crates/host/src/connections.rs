//! The connections of this host's programs, as the kernel lists them.
//!
//! Also readable without rights. The text form is chosen over `NETLINK_SOCK_DIAG` because a client in its sandbox may read
//! it, and it is read once in a client's life.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The most that is read of one list, in bytes: 100,000 sockets, at 150 bytes each for IPv4 and some more for IPv6. Reading
/// them takes a tenth of a second. Later sockets are left out.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Connections that are returned: as many as a client's gate remembers.
const MAX_CONNECTIONS: usize = culvert_policy::gate::MAX_CLIENT_FLOWS;

/// A connection of TCP, or a connected socket of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// True for TCP.
    pub is_tcp: bool,
    /// This host's end.
    pub own: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

/// The connections that programs have begun from one of these addresses, in the network namespace of this thread. A list that can't be read has none.
#[must_use]
pub fn connections_from(addresses: &[IpAddr]) -> Vec<Connection> {
    let lists = [
        ("tcp", true),
        ("tcp6", true),
        ("udp", false),
        ("udp6", false),
    ];
    let found = lists.into_iter().flat_map(|(name, is_tcp)| {
        let path = format!("/proc/thread-self/net/{name}");
        let list = File::open(&path).map(|file| BufReader::new(file.take(MAX_LIST_BYTES)));
        if let Err(error) = &list {
            tracing::debug!(path, %error, "connections are not known");
        }
        let lines = list
            .into_iter()
            .flat_map(|list| list.lines().map_while(Result::ok));
        lines.filter_map(move |line| parse(&line, is_tcp))
    });
    let mut listening = BTreeSet::new();
    let mut connections = Vec::new();
    for socket in found {
        match socket {
            Socket::Listening(port) => {
                listening.insert(port);
            }
            Socket::Connected(connection)
                if connections.len() < MAX_CONNECTIONS
                    && addresses.contains(&connection.own.ip()) =>
            {
                connections.push(connection);
            }
            Socket::Connected(_) => {}
        }
    }
    // Others began what came to a port that is listened at: it goes on as they may begin it again.
    connections
        .retain(|connection| !connection.is_tcp || !listening.contains(&connection.own.port()));
    connections
}

/// A socket of such a list.
#[derive(Debug, PartialEq, Eq)]
enum Socket {
    Connected(Connection),
    /// Of TCP, at this port.
    Listening(u16),
}

/// A line of such a list; `None` for its heading and for a socket of UDP without another end.
fn parse(line: &str, is_tcp: bool) -> Option<Socket> {
    const LISTEN: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(1);
    let (own, remote) = (end(words.next()?)?, end(words.next()?)?);
    if is_tcp && words.next() == Some(LISTEN) {
        return Some(Socket::Listening(own.port()));
    }
    let is_connected = remote.port() != 0 && !remote.ip().is_unspecified();
    is_connected.then_some(Socket::Connected(Connection {
        is_tcp,
        own,
        remote,
    }))
}

/// An address and a port. The address is written as 32-bit words of this machine's order, the port as a number.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            // A socket of both families has IPv4 addresses in this form.
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn the_kernels_list_has_the_connections_of_programs_and_no_listeners() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("127.0.0.1:9").unwrap();
        let unconnected = UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = connections_from(&[[127, 0, 0, 1].into()]);
        let of = |is_tcp, own, remote| Connection {
            is_tcp,
            own,
            remote,
        };
        let tcp = of(
            true,
            stream.local_addr().unwrap(),
            stream.peer_addr().unwrap(),
        );
        let udp = of(
            false,
            socket.local_addr().unwrap(),
            socket.peer_addr().unwrap(),
        );
        assert!(found.contains(&tcp) && found.contains(&udp), "{found:?}");
        let begun_outside = of(true, tcp.remote, tcp.own);
        assert!(!found.contains(&begun_outside), "{found:?}");
        for lonely in [listener.local_addr(), unconnected.local_addr()] {
            let lonely = lonely.unwrap();
            let is_there = |it: &Connection| it.own == lonely && it.remote.port() == 0;
            assert!(!found.iter().any(is_there));
        }
        assert!(connections_from(&[[127, 0, 0, 99].into()]).is_empty());
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_both_families_are_read_and_headings_are_not() {
        let line =
            "   1: 0100007F:9C40 0200000A:01BB 01 00000000:00000000 00:00000000 00000000 0 0 1 1";
        let connection = connected(line);
        assert_eq!(connection.own, "127.0.0.1:40000".parse().unwrap());
        assert_eq!(connection.remote, "10.0.0.2:443".parse().unwrap());
        let line =
            "   0: 000000FD000000000000000009000000:9C40 0000000000000000FFFF00000200000A:01BB 01";
        let connection = connected(line);
        assert_eq!(connection.own, "[fd00::9]:40000".parse().unwrap());
        assert_eq!(connection.remote, "10.0.0.2:443".parse().unwrap());
        for other in [
            "  sl  local_address rem_address   st tx_queue",
            "   1: 0100007F 0200000A:01BB",
            "",
        ] {
            assert_eq!(parse(other, true), None, "{other}");
        }
        let listening = "   1: 0100007F:9C40 00000000:0000 0A";
        assert_eq!(parse(listening, true), Some(Socket::Listening(40_000)));
    }

    #[cfg(target_endian = "little")]
    fn connected(line: &str) -> Connection {
        match parse(line, true) {
            Some(Socket::Connected(connection)) => connection,
            other => panic!("{line}: {other:?}"),
        }
    }
}
