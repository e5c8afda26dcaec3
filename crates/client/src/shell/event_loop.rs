//! The one task that owns the core.

mod report;

use super::applications::{FirewallHandle, GuardEvent, Joining};
use super::base::{Base, core, resolver_control};
use super::clock::Now;
use super::dns::{self, Admit, DnsEvent, DnsEvents, Listeners, Server, TlsServers, ask_upstream};
use super::network::Host;
use super::os_release;
use super::portal::{Portal, PortalEvent};
use super::resolver::{Resolver, routed};
use super::tunnel::{Tunnel, refused_by_gateway};
use crate::observer::StatusRequest;
use crate::{ClientError, Enrolment, Observed, Request};
use culvert_base::BootTime;
use culvert_client_core::{Client, DNS_PORT, Ending, Output, PacketFacts};
use culvert_control::{CLOCK_TOLERANCE_MS, Repeats, stamp_epoch};
use culvert_datapath::Unrouted;
use culvert_dns::Via;
use culvert_host::{
    Exemption, Guests, InterfaceName, MAX_EXEMPTIONS, NetworkChange, ResolverWanted, RoutedDomains,
    Shutdown, Wanted, WatchOptions,
};
use culvert_link::{Destination, write_log};
use culvert_policy::{DomainName, Prefix};
use culvert_session::PrivateKey;
use culvert_wire::messages::Interface;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// The time after a failure until the DNS sockets are opened again: duplicate detection of a new
/// IPv6 address takes a second before it can be used.
const DNS_RETRY: Duration = Duration::from_millis(500);

/// Packets and DNS messages that are taken in one go before their outputs are carried out together.
const MAX_BATCH: usize = 64;

/// The core and everything that it speaks with, from going up to going down.
pub(super) struct EventLoop<'a> {
    base: &'a Base,
    observed: &'a mut Observed,
    ready: &'a mut (dyn FnMut(&str) + Send),
    core: Client<Unrouted>,
    devices: Devices,
    dns_events: DnsEvents,
    dns_received: mpsc::Receiver<DnsEvent>,
    portal_at: culvert_wire::token::Portal,
    /// True if somebody waits for it to come up.
    is_awaited: bool,
    interface: Option<Interface>,
    routes: Option<BTreeSet<Prefix>>,
    /// The port of the tunnel's sockets, while they are open.
    tunnel_port: Option<u16>,
    /// True if anything was asked of the host yet.
    has_wanted: bool,
    /// True if rules about applications were requested and no result is known yet.
    awaits_guard: bool,
    domains: RoutedDomains,
    search: Vec<DomainName>,
    dns_problem: Option<String>,
    dns_retry: Option<BootTime>,
    ending: Option<Ending>,
    is_ready: bool,
    /// True if the service manager knows that the client has started.
    is_announced: bool,
    summary: String,
    portal_url: String,
    was_connected: bool,
    repeats: Repeats,
}

/// The parts that are to be closed in the end.
pub(super) struct Devices {
    tunnel: Tunnel,
    host: Host,
    resolver: Resolver,
    firewall: FirewallHandle,
    portal: Portal,
    /// Addresses of the portal, as last looked up.
    portal_addresses: watch::Receiver<Vec<SocketAddr>>,
    listeners: Listeners,
    tls_servers: TlsServers,
}

impl Devices {
    /// Ends in order, and leaves the host as `closing` says.
    pub(super) async fn close(self, closing: Closing, interface: &InterfaceName) {
        // Nobody answers here any more, whatever the end.
        self.resolver.remove().await;
        self.portal.close().await;
        match closing {
            Closing::Over => {
                self.host.remove().await;
                // Last: until nothing leads into the tunnel, the rules hold.
                self.firewall.remove().await;
                self.tunnel.stop(interface).await;
            }
            Closing::Fault => self.tunnel.stop(interface).await,
            Closing::Restart => self.tunnel.leave(),
        }
    }
}

/// The treatment of the host at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// It is as it was.
    Over,
    /// Prefixes that belong into the tunnel stay unreachable.
    Fault,
    /// Everything stays for the process that comes next.
    Restart,
}

