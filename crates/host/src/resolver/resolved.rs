//! systemd-resolved, over D-Bus: names of given domains are asked of the client, all others as before.
//!
//! Its settings belong to the tunnel's interface and go with it, so that a crash leaves nothing,
//! unless the service manager keeps the interface.

use super::wanted::{ResolverWanted, RoutedDomains};
use crate::{HostError, InterfaceName};
use culvert_policy::DomainName;
use futures_util::{Stream, StreamExt};
use rustix::net::AddressFamily;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath, Proxy};

const SERVICE: &str = "org.freedesktop.resolve1";
const PATH: &str = "/org/freedesktop/resolve1";
/// The path of the system bus, unless the environment names another one.
const USUAL_BUS: &str = "/run/dbus/system_bus_socket";

const MANAGER: &str = "org.freedesktop.resolve1.Manager";
const LINK: &str = "org.freedesktop.resolve1.Link";

/// The time limit for one call: it answers in milliseconds, and the bus starts it in some hundred.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// The time that it may be away while it starts again, before that counts as a failure.
const RESTART_LIMIT: Duration = Duration::from_secs(10);

/// The flag of a domain that serves only to find the resolver, never to complete names.
const ROUTING_ONLY: bool = true;

/// The domain of every name.
const ROOT: &str = ".";

/// A server as the bus has it: its interface, the family, the address.
type BusServer = (i32, i32, Vec<u8>);

/// An event of systemd-resolved.
enum Notice {
    /// It has started, or ended.
    Owner { is_there: bool },
    /// Something of it is another.
    Properties,
}

/// True if there is a system bus, on which it could answer.
pub(super) fn has_bus() -> bool {
    std::env::var_os("DBUS_SYSTEM_BUS_ADDRESS").is_some() || Path::new(USUAL_BUS).exists()
}

/// A connection to systemd-resolved.
pub(super) struct Resolved {
    manager: Proxy<'static>,
    notices: Pin<Box<dyn Stream<Item = Notice> + Send + Sync>>,
    /// The interface that it was told of.
    index: Option<i32>,
    upstreams: Vec<SocketAddr>,
    /// By which of its modes it asks them over TLS, if it does.
    encrypts: Option<String>,
}

impl Resolved {
    /// Connects, and starts it where the bus can.
    pub(super) async fn connect() -> Result<Self, HostError> {
        let connected = timeout(CALL_LIMIT, Self::try_connect()).await;
        let missing = |message| HostError::ResolvedMissing { message };
        match connected {
            Ok(Ok(resolved)) => Ok(resolved),
            Ok(Err(error)) => Err(missing(one_line(&error.to_string()))),
            Err(_elapsed) => Err(missing("no answer within a second".to_owned())),
        }
    }

    async fn try_connect() -> zbus::Result<Self> {
        let builder = zbus::connection::Builder::system().method_timeout(CALL_LIMIT);
        let connection = builder.build().await?;
        let peer = proxy(&connection, "org.freedesktop.DBus.Peer").await?;
        peer.call::<_, _, ()>("Ping", &()).await?;
        let manager = proxy(&connection, MANAGER).await?;
        let owners = manager.receive_owner_changed().await?;
        let owners = owners.map(|owner| Notice::Owner {
            is_there: owner.is_some(),
        });
        let properties = proxy(&connection, "org.freedesktop.DBus.Properties").await?;
        let of_manager = [(0, MANAGER)];
        let changes = properties
            .receive_signal_with_args("PropertiesChanged", &of_manager)
            .await?;
        let changes = changes.map(|_| Notice::Properties);
        Ok(Self {
            manager,
            notices: Box::pin(futures_util::stream::select(owners, changes)),
            index: None,
            upstreams: Vec::new(),
            encrypts: None,
        })
    }

