//! A TCP connection to whichever address of the portal answers first.

use crate::ConnectError;
use crate::look_up::LookUp;
use crate::nat64;
use crate::proxy::HttpProxy;
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Addresses of one portal that are tried: both families of a few machines.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// The time that an address may stay silent before the next one is tried in parallel. RFC 8305 §8
/// recommends 250 ms.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The settings of a connection to the portal.
pub(crate) struct Dial<'a> {
    /// Of the socket: it must not be led into the tunnel that the portal is needed for.
    pub(crate) mark: Option<u32>,
    pub(crate) look_up: LookUp,
    /// The proxy that connects to the portal; without one, this machine does.
    pub(crate) proxy: Option<&'a HttpProxy>,
    /// Told which addresses are tried: those of the proxy, if there is one.
    pub(crate) addresses: Option<&'a watch::Sender<Vec<SocketAddr>>>,
    /// Attempts at the same URL that have failed: each one begins with another address.
    pub(crate) earlier: usize,
}

/// The way on which connections leave this machine.
#[derive(Clone, Debug)]
pub struct Way {
    /// The proxy that makes them; without one, this machine does.
    pub proxy: Option<HttpProxy>,
    /// `SO_MARK` of the connection, so that it stays out of the tunnel.
    pub mark: Option<u32>,
    /// The look-up of the proxy's name.
    pub look_up: LookUp,
}

/// Connects to whichever of the addresses answers first, at most eight of them, as [`race`] does.
///
/// # Errors
/// The one of the last address that failed. Silent addresses are waited for: the caller has a time limit.
pub async fn connect_tcp(addresses: Vec<SocketAddr>, way: &Way) -> Result<TcpStream, ConnectError> {
    let attempts = race_attempts(addresses, |address| {
        let way = way.clone();
        async move {
            let dial = Dial {
                mark: way.mark,
                look_up: way.look_up,
                proxy: way.proxy.as_ref(),
                addresses: None,
                earlier: 0,
            };
            let host = address.ip().to_string();
            connect(&host, address.port(), &dial).await
        }
    });
    attempts.await.map_err(|last| {
        last.unwrap_or_else(|| ConnectError::Local {
            what: "connect to a host without an address",
            source: io::ErrorKind::AddrNotAvailable.into(),
        })
    })
}

/// Connects to `host`, through the proxy if there is one.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    dial: &Dial<'_>,
) -> Result<TcpStream, ConnectError> {
    // Brackets belong to a URL, not to an address.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Some(proxy) = dial.proxy else {
        return connect_directly(host, port, dial).await;
    };
    let connected = connect_directly(proxy.host(), proxy.port(), dial).await;
    let mut stream = connected.map_err(|error| match error {
        ConnectError::Unreachable { source, .. } => ConnectError::ProxyBroke {
            proxy: proxy.to_string(),
            source,
        },
        error => error,
    })?;
    let authority = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    proxy.connect(&mut stream, &authority).await?;
    Ok(stream)
}

async fn connect_directly(
    host: &str,
    port: u16,
    dial: &Dial<'_>,
) -> Result<TcpStream, ConnectError> {
    let mark = dial.mark;
    let resolved = (dial.look_up)(host.to_owned(), port).await;
    let resolved = resolved.map_err(|source| ConnectError::Resolve {
        host: host.to_owned(),
        source,
    })?;
    let resolved = nat64::reachable(resolved, dial.look_up, mark).await;
    let resolved = in_turn(resolved, dial.earlier);
    if let Some(addresses) = dial.addresses {
        let mut tried = resolved.clone();
        tried.truncate(MAX_ADDRESSES);
        // Nobody may listen.
        addresses.send_replace(tried);
    }
    let mut local = None;
    let connected = race(resolved, |address| {
        open(address, mark).map_err(|(what, source)| {
            let kind = source.kind();
            local = Some(ConnectError::Local { what, source });
            kind.into()
        })
    });
    let connected = connected.await;
    connected.map_err(|source| {
        local.unwrap_or_else(|| ConnectError::Unreachable {
            authority: format!("{host}:{port}"),
            source,
        })
    })
}

/// Happy Eyeballs (RFC 8305 §5): the first of the addresses that accepts a connection. The families alternate, a silent
/// address delays the next one by 250 ms, and one that fails by nothing. At most eight addresses are tried. `open` makes
/// the socket for an address; where it fails, so does that address alone.
///
/// # Errors
/// The last failure, once every address has failed. Silent addresses are waited for: the caller has a time limit.
pub async fn race(
    addresses: Vec<SocketAddr>,
    mut open: impl FnMut(SocketAddr) -> io::Result<TcpSocket>,
) -> io::Result<TcpStream> {
    let connected = race_attempts(addresses, |address| {
        let socket = open(address);
        async move { socket?.connect(address).await }
    });
    let connected = connected.await;
    connected.map_err(|last| last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

/// The first of the attempts that succeeds, each at one address. They begin as [`race`] says.
async fn race_attempts<T, E, F>(
    addresses: Vec<SocketAddr>,
    mut begin: impl FnMut(SocketAddr) -> F,
) -> Result<T, Option<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut attempts = JoinSet::new();
    let mut addresses = alternate(addresses).into_iter().take(MAX_ADDRESSES);
    let mut last_error = None;
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            attempts.spawn(begin(address));
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
                Some(Ok(Ok(connected))) => return Ok(connected),
                Some(Ok(Err(error))) => last_error = Some(error),
                Some(Err(_aborted)) => {}
                None if is_last => return Err(last_error),
                None => {}
            },
            () = stagger => {}
        }
    }
}

