//! Everything there is in one run.

use super::affected;
use super::application::{Application, Log};
use super::catalog::{Destination, Machine, START_UNIX_MS, Wanted};
use super::client::ClientNode;
use super::config::{Config, Edit};
use super::gateway::GatewayNode;
use super::intent::Intent;
use super::names::NameServers;
use super::net::{Event, Frame, Net, Side, Weather};
use super::packets;
use super::portal::Portal;
use super::rules;
use super::several::{Leads, Several};
use super::tally::Tally;
use super::wire_id::WireId;
use crate::random::Random;
use culvert_hub::HubStatus;
use culvert_policy::Service;
use culvert_wire::{Cipher, PresharedKey};
use std::net::{IpAddr, Ipv4Addr};

/// The name of an application, to ask for its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationId(pub usize);

/// Times that the same instant may be looked at: more than all that happens at once.
const MAX_TURNS: u32 = 20_000;

/// The machines of a run, and the errors of their clocks.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The actor of each client.
    pub clients: Vec<u16>,
    /// The site of each gateway.
    pub gateways: Vec<u16>,
    /// The longest life of a grant, in seconds.
    pub grant_lifetime_s: u32,
    /// The largest error of each clock, in milliseconds.
    pub skew_ms: u64,
}

/// Something that happens to one of several portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It starts.
    Start,
    /// Its process is killed.
    Kill,
    /// Its process stands still.
    Pause,
    /// Its process goes on.
    Resume,
    /// It does not reach the database, or does again.
    CutDatabase(bool),
    /// It and the other portals do not reach each other, or do again.
    CutOff(bool),
}

/// A portal, clients and gateways, applications and resources, and the networks between them.
pub struct World {
    pub(crate) net: Net,
    pub(crate) portal: Portal,
    /// Several portals in the place of the one.
    several: Option<Several>,
    pub(crate) clients: Vec<ClientNode>,
    pub(crate) gateways: Vec<GatewayNode>,
    seed: u64,
}

impl World {
    /// Nobody runs yet, and nothing is configured.
    pub fn new(seed: u64, layout: Layout) -> Self {
        let mut random = Random::new(seed ^ 0xacce_5500);
        let mut clock = || START_UNIX_MS - layout.skew_ms + random.below(2 * layout.skew_ms + 1);
        let config = Config::new(layout.grant_lifetime_s);
        let net = Net::new(seed, config, clock());
        let boot_ms = |number: usize, kind: u64| 10_000 + kind + 1_000_003 * number as u64;
        let clients = (0..layout.clients.len())
            .map(|number| ClientNode::new(number, boot_ms(number, 1), clock()))
            .collect();
        let gateways = (0..layout.gateways.len())
            .map(|number| GatewayNode::new(number, boot_ms(number, 500_000), clock()))
            .collect();
        Self {
            net,
            portal: Portal::new(layout.clients, layout.gateways),
            several: None,
            clients,
            gateways,
            seed,
        }
    }

    /// Shows on the standard error output what happens from here on.
    pub fn trace(&mut self) {
        self.net.is_traced = true;
    }

    /// The seed of the run.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Milliseconds since the beginning.
    pub const fn now_ms(&self) -> u64 {
        self.net.now_ms
    }

    /// The portal's clock, in Unix milliseconds.
    pub fn portal_unix_ms(&self) -> u64 {
        self.net.portal_unix_ms()
    }

    /// The portal's configuration.
    pub const fn config(&self) -> &Config {
        &self.net.config
    }

    /// The counters so far.
    pub const fn tally(&self) -> &Tally {
        &self.net.tally
    }

    /// The hub's status; none if the portal does not run.
    pub fn hub_status(&self) -> Option<HubStatus> {
        self.portal.hub().map(culvert_hub::Hub::status)
    }

