//! A client: the shipped core, and around it what the engine, the shell and applications do.

use super::application::Application;
use super::catalog::{Machine, client_address, key};
use super::config::machine_text;
use super::net::{Frame, NO_WELCOME, Net, Side, ceil_ms};
use super::packets;
use super::trace::brief;
use super::tunnel::{Datagram, Replays};
use super::wire_id::WireId;
use culvert_base::{BootTime, UnixTime};
use culvert_client_core::{
    Client, Ending, Options, Output, PacketFacts, Peer, PeerReport, PeerUpdate, Remembered,
};
use culvert_dns::Transport;
use culvert_ids::GrantId;
use culvert_policy::gate::InboundRules;
use culvert_policy::{Prefix, RoutedServices, Service};
use culvert_wire::messages::{FromClient, Interface};
use culvert_wire::{Cipher, PresharedKey, PublicKey, encode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Frames that wait for a handshake with one peer.
const MAX_STAGED: usize = 64;

/// When a handshake that was not answered is begun again, in milliseconds (WireGuard, §6.4).
const RETRY_MS: u64 = 5_000;

/// Sessions with one gateway that are kept.
const MAX_SESSIONS: usize = 3;

/// A packet of an application.
pub(crate) type Packet = Vec<u8>;

/// A client.
pub(crate) struct ClientNode {
    number: usize,
    pub(crate) life: u32,
    core: Option<Client<Packet>>,
    boot_epoch_ms: u64,
    wall_epoch_ms: u64,
    making: u8,
    moves: u16,
    ciphers: Vec<Cipher>,
    wire: Option<WireId>,
    interface: Option<Interface>,
    routes: BTreeSet<Prefix>,
    services: BTreeMap<Prefix, RoutedServices>,
    /// The rights of resources at the host.
    inbound: InboundRules,
    peers: BTreeMap<PublicKey, Peer>,
    tunnels: BTreeMap<PublicKey, Tunnel>,
    attempts: u64,
    pub(crate) applications: BTreeMap<usize, Application>,
    /// Answers of upstream resolvers that are yet to be given.
    upstream: VecDeque<(Vec<u8>, Transport, SocketAddr)>,
    pub(crate) ending: Option<Ending>,
    /// Errors of the protocol that were looked at.
    errors: u64,
    /// It has said what its core has not.
    pub(crate) is_rogue: bool,
    /// The file with the destinations that it has had.
    remembered: Remembered,
}

/// The engine's state of a peer.
#[derive(Debug, Default)]
struct Tunnel {
    sessions: VecDeque<u64>,
    endpoint: Option<SocketAddr>,
    attempt: u64,
    begun_ms: Option<u64>,
    handshake_unix_ms: Option<u64>,
    received_ms: Option<u64>,
    unanswered_ms: Option<u64>,
    rx_bytes: u64,
    tx_bytes: u64,
    staged: VecDeque<Packet>,
    replays: Replays,
}

/// The client that has the key.
pub(crate) fn client_number(public_key: PublicKey) -> Option<usize> {
    let bytes = public_key.as_bytes();
    (bytes[0] == 1).then_some(usize::from(bytes[1]))
}

impl ClientNode {
    pub(crate) fn new(number: usize, boot_epoch_ms: u64, wall_epoch_ms: u64) -> Self {
        Self {
            number,
            life: 0,
            core: None,
            boot_epoch_ms,
            wall_epoch_ms,
            making: 0,
            moves: 0,
            ciphers: vec![Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm],
            wire: None,
            interface: None,
            routes: BTreeSet::new(),
            services: BTreeMap::new(),
            inbound: InboundRules::default(),
            peers: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            attempts: 0,
            applications: BTreeMap::new(),
            upstream: VecDeque::new(),
            ending: None,
            errors: 0,
            is_rogue: false,
            remembered: Remembered::default(),
        }
    }

    pub(crate) const fn core(&self) -> Option<&Client<Packet>> {
        self.core.as_ref()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core.is_some() && self.ending.is_none()
    }

    /// Its address in the outer network.
    pub(crate) fn address(&self) -> SocketAddr {
        client_address(self.number, self.moves)
    }

    /// Its addresses inside the tunnel.
    pub(crate) fn tunnel_address(&self, is_ipv4: bool) -> Option<IpAddr> {
        let interface = self.interface?;
        Some(match is_ipv4 {
            true => interface.ipv4.into(),
            false => interface.ipv6.into(),
        })
    }

    pub(crate) fn wake_ms(&self, net: &Net) -> Option<u64> {
        let core = self.core.as_ref()?;
        let times = [core.poll_timeout(), core.poll_report(self.boot_time(net))];
        let of_core = times.into_iter().flatten().min();
        let of_core = of_core.map(|due| ceil_ms(due).saturating_sub(self.boot_epoch_ms));
        let waiting = self.tunnels.values().filter(|it| !it.staged.is_empty());
        let retry = waiting.filter_map(|tunnel| tunnel.begun_ms).min();
        let retry = retry.map(|begun_ms| begun_ms + RETRY_MS);
        of_core.into_iter().chain(retry).min()
    }

    /// Starts the process.
    pub(crate) fn start(&mut self, net: &mut Net) {
        if self.is_up() {
            return;
        }
        self.kill(false, net);
        net.trace(|| format!("client {} starts", self.number));
        self.life += 1;
        self.ending = None;
        self.errors = 0;
        self.is_rogue = false;
        let options = Options {
            machine: machine_text(Machine::Client(self.number)),
            name: format!("client {}", self.number),
            version: "1".to_owned(),
            public_key: self.key(),
            ciphers: self.ciphers.clone(),
            dns_listen: Vec::new(),
            dns_upstreams: vec![SocketAddr::from(([192, 0, 2, 253], 53))],
            asks_all: false,
            portals: Vec::new(),
        };
        let now = self.boot_time(net);
        let mut core = Client::new(options, net.random.bytes(), now);
        core.set_remembered(self.remembered.clone());
        core.handle_timeout(now);
        self.core = Some(core);
        self.drain(net);
    }

    /// Ends the process, or the whole host; of the latter nobody is told.
    pub(crate) fn kill(&mut self, with_host: bool, net: &mut Net) {
        if self.core.take().is_none() {
            return;
        }
        net.trace(|| format!("client {} is killed", self.number));
        self.life += 1;
        self.peers.clear();
        self.tunnels.clear();
        self.routes.clear();
        self.interface = None;
        if let Some(wire) = self.wire.take() {
            match with_host {
                true => net.vanish(wire, Side::Machine),
                false => net.close(wire, Side::Machine),
            }
        }
        for application in self.applications.values_mut() {
            application.forget_address();
        }
    }

    /// The machine was installed anew: it has another key.
    pub(crate) fn reinstall(&mut self, net: &mut Net) {
        self.kill(false, net);
        self.making += 1;
        self.start(net);
    }

    /// The processor does these suites fast, from the next start on.
    pub(crate) fn set_ciphers(&mut self, ciphers: Vec<Cipher>) {
        self.ciphers = ciphers;
    }

    /// The host has another address in the outer network; the client may not know yet.
    pub(crate) fn move_to_next_address(&mut self, net: &mut Net) {
        net.trace(|| format!("client {} moves", self.number));
        self.moves += 1;
        // Packets sent from the old address reach nobody any more, and are answered by nobody.
        if let Some(wire) = self.wire {
            net.break_off(wire);
        }
    }

    pub(crate) fn handle_network_changed(&mut self, life: u32, net: &mut Net) {
        let now = self.boot_time(net);
        if let Some(core) = self.core.as_mut().filter(|_| life == self.life) {
            core.handle_network_changed(now);
        }
        self.drain(net);
    }

    pub(crate) fn handle_timeout(&mut self, net: &mut Net) {
        let now = self.boot_time(net);
        let Some(core) = &mut self.core else { return };
        if core.poll_timeout().is_some_and(|due| due <= now) {
            core.handle_timeout(now);
            self.drain(net);
        }
        self.report(net);
        let late: Vec<PublicKey> = self
            .tunnels
            .iter()
            .filter(|(_, tunnel)| {
                let begun_ms = tunnel.begun_ms.unwrap_or(0);
                !tunnel.staged.is_empty() && begun_ms + RETRY_MS <= net.now_ms
            })
            .map(|(key, _)| *key)
            .collect();
        for key in late {
            self.begin_handshake(key, net);
        }
    }

    fn report(&mut self, net: &mut Net) {
        let now = self.boot_time(net);
        let Some(core) = &mut self.core else { return };
        if core.poll_report(now).is_none_or(|due| due > now) {
            return;
        }
        let boot = |at_ms: Option<u64>| {
            at_ms.map(|at_ms| BootTime::from_millis(at_ms + self.boot_epoch_ms))
        };
        let reports: Vec<PeerReport> = self
            .peers
            .keys()
            .map(|key| {
                let tunnel = self.tunnels.get(key);
                PeerReport {
                    key: *key,
                    endpoint: tunnel.and_then(|it| it.endpoint),
                    handshake: tunnel
                        .and_then(|it| it.handshake_unix_ms)
                        .map(UnixTime::from_millis),
                    received: boot(tunnel.and_then(|it| it.received_ms)),
                    unanswered: boot(tunnel.and_then(|it| it.unanswered_ms)),
                    rx_bytes: tunnel.map_or(0, |it| it.rx_bytes),
                    tx_bytes: tunnel.map_or(0, |it| it.tx_bytes),
                    measured_mtu_bytes: None,
                    heard_elsewhere: None,
                }
            })
            .collect();
        core.handle_peers(&reports, now);
        self.drain(net);
    }

    pub(crate) fn handle_opened(&mut self, wire: WireId, portal_unix_ms: u64, net: &mut Net) {
        let now = self.boot_time(net);
        let Some(core) = &mut self.core else { return };
        self.wire = Some(wire);
        net.misled.remove(&Machine::Client(self.number));
        core.handle_connected(UnixTime::from_millis(portal_unix_ms), now);
        self.drain(net);
    }

    pub(crate) fn handle_failed(&mut self, life: u32, is_unauthorized: bool, net: &mut Net) {
        let now = self.boot_time(net);
        let Some(core) = self.core.as_mut().filter(|_| life == self.life) else {
            return;
        };
        match is_unauthorized {
            true => core.handle_unauthorized("401".to_owned(), now),
            false => core.handle_disconnected("no connection".to_owned(), None, now),
        }
        self.drain(net);
    }

    pub(crate) fn hear(&mut self, wire: WireId, frame: Frame, net: &mut Net) {
        if self.wire != Some(wire) {
            return;
        }
        let now = self.boot_time(net);
        let Some(core) = &mut self.core else { return };
        match frame {
            Frame::Text(text) => core.handle_portal_message(&text, now),
            Frame::Closed => {
                self.wire = None;
                core.handle_disconnected("closed".to_owned(), None, now);
            }
        }
        self.drain(net);
    }

    /// Says something that the core did not.
    pub(crate) fn lie(&mut self, text: String, net: &mut Net) {
        if let Some(wire) = self.wire {
            self.is_rogue = true;
            net.trace(|| format!("client {} lies: {}", self.number, brief(&text)));
            net.send(wire, Side::Machine, Frame::Text(text));
        }
    }

    pub(crate) fn send_forged(&mut self, packet: &[u8], net: &mut Net) {
        for (gateway, tunnel) in &self.tunnels {
            let Some(session) = tunnel.sessions.back().copied() else {
                continue;
            };
            // The copies for all addresses are one packet.
            let counter = net.next_counter();
            let at = self.peers.get(gateway).map(|peer| peer.candidates.clone());
            let known = tunnel.endpoint.into_iter().chain(at.unwrap_or_default());
            for to in known {
                let datagram = Datagram::Inbound {
                    session,
                    counter,
                    packet: packet.to_vec(),
                };
                net.send_datagram(client_address(self.number, self.moves), to, datagram);
            }
        }
    }

    /// Begins a handshake with whatever gateway, by a secret and a suite of its own choice; none takes
    /// those that it was given.
    pub(crate) fn forge_handshake(
        &mut self,
        gateway: PublicKey,
        to: SocketAddr,
        secret: Option<PresharedKey>,
        cipher: Cipher,
        net: &mut Net,
    ) {
        let known = self.peers.get(&gateway);
        let known = known.map(|peer| peer.preshared_key.clone());
        let Some(preshared_key) = secret.or(known) else {
            return;
        };
        self.attempts += 1;
        let attempt = (u64::from(self.life) << 32) | self.attempts;
        // An answer would be taken.
        self.tunnels.entry(gateway).or_default().attempt = attempt;
        let initiation = Datagram::Initiation {
            client: self.key(),
            gateway,
            preshared_key,
            cipher,
            attempt,
        };
        net.send_datagram(self.address(), to, initiation);
    }

    // Applications.

    /// The application of this number is due.
    pub(crate) fn run_application(&mut self, id: usize, net: &mut Net) {
        let Some(application) = self.applications.get_mut(&id) else {
            return;
        };
        let is_ipv4 = application.is_ipv4();
        let Some(core) = self.core.as_mut() else {
            return;
        };
        if let Some(name) = application.name()
            && application.needs_address(net.now_ms)
        {
            let query_id = u16::try_from(id).unwrap_or(u16::MAX);
            let query = packets::query(query_id, name, is_ipv4);
            let from = SocketAddr::from(([127, 0, 0, 1], 4_000));
            let now = BootTime::from_millis(self.boot_epoch_ms + net.now_ms);
            core.handle_dns_query(&query, Transport::Udp, from, now);
            self.drain(net);
        }
        self.send_probe(id, net);
    }

    fn send_probe(&mut self, id: usize, net: &mut Net) {
        let Some(source) = self
            .applications
            .get(&id)
            .and_then(|it| self.tunnel_address(it.is_ipv4()))
        else {
            return;
        };
        let Some(application) = self.applications.get_mut(&id) else {
            return;
        };
        let Some((destination, probe)) = application.next_probe(net.now_ms) else {
            return;
        };
        let packet = packets::probe(
            source,
            application.port,
            destination,
            application.service,
            probe,
        );
        net.tally.sent += 1;
        // A packet that the host has no route for does not come to the tunnel.
        if self.routes.iter().any(|route| route.contains(destination)) {
            self.send(destination, packet, net);
        }
    }

    /// The road: a packet to a peer, or to the core where there is none.
    fn send(&mut self, destination: IpAddr, packet: Packet, net: &mut Net) {
        let now = self.boot_time(net);
        let facts = PacketFacts::of(&packet, packet.len()).expect("applications send packets");
        if let Some(gateway) = self
            .peer_for(destination)
            .filter(|_| !self.lacks_route(&facts))
        {
            return self.send_to(gateway, packet, net);
        }
        if let Some(core) = &mut self.core {
            core.handle_packet(facts, packet, now);
        }
        self.drain(net);
    }

    /// True if the route of the destination is for other services alone.
    fn lacks_route(&self, facts: &PacketFacts) -> bool {
        let ranges = self.services.iter();
        let around = ranges.filter(|(range, _)| range.contains(facts.destination));
        let services = around.max_by_key(|(range, _)| range.len());
        services
            .zip(facts.service)
            .is_some_and(|((_, services), service)| services.lacks_route(service))
    }

    fn peer_for(&self, address: IpAddr) -> Option<PublicKey> {
        let ranges = self.peers.iter().flat_map(|(key, peer)| {
            let holding = peer.allowed_ips.iter();
            let holding = holding.filter(move |range| range.contains(address));
            holding.map(move |range| (range.len(), *key))
        });
        ranges.max_by_key(|(len, _)| *len).map(|(_, key)| key)
    }

    fn send_to(&mut self, gateway: PublicKey, packet: Packet, net: &mut Net) {
        let now_ms = net.now_ms;
        let tunnel = self.tunnels.entry(gateway).or_default();
        tunnel.unanswered_ms.get_or_insert(now_ms);
        let (Some(session), Some(to)) = (tunnel.sessions.back(), tunnel.endpoint) else {
            tunnel.staged.push_back(packet);
            if tunnel.staged.len() > MAX_STAGED {
                tunnel.staged.pop_front();
            }
            let is_begun = tunnel
                .begun_ms
                .is_some_and(|begun_ms| now_ms < begun_ms + RETRY_MS);
            if !is_begun {
                self.begin_handshake(gateway, net);
            }
            return;
        };
        tunnel.tx_bytes += packet.len() as u64;
        let datagram = Datagram::Inbound {
            session: *session,
            counter: net.next_counter(),
            packet,
        };
        net.send_datagram(self.address(), to, datagram);
    }

    fn begin_handshake(&mut self, gateway: PublicKey, net: &mut Net) {
        let Some(peer) = self.peers.get(&gateway) else {
            return;
        };
        self.attempts += 1;
        // Its time stamp grows over restarts.
        let attempt = (u64::from(self.life) << 32) | self.attempts;
        let tunnel = self.tunnels.entry(gateway).or_default();
        tunnel.attempt = attempt;
        tunnel.begun_ms = Some(net.now_ms);
        let from = client_address(self.number, self.moves);
        for candidate in &peer.candidates {
            let initiation = Datagram::Initiation {
                client: key(Machine::Client(self.number), self.making),
                gateway,
                preshared_key: peer.preshared_key.clone(),
                cipher: peer.cipher,
                attempt,
            };
            net.send_datagram(from, *candidate, initiation);
        }
    }

    /// A datagram of a gateway.
    pub(crate) fn receive(&mut self, from: SocketAddr, datagram: Datagram, net: &mut Net) {
        let now_ms = net.now_ms;
        let unix_ms = self.wall_epoch_ms + now_ms;
        match datagram {
            Datagram::Response {
                gateway,
                attempt,
                session,
            } => {
                let Some(tunnel) = self.tunnels.get_mut(&gateway) else {
                    return;
                };
                if tunnel.attempt != attempt {
                    return;
                }
                net.tally.handshakes += 1;
                tunnel.sessions.push_back(session);
                if tunnel.sessions.len() > MAX_SESSIONS {
                    tunnel.sessions.pop_front();
                }
                tunnel.attempt = 0;
                tunnel.endpoint = Some(from);
                tunnel.handshake_unix_ms = Some(unix_ms);
                tunnel.received_ms = Some(now_ms);
                tunnel.unanswered_ms = None;
                let staged = std::mem::take(&mut tunnel.staged);
                for packet in staged {
                    self.send_to(gateway, packet, net);
                }
            }
            Datagram::Outbound {
                gateway,
                session,
                counter,
                packet,
            } => {
                let tunnel = self.tunnels.get_mut(&gateway);
                if tunnel.is_some_and(|tunnel| tunnel.replays.take(counter)) {
                    self.receive_packet(from, gateway, session, &packet, net);
                }
            }
            Datagram::Initiation { .. } | Datagram::Inbound { .. } => {}
        }
    }

    fn receive_packet(
        &mut self,
        from: SocketAddr,
        gateway: PublicKey,
        session: u64,
        packet: &[u8],
        net: &mut Net,
    ) {
        let Some(tunnel) = self.tunnels.get_mut(&gateway) else {
            return;
        };
        if !tunnel.sessions.contains(&session) {
            return;
        }
        tunnel.endpoint = Some(from);
        tunnel.received_ms = Some(net.now_ms);
        tunnel.unanswered_ms = None;
        tunnel.rx_bytes += packet.len() as u64;
        let Some(seen) = packets::read_answer(packet) else {
            net.fail(&format!("client {} got a packet that is none", self.number));
        };
        // The source of a packet from a tunnel must be an address to which that tunnel leads.
        if self.peer_for(seen.source) != Some(gateway) {
            return;
        }
        let intent = net.intent(seen.probe);
        if intent.client != self.number {
            net.fail(&format!("client {} got what is not its own", self.number));
        }
        let (id, _) = Application::of_probe(seen.probe);
        if let Some(application) = self.applications.get_mut(&id) {
            if !application.take_answer(&seen, net.now_ms) {
                net.fail(&format!("client {}: an answer from elsewhere", self.number));
            }
            net.tally.answered += 1;
        }
    }

    // The core.

    fn drain(&mut self, net: &mut Net) {
        loop {
            while let Some(output) = self.core.as_mut().and_then(Client::poll_output) {
                self.execute(output, net);
            }
            let Some((answer, transport, from)) = self.upstream.pop_front() else {
                break;
            };
            let now = self.boot_time(net);
            if let Some(core) = &mut self.core {
                core.handle_dns_answer(&answer, transport, from, now);
            }
        }
        let Some(core) = &self.core else { return };
        let errors = core.counters().protocol_errors;
        if errors > self.errors {
            self.errors = errors;
            let unix_ms = self.wall_epoch_ms + net.now_ms;
            let why = core
                .view(self.boot_time(net), UnixTime::from_millis(unix_ms))
                .portal
                .last_error;
            let is_misled = net.misled.remove(&Machine::Client(self.number));
            // A network that is cut may keep the portal from answering.
            if why.as_deref() != Some(NO_WELCOME) && !is_misled {
                net.fail(&format!("client {}: {why:?}", self.number));
            }
        }
    }

    fn execute(&mut self, output: Output<Packet>, net: &mut Net) {
        match output {
            Output::Connect => {
                let (machine, life) = (Machine::Client(self.number), self.life);
                net.attempt(machine, life, net.now_ms);
            }
            Output::Disconnect => {
                if let Some(wire) = self.wire.take() {
                    net.close(wire, Side::Machine);
                }
            }
            Output::ToPortal(message) => self.tell(&message, net),
            Output::End(ending) => {
                net.trace(|| format!("client {} ends: {ending:?}", self.number));
                self.ending = Some(ending);
            }
            Output::Interface(interface) => self.interface = Some(interface),
            Output::Routes(routes) => self.routes = routes,
            Output::Remember(remembered) => self.remembered = remembered,
            // No portal of the simulation moves.
            // Nobody has relays here.
            Output::Domains { .. }
            | Output::Portals(_)
            | Output::SendPathMessage { .. }
            | Output::UsePath { .. }
            | Output::OpenTls { .. }
            | Output::CloseTls { .. }
            | Output::RepeatInitiation { .. } => {}
            // No resource of the simulation has a rule about applications.
            Output::Guard(rules) => net.fail(&format!("rules about applications: {rules:?}")),
            Output::Engine {
                peers,
                services,
                inbound,
                resume,
            } => {
                if let Some(inbound) = inbound {
                    self.inbound = *inbound;
                }
                self.services = services.unwrap_or_else(|| std::mem::take(&mut self.services));
                for update in peers {
                    self.apply(update, net);
                }
                for packet in resume {
                    self.resume(packet, net);
                }
            }
            Output::Refuse { packets, refusal } => {
                net.tally.refused += packets.len() as u64;
                net.trace(|| format!("client {} refuses: {refusal:?}", self.number));
            }
            Output::Answer { bytes, .. } => self.take_dns_answer(&bytes, net),
            Output::Forward {
                query,
                upstream,
                transport,
                ..
            } => {
                let answer = packets::no_such_name(&query);
                self.upstream.push_back((answer, transport, upstream));
            }
        }
    }

    fn tell(&mut self, message: &FromClient, net: &mut Net) {
        if let Some(wire) = self.wire {
            let text = encode(message);
            net.trace(|| format!("client {} → portal: {}", self.number, brief(&text)));
            net.tally.messages += 1;
            net.send(wire, Side::Machine, Frame::Text(text));
        }
    }

    /// A packet goes on under the peers as they are now.
    fn resume(&mut self, packet: Packet, net: &mut Net) {
        let facts = PacketFacts::of(&packet, packet.len()).expect("applications send packets");
        let gateway = self.peer_for(facts.destination);
        match gateway.filter(|_| !self.lacks_route(&facts)) {
            Some(gateway) => self.send_to(gateway, packet, net),
            None => net.fail("a packet goes on without a route"),
        }
    }

    fn take_dns_answer(&mut self, bytes: &[u8], net: &mut Net) {
        let Some((id, address)) = packets::read_dns_answer(bytes) else {
            net.fail("an answer of the resolver that can't be read");
        };
        if let Some(application) = self.applications.get_mut(&usize::from(id)) {
            application.take_address(address, net.now_ms);
        }
    }

    fn apply(&mut self, update: PeerUpdate, net: &mut Net) {
        match update {
            PeerUpdate::Set(peer) => {
                // A range has one peer: whoever gets it takes it.
                for other in self.peers.values_mut().filter(|it| it.key != peer.key) {
                    other
                        .allowed_ips
                        .retain(|range| !peer.allowed_ips.contains(range));
                }
                self.peers.insert(peer.key, *peer);
            }
            PeerUpdate::BeginHandshake(key) => self.begin_handshake(key, net),
            PeerUpdate::Remove(key) => {
                self.peers.remove(&key);
                self.tunnels.remove(&key);
            }
        }
    }

    fn key(&self) -> PublicKey {
        key(Machine::Client(self.number), self.making)
    }

    const fn unix_time(&self, net: &Net) -> UnixTime {
        UnixTime::from_millis(self.wall_epoch_ms + net.now_ms)
    }

    const fn boot_time(&self, net: &Net) -> BootTime {
        BootTime::from_millis(self.boot_epoch_ms + net.now_ms)
    }

    /// Its grants, each with the gateway that it leads through.
    pub(crate) fn grants(
        &self,
        net: &Net,
    ) -> Vec<(culvert_ids::ResourceId, culvert_ids::GatewayId, GrantId)> {
        let Some(core) = &self.core else {
            return Vec::new();
        };
        let view = core.view(self.boot_time(net), self.unix_time(net));
        let held = view.resources.iter().filter_map(|resource| {
            let (gateway, grant) = (resource.gateway?, resource.grant?);
            Some((resource.id, gateway, grant))
        });
        held.collect()
    }

    /// True if its gate would let an address begin a flow to a service of the host, which comes from a gateway that the address
    /// is reached through.
    pub(crate) fn opens(&self, from: IpAddr, service: Service, net: &Net) -> bool {
        let is_up = self.is_up() && self.peer_for(from).is_some();
        is_up && self.inbound.opens(from, service, self.boot_time(net))
    }

    /// Packets that wait in the core.
    pub(crate) fn held_packets(&self, net: &Net) -> usize {
        let Some(core) = &self.core else { return 0 };
        let view = core.view(self.boot_time(net), self.unix_time(net));
        view.resources.iter().map(|it| it.held_packets).sum()
    }

    /// Peers of the data plane.
    pub(crate) fn peer_count(&self) -> usize {
        self.peers.len()
    }
}