/// The reason why the loop was left.
pub(super) enum Departure {
    /// The client is to end.
    Stop(Shutdown),
    /// It is told to do something else.
    Command(StatusRequest),
}

/// The event that woke the loop.
enum Event {
    Stop(Shutdown),
    Portal(PortalEvent),
    Packet(Unrouted),
    Dns(DnsEvent),
    Asked(StatusRequest),
    Network(NetworkChange),
    HostApplied,
    /// The portal's name was looked up.
    PortalAddresses,
    Resolver,
    Guard(GuardEvent),
    DeviceEnded(Option<culvert_engine::EngineError>),
    BootTime,
}

impl<'a> EventLoop<'a> {
    /// Goes up: makes the interface, and sets out to the portal. `is_awaited` says that somebody waits to
    /// hear what comes of it, `is_announced` that the service manager knows that the client has started.
    pub(super) async fn start(
        base: &'a Base,
        enrolment: &Enrolment,
        is_awaited: bool,
        is_announced: bool,
        observed: &'a mut Observed,
        ready: &'a mut (dyn FnMut(&str) + Send),
    ) -> Result<Self, ClientError> {
        culvert_host::require_net_admin()?;
        culvert_host::require_tun_device()?;
        let settings = &base.settings;
        let control = resolver_control(settings).await?;
        let core = core(base, &enrolment.portal.url, Now::read())?;
        let (dns_events, dns_received) = mpsc::channel(dns::MAX_WAITING_MESSAGES);
        let guests = Guests::open()?;
        let mut listeners = Listeners::new(dns_events.clone(), Some(guests));
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
        let portal = Portal::new(Destination {
            portal: enrolment.portal.clone(),
            path: culvert_wire::CLIENT_SESSION_PATH,
            bearer: enrolment.bearer.clone(),
            mark: Some(settings.routing.mark.get()),
            look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
            addresses: Some(found),
        });
        Ok(Self {
            base,
            observed,
            ready,
            core,
            devices: Devices {
                tunnel,
                host,
                resolver: Resolver::start(control),
                firewall: FirewallHandle::start(settings.interface.clone()),
                portal,
                portal_addresses,
                listeners,
                tls_servers: TlsServers::start(&settings.dns_upstreams),
            },
            dns_events,
            dns_received,
            portal_at: enrolment.portal.clone(),
            is_awaited,
            interface: None,
            routes: None,
            tunnel_port: None,
            has_wanted: false,
            awaits_guard: false,
            domains: RoutedDomains::Within(BTreeSet::new()),
            search: Vec::new(),
            dns_problem: None,
            dns_retry: None,
            ending: None,
            is_ready: false,
            is_announced,
            summary: String::new(),
            portal_url: enrolment.portal.url.clone(),
            was_connected: false,
            repeats: Repeats::default(),
        })
    }

    /// The parts to be closed, and the requests that arrive meanwhile.
    pub(super) fn into_devices(self) -> Devices {
        self.devices
    }