    /// Has it ask `wanted.server` for the domains.
    pub(super) async fn apply(
        &mut self,
        wanted: &ResolverWanted,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let index = InterfaceName::index_of(wanted.interface.as_str())
            .and_then(|index| i32::try_from(index).ok())
            .ok_or_else(|| HostError::NoInterface {
                interface: wanted.interface.clone(),
            })?;
        self.index = Some(index);
        self.upstreams = self.ask_upstreams().await?;
        self.encrypts = self.ask_encrypts().await;
        if let (Some(mode), Some(server)) = (&self.encrypts, self.upstreams.first())
            && wanted.domains == RoutedDomains::All
            && wanted.asks_upstreams
        {
            return Err(HostError::ResolvedEncrypts {
                server: server.ip(),
                mode: mode.clone(),
            });
        }
        tell(&self.upstreams);
        let (domains, is_default) = link_domains(wanted);
        let servers = vec![bus_server(wanted.server)];
        self.call("SetLinkDNS", &(index, servers)).await?;
        self.call("SetLinkDomains", &(index, domains)).await?;
        self.call("SetLinkDefaultRoute", &(index, is_default))
            .await?;
        // Nothing of this concerns a tunnel. Builds without one of them refuse that one.
        for switch in [
            "SetLinkLLMNR",
            "SetLinkMulticastDNS",
            "SetLinkDNSSEC",
            "SetLinkDNSOverTLS",
        ] {
            if let Err(error) = self.call(switch, &(index, "no")).await {
                tracing::debug!(%error, "systemd-resolved can't be told to leave something out");
            }
        }
        self.call("FlushCaches", &()).await
    }

    /// Returns once it was started again, has other servers, or is no longer there.
    pub(super) async fn changed(&mut self) {
        while let Some(notice) = self.notices.next().await {
            match notice {
                Notice::Owner { is_there: true } => return,
                Notice::Owner { is_there: false } => {
                    // The result does not matter, because the next attempt shows if it is back.
                    let _back = timeout(RESTART_LIMIT, self.is_back()).await;
                    return;
                }
                Notice::Properties => match self.ask_upstreams().await {
                    Ok(upstreams)
                        if upstreams == self.upstreams
                            && self.ask_encrypts().await == self.encrypts => {}
                    Ok(_) | Err(_) => return,
                },
            }
        }
    }

    async fn is_back(&mut self) {
        while let Some(notice) = self.notices.next().await {
            if matches!(notice, Notice::Owner { is_there: true }) {
                return;
            }
        }
    }

    /// Has it forget the interface.
    pub(super) async fn remove(&mut self) -> Result<(), HostError> {
        match self.index.take() {
            None => Ok(()),
            Some(index) => self.forget(index).await,
        }
    }

    /// Has it forget an interface that another process told it of.
    pub(super) async fn forget(&self, index: i32) -> Result<(), HostError> {
        self.call("RevertLink", &(index,)).await?;
        self.call("FlushCaches", &()).await
    }

    /// The resolvers that it asks on other interfaces.
    async fn ask_upstreams(&self) -> Result<Vec<SocketAddr>, HostError> {
        let property = self.manager.get_property::<Vec<BusServer>>("DNS").await;
        let servers = property.map_err(|error| refused("DNS", &error))?;
        let others = servers
            .iter()
            .filter(|(index, ..)| Some(*index) != self.index);
        Ok(others.filter_map(reached_at).collect())
    }

    /// The mode of DNS over TLS on any other interface than the tunnel's, or in the global
    /// settings; nothing if it does not use TLS. Versions that can't do so don't know the question.
    async fn ask_encrypts(&self) -> Option<String> {
        let is_on = |mode: &String| mode != "no";
        let general = self.manager.get_property::<String>("DNSOverTLS").await;
        if let Some(mode) = general.ok().filter(is_on) {
            return Some(mode);
        }
        let servers = self.manager.get_property::<Vec<BusServer>>("DNS").await;
        let indexes = servers.unwrap_or_default();
        let indexes: BTreeSet<i32> = indexes.into_iter().map(|(index, ..)| index).collect();
        for index in indexes {
            if index > 0
                && Some(index) != self.index
                && let Ok(mode) = self.ask_link_encrypts(index).await
                && is_on(&mode)
            {
                return Some(mode);
            }
        }
        None
    }