/// The addresses in the order in which they are tried after that many failed attempts. An address that accepts connections
/// and refuses sessions would otherwise be the only one that is ever tried.
fn in_turn(addresses: Vec<SocketAddr>, earlier: usize) -> Vec<SocketAddr> {
    let mut ordered = alternate(addresses);
    let first = earlier.checked_rem(ordered.len()).unwrap_or(0);
    ordered.rotate_left(first);
    // The families still take turns, and the first one stays it.
    alternate(ordered)
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

/// The error says what was tried.
fn open(address: SocketAddr, mark: Option<u32>) -> Result<TcpSocket, (&'static str, io::Error)> {
    let failed = |what| move |source| (what, source);
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(failed("open a TCP socket"))?;
    // Messages are short and wait for answers.
    socket
        .set_nodelay(true)
        .map_err(failed("set TCP_NODELAY"))?;
    if let Some(mark) = mark {
        let marked = SockRef::from(&socket).set_mark(mark);
        marked.map_err(failed("mark the connection (CAP_NET_ADMIN)"))?;
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

    #[test]
    fn every_address_comes_first_in_one_of_as_many_attempts_as_there_are() {
        let of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let all = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let firsts: Vec<_> = (0..5)
            .map(|earlier| in_turn(all.clone(), earlier)[0])
            .collect();
        assert_eq!(firsts, alternate(all.clone()));
        for earlier in 0..12 {
            let mut tried = in_turn(all.clone(), earlier);
            assert_eq!(tried, alternate(tried.clone()));
            tried.sort_unstable();
            let mut expected = all.clone();
            expected.sort_unstable();
            assert_eq!(tried, expected);
        }
        assert_eq!(in_turn(Vec::new(), 3), []);
    }

    /// A listener that drops SYNs, as a firewall does, and what keeps its backlog full.
    async fn silent() -> (SocketAddr, impl Sized) {
        let listener = TcpSocket::new_v4().unwrap();
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listener.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        loop {
            let attempt = tokio::time::timeout(NEXT_ADDRESS_AFTER, TcpStream::connect(address));
            match attempt.await {
                Ok(stream) => held.push(stream.unwrap()),
                Err(_) => return (address, (listener, held)),
            }
        }
    }

    fn plain(address: SocketAddr) -> io::Result<TcpSocket> {
        open(address, None).map_err(|(_, error)| error)
    }

    #[tokio::test]
    async fn silent_and_failing_addresses_delay_the_one_that_answers_by_a_quarter_of_a_second_each()
    {
        let (dead, _held) = silent().await;
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = good.local_addr().map(|address| (address, good)).unwrap();
        let refusing = "127.0.0.1:1".parse().unwrap();
        let start = tokio::time::Instant::now();
        let stream = race(vec![dead, refusing, dead, good.0], plain).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), good.0);
        assert!(
            start.elapsed() >= 2 * NEXT_ADDRESS_AFTER,
            "each had its time"
        );
        // Far above two delays, far below the limit of any attempt.
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    /// Addresses that can't be connected to: refused, nobody's, of everybody, of groups, without the link that they are on,
    /// and of a family that the socket is not of. One that drops what it is sent costs its turn, and the others nothing.
    #[tokio::test]
    async fn an_address_that_fails_in_whatever_way_delays_the_one_that_answers_by_its_turn_at_most()
    {
        let (dead, _held) = silent().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        for bad in [
            vec![dead],
            of(&["127.0.0.1:1"]),
            of(&["[::1]:1"]),
            of(&["0.0.0.0:1"]),
            of(&["[::]:1"]),
            of(&["127.0.0.1:0"]),
            of(&["255.255.255.255:443"]),
            of(&["224.0.0.1:443"]),
            of(&["[ff02::1]:443"]),
            of(&["[fe80::1]:443"]),
            of(&["[::ffff:127.0.0.1]:1"]),
            of(&["[::1]:1", "127.0.0.1:1", "[fe80::1]:443", "224.0.0.1:443"]),
        ] {
            for addresses in [
                [&bad[..], &[good]].concat(),
                // The good one also comes first, or in between.
                [&[good], &bad[..]].concat(),
                [&bad[..], &[good], &bad[..]].concat(),
            ] {
                let start = tokio::time::Instant::now();
                let stream = race(addresses, plain).await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), good, "{bad:?}");
                let took = start.elapsed();
                assert!(took < 2 * NEXT_ADDRESS_AFTER, "{bad:?}: {took:?}");
            }
        }
    }

    /// Without IPv6 in the kernel, opening the socket fails already.
    #[tokio::test]
    async fn a_family_without_sockets_costs_only_its_own_addresses() {
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = good.local_addr().unwrap();
        let without_ipv6 = |address: SocketAddr| match address {
            SocketAddr::V6(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            SocketAddr::V4(_) => plain(address),
        };
        let all = vec!["[2001:db8::1]:443".parse().unwrap(), address];
        let stream = race(all, without_ipv6).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let none = race(vec!["[2001:db8::1]:443".parse().unwrap()], without_ipv6).await;
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[tokio::test]
    async fn at_most_eight_addresses_are_tried() {
        let mut opened = 0;
        let refusing = (1..=20).map(|host| SocketAddr::from(([127, 0, 0, host], 1)));
        let tried = race(refusing.collect(), |address| {
            opened += 1;
            plain(address)
        });
        assert!(tried.await.is_err());
        assert_eq!(opened, MAX_ADDRESSES);
    }
}