    /// Goes on until `stop` is done, until it is told to do something else, or until the client can't go
    /// on. It may be called again where it was told something that is not done.
    pub(super) async fn run(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = Shutdown>>,
    ) -> Result<Departure, ClientError> {
        self.core.handle_timeout(Now::read().boot);
        loop {
            self.carry_out()?;
            self.tell();
            let rest = self.rest();
            let event = tokio::select! {
                biased;
                shutdown = stop.as_mut() => Event::Stop(shutdown),
                ended = &mut self.devices.tunnel.ended => Event::DeviceEnded(ended.unwrap_or(None)),
                event = self.devices.portal.next() => Event::Portal(event),
                Some(change) = self.devices.host.changed.recv() => Event::Network(change),
                Ok(()) = self.devices.host.state.changed() => Event::HostApplied,
                Ok(()) = self.devices.portal_addresses.changed() => Event::PortalAddresses,
                Ok(()) = self.devices.resolver.state.changed() => Event::Resolver,
                Some(event) = self.devices.firewall.events.recv() => Event::Guard(event),
                asked = self.observed.next() => Event::Asked(asked),
                () = sleep(rest) => Event::BootTime,
                Some(packet) = self.devices.tunnel.unrouted.recv() => Event::Packet(packet),
                Some(event) = self.dns_received.recv() => Event::Dns(event),
            };
            match event {
                Event::Stop(shutdown) => return Ok(Departure::Stop(shutdown)),
                Event::DeviceEnded(Some(error)) => return Err(error.into()),
                Event::DeviceEnded(None) => return Err(ClientError::InterfaceGone),
                Event::Portal(event) => self.handle_portal(event)?,
                Event::Packet(packet) => self.handle_packets(packet),
                Event::Dns(event) => self.handle_dns(event),
                Event::Asked(asked) => {
                    if let Some(command) = self.handle_asked(asked) {
                        return Ok(Departure::Command(command));
                    }
                }
                Event::Network(change) => self.handle_network(change),
                Event::HostApplied => {
                    self.devices.host.state.mark_unchanged();
                    // The interface may have come up, and the sockets with it.
                    self.note_port(self.devices.tunnel.port()?);
                    self.bind_dns().await;
                }
                Event::PortalAddresses => {
                    self.devices.portal_addresses.mark_unchanged();
                    self.want_host();
                }
                Event::Resolver => self.take_upstreams(),
                Event::Guard(GuardEvent { rules, result }) => {
                    self.awaits_guard = false;
                    self.core.handle_guard(rules, result, Now::read().boot);
                    // With the routes that these let the core ask for.
                    self.carry_out()?;
                    self.want_host();
                }
                Event::BootTime => self.handle_time().await?,
            }
        }
    }

    /// Does what is asked for, and returns what leads out of the loop.
    fn handle_asked(&mut self, asked: StatusRequest) -> Option<StatusRequest> {
        match &asked.request {
            Request::Status => self.answer(asked),
            Request::Ask(resource) => {
                self.core.handle_ask(*resource, Now::read().boot);
                self.answer(asked);
            }
            Request::Join(application) => {
                let joining = Joining {
                    application: application.clone(),
                    peer: asked.peer,
                    process: asked.process,
                    status: self.status(),
                    answer: asked.answer,
                };
                self.devices
                    .firewall
                    .join(joining, &self.core.applications());
            }
            Request::Up | Request::Down | Request::SignIn(_) | Request::SignOut => {
                return Some(asked);
            }
        }
        None
    }

    /// Answers with the state, whatever was asked for.
    pub(super) fn answer(&self, asked: StatusRequest) {
        self.devices.firewall.answer(self.status(), asked.answer);
    }

    fn handle_portal(&mut self, event: PortalEvent) -> Result<(), ClientError> {
        let now = Now::read();
        match event {
            PortalEvent::Opened(told) => {
                let off = told.map(|portal| portal.abs_diff(now.unix));
                if let Some(off) = off
                    && off > Duration::from_millis(CLOCK_TOLERANCE_MS)
                {
                    tracing::warn!(
                        seconds = off.as_secs(),
                        "this machine's clock and the portal's differ; grants end by the portal's"
                    );
                }
                let epoch = stamp_epoch(told, now.unix, now.boot);
                self.devices.tunnel.stamp_from(epoch)?;
                let portal = told.unwrap_or(now.unix);
                self.read_operating_system(now.boot);
                self.core.handle_connected(portal, now.boot);
            }
            PortalEvent::Text(text) => self.core.handle_portal_message(&text, now.boot),
            PortalEvent::Failed(error) if error.is_unauthorized() => {
                self.core.handle_unauthorized(error.to_string(), now.boot);
            }
            PortalEvent::Failed(error) => {
                self.warn("the portal can't be reached", &error.to_string(), now.boot);
                if self.is_awaited && !self.is_ready && error.is_wrong_portal() {
                    return Err(ClientError::WrongPortal(error.to_string()));
                }
                let is_of_token = self.base.settings.enrolment.is_some();
                if self.base.settings.exit_when_unreachable && is_of_token && !self.is_ready {
                    return Err(ClientError::Unreachable(error.to_string()));
                }
                let retry_after_ms = error.retry_after_ms();
                self.core
                    .handle_disconnected(error.to_string(), retry_after_ms, now.boot);
            }
            PortalEvent::Closed(closed) => {
                let why = closed.to_string();
                self.warn("the session with the portal has ended", &why, now.boot);
                self.core
                    .handle_disconnected(closed.to_string(), None, now.boot);
            }
        }
        Ok(())
    }

