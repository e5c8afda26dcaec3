//! A gateway: the shipped core and gate, and around them what the engine and the shell do.

use super::catalog::{Destination, Machine, decoy, gateway_address, key};
use super::client::client_number;
use super::config::machine_text;
use super::net::{Event, Frame, NO_WELCOME, Net, Side, ceil_ms};
use super::packets::{self, Seen};
use super::trace::brief;
use super::tunnel::{Datagram, Replays};
use super::wire_id::WireId;
use culvert_base::{BootTime, UnixTime};
use culvert_gateway_core::{
    Ending, Gateway, Options, Output, PeerUpdate, append_to_log, begin_log, read_log,
};
use culvert_ids::GrantId;
use culvert_policy::DomainName;
use culvert_policy::gate::{Frame as Judged, Gate, GateTable, PeerKey, Seed, Verdict};
use culvert_wire::messages::GatewayLoad;
use culvert_wire::{Cipher, PresharedKey, PublicKey, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Flows that a gate remembers: more than applications of a run begin.
const MAX_FLOWS: usize = 256;

/// Sessions of one client that are kept: WireGuard's last, current and next.
const MAX_SESSIONS: usize = 3;

/// The time that resources and the DNS take to answer, in milliseconds.
const ANSWER_MS: u64 = 20;
const DNS_MS: u64 = 60;
/// When a resolver gives up, in milliseconds.
const DNS_LIMIT_MS: u64 = 2_000;

const LOAD_EVERY_MS: u64 = 5_000;

/// A gateway.
pub(crate) struct GatewayNode {
    number: usize,
    pub(crate) life: u32,
    core: Option<Gateway>,
    /// The host's boot-time clock, and its wall clock, at the beginning of the run.
    boot_epoch_ms: u64,
    wall_epoch_ms: u64,
    making: u8,
    moves: u16,
    ciphers: Vec<Cipher>,
    /// The state that a restart finds.
    log: Option<Vec<u8>>,
    /// Grants in it that have ended or changed since.
    void: BTreeSet<GrantId>,
    wire: Option<WireId>,
    gate: Gate,
    table: Arc<GateTable>,
    peers: BTreeMap<PublicKey, Peer>,
    sessions: BTreeMap<u64, Session>,
    last_session: u64,
    /// The last handshake that each client began.
    attempts: BTreeMap<PublicKey, u64>,
    /// The portal will not have it.
    pub(crate) ending: Option<Ending>,
    /// Errors of the protocol that were looked at.
    errors: u64,
}

#[derive(Debug)]
struct Peer {
    preshared_key: PresharedKey,
    cipher: Cipher,
    gate_key: PeerKey,
}

#[derive(Debug)]
struct Session {
    client: PublicKey,
    endpoint: SocketAddr,
    replays: Replays,
}

impl GatewayNode {
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
            log: None,
            void: BTreeSet::new(),
            wire: None,
            gate: Gate::with_max_flows(Seed::new([1; 32]), 1),
            table: Arc::new(GateTable::new()),
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
            attempts: BTreeMap::new(),
            ending: None,
            errors: 0,
        }
    }

    pub(crate) const fn core(&self) -> Option<&Gateway> {
        self.core.as_ref()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core.is_some() && self.ending.is_none()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        gateway_address(self.number, self.moves)
    }

    pub(crate) fn wake_ms(&self) -> Option<u64> {
        let due = self.core.as_ref()?.poll_timeout()?;
        Some(ceil_ms(due).saturating_sub(self.boot_epoch_ms))
    }

    /// Starts the process.
    pub(crate) fn start(&mut self, net: &mut Net) {
        if self.is_up() {
            return;
        }
        self.kill(false, net);
        net.trace(|| format!("gateway {} starts", self.number));
        self.life += 1;
        self.ending = None;
        self.errors = 0;
        self.gate = Gate::with_max_flows(Seed::new(net.random.bytes()), MAX_FLOWS);
        let options = Options {
            machine: machine_text(Machine::Gateway(self.number)),
            name: format!("gateway {}", self.number),
            version: "1".to_owned(),
            public_key: self.key(),
            ciphers: self.ciphers.clone(),
        };
        let now = self.boot_time(net);
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&net.random.draw().to_le_bytes());
        let mut core = Gateway::new(options, self.candidates(), seed, now);
        if let Some(log) = &self.log {
            let log = read_log(log, None).expect("what was kept can be read");
            // A gateway that was refused before it was welcomed has written that it has no state.
            if let Some(persisted) = log.into_persisted(self.void.clone()) {
                let wall_ms = self.wall_epoch_ms + net.now_ms;
                core.handle_persisted(persisted, UnixTime::from_millis(wall_ms), now);
                let behind_ms = net.portal_unix_ms().saturating_sub(wall_ms);
                net.ledger.restored(self.number, behind_ms);
            }
        }
        core.handle_timeout(now);
        self.core = Some(core);
        net.after(
            LOAD_EVERY_MS,
            Event::Load {
                gateway: self.number,
                life: self.life,
            },
        );
        self.drain(net);
    }

    /// Ends the process, or the whole host; of the latter nobody is told.
    pub(crate) fn kill(&mut self, with_host: bool, net: &mut Net) {
        if self.core.take().is_none() {
            return;
        }
        net.trace(|| format!("gateway {} is killed", self.number));
        self.life += 1;
        self.peers.clear();
        self.sessions.clear();
        self.attempts.clear();
        self.table = Arc::new(GateTable::new());
        net.ledger.link_lost(self.number, net.now_ms);
        if let Some(wire) = self.wire.take() {
            match with_host {
                true => net.vanish(wire, Side::Machine),
                false => net.close(wire, Side::Machine),
            }
        }
    }

    /// The machine was installed anew: it has another key, and nothing that was kept.
    pub(crate) fn reinstall(&mut self, net: &mut Net) {
        self.kill(false, net);
        self.making += 1;
        self.log = None;
        self.start(net);
    }

    /// The disk is empty at the next start.
    pub(crate) fn forget_persisted(&mut self) {
        self.log = None;
    }

    /// The processor does these suites fast, from the next start on.
    pub(crate) fn set_ciphers(&mut self, ciphers: Vec<Cipher>) {
        self.ciphers = ciphers;
    }

    /// The host has another address in the outer network.
    pub(crate) fn move_to_next_address(&mut self, net: &mut Net) {
        self.moves += 1;
        let candidates = self.candidates();
        let now = self.boot_time(net);
        if let Some(core) = &mut self.core {
            core.handle_candidates(candidates, now);
        }
        self.drain(net);
    }

    /// Somebody at the machine wants it to drain, or no longer.
    pub(crate) fn drain_clients(&mut self, on: bool, net: &mut Net) {
        if let Some(core) = &mut self.core {
            core.handle_drain(on);
        }
        self.drain(net);
    }

    pub(crate) fn handle_timeout(&mut self, net: &mut Net) {
        let now = self.boot_time(net);
        if let Some(core) = &mut self.core {
            core.handle_timeout(now);
        }
        self.drain(net);
    }

    pub(crate) fn handle_load(&mut self, life: u32, net: &mut Net) {
        if life != self.life {
            return;
        }
        if let Some(core) = &mut self.core {
            let flows = u32::try_from(self.gate.flow_count()).unwrap_or(u32::MAX);
            core.handle_load(GatewayLoad {
                clients: 0,
                flows,
                rate_bytes_per_s: 0,
                processor_permille: u16::try_from(net.random.below(500)).unwrap_or(0),
            });
        }
        let gateway = self.number;
        net.after(LOAD_EVERY_MS, Event::Load { gateway, life });
        self.drain(net);
    }

    /// The attempt to connect has come to something.
    pub(crate) fn handle_opened(&mut self, wire: WireId, portal_unix_ms: u64, net: &mut Net) {
        let now = self.boot_time(net);
        let Some(core) = &mut self.core else { return };
        self.wire = Some(wire);
        net.misled.remove(&Machine::Gateway(self.number));
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
            Frame::Text(text) => {
                core.handle_text(&text, now);
                if core.is_connected() {
                    let since_ms = net.now_ms;
                    net.ledger.link_up(self.number, wire, since_ms);
                }
            }
            Frame::Closed => {
                self.wire = None;
                net.ledger.link_closed(self.number, wire, net.now_ms);
                core.handle_disconnected("closed".to_owned(), None, now);
            }
        }
        self.drain(net);
    }

    pub(crate) fn handle_resolved(&mut self, life: u32, name: &DomainName, net: &mut Net) {
        let now = self.boot_time(net);
        let resolution = net.names.resolve(name.as_str());
        if let Some(core) = self.core.as_mut().filter(|_| life == self.life) {
            core.handle_resolved(name, resolution, now);
        }
        self.drain(net);
    }

    /// A datagram of a client.
    pub(crate) fn receive(
        &mut self,
        from: SocketAddr,
        at: SocketAddr,
        datagram: Datagram,
        net: &mut Net,
    ) {
        if self.core.is_none() {
            return;
        }
        match datagram {
            Datagram::Initiation {
                client,
                gateway,
                preshared_key,
                cipher,
                attempt,
            } if gateway == self.key() => {
                let Some(peer) = self.peers.get(&client) else {
                    return;
                };
                let last = self.attempts.entry(client).or_default();
                if attempt <= *last {
                    return;
                }
                *last = attempt;
                if peer.preshared_key != preshared_key || peer.cipher != cipher {
                    net.tally.mismatches += 1;
                    net.trace(|| format!("gateway {} has another secret", self.number));
                    return;
                }
                let session = self.begin_session(client, from);
                let response = Datagram::Response {
                    gateway,
                    attempt,
                    session,
                };
                net.send_datagram(at, from, response);
            }
            Datagram::Inbound {
                session,
                counter,
                packet,
            } => {
                let known = self.sessions.get_mut(&session);
                if known.is_some_and(|known| known.replays.take(counter)) {
                    self.receive_packet(from, session, packet, net);
                }
            }
            Datagram::Initiation { .. } | Datagram::Response { .. } | Datagram::Outbound { .. } => {
            }
        }
    }

    /// A resource answers, or sends of itself.
    pub(crate) fn handle_reply(&mut self, life: u32, mut packet: Vec<u8>, net: &mut Net) {
        if life != self.life {
            return;
        }
        let intended = packets::read_answer(&packet);
        let now = self.boot_time(net);
        let frame = Judged::packet(&mut packet);
        let gate_key = match self.gate.admit_to_client(&self.table, now, frame) {
            Verdict::Admit(gate_key) | Verdict::AdmitFirst(gate_key) => gate_key,
            Verdict::Drop(reason) => {
                *net.tally.dropped.entry(reason).or_default() += 1;
                return;
            }
        };
        let peer = self
            .peers
            .iter()
            .find(|(_, peer)| peer.gate_key == gate_key);
        let Some(client) = peer.map(|(client, _)| *client) else {
            return;
        };
        let (Some(intended), Some(seen)) = (intended, packets::read_answer(&packet)) else {
            net.fail(&format!(
                "gateway {} passed a packet that is none",
                self.number
            ));
        };
        let far = Seen {
            source: seen.destination,
            destination: intended.source,
            ..seen
        };
        self.judge(client, &far, net);
        let newest = self.sessions.iter().rev();
        let newest = newest.map(|(id, session)| (*id, session));
        let Some((session, endpoint)) = newest
            .into_iter()
            .find(|(_, session)| session.client == client)
            .map(|(id, session)| (id, session.endpoint))
        else {
            return;
        };
        let datagram = Datagram::Outbound {
            gateway: self.key(),
            session,
            counter: net.next_counter(),
            packet,
        };
        net.send_datagram(self.address(), endpoint, datagram);
    }

    fn receive_packet(&mut self, from: SocketAddr, id: u64, mut packet: Vec<u8>, net: &mut Net) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.endpoint = from;
        let client = session.client;
        let Some(peer) = self.peers.get(&client) else {
            return;
        };
        let now = BootTime::from_millis(self.boot_epoch_ms + net.now_ms);
        let frame = Judged::packet(&mut packet);
        match self
            .gate
            .admit_from_client(&self.table, now, peer.gate_key, frame)
        {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => self.deliver(client, &packet, net),
            Verdict::Drop(reason) => {
                net.trace(|| format!("gateway {} drops: {reason}", self.number));
                *net.tally.dropped.entry(reason).or_default() += 1;
            }
        }
    }

    /// A packet leaves towards a resource.
    fn deliver(&mut self, client: PublicKey, packet: &[u8], net: &mut Net) {
        let Some(seen) = packets::read_probe(packet) else {
            net.fail(&format!(
                "gateway {} passed a packet that is none",
                self.number
            ));
        };
        self.judge(client, &seen, net);
        net.tally.delivered += 1;
        let wait_ms = net.random.below(ANSWER_MS);
        let reply = Event::Reply {
            gateway: self.number,
            life: self.life,
            packet: packets::answer(&seen),
        };
        net.after(wait_ms, reply);
    }

    /// Holds what has passed against the rules.
    fn judge(&self, client: PublicKey, seen: &Seen, net: &Net) {
        let intent = net.intent(seen.probe);
        let wrong = |what: &str| -> ! {
            net.fail(&format!(
                "gateway {}: {what}: {seen:?}, meant was {intent:?}",
                self.number
            ))
        };
        if client_number(client) != Some(intent.client) {
            wrong("a packet of another client");
        }
        if !net.ledger.is_address_of(client, seen.source) {
            wrong("a forged source");
        }
        if seen.service != intent.service {
            wrong("another service");
        }
        let destinations: Vec<Destination> = match intent.destination {
            Destination::Address(address) if address == seen.destination => {
                vec![intent.destination]
            }
            // The names that have the address at one client or another.
            Destination::Address(_) => net.names.having(seen.destination),
            Destination::Name4(name) | Destination::Name6(name) => {
                match net.names.ever_had(name, seen.destination) {
                    true => vec![intent.destination],
                    false => wrong("not an address of the name"),
                }
            }
        };
        let judged = destinations.into_iter().map(|destination| {
            let service = seen.service;
            net.ledger
                .judge(self.number, client, destination, service, net.now_ms)
        });
        let judged: Vec<_> = judged.collect();
        if !judged.iter().any(Result::is_ok) {
            net.fail(&format!("{judged:?}"));
        }
    }

    fn begin_session(&mut self, client: PublicKey, endpoint: SocketAddr) -> u64 {
        self.last_session += 1;
        // Sessions of another life are none of this one's.
        let id = (u64::from(self.life) << 32) | self.last_session;
        let session = Session {
            client,
            endpoint,
            replays: Replays::default(),
        };
        self.sessions.insert(id, session);
        let mut of_client: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.client == client)
            .map(|(id, _)| *id)
            .collect();
        while of_client.len() > MAX_SESSIONS {
            self.sessions.remove(&of_client.remove(0));
        }
        id
    }

    fn drain(&mut self, net: &mut Net) {
        while let Some(output) = self.core.as_mut().and_then(Gateway::poll_output) {
            self.execute(output, net);
        }
        let Some(core) = &self.core else { return };
        let errors = core.counters().protocol_errors;
        if errors > self.errors {
            self.errors = errors;
            let is_misled = net.misled.remove(&Machine::Gateway(self.number));
            // A network that is cut may keep the portal from answering.
            if core.last_error() != Some(NO_WELCOME) && !is_misled {
                net.fail(&format!("gateway {}: {:?}", self.number, core.last_error()));
            }
        }
    }

    fn execute(&mut self, output: Output, net: &mut Net) {
        match output {
            Output::Connect => {
                let (machine, life) = (Machine::Gateway(self.number), self.life);
                net.attempt(machine, life, net.now_ms);
            }
            Output::Disconnect => {
                if let Some(wire) = self.wire.take() {
                    net.ledger.link_closed(self.number, wire, net.now_ms);
                    net.close(wire, Side::Machine);
                }
            }
            Output::ToPortal(message) => {
                if let Some(wire) = self.wire {
                    let text = encode(&message);
                    net.trace(|| format!("gateway {} → portal: {}", self.number, brief(&text)));
                    net.tally.messages += 1;
                    net.send(wire, Side::Machine, Frame::Text(text));
                }
            }
            // No portal of the simulation moves.
            Output::Portals(_)
            | Output::SendPathMessage { .. }
            | Output::OpenTls { .. }
            | Output::CloseTls(_)
            | Output::MoveClients { .. }
            // Nor is any a plain WireGuard device.
            | Output::AnswerPlain { .. }
            | Output::LookUp { .. } => {}
            Output::End(ending) => {
                net.trace(|| format!("gateway {} ends: {ending}", self.number));
                self.ending = Some(ending);
            }
            // No client of the simulation has so many names.
            Output::Interface(_) | Output::NamesInUse => {}
            // The kernel's table: here the gate alone judges.
            Output::Inbound(_) => {}
            Output::Engine { peers, table } => {
                for peer in peers {
                    self.apply(peer);
                }
                self.table = table;
            }
            Output::Resolve(name) => {
                let wait_ms = match net.names.is_silent {
                    true => DNS_LIMIT_MS,
                    false => 1 + net.random.below(DNS_MS),
                };
                let (gateway, life) = (self.number, self.life);
                net.after(
                    wait_ms,
                    Event::Resolved {
                        gateway,
                        life,
                        name,
                    },
                );
            }
            Output::Void(grants) => self.void.extend(grants),
            Output::Persist(changes) => {
                self.void.clear();
                match &mut self.log {
                    Some(log) if !changes.is_whole => drop(append_to_log(log, &changes)),
                    _ => self.log = Some(begin_log(u64::from(self.life), &changes).0),
                }
            }
        }
    }

    fn apply(&mut self, update: PeerUpdate) {
        match update {
            PeerUpdate::Set {
                key,
                preshared_key,
                cipher,
                gate_key,
                ..
            } => {
                let peer = Peer {
                    preshared_key,
                    cipher,
                    gate_key,
                };
                self.peers.insert(key, peer);
            }
            PeerUpdate::Remove(key) => {
                self.peers.remove(&key);
                self.sessions.retain(|_, session| session.client != key);
                self.attempts.remove(&key);
            }
        }
    }

    fn candidates(&self) -> Vec<SocketAddr> {
        vec![decoy(self.number), self.address()]
    }

    pub(crate) fn key(&self) -> PublicKey {
        key(Machine::Gateway(self.number), self.making)
    }

    const fn boot_time(&self, net: &Net) -> BootTime {
        BootTime::from_millis(self.boot_epoch_ms + net.now_ms)
    }

    /// A packet that nobody has asked for, from a resource to a client.
    pub(crate) fn intrude(&mut self, from: IpAddr, to: IpAddr, probe: u64, net: &mut Net) {
        const PORT: u16 = 9;
        let service = culvert_policy::Service::Udp(PORT);
        let seen = Seen {
            source: to,
            destination: from,
            source_port: PORT,
            service,
            probe,
        };
        let mut packet = packets::answer(&seen);
        let now = self.boot_time(net);
        let frame = Judged::packet(&mut packet);
        match self.gate.admit_to_client(&self.table, now, frame) {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => {
                net.fail("a packet that belongs to no flow reached a client")
            }
            Verdict::Drop(reason) => *net.tally.dropped.entry(reason).or_default() += 1,
        }
    }

    /// True if its gate lets an address begin a flow to a client's service. `port` is one that nobody has used.
    pub(crate) fn opens(
        &mut self,
        (from, port): (IpAddr, u16),
        to: IpAddr,
        service: culvert_policy::Service,
        net: &Net,
    ) -> bool {
        let mut packet = packets::probe(from, port, to, service, 0);
        let now = self.boot_time(net);
        let frame = Judged::packet(&mut packet);
        let verdict = self.gate.admit_to_client(&self.table, now, frame);
        self.is_up() && matches!(verdict, Verdict::Admit(_) | Verdict::AdmitFirst(_))
    }

    /// Flows that the gate remembers, and peers of the data plane.
    pub(crate) fn remembered(&self) -> (usize, usize) {
        (self.gate.flow_count(), self.peers.len())
    }
}
