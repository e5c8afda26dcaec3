//! The devices and tasks around the core, from going up to going down.

use crate::shell::address_guard::AddressGuardHandle;
use crate::shell::applications::FirewallHandle;
use crate::shell::base::Base;
use crate::shell::dns::{Admit, DnsEvents, Listeners, TlsServers};
use crate::shell::network::Host;
use crate::shell::portals_file;
use crate::shell::resolver::Resolver;
use crate::shell::tunnel::Tunnel;
use crate::{ClientError, Enrolment};
use culvert_host::{Guests, InterfaceName, ResolverControl, StateDir, WatchOptions};
use culvert_ids::GatewayId;
use culvert_link::{Destination, LookUp, Nat64Search, PortalLink};
use culvert_relay_tls::Streams;
use culvert_session::PrivateKey;
use std::net::SocketAddr;
use tokio::sync::watch;

/// Everything that is to be closed in the end.
pub(in crate::shell) struct Devices {
    pub(super) tunnel: Tunnel,
    pub(super) host: Host,
    pub(super) resolver: Resolver,
    pub(super) firewall: FirewallHandle,
    pub(super) address_guard: AddressGuardHandle,
    pub(super) portal: PortalLink,
    pub(super) state: StateDir,
    /// Addresses of the portal, as last looked up.
    pub(super) portal_addresses: watch::Receiver<Vec<SocketAddr>>,
    pub(super) listeners: Listeners,
    pub(super) tls_servers: TlsServers,
    /// TLS streams to relays.
    pub(super) streams: Streams<GatewayId>,
    pub(super) nat64: Nat64Search,
}

impl Devices {
    /// Makes the interface, and starts the tasks around it. DNS messages go to `dns_events`.
    pub(super) async fn start(
        base: &Base,
        enrolment: &Enrolment,
        control: ResolverControl,
        dns_events: DnsEvents,
    ) -> Result<Self, ClientError> {
        let settings = &base.settings;
        let guests = Guests::open()?;
        let mut listeners = Listeners::new(dns_events, Some(guests));
        for address in &settings.dns_listen {
            let bound = listeners.bind(*address, Admit::Everybody).await;
            bound.map_err(|source| ClientError::DnsListen {
                address: *address,
                source,
            })?;
        }
        let tunnel = Tunnel::start(settings, PrivateKey::from_bytes(*base.key.expose()))?;
        let host = Host::start(WatchOptions {
            own_interfaces: vec![settings.interface.clone()],
            routing: settings.routing,
            destinations: Vec::new(),
            debounce: culvert_host::DEBOUNCE,
        });
        let (found, portal_addresses) = watch::channel(Vec::new());
        let state = StateDir::open(&settings.state_dir)?;
        let seed = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(ClientError::system("draw random bytes"))?;
        let addresses = portals_file::read(&state, enrolment, seed);
        let look_up: LookUp = |host, port| Box::pin(culvert_host::look_up(host, port));
        let destination = Destination {
            portal: enrolment.portal.clone(),
            path: culvert_wire::CLIENT_SESSION_PATH,
            credential: (&enrolment.bearer).into(),
            mark: Some(settings.routing.mark.get()),
            look_up,
            proxy: settings.proxy.clone(),
            addresses: Some(found),
        };
        let portal = PortalLink::new(destination, addresses);
        Ok(Self {
            tunnel,
            host,
            resolver: Resolver::start(control),
            firewall: FirewallHandle::start(settings.interface.clone()),
            address_guard: AddressGuardHandle::start(settings.interface.clone()),
            portal,
            state,
            portal_addresses,
            listeners,
            tls_servers: TlsServers::start(&settings.dns_upstreams),
            streams: Streams::new(),
            nat64: Nat64Search::start(look_up, Some(settings.routing.mark.get())),
        })
    }

    /// Ends in order, and leaves the host as `closing` says.
    pub(in crate::shell) async fn close(mut self, closing: Closing, interface: &InterfaceName) {
        // In each case nobody answers here any more.
        self.resolver.remove().await;
        self.portal.disconnect().await;
        match closing {
            Closing::Over => {
                self.host.remove().await;
                // Last: until nothing leads into the tunnel, the rules hold.
                self.firewall.remove().await;
                self.tunnel.stop(interface).await;
                self.address_guard.remove().await;
            }
            Closing::Fault => {
                self.tunnel.stop(interface).await;
                // The addresses went with the interface.
                self.address_guard.remove().await;
            }
            Closing::Restart => self.tunnel.leave(),
        }
    }
}

/// The state in which the host is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shell) enum Closing {
    /// It is as it was.
    Over,
    /// Destinations in the tunnel stay unreachable.
    Fault,
    /// Everything stays for the process that comes next.
    Restart,
}