    /// Logs what is wrong with the portal; the same again once a minute.
    /// A file that can't be read leaves the portal with the last that was read.
    fn read_operating_system(&mut self, now: BootTime) {
        match os_release::read() {
            Ok(os) => self.core.set_operating_system(os),
            Err(error) => self.warn("os-release can't be read", &error.to_string(), now),
        }
    }

    fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = &self.portal_url;
        match self.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }

    fn handle_packets(&mut self, first: Unrouted) {
        let now = Now::read().boot;
        let mut packet = Some(first);
        for _ in 0..MAX_BATCH {
            let Some(unrouted) = packet else { return };
            self.handle_packet(unrouted, now);
            packet = self.devices.tunnel.unrouted.try_recv().ok();
        }
        if let Some(unrouted) = packet {
            self.handle_packet(unrouted, now);
        }
    }

    /// The road has looked at the headers; what is no packet goes nowhere.
    fn handle_packet(&mut self, unrouted: Unrouted, now: BootTime) {
        let (packet, size) = (unrouted.packet(), unrouted.size_bytes());
        match refused_by_gateway(&unrouted) {
            None => {
                if let Some(facts) = PacketFacts::of(packet, size) {
                    self.core.handle_packet(facts, unrouted, now);
                }
            }
            Some(refusal) => {
                if let Some(facts) = PacketFacts::of_quoted(packet, size) {
                    let core = &mut self.core;
                    core.handle_refused_packet(facts, unrouted, refusal, now);
                }
            }
        }
    }

    fn handle_dns(&mut self, first: DnsEvent) {
        let now = Now::read().boot;
        let mut event = Some(first);
        let mut taken = 0;
        while let Some(next) = event {
            match next {
                DnsEvent::Query {
                    bytes,
                    transport,
                    from,
                } => self.core.handle_dns_query(&bytes, transport, from, now),
                DnsEvent::Answer {
                    bytes,
                    transport,
                    from,
                } => self.core.handle_dns_answer(&bytes, transport, from, now),
                DnsEvent::Unreachable(id) => self.core.handle_dns_unreachable(id, now),
            }
            taken += 1;
            event = match taken < MAX_BATCH {
                true => self.dns_received.try_recv().ok(),
                false => None,
            };
        }
    }

    fn handle_network(&mut self, change: NetworkChange) {
        if change.rules {
            self.devices.host.repeat();
        }
        if change.addresses || change.ways {
            tracing::info!("the network has changed; paths are tried again");
            let now = Now::read().boot;
            if self.devices.portal.has_lost_its_address() {
                let why = "this machine no longer has the address of the connection";
                self.warn("the session with the portal has ended", why, now);
                self.devices.portal.disconnect();
                self.core.handle_disconnected(why.to_owned(), None, now);
            }
            self.core.handle_network_changed(now);
        }
    }

    async fn handle_time(&mut self) -> Result<(), ClientError> {
        let now = Now::read();
        if self.core.poll_timeout().is_some_and(|due| due <= now.boot) {
            self.core.handle_timeout(now.boot);
        }
        let is_due = |due| due <= now.boot;
        if self.core.poll_report(now.boot).is_some_and(is_due) {
            let (reports, port) = self.devices.tunnel.reports()?;
            self.note_port(port);
            self.core.handle_peers(&reports, now.boot);
        }
        if self.dns_retry.is_some_and(is_due) {
            self.bind_dns().await;
        }
        Ok(())
    }

    /// The next output of the core. Its log lines are written before.
    fn next_output(&mut self) -> Option<Output<Unrouted>> {
        while let Some(line) = self.core.poll_log() {
            write_log(&line);
        }
        self.core.poll_output()
    }

    /// Does what the core says, in its order.
    fn carry_out(&mut self) -> Result<(), ClientError> {
        while let Some(output) = self.next_output() {
            match output {
                Output::Connect => self.devices.portal.connect(),
                Output::Disconnect => self.devices.portal.disconnect(),
                Output::ToPortal(message) => self.say(&message),
                Output::End(ending) => self.ending = Some(ending),
                Output::Interface(interface) => {
                    self.interface = Some(interface);
                    if let Err(error) = self.devices.tunnel.set_inside(interface) {
                        tracing::warn!(%error, "ICMP errors from behind gateways do not pass");
                    }
                    self.want_host();
                }
                Output::Routes(routes) => {
                    self.routes = Some(routes);
                    self.want_host();
                }
                Output::Guard(rules) => {
                    self.awaits_guard = true;
                    self.devices.firewall.want(rules);
                }
                Output::Domains { asked, search } => {
                    self.domains = routed(&asked);
                    self.search = search;
                    self.want_resolver();
                }
                Output::Engine {
                    peers,
                    services,
                    resume,
                } => {
                    self.devices.tunnel.apply(peers, services, resume)?;
                    self.devices.host.set_destinations(self.core.destinations());
                }
                Output::Refuse { packets, refusal } => self.devices.tunnel.refuse(packets, refusal),
                Output::Answer {
                    bytes,
                    to,
                    transport,
                } => self.devices.listeners.answer(bytes, to, transport),
                Output::Forward {
                    id,
                    query,
                    upstream,
                    transport,
                    via,
                } => {
                    let (device, tls) = match via {
                        Via::Network => (None, self.devices.tls_servers.get(upstream)),
                        Via::Tunnel => (Some(self.base.settings.interface.clone()), None),
                    };
                    let server = Server {
                        at: upstream,
                        device,
                        tls,
                    };
                    let events = self.dns_events.clone();
                    tokio::spawn(ask_upstream(id, query, server, transport, events));
                }
            }
        }
        match self.ending.take() {
            None => Ok(()),
            Some(Ending::NotEnrolled(why)) => Err(ClientError::NotEnrolled(why)),
            Some(Ending::Denied(why)) => Err(ClientError::Denied(why)),
            Some(Ending::Failed(why)) => Err(ClientError::Refused(why)),
        }
    }

    fn say(&mut self, message: &culvert_wire::messages::FromClient) {
        if !self.devices.portal.say(message) {
            // As many messages as the queue holds are waiting: the portal reads nothing.
            let why = "the portal takes no messages".to_owned();
            self.devices.portal.disconnect();
            self.core.handle_disconnected(why, None, Now::read().boot);
        }
    }

    /// Asks for what the core wants of the host, once it knows both addresses and routes.
    fn want_host(&mut self) {
        let (Some(interface), Some(routes)) = (self.interface, &self.routes) else {
            return;
        };
        // Routes of an earlier process lead to resources whose rules are still to be loaded. They
        // stay in the tunnel until the routes to them are among those that are wanted.
        if self.awaits_guard && !self.has_wanted {
            return;
        }
        if !self.has_wanted {
            self.has_wanted = true;
            self.devices.firewall.check_again();
        }
        if self.tunnel_port.is_none() {
            // An interface that was taken over is up already. One that has failed is heard of elsewhere.
            self.tunnel_port = self.devices.tunnel.port().unwrap_or(None);
        }
        let prefixes = routes
            .iter()
            .filter_map(|range| IpNet::new(range.address(), range.len()).ok());
        self.devices.host.want(Wanted {
            interface: self.base.settings.interface.clone(),
            mtu_bytes: self.base.settings.mtu.into(),
            addresses: own_addresses(interface),
            prefixes: prefixes.collect(),
            exemptions: self.exemptions(),
            routing: self.base.settings.routing,
        });
    }

    /// Takes in which port the tunnel's sockets have.
    fn note_port(&mut self, port: Option<u16>) {
        if self.tunnel_port != port {
            self.tunnel_port = port;
            if self.has_wanted {
                self.want_host();
            }
        }
    }

    /// Packets that must stay out of the tunnel, whatever their mark.
    fn exemptions(&self) -> Vec<Exemption> {
        let portal = self.devices.portal_addresses.borrow();
        let tunnel = self.tunnel_port.map(Exemption::UdpFrom).into_iter();
        let portal = portal.iter().copied().map(Exemption::TcpTo);
        tunnel.chain(portal).take(MAX_EXEMPTIONS).collect()
    }

    /// Opens the sockets on the tunnel's addresses, as far as the host has them already.
    async fn bind_dns(&mut self) {
        self.dns_retry = None;
        let Some(interface) = self.interface else {
            return;
        };
        let (applied, lacks_ipv6) = {
            let state = self.devices.host.state.borrow();
            (state.applied, state.lacks_ipv6)
        };
        if applied == 0 {
            return;
        }
        let mut addresses = own_addresses(interface);
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
        if problem.is_some() {
            self.dns_retry = Some(Now::read().boot.saturating_add(DNS_RETRY));
        }
        self.dns_problem = problem;
        self.want_resolver();
    }

    /// Has the system ask here, once there is somebody who answers.
    fn want_resolver(&self) {
        let listening = self.devices.listeners.addresses();
        let own = self.interface.map(own_addresses).unwrap_or_default();
        let answers = |address: &IpAddr| listening.contains(&(*address, DNS_PORT).into());
        if let Some(server) = own.into_iter().find(answers) {
            self.devices.resolver.want(ResolverWanted {
                interface: self.base.settings.interface.clone(),
                server,
                domains: self.domains.clone(),
                search: self.search.clone(),
                asks_upstreams: self.base.settings.dns_upstreams.is_empty()
                    && self.core.asks_upstreams_of_system(),
            });
        }
    }

    /// Other names are asked of those whom the system asked before, unless others were named.
    fn take_upstreams(&mut self) {
        let state = self.devices.resolver.state.borrow_and_update().clone();
        self.core.set_dns_search(&state.search);
        if let Some(upstreams) = state.upstreams
            && self.base.settings.dns_upstreams.is_empty()
        {
            let now = Now::read().boot;
            self.core.set_dns_upstreams(&upstreams, now);
        }
    }

    /// Tells whoever started the client how it stands, where that has changed, and that the loop goes on.
    fn tell(&mut self) {
        let not_ready = self.not_ready();
        let mut summary = self.core.summary(&self.portal_url);
        if self.core.is_connected()
            && let Some(why) = &not_ready
        {
            summary = format!("{summary}; {why}");
        }
        let is_connected = self.core.is_connected();
        if !self.is_ready && is_connected && not_ready.is_none() {
            self.is_ready = true;
            (self.ready)(&summary);
        } else if self.is_ready && is_connected && !self.was_connected {
            tracing::info!("{summary}");
        }
        self.was_connected = is_connected;
        // A machine that starts must not wait for a portal, and a service manager must not give up one
        // that is awaited, unless that is asked for.
        if !self.is_announced && (self.is_ready || !self.base.settings.exit_when_unreachable) {
            self.is_announced = true;
            culvert_host::notify_ready(&summary);
        } else if summary != self.summary {
            culvert_host::notify_status(&summary);
        }
        self.observed.beat(not_ready);
        self.summary = summary;
    }

    /// The longest time that the loop may sleep. Timers stand still while the machine sleeps, and
    /// the boot-time clock does not: no rest is long.
    fn rest(&self) -> Duration {
        let now = Now::read().boot;
        let (core, retry) = (&self.core, self.dns_retry);
        let due = [core.poll_timeout(), core.poll_report(now), retry];
        let longest = self.observed.longest_rest();
        let due = due.into_iter().flatten().min();
        let span = due.map_or(longest, |due| due.saturating_since(now));
        span.min(longest)
    }
}

fn own_addresses(interface: Interface) -> Vec<IpAddr> {
    vec![interface.ipv4.into(), interface.ipv6.into()]
}

fn dns_problem(at: SocketAddr, error: &std::io::Error) -> String {
    let fix = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; grant CAP_NET_BIND_SERVICE, or use --dns-listen with a port above 1023"
        }
        std::io::ErrorKind::AddrInUse => {
            "; another resolver takes every address of this machine: bind it to its own"
        }
        _ => "",
    };
    format!("names are not answered at {at}: {error}{fix}")
}
