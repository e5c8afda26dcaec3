//! The wish that the host is asked to fulfil: addresses, routes and exemptions of the tunnel.

use crate::Settings;
use culvert_host::{Exemption, MAX_EXEMPTIONS, Wanted};
use culvert_policy::Prefix;
use culvert_wire::messages::Interface;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The core's wishes for the host, and whether they were told.
#[derive(Debug, Default)]
pub(super) struct HostWish {
    interface: Option<Interface>,
    routes: Option<BTreeSet<Prefix>>,
    /// The port of the tunnel's sockets, while they are open.
    tunnel_port: Option<u16>,
    /// The TLS ports of relays to which there are streams.
    relays: BTreeSet<SocketAddr>,
    /// Something was asked of the host.
    has_wanted: bool,
    /// Rules about applications were asked for of which nothing has been heard.
    awaits_guard: bool,
}

impl HostWish {
    pub(super) const fn interface(&self) -> Option<Interface> {
        self.interface
    }

    /// The addresses of this machine in the tunnel, once they are known.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.interface.map(addresses_of).unwrap_or_default()
    }

    pub(super) const fn set_interface(&mut self, interface: Interface) {
        self.interface = Some(interface);
    }

    pub(super) fn set_routes(&mut self, routes: BTreeSet<Prefix>) {
        self.routes = Some(routes);
    }

    pub(super) const fn set_awaits_guard(&mut self, awaits_guard: bool) {
        self.awaits_guard = awaits_guard;
    }

    /// Takes in which port the tunnel's sockets have. True if the host has to be told.
    pub(super) fn set_port(&mut self, port: Option<u16>) -> bool {
        let is_new = self.tunnel_port != port;
        self.tunnel_port = port;
        is_new && self.has_wanted
    }

    /// Takes in to which relays there are streams. True if the host has to be told.
    pub(super) fn set_relays(&mut self, relays: BTreeSet<SocketAddr>) -> bool {
        let is_new = self.relays != relays;
        self.relays = relays;
        is_new && self.has_wanted
    }

    /// The port of the tunnel's sockets, while they are open.
    pub(super) const fn port(&self) -> Option<u16> {
        self.tunnel_port
    }

    /// True if the port of the tunnel is to be looked up.
    pub(super) const fn lacks_port(&self) -> bool {
        self.tunnel_port.is_none()
    }

    /// True once both addresses and routes are known, and nothing stands in the way of asking for them.
    pub(super) const fn can_be_wanted(&self) -> bool {
        // Routes of an earlier process lead to resources whose rules are still to be loaded. These stay in the tunnel
        // until the routes to them are among those that are wanted.
        let is_early = self.awaits_guard && !self.has_wanted;
        self.interface.is_some() && self.routes.is_some() && !is_early
    }

    /// The host is asked. True for the first time.
    pub(super) const fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.has_wanted, true)
    }

    /// The wish; `None` before addresses and routes are known. `portal` are the portal's addresses.
    pub(super) fn wanted(&self, settings: &Settings, portal: &[SocketAddr]) -> Option<Wanted> {
        let (interface, routes) = (self.interface?, self.routes.as_ref()?);
        let prefixes = routes
            .iter()
            .filter_map(|range| IpNet::new(range.address(), range.len()).ok());
        Some(Wanted {
            interface: settings.interface.clone(),
            mtu_bytes: settings.mtu.into(),
            addresses: addresses_of(interface),
            prefixes: prefixes.collect(),
            exemptions: self.exemptions(portal),
            routing: settings.routing,
        })
    }

    /// Packets that must stay out of the tunnel, whatever their mark.
    fn exemptions(&self, portal: &[SocketAddr]) -> Vec<Exemption> {
        let tunnel = self.tunnel_port.map(Exemption::UdpFrom).into_iter();
        let streams = portal.iter().chain(&self.relays);
        let streams = streams.copied().map(Exemption::TcpTo);
        tunnel.chain(streams).take(MAX_EXEMPTIONS).collect()
    }
}

fn addresses_of(interface: Interface) -> Vec<IpAddr> {
    vec![interface.ipv4.into(), interface.ipv6.into()]
}
