//! Finding the NAT64 of a network that has IPv6 alone (RFC 7050).

use crate::look_up::LookUp;
use culvert_path::{IPV4_ONLY_NAME, Nat64Prefix, reach_all};
use socket2::SockRef;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::time::timeout;

/// The time for the answer of the resolver. Without one the well-known prefix is used.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(3);

/// The port with which names are looked up and routes are asked for. Nothing is sent to it.
const DISCARD_PORT: u16 = 9;

/// The way to IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat64 {
    /// There is an IPv4 route, perhaps by a translator of this host (464XLAT), or there is no IPv6 route either.
    NotNeeded,
    /// The resolver told this prefix.
    Discovered(Nat64Prefix),
    /// The resolver told none: the well-known prefix may lead there.
    Assumed,
}

impl Nat64 {
    /// The prefix by which IPv4 addresses are reached; none if they are reached as they are.
    #[must_use]
    pub const fn prefix(self) -> Option<Nat64Prefix> {
        match self {
            Self::NotNeeded => None,
            Self::Discovered(prefix) => Some(prefix),
            Self::Assumed => Some(Nat64Prefix::WELL_KNOWN),
        }
    }
}

/// The address from which packets leave to `destination`; none if there is no route. Nothing is sent. `mark` is that of
/// sockets that stay out of the tunnel.
#[must_use]
pub fn source_to(destination: IpAddr, mark: Option<u32>) -> Option<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    if let Some(mark) = mark {
        SockRef::from(&socket).set_mark(mark).ok()?;
    }
    socket.connect((destination, DISCARD_PORT)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The source addresses of the default routes, IPv4 first. Addresses of documentation (RFC 5737, RFC 3849) stand for
/// those of the internet.
#[must_use]
pub fn default_sources(mark: Option<u32>) -> [Option<IpAddr>; 2] {
    let ipv4 = Ipv4Addr::new(192, 0, 2, 1).into();
    let ipv6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
    [ipv4, ipv6].map(|destination| source_to(destination, mark))
}

/// Finds out how IPv4 addresses are reached. The resolver is asked only if the host has an IPv6 route and no IPv4 route.
pub async fn find_nat64(look_up: LookUp, mark: Option<u32>) -> Nat64 {
    match default_sources(mark) {
        [None, Some(_)] => ask(look_up).await,
        _ => Nat64::NotNeeded,
    }
}

async fn ask(look_up: LookUp) -> Nat64 {
    let found = timeout(
        LOOK_UP_LIMIT,
        look_up(IPV4_ONLY_NAME.to_owned(), DISCARD_PORT),
    )
    .await;
    let addresses = match found {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    let addresses = addresses.into_iter().map(|address| address.ip());
    Nat64Prefix::discover(addresses).map_or(Nat64::Assumed, Nat64::Discovered)
}

/// The addresses of a name as this host reaches them, each once. A host without an IPv4 route gets IPv4 ones by the NAT64.
pub(crate) async fn reachable(
    addresses: Vec<SocketAddr>,
    look_up: LookUp,
    mark: Option<u32>,
) -> Vec<SocketAddr> {
    if !addresses.iter().any(SocketAddr::is_ipv4) {
        return addresses;
    }
    let prefix = find_nat64(look_up, mark).await.prefix();
    let mut reached = Vec::new();
    for address in reach_all(prefix, &addresses) {
        if !reached.contains(&address) {
            reached.push(address);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::io;

    fn answer(texts: &[&str]) -> io::Result<Vec<SocketAddr>> {
        let parsed = texts
            .iter()
            .map(|text| SocketAddr::new(text.parse().unwrap(), 9));
        Ok(parsed.collect())
    }

    #[tokio::test(start_paused = true)]
    async fn the_prefix_is_the_resolvers_and_otherwise_the_well_known_one() {
        let told = ask(|name, _| {
            assert_eq!(name, "ipv4only.arpa");
            Box::pin(async { answer(&["192.0.0.170", "2001:db8:64::192.0.0.170"]) })
        });
        let own = Nat64Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
        assert_eq!(told.await, Nat64::Discovered(own));
        let untranslated = ask(|_, _| Box::pin(async { answer(&["192.0.0.170"]) }));
        assert_eq!(untranslated.await, Nat64::Assumed);
        let failed = ask(|_, _| Box::pin(async { Err(io::ErrorKind::NotFound.into()) }));
        assert_eq!(failed.await, Nat64::Assumed);
        let silent = ask(|_, _| Box::pin(pending()));
        assert_eq!(silent.await, Nat64::Assumed);
        assert_eq!(Nat64::Assumed.prefix(), Some(Nat64Prefix::WELL_KNOWN));
        assert_eq!(Nat64::NotNeeded.prefix(), None);
    }

    #[test]
    fn loopback_is_always_a_way_and_its_source_is_itself() {
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert_eq!(source_to(loopback, None), Some(loopback));
    }
}