    /// Lets time pass, from event to event.
    pub fn run_ms(&mut self, span_ms: u64) {
        let end_ms = self.net.now_ms + span_ms;
        let (mut turns, mut instant) = (0, self.net.now_ms);
        while let Some(at_ms) = self.next_ms().filter(|at_ms| *at_ms <= end_ms) {
            self.net.now_ms = self.net.now_ms.max(at_ms);
            turns = if instant == self.net.now_ms {
                turns + 1
            } else {
                0
            };
            instant = self.net.now_ms;
            if turns > MAX_TURNS {
                self.net.fail("time stands still");
            }
            self.turn();
        }
        self.net.now_ms = end_ms;
    }

    // Actions of administrators.

    /// Changes the configuration in one transaction. A machine that is not concerned must not be
    /// told anything.
    pub fn commit(&mut self, edits: Vec<Edit>) {
        if let Some(several) = &mut self.several {
            return several.commit(edits, &mut self.net);
        }
        let before = affected::Before::of(&self.net.config);
        let now_ms = self.net.now_ms;
        let (changes, told) = self.portal.commit(edits, &mut self.net);
        if changes.is_empty() {
            return;
        }
        self.net.trace(|| {
            let ids: Vec<_> = changes.iter().map(|it| (it.operation, it.id)).collect();
            format!("changes: {ids:?}")
        });
        let nodes = affected::Nodes {
            portal: &self.portal,
            clients: self.clients.len(),
            gateways: self.gateways.len(),
        };
        let concerned = affected::concerned(&before, &changes, &self.net.config, nodes);
        let others: Vec<_> = told.difference(&concerned).collect();
        assert!(
            others.is_empty(),
            "at {now_ms} ms: {others:?} were told of {changes:?}"
        );
    }

    // Events at nodes.

    /// Starts whoever does not run.
    pub fn start_all(&mut self) {
        self.start_portal();
        for number in 0..self.gateways.len() {
            self.start(Machine::Gateway(number));
        }
        for number in 0..self.clients.len() {
            self.start(Machine::Client(number));
        }
    }

    /// Starts the portal.
    pub fn start_portal(&mut self) {
        if let Some(several) = &mut self.several {
            for node in 0..several.count() {
                several.start(node, &mut self.net);
            }
            return;
        }
        self.portal.start(&mut self.net);
    }

    /// Several portals on one database in the place of the one.
    #[must_use]
    pub fn with_portals(mut self, count: usize) -> Self {
        let (actors, sites) = self.portal.layout();
        self.several = Some(Several::new(count, self.seed, actors, sites));
        self
    }

    /// The portals' counters.
    ///
    /// # Panics
    /// If there are not several.
    pub fn leads(&self) -> Leads {
        self.several.as_ref().expect("several portals").leads()
    }

    /// The portal whose lease holds.
    pub fn leader(&self) -> Option<usize> {
        self.several.as_ref()?.leader(&self.net)
    }

    /// True if the process of one of several portals runs.
    pub fn is_portal_up(&self, portal: usize) -> bool {
        self.several
            .as_ref()
            .is_some_and(|several| several.is_up(portal))
    }

    /// Something happens to one of several portals.
    pub fn strike(&mut self, portal: usize, what: Strike) {
        let Some(several) = &mut self.several else {
            return;
        };
        let net = &mut self.net;
        match what {
            Strike::Start => several.start(portal, net),
            Strike::Kill => several.kill(portal, net),
            Strike::Pause => several.pause(portal, net),
            Strike::Resume => several.resume(portal, net),
            Strike::CutDatabase(is_cut) => several.cut_database(portal, is_cut, net),
            Strike::CutOff(is_cut) => several.cut_off(portal, is_cut, net),
        }
    }

    /// Kills the portal's process, or its whole host.
    pub fn kill_portal(&mut self, with_host: bool) {
        self.portal.kill(with_host, &mut self.net);
    }

    /// Stops the portal in order.
    pub fn stop_portal(&mut self) {
        self.portal.stop(&mut self.net);
    }

