//! A TCP connection to whichever address of the portal answers first.

use crate::{ConnectError, LookUp};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Addresses of one portal that are tried: both families of a few machines.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// How long an address may stay silent before the next one is tried beside it. RFC 8305 §8
/// recommends 250 ms.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Connects to `host`, from a socket with `mark`: it must not be led into the tunnel that the portal
/// is needed for.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    mark: Option<u32>,
    look_up: LookUp,
) -> Result<TcpStream, ConnectError> {
    // Brackets belong to a URL, not to an address.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let resolved = look_up(host.to_owned(), port).await;
    let resolved = resolved.map_err(|source| ConnectError::Resolve {
        host: host.to_owned(),
        source,
    })?;
    let addresses = alternate(resolved);
    let unreachable = |source| ConnectError::Unreachable {
        authority: format!("{host}:{port}"),
        source,
    };
    let mut attempts = JoinSet::new();
    let mut addresses = addresses.into_iter().take(MAX_ADDRESSES);
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            let socket = open(address, mark)?;
            attempts.spawn(async move { socket.connect(address).await });
        }
        // The last address is waited for without end: the whole attempt has a limit of its own.
        let stagger = async {
            match is_last {
                true => std::future::pending().await,
                false => tokio::time::sleep(NEXT_ADDRESS_AFTER).await,
            }
        };
        tokio::select! {
            joined = attempts.join_next() => match joined {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last_error = error,
                Some(Err(_aborted)) => {}
                None if is_last => return Err(unreachable(last_error)),
                None => {}
            },
            () = stagger => {}
        }
    }
}

/// The families in turn, the one that the resolver prefers first.
pub(crate) fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().copied() else {
        return addresses;
    };
    let (preferred, other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv4() == first.is_ipv4());
    let (mut preferred, mut other) = (preferred.into_iter(), other.into_iter());
    let mut ordered = Vec::new();
    loop {
        let pair = [preferred.next(), other.next()];
        if pair.iter().all(Option::is_none) {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

fn open(address: SocketAddr, mark: Option<u32>) -> Result<TcpSocket, ConnectError> {
    let local = |what| move |source| ConnectError::Local { what, source };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(local("open a TCP socket"))?;
    // Messages are short and wait for answers.
    socket.set_nodelay(true).map_err(local("set TCP_NODELAY"))?;
    if let Some(mark) = mark {
        SockRef::from(&socket)
            .set_mark(mark)
            .map_err(local("mark the connection to the portal (CAP_NET_ADMIN)"))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"];
        let ordered = alternate(all.iter().map(|text| address(text)).collect());
        let expected = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"];
        assert_eq!(ordered, expected.map(address));
    }
}
