//! Connections from the portal to others, identity providers and log sinks: Happy Eyeballs (RFC 8305) and TLS.

mod tls;

pub(crate) use tls::{client_config, handshake};

use culvert_link::LookUp;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};

/// Addresses that an error names: enough to see both families.
const MAX_NAMED: usize = 4;

/// Why there is no connection. The caller adds whom it was about.
#[derive(Debug, Error)]
pub(crate) enum OutboundError {
    /// The name has no address.
    #[error("the name {host} has no address: {source}")]
    Resolve { host: String, source: io::Error },
    /// Every address failed.
    #[error("none of its addresses accepts connections ({addresses}): {source}")]
    Unreachable {
        addresses: String,
        source: io::Error,
    },
    /// A certificate can't be for this host.
    #[error("{0:?} is not a host name that a certificate can have")]
    Name(String),
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(String),
}

/// Connects to the address of `host` that answers first. Brackets around an IPv6 address are taken off.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    look_up: LookUp,
) -> Result<TcpStream, OutboundError> {
    let host = bare(host);
    let found = look_up(host.to_owned(), port).await;
    let found = found.map_err(|source| OutboundError::Resolve {
        host: host.to_owned(),
        source,
    })?;
    let named = found.iter().take(MAX_NAMED).map(ToString::to_string);
    let named: Vec<_> = named.collect();
    let connected = culvert_link::race(found, open).await;
    connected.map_err(|source| OutboundError::Unreachable {
        addresses: named.join(", "),
        source,
    })
}

/// The host of a URL without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
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
pub(crate) mod testing {
    //! A resolver that tests inject, and an address that drops what it is sent.

    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::pin::Pin;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;

    /// Looks up names such as `p4001.p4002.test`: these ports of loopback, in this order.
    pub(crate) fn look_up(
        host: String,
        _port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
        Box::pin(async move {
            let ports = host.split('.').filter_map(|label| label.strip_prefix('p'));
            let addresses = ports.map(|port| (Ipv4Addr::LOCALHOST, port.parse().unwrap()).into());
            Ok(addresses.collect())
        })
    }

    /// A name whose first address is silent and whose second one is `good`.
    pub(crate) fn half_dead(silent: SocketAddr, good: SocketAddr) -> String {
        format!("p{}.p{}.test", silent.port(), good.port())
    }

    /// A listener whose queue is full, so that Linux drops SYNs; and what has to be kept for that.
    pub(crate) async fn silent() -> (SocketAddr, (TcpListener, Vec<TcpStream>)) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        while let Ok(stream) =
            timeout(Duration::from_millis(250), TcpStream::connect(address)).await
        {
            held.push(stream.unwrap());
        }
        (address, (listener, held))
    }
}

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
        let (dead, _held) = testing::silent().await;
        let good = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let name = testing::half_dead(dead, good.local_addr().unwrap());
        let connected = timeout(SOON, connect(&name, 443, testing::look_up)).await;
        let stream = connected.expect("it takes one delay").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good.local_addr().unwrap());
    }

    #[tokio::test]
    async fn what_was_tried_in_vain_is_named() {
        let refused = connect("p1.p2.test", 443, testing::look_up).await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("127.0.0.1:1, 127.0.0.1:2"), "{text}");
        let refused = connect("test", 443, testing::look_up).await;
        assert!(refused.is_err(), "no address at all");
        assert_eq!(bare("[::1]"), "::1");
    }
}