    /// Starts a machine.
    pub fn start(&mut self, machine: Machine) {
        match machine {
            Machine::Client(number) => self.clients[number].start(&mut self.net),
            Machine::Gateway(number) => self.gateways[number].start(&mut self.net),
        }
    }

    /// Kills a machine's process, or its whole host.
    pub fn kill(&mut self, machine: Machine, with_host: bool) {
        match machine {
            Machine::Client(number) => self.clients[number].kill(with_host, &mut self.net),
            Machine::Gateway(number) => self.gateways[number].kill(with_host, &mut self.net),
        }
    }

    /// Installs a machine anew: it has another key.
    pub fn reinstall(&mut self, machine: Machine) {
        match machine {
            Machine::Client(number) => self.clients[number].reinstall(&mut self.net),
            Machine::Gateway(number) => self.gateways[number].reinstall(&mut self.net),
        }
    }

    /// The gateway loses the state that it kept for its next start.
    pub fn lose_persisted(&mut self, gateway: usize) {
        self.gateways[gateway].forget_persisted();
    }

    /// The suites that a client does fast from its next start on.
    pub fn set_ciphers(&mut self, client: usize, ciphers: Vec<Cipher>) {
        self.clients[client].set_ciphers(ciphers);
    }

    /// The suites that a gateway does fast from its next start on.
    pub fn set_gateway_ciphers(&mut self, gateway: usize, ciphers: Vec<Cipher>) {
        self.gateways[gateway].set_ciphers(ciphers);
    }

    /// A machine has another address in the outer network. A client notices `noticed_after_ms`
    /// later.
    pub fn move_machine(&mut self, machine: Machine, noticed_after_ms: u64) {
        match machine {
            Machine::Client(client) => {
                self.clients[client].move_to_next_address(&mut self.net);
                let life = self.clients[client].life;
                self.net
                    .after(noticed_after_ms, Event::Noticed { client, life });
            }
            Machine::Gateway(number) => self.gateways[number].move_to_next_address(&mut self.net),
        }
    }

    /// Somebody at the gateway wants it to drain, or no longer.
    pub fn drain_gateway(&mut self, gateway: usize, on: bool) {
        self.gateways[gateway].drain_clients(on, &mut self.net);
    }

    /// True if the machine's process runs and means to go on.
    pub fn is_up(&self, machine: Machine) -> bool {
        match machine {
            Machine::Client(number) => self.clients[number].is_up(),
            Machine::Gateway(number) => self.gateways[number].is_up(),
        }
    }

    // Events between nodes.

    /// Sets the properties of the networks from here on.
    pub fn set_weather(&mut self, weather: Weather) {
        self.net.weather = weather;
    }

    /// Cuts a machine off from the portal.
    pub fn cut_control(&mut self, machine: Machine) {
        self.net
            .trace(|| format!("{machine:?} is cut off from the portal"));
        self.net.cut(machine);
    }

    /// Joins it again.
    pub fn heal_control(&mut self, machine: Machine) {
        self.net.trace(|| format!("{machine:?} reaches the portal"));
        self.net.heal(machine);
    }

    /// Cuts a client off from a gateway.
    pub fn cut_data(&mut self, client: usize, gateway: usize) {
        self.net.cut_data.insert((client, gateway));
    }

    /// Makes the networks whole: nothing is cut, lost or slow, and the DNS answers.
    pub fn heal_all(&mut self) {
        for machine in self.net.cut_control.clone() {
            self.heal_control(machine);
        }
        self.net.cut_data.clear();
        self.net.weather = Weather::fair();
        self.net.names.is_silent = false;
    }

    /// A connection breaks, and both ends hear of it.
    pub fn drop_connection(&mut self, machine: Machine) {
        for wire in self.net.wires_of(machine) {
            for to in [Side::Machine, Side::Portal] {
                let frame = Frame::Closed;
                self.net.after(0, Event::Frame { wire, to, frame });
            }
        }
    }

