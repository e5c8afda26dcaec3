//! A TCP connection to a server: Happy Eyeballs (RFC 8305).

use culvert_link::LookUp;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};

/// Addresses that an error names: enough to see both families.
const MAX_NAMED: usize = 4;

/// The reason why there is no connection. The caller adds whom it was about.
#[derive(Debug, Error)]
pub enum DialError {
    /// The name has no address.
    #[error("the name {host} has no address: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// Every address failed.
    #[error("none of its addresses accepts connections ({addresses}): {source}")]
    Unreachable {
        /// Those that were tried.
        addresses: String,
        /// The reason of the last one.
        source: io::Error,
    },
    /// There is nobody who could vouch for a server.
    #[error("this machine trusts no certificate authority: install ca-certificates")]
    NoAuthorities,
    /// A certificate can't be for this host.
    #[error("{0:?} is not a host name that a certificate can have")]
    Name(String),
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(String),
}

/// Connects to the address of `host` that answers first.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    look_up: LookUp,
) -> Result<TcpStream, DialError> {
    let found = look_up(host.to_owned(), port).await;
    let found = found.map_err(|source| DialError::Resolve {
        host: host.to_owned(),
        source,
    })?;
    let named = found.iter().take(MAX_NAMED).map(ToString::to_string);
    let named: Vec<_> = named.collect();
    let connected = culvert_link::race(found, open).await;
    connected.map_err(|source| DialError::Unreachable {
        addresses: named.join(", "),
        source,
    })
}

fn open(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
#[path = "../../../tests/fixtures/half_dead_host.rs"]
mod half_dead_host;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    /// A generous limit; a SYN to a dead address is repeated for two minutes.
    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_dead_address_does_not_keep_the_portal_from_one_that_answers() {
        let (dead, _held) = half_dead_host::silent().await;
        let good = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let name = half_dead_host::half_dead(dead, good.local_addr().unwrap());
        let connected = timeout(SOON, connect(&name, 443, half_dead_host::look_up)).await;
        let stream = connected.expect("it takes one delay").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good.local_addr().unwrap());
    }

    #[tokio::test]
    async fn what_was_tried_in_vain_is_named() {
        let refused = connect("p1.p2.test", 443, half_dead_host::look_up).await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("127.0.0.1:1, 127.0.0.1:2"), "{text}");
        let refused = connect("test", 443, half_dead_host::look_up).await;
        assert!(refused.is_err(), "no address at all");
    }
}