    async fn ask_link_encrypts(&self, index: i32) -> zbus::Result<String> {
        let path: OwnedObjectPath = self.manager.call("GetLink", &(index,)).await?;
        let link = zbus::proxy::Builder::<Proxy<'_>>::new(self.manager.connection())
            .destination(SERVICE)
            .path(path)
            .interface(LINK)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        link.get_property("DNSOverTLS").await
    }

    /// True if it asks over TLS, which the client can't.
    pub(super) const fn encrypts(&self) -> bool {
        self.encrypts.is_some()
    }

    async fn call<B>(&self, method: &'static str, body: &B) -> Result<(), HostError>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let called = self.manager.call::<_, _, ()>(method, body).await;
        called.map_err(|error| refused(method, &error))
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resolved")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

async fn proxy(connection: &Connection, interface: &'static str) -> zbus::Result<Proxy<'static>> {
    zbus::proxy::Builder::new(connection)
        .destination(SERVICE)
        .path(PATH)
        .interface(interface)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// The domains of the link as `SetLinkDomains` takes them, and whether names in none of them are
/// asked there as well. Search domains are asked there like the others.
fn link_domains(wanted: &ResolverWanted) -> (Vec<(&str, bool)>, bool) {
    let search = wanted.search.iter().map(DomainName::as_str);
    let mut domains: Vec<_> = search.map(|domain| (domain, !ROUTING_ONLY)).collect();
    match &wanted.domains {
        RoutedDomains::All => domains.push((ROOT, ROUTING_ONLY)),
        RoutedDomains::Within(routed) => {
            let is_new = |domain: &&str| wanted.search.iter().all(|it| it.as_str() != *domain);
            let routed = routed.iter().map(String::as_str).filter(is_new);
            domains.extend(routed.map(|domain| (domain, ROUTING_ONLY)));
        }
    }
    (domains, wanted.domains == RoutedDomains::All)
}

fn refused(action: &'static str, error: &zbus::Error) -> HostError {
    HostError::ResolvedRefused {
        action,
        message: one_line(&error.to_string()),
    }
}

/// The message of another program, as a part of one line.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A server as `SetLinkDNS` takes it.
fn bus_server(address: IpAddr) -> (i32, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (
            family_number(AddressFamily::INET),
            address.octets().to_vec(),
        ),
        IpAddr::V6(address) => (
            family_number(AddressFamily::INET6),
            address.octets().to_vec(),
        ),
    }
}

fn reached_at((index, _, bytes): &BusServer) -> Option<SocketAddr> {
    /// The port of DNS.
    const DNS_PORT: u16 = 53;
    if let Ok(address) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some((address, DNS_PORT).into());
    }
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?);
    let scope = match address.is_unicast_link_local() {
        true => u32::try_from(*index).ok()?,
        false => 0,
    };
    Some(SocketAddrV6::new(address, DNS_PORT, 0, scope).into())
}

/// The number of a family of addresses (`AF_INET`, `AF_INET6`).
fn family_number(family: AddressFamily) -> i32 {
    family.as_raw().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(domains: RoutedDomains, search: &[&str]) -> ResolverWanted {
        ResolverWanted {
            interface: "culvert0".parse().unwrap(),
            server: "100.64.0.7".parse().unwrap(),
            domains,
            search: search.iter().map(|it| it.parse().unwrap()).collect(),
            asks_upstreams: true,
        }
    }

    #[test]
    fn a_domain_that_is_searched_is_told_once_and_before_those_that_only_route() {
        let within = ["corp.example", "lab.example"].map(str::to_owned);
        let some = wanted(
            RoutedDomains::Within(within.into()),
            &["z.example", "corp.example"],
        );
        let expected = vec![
            ("z.example", false),
            ("corp.example", false),
            ("lab.example", true),
        ];
        assert_eq!(link_domains(&some), (expected, false));
        let all = wanted(RoutedDomains::All, &["corp.example"]);
        let expected = vec![("corp.example", false), (".", true)];
        assert_eq!(link_domains(&all), (expected, true));
    }
}
