//! Servers with link-local addresses, which are asked on one interface: hickory knows addresses alone.

use culvert_host::InterfaceName;
use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The zones of servers' addresses (RFC 4007, section 11).
#[derive(Clone, Debug, Default)]
pub(super) struct Zones(BTreeMap<Ipv6Addr, String>);

impl Zones {
    /// Takes the zone out of a line `nameserver ADDRESS%ZONE`. Of two zones of one address, the first counts.
    pub(super) fn take(&mut self, line: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(line).into_owned();
        let Some(word) = text.split_ascii_whitespace().nth(1) else {
            return line.to_vec();
        };
        let Some((address, zone)) = word.split_once('%') else {
            return line.to_vec();
        };
        let Ok(parsed) = address.parse::<Ipv6Addr>() else {
            return line.to_vec();
        };
        if parsed.is_unicast_link_local() {
            self.0.entry(parsed).or_insert_with(|| zone.to_owned());
        }
        format!("nameserver {address}").into_bytes()
    }

    /// The zone of a server's address.
    pub(super) fn of(&self, address: IpAddr) -> Option<&str> {
        match address {
            IpAddr::V6(address) => self.0.get(&address).map(String::as_str),
            IpAddr::V4(_) => None,
        }
    }

    /// A server that can't be asked, since its interface is not there.
    pub(super) fn problem(&self) -> Option<String> {
        let mut zones = self.0.iter();
        let (address, zone) = zones.find(|(_, zone)| InterfaceName::of_zone(zone).is_none())?;
        Some(format!(
            "the DNS server {address}%{zone} of /etc/resolv.conf is not asked: there is no interface {zone}"
        ))
    }

    /// The interface of a server's address; none where any will do.
    fn interface_of(&self, server: SocketAddr) -> io::Result<Option<InterfaceName>> {
        let Some(zone) = self.of(server.ip()) else {
            return Ok(None);
        };
        let interface = InterfaceName::of_zone(zone);
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no interface {zone}"));
        interface.map(Some).ok_or_else(missing)
    }
}

/// Tokio, with the sockets to servers in zones on their interfaces.
#[derive(Clone, Default)]
pub(crate) struct Zoned {
    tokio: TokioRuntimeProvider,
    zones: Arc<Zones>,
}

impl Zoned {
    pub(super) fn new(zones: Zones) -> Self {
        Self {
            tokio: TokioRuntimeProvider::default(),
            zones: Arc::new(zones),
        }
    }
}

type Opening<T> = Pin<Box<dyn Send + Future<Output = io::Result<T>>>>;

impl RuntimeProvider for Zoned {
    type Handle = <TokioRuntimeProvider as RuntimeProvider>::Handle;
    type Timer = <TokioRuntimeProvider as RuntimeProvider>::Timer;
    type Udp = <TokioRuntimeProvider as RuntimeProvider>::Udp;
    type Tcp = <TokioRuntimeProvider as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.tokio.create_handle()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        bind: Option<SocketAddr>,
        wait: Option<Duration>,
    ) -> Opening<Self::Tcp> {
        let scoped = self.zones.interface_of(server).map(|interface| {
            let scope = interface.and_then(|interface| interface.index());
            match (server, scope) {
                (SocketAddr::V6(server), Some(scope)) => {
                    SocketAddrV6::new(*server.ip(), server.port(), 0, scope).into()
                }
                (server, _) => server,
            }
        });
        match scoped {
            Ok(server) => self.tokio.connect_tcp(server, bind, wait),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> Opening<Self::Udp> {
        let interface = self.zones.interface_of(server);
        let bound = self.tokio.bind_udp(local, server);
        Box::pin(async move {
            let socket = bound.await?;
            // It is sent to the address alone: the interface says in which zone that is.
            if let Some(interface) = interface? {
                socket.bind_device(Some(interface.as_str().as_bytes()))?;
            }
            Ok(socket)
        })
    }
}