    /// A name has these addresses from here on.
    pub fn set_name(&mut self, name: &'static str, addresses: &[&str]) {
        self.net.names.set(name, addresses);
    }

    /// The DNS behind gateways answers, or does not.
    pub fn silence_names(&mut self, is_silent: bool) {
        self.net.names.is_silent = is_silent;
    }

    pub(crate) const fn names(&self) -> &NameServers {
        &self.net.names
    }

    // Actions of applications.

    /// An application of a client that wants an answer every `every_ms`.
    pub fn add_application(
        &mut self,
        client: usize,
        destination: Destination,
        service: Wanted,
        every_ms: u64,
    ) -> ApplicationId {
        let id = self.net.intents.len();
        self.net.intents.push(Intent {
            client,
            destination,
            service,
        });
        let application = Application::new(id, destination, service, every_ms);
        self.clients[client].applications.insert(id, application);
        let wait_ms = self.net.random.below(every_ms);
        self.net.after(wait_ms, Event::Application(id));
        ApplicationId(id)
    }

    /// The log of the application.
    ///
    /// # Panics
    /// If it has ended.
    pub fn log(&self, id: ApplicationId) -> &Log {
        let client = self.net.intents[id.0].client;
        &self.clients[client].applications[&id.0].log
    }

    /// Applications end.
    pub fn end_applications(&mut self) {
        for client in &mut self.clients {
            client.applications.clear();
        }
    }

    // Actions of forgers.

    /// A client sends a packet of its own making into all of its tunnels.
    pub fn forge_packet(&mut self, client: usize, source: IpAddr, to: IpAddr, service: Service) {
        const PORT: u16 = 30_000;
        let id = self.net.intents.len();
        self.net.intents.push(Intent {
            client,
            destination: Destination::Address(to),
            service,
        });
        let probe = Application::probe_of(id, 0);
        let packet = packets::probe(source, PORT, to, service, probe);
        self.clients[client].send_forged(&packet, &mut self.net);
    }

    /// A client says to the portal what its core did not.
    pub fn lie(&mut self, client: usize, text: String) {
        self.clients[client].lie(text, &mut self.net);
    }

    /// A machine says to the portal once more what it said last. False where it has said nothing.
    pub fn repeat(&mut self, machine: Machine) -> bool {
        if let Machine::Client(number) = machine {
            self.clients[number].is_rogue = true;
        }
        self.net.repeat(machine, Side::Machine)
    }

    /// A machine hears from the portal once more what it heard last: it notices, and breaks off.
    pub fn mislead(&mut self, machine: Machine) {
        if self.net.repeat(machine, Side::Portal) {
            self.net.misled.insert(machine);
        }
    }

    /// A client begins a handshake by a secret and a suite that nobody gave it.
    pub fn forge_handshake(
        &mut self,
        client: usize,
        gateway: usize,
        cipher: Cipher,
        secret: [u8; 32],
    ) {
        let secret = Some(PresharedKey::from_bytes(secret));
        self.begin_forged_handshake(client, gateway, cipher, secret);
    }

    /// A client that has a grant begins a handshake by another suite than the grant's.
    pub fn handshake_with(&mut self, client: usize, gateway: usize, cipher: Cipher) {
        self.begin_forged_handshake(client, gateway, cipher, None);
    }

    fn begin_forged_handshake(
        &mut self,
        client: usize,
        gateway: usize,
        cipher: Cipher,
        secret: Option<PresharedKey>,
    ) {
        let (key, to) = (
            self.gateways[gateway].key(),
            self.gateways[gateway].address(),
        );
        self.clients[client].forge_handshake(key, to, secret, cipher, &mut self.net);
    }

