//! Wishes to the host, and changes of its network.

use super::EventLoop;
use crate::shell::clock::Now;
use crate::shell::dns::Admit;
use culvert_client_core::DNS_PORT;
use culvert_host::{NetworkChange, ResolverWanted};
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};

impl EventLoop<'_> {
    pub(super) fn handle_network(&mut self, change: NetworkChange) {
        if change.rules {
            self.devices.host.repeat();
        }
        if change.addresses || change.ways {
            tracing::info!("the network has changed; paths are tried again");
            let now = Now::read().boot;
            if self.devices.portal.has_lost_its_address() {
                let why = "this machine no longer has the address of the connection";
                self.warn("the session with the portal has ended", why, now);
                self.disconnect();
                self.core.handle_disconnected(why.to_owned(), None, now);
            }
            self.tell_own_addresses();
            self.devices.nat64.begin_again();
            self.core.handle_network_changed(now);
        }
    }

    /// Takes in messages of relays, and probes.
    pub(super) fn handle_path_messages(&mut self) {
        let now = Now::read().boot;
        for message in self.devices.tunnel.take_path_messages() {
            let (source, datagram) = (message.source, message.datagram());
            self.core.handle_path_message(source, datagram, now);
        }
    }

    /// Tells the core where gateways of the same network may reach this machine.
    pub(super) fn tell_own_addresses(&mut self) {
        let addresses = self.devices.host.addresses();
        let port = self.host_wish.port();
        let own = port.into_iter().flat_map(|port| {
            let with_port = move |ip: &IpAddr| SocketAddr::new(*ip, port);
            addresses.iter().map(with_port)
        });
        let own = own.collect();
        self.core.handle_own_addresses(own, Now::read().boot);
    }

    /// Asks for what the core wants of the host, once it knows both addresses and routes.
    pub(super) fn want_host(&mut self) {
        if !self.host_wish.can_be_wanted() {
            return;
        }
        if self.host_wish.begin() {
            self.devices.firewall.check_again();
        }
        if self.host_wish.lacks_port() {
            // An interface that was taken over is up already. One that has failed is heard of elsewhere.
            let port = self.devices.tunnel.port().unwrap_or(None);
            self.note_port_early(port);
        }
        let portal = self.devices.portal_addresses.borrow();
        if let Some(wanted) = self.host_wish.wanted(&self.base.settings, &portal) {
            self.devices.host.want(wanted);
        }
    }

    /// The same before the host was asked for anything.
    fn note_port_early(&mut self, port: Option<u16>) {
        self.host_wish.set_port(port);
        if port.is_some() {
            self.tell_own_addresses();
        }
    }

    /// Takes in the port of the tunnel's sockets.
    pub(super) fn note_port(&mut self, port: Option<u16>) {
        let is_other = self.host_wish.port() != port;
        if self.host_wish.set_port(port) {
            self.want_host();
        }
        if is_other {
            self.tell_own_addresses();
        }
    }

    /// Opens the sockets on the tunnel's addresses, as far as the host has them already.
    pub(super) async fn bind_dns(&mut self) {
        self.answering.begin_binding();
        if self.host_wish.interface().is_none() {
            return;
        }
        let (applied, lacks_ipv6) = {
            let state = self.devices.host.state.borrow();
            (state.applied, state.lacks_ipv6)
        };
        if applied == 0 {
            return;
        }
        let mut addresses = self.host_wish.addresses();
        addresses.retain(|address| address.is_ipv4() || !lacks_ipv6);
        let wanted: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        self.devices.listeners.keep(&wanted);
        let mut problem = None;
        for address in addresses {
            let at = (address, DNS_PORT).into();
            if let Err(error) = self.devices.listeners.bind(at, Admit::Local).await {
                problem = Some(dns_problem(at, &error));
            }
        }
        self.answering.end_binding(problem, Now::read().boot);
        self.want_resolver();
    }

    /// Has the system ask here, once there is somebody who answers, unless it is not to.
    pub(super) fn want_resolver(&self) {
        if !self.socket.wants_dns() {
            self.devices.resolver.want_nothing();
            return;
        }
        let listening = self.devices.listeners.addresses();
        let own = self.host_wish.addresses();
        let answers = |address: &IpAddr| listening.contains(&(*address, DNS_PORT).into());
        if let Some(server) = own.into_iter().find(answers) {
            self.devices.resolver.want(ResolverWanted {
                interface: self.base.settings.interface.clone(),
                server,
                domains: self.answering.domains.clone(),
                search: self.answering.search.clone(),
                asks_upstreams: self.base.settings.dns_upstreams.is_empty()
                    && self.core.asks_upstreams_of_system(),
            });
        }
    }

    /// Other names are asked of those whom the system asked before, unless others were named.
    pub(super) fn take_upstreams(&mut self) {
        let state = self.devices.resolver.state.borrow_and_update().clone();
        self.core.set_dns_search(&state.search);
        if let Some(upstreams) = state.upstreams
            && self.base.settings.dns_upstreams.is_empty()
        {
            let now = Now::read().boot;
            self.core.set_dns_upstreams(&upstreams, now);
        }
    }
}

fn dns_problem(at: SocketAddr, error: &Error) -> String {
    let fix = match error.kind() {
        ErrorKind::PermissionDenied => {
            "; grant CAP_NET_BIND_SERVICE, or use --dns-listen with a port above 1023"
        }
        ErrorKind::AddrInUse => {
            "; another resolver takes every address of this machine: bind it to its own"
        }
        _ => "",
    };
    format!("names are not answered at {at}: {error}{fix}")
}