    /// A resource sends to a client that has not asked for it.
    pub fn intrude(&mut self, gateway: usize, client: usize) {
        let to = self.clients[client].tunnel_address(true);
        let from = Ipv4Addr::new(10, 1, 2, 3).into();
        let to = to.unwrap_or(Ipv4Addr::new(100, 64, 0, 1).into());
        let id = self.net.intents.len();
        self.net.intents.push(Intent {
            client,
            destination: Destination::Address(from),
            service: Service::Icmp,
        });
        let probe = Application::probe_of(id, 0);
        self.gateways[gateway].intrude(from, to, probe, &mut self.net);
    }

    /// True if an address may begin a flow to a service of a client's host: a gateway lets it through, and the client lets it in.
    /// `port` is one that the address has not used.
    pub fn begins(&mut self, client: usize, from: (IpAddr, u16), service: Service) -> bool {
        let Some(to) = self.clients[client].tunnel_address(from.0.is_ipv4()) else {
            return false;
        };
        let net = &self.net;
        let mut gateways = self.gateways.iter_mut();
        let passes = gateways.any(|gateway| gateway.opens(from, to, service, net));
        passes && self.clients[client].opens(from.0, service, net)
    }

    /// True if the rules let it, by the configuration of this moment.
    pub fn may_begin(&self, client: usize, from: IpAddr, service: Service) -> bool {
        let config = self.config();
        let now = self.portal_unix_ms();
        let row = config.client_of(client);
        row.is_some_and(|row| rules::may_begin(config, row.id, from, service, now))
    }

    /// The address of a client inside the tunnel, once it has one.
    pub fn tunnel_address(&self, client: usize) -> Option<IpAddr> {
        self.clients[client].tunnel_address(true)
    }

    // The loop.

    fn next_ms(&self) -> Option<u64> {
        let clients = self.clients.iter().filter_map(|it| it.wake_ms(&self.net));
        let gateways = self.gateways.iter().filter_map(GatewayNode::wake_ms);
        let portal = match &self.several {
            Some(several) => several.next_ms(&self.net),
            None => self.portal.wake_ms(&self.net),
        };
        let wakes = clients.chain(gateways).chain(portal);
        wakes.chain(self.net.next_at()).min()
    }

    fn turn(&mut self) {
        let now_ms = self.net.now_ms;
        if let Some(event) = self.net.pop() {
            self.handle(event);
            return;
        }
        if let Some(several) = &mut self.several {
            several.turn(&mut self.net);
        } else if self
            .portal
            .wake_ms(&self.net)
            .is_some_and(|at| at <= now_ms)
        {
            self.portal.handle_timeout(&mut self.net);
        }
        for gateway in &mut self.gateways {
            if gateway.wake_ms().is_some_and(|at_ms| at_ms <= now_ms) {
                gateway.handle_timeout(&mut self.net);
            }
        }
        for client in &mut self.clients {
            if client
                .wake_ms(&self.net)
                .is_some_and(|at_ms| at_ms <= now_ms)
            {
                client.handle_timeout(&mut self.net);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let net = &mut self.net;
        match event {
            Event::Attempt {
                machine,
                life,
                begun_ms,
            } => net.attempt(machine, life, begun_ms),
            Event::Knock { machine, life } => match &mut self.several {
                Some(several) => several.knock(machine, life, net),
                None => self.portal.knock(machine, life, net),
            },
            Event::Opened {
                wire,
                portal_unix_ms,
            } => self.opened(wire, portal_unix_ms),
            Event::Failed {
                machine,
                life,
                is_unauthorized,
            } => match machine {
                Machine::Client(it) => self.clients[it].handle_failed(life, is_unauthorized, net),
                Machine::Gateway(it) => self.gateways[it].handle_failed(life, is_unauthorized, net),
            },
            Event::Frame { wire, to, frame } => self.frame(wire, to, frame),
            Event::Silence { wire, side, serial } => {
                if net.take_silence(wire, side, serial) {
                    self.hear(wire, side, Frame::Closed);
                }
            }
            Event::Datagram { from, to, datagram } => self.datagram(from, to, datagram),
            Event::Resolved {
                gateway,
                life,
                name,
            } => self.gateways[gateway].handle_resolved(life, &name, net),
            Event::Reply {
                gateway,
                life,
                packet,
            } => self.gateways[gateway].handle_reply(life, packet, net),
            Event::Application(id) => self.run_application(id),
            Event::Load { gateway, life } => self.gateways[gateway].handle_load(life, net),
            Event::Noticed { client, life } => {
                self.clients[client].handle_network_changed(life, net);
            }
        }
    }

    fn opened(&mut self, wire: WireId, portal_unix_ms: u64) {
        let Some((machine, life)) = self.net.wires.get(&wire).map(|it| (it.machine, it.life))
        else {
            return;
        };
        let net = &mut self.net;
        match machine {
            Machine::Client(it) if self.clients[it].life == life => {
                self.clients[it].handle_opened(wire, portal_unix_ms, net);
            }
            Machine::Gateway(it) if self.gateways[it].life == life => {
                self.gateways[it].handle_opened(wire, portal_unix_ms, net);
            }
            Machine::Client(_) | Machine::Gateway(_) => net.close(wire, Side::Machine),
        }
    }

    fn frame(&mut self, wire: WireId, to: Side, frame: Frame) {
        if self.net.is_open(wire, to) {
            self.hear(wire, to, frame);
        } else if matches!(frame, Frame::Text(_)) {
            // A packet to a closed port gets a reset.
            let from = match to {
                Side::Machine => Side::Portal,
                Side::Portal => Side::Machine,
            };
            if self.net.is_open(wire, from) {
                self.net.send(wire, to, Frame::Closed);
            }
        }
    }

    fn hear(&mut self, wire: WireId, side: Side, frame: Frame) {
        let Some(machine) = self.net.wires.get(&wire).map(|it| it.machine) else {
            return;
        };
        let net = &mut self.net;
        let is_closed = matches!(frame, Frame::Closed);
        match (side, machine) {
            (Side::Machine, Machine::Client(it)) => self.clients[it].hear(wire, frame, net),
            (Side::Machine, Machine::Gateway(it)) => self.gateways[it].hear(wire, frame, net),
            (Side::Portal, machine) => {
                let address = match machine {
                    Machine::Client(it) => self.clients[it].address().ip(),
                    Machine::Gateway(it) => self.gateways[it].address().ip(),
                };
                match &mut self.several {
                    Some(several) => several.hear(wire, frame, address, net),
                    None => self.portal.hear(wire, frame, address, net),
                }
            }
        }
        if is_closed {
            self.net.close(wire, side);
            self.net.tidy();
        }
    }

    fn datagram(
        &mut self,
        from: std::net::SocketAddr,
        to: std::net::SocketAddr,
        datagram: super::tunnel::Datagram,
    ) {
        let client = |at| self.clients.iter().position(|it| it.address() == at);
        let gateway = |at| self.gateways.iter().position(|it| it.address() == at);
        // If nobody lives any more, datagrams are lost.
        if let (Some(from_client), Some(to_gateway)) = (client(from), gateway(to)) {
            if !self.net.cut_data.contains(&(from_client, to_gateway)) {
                self.gateways[to_gateway].receive(from, to, datagram, &mut self.net);
            }
        } else if let (Some(from_gateway), Some(to_client)) = (gateway(from), client(to))
            && !self.net.cut_data.contains(&(to_client, from_gateway))
        {
            self.clients[to_client].receive(from, datagram, &mut self.net);
        }
    }

    fn run_application(&mut self, id: usize) {
        let client = self.net.intents[id].client;
        let application = self.clients[client].applications.get(&id);
        let Some(every_ms) = application.map(|it| it.every_ms) else {
            return;
        };
        self.clients[client].run_application(id, &mut self.net);
        self.net.after(every_ms, Event::Application(id));
    }
}
