//! A small Internet: a client, a gateway, their NATs, and relays.

mod relay;
mod wires;

use crate::nat::{Behaviour, Nat};
use culvert_base::{BootTime, PresharedKey, Random};
use culvert_path::{Guard, Relays, RelaysOutput, SILENCE, Selection, SelectionOutput};
use culvert_relay_core::Message;
use culvert_relay_core::probe::{PairEnd, PairProbes};
pub(crate) use relay::{Relay, relay_id};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The time between two looks of an end at its data plane.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// The time that the portal takes to hand on addresses.
const PORTAL_DELAY: Duration = Duration::from_millis(30);

/// The time that a TLS stream takes to open: TCP's and TLS's round trips, and one to the relay.
const TLS_OPENS: Duration = ms(150);

pub(crate) const CLIENT: usize = 0;
pub(crate) const GATEWAY: usize = 1;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[derive(Clone, Debug)]
enum Payload {
    Probe(Vec<u8>),
    /// Data with its number, and the answer to it.
    Data {
        number: u64,
    },
    /// Between an end and a relay.
    Control(Vec<u8>),
}

#[derive(Clone, Debug)]
enum Event {
    /// At an end, or at a relay, from an address.
    Arrives(Place, SocketAddr, Payload),
    /// The portal tells an end where the other may be.
    Candidates(usize, Vec<SocketAddr>),
    /// A stranger's datagram, at an end.
    Injected(usize, SocketAddr, Vec<u8>),
    Data,
    Report,
    /// A stream of an end to a relay is open, or could not be opened.
    Opened(usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    End(usize),
    Relay(usize),
}

pub(crate) struct End {
    pub(crate) address: SocketAddr,
    behind: Option<usize>,
    pub(crate) selection: Selection,
    pub(crate) endpoint: Option<SocketAddr>,
    is_pinned: bool,
    heard_elsewhere: Option<SocketAddr>,
    unanswered: Option<BootTime>,
    relays: Relays<()>,
    /// By relay: the loopback address of the stream, while one is open.
    pub(crate) streams: Vec<Option<SocketAddr>>,
    /// By relay: the address that leads there, also while the end is not registered.
    relay_addresses: Vec<Option<SocketAddr>>,
    /// By relay: a stream is being opened.
    opening: Vec<bool>,
    announced: Vec<SocketAddr>,
    pub(crate) received: Vec<(BootTime, u64)>,
}

impl End {
    fn timers(&self) -> impl Iterator<Item = BootTime> {
        let (selection, relays) = (self.selection.poll_timeout(), self.relays.poll_timeout());
        selection.into_iter().chain(relays)
    }
}

pub(crate) struct World {
    pub(crate) now: BootTime,
    events: BTreeMap<(BootTime, u64), Event>,
    count: u64,
    random: Random,
    pub(crate) nats: Vec<Nat>,
    pub(crate) ends: Vec<End>,
    pub(crate) relays: Vec<Relay>,
    pub(crate) loss_per_mille: u64,
    /// By end: nothing that the other sends directly arrives there.
    pub(crate) deaf: [bool; 2],
    /// A stranger repeats each probe and answer, and is faster.
    pub(crate) repeated_by: Option<SocketAddr>,
    pub(crate) sends_data: bool,
    /// By end: UDP passes in neither direction.
    pub(crate) is_udp_blocked: [bool; 2],
    /// By end: no TLS stream can be opened.
    pub(crate) is_tls_blocked: [bool; 2],
    /// By loopback address: the relay to which the stream leads, or led.
    stream_relays: BTreeMap<SocketAddr, usize>,
    /// Both ends have an IPv6 address besides.
    pub(crate) ipv6: Option<Ipv6>,
    sent: u64,
    /// By address that the client probed: the last time at which such a probe arrived at the gateway.
    reached: BTreeMap<SocketAddr, BootTime>,
    /// By source: the last time at which an answer of the gateway arrived at the client.
    came: BTreeMap<SocketAddr, BootTime>,
    /// The client's choices.
    pub(crate) chosen: Vec<(BootTime, SocketAddr)>,
    /// Datagrams that went over the wire: the source seen, the end for which they were, and the bytes.
    pub(crate) overheard: Vec<(SocketAddr, usize, Vec<u8>)>,
}

/// The IPv6 network between the ends. No NAT is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ipv6 {
    /// It is as fast as IPv4.
    Works,
    /// It is announced, and drops everything.
    Dead,
}

const fn ipv6_address(end: usize) -> SocketAddr {
    let ip = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, end as u16 + 1);
    SocketAddr::new(IpAddr::V6(ip), 51820)
}

/// The place of an end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    /// The NATs before it, the innermost first; none is a public address.
    pub(crate) nats: Vec<Behaviour>,
    /// It is behind the other end's outermost NAT instead of one of its own.
    pub(crate) shares_outermost: bool,
    /// Only TCP passes.
    pub(crate) blocks_udp: bool,
}

impl World {
    pub(crate) fn new(homes: [Home; 2], relays: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut nats: Vec<Nat> = Vec::new();
        let mut outermost = None;
        let mut ends = Vec::new();
        let key = PresharedKey::from_bytes([7; 32]);
        let is_udp_blocked = [&homes[0], &homes[1]].map(|home| home.blocks_udp);
        for (number, home) in homes.into_iter().enumerate() {
            let host = u8::try_from(number).unwrap() + 1;
            let mut behind = outermost.filter(|_| home.shares_outermost);
            for (level, behaviour) in home.nats.into_iter().rev().enumerate() {
                let level = u8::try_from(level).unwrap();
                let outside = match behind {
                    None => IpAddr::from([203, 0, 113, host]),
                    Some(_) => IpAddr::from([172, 16, level, host]),
                };
                nats.push(Nat::new(behaviour, outside, behind));
                behind = Some(nats.len() - 1);
                outermost = outermost.or(behind);
            }
            let ip = match behind {
                None => IpAddr::from([198, 51, 100, host]),
                Some(_) => IpAddr::from([10, 0, host, 2]),
            };
            let end = if number == CLIENT {
                PairEnd::Client
            } else {
                PairEnd::Gateway
            };
            let probes = PairProbes::new(&key, end).unwrap();
            let seed = random.next();
            ends.push(End {
                address: SocketAddr::new(ip, 51820),
                behind,
                selection: Selection::new(probes, end, Guard::default(), seed),
                endpoint: None,
                is_pinned: false,
                heard_elsewhere: None,
                unanswered: None,
                relays: Relays::new([u8::try_from(number).unwrap(); 32]),
                streams: vec![None; relays],
                relay_addresses: vec![None; relays],
                opening: vec![false; relays],
                announced: Vec::new(),
                received: Vec::new(),
            });
        }
        let mut world = Self {
            now: BootTime::from_nanos(1_000_000_000_000),
            events: BTreeMap::new(),
            count: 0,
            random,
            nats,
            ends,
            relays: (0..relays).map(Relay::new).collect(),
            loss_per_mille: 0,
            deaf: [false; 2],
            repeated_by: None,
            sends_data: true,
            is_udp_blocked,
            is_tls_blocked: [false; 2],
            stream_relays: BTreeMap::new(),
            ipv6: None,
            sent: 0,
            reached: BTreeMap::new(),
            came: BTreeMap::new(),
            chosen: Vec::new(),
            overheard: Vec::new(),
        };
        for (number, end) in world.ends.iter_mut().enumerate() {
            let grants = world.relays.iter().enumerate();
            let grants = grants.map(|(relay, it)| it.grant(relay, number));
            end.relays.set((), grants.collect(), world.now);
        }
        world.at(ms(200), Event::Report);
        world.at(ms(250), Event::Data);
        world
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.count += 1;
        self.events
            .insert((self.now.saturating_add(after), self.count), event);
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        loop {
            self.execute();
            let timer = self.ends.iter().flat_map(End::timers);
            let timer = timer.min().map(|at| at.max(self.now));
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = timer
                .into_iter()
                .chain(event)
                .min()
                .filter(|next| *next <= end)
            else {
                break;
            };
            self.now = next;
            if event.is_some_and(|at| at <= next) {
                let (_, event) = self.events.pop_first().unwrap();
                self.handle(event);
            } else {
                for end in &mut self.ends {
                    end.selection.handle_timeout(next);
                    end.relays.handle_timeout(next);
                }
                let is_met = |at: BootTime| at > next;
                let mut timers = self.ends.iter().flat_map(End::timers);
                assert!(timers.all(is_met), "a deadline is met once");
            }
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(Place::End(end), source, payload) => self.receive(end, source, payload),
            Event::Arrives(Place::Relay(relay), source, payload) => {
                self.forward(relay, source, payload);
            }
            Event::Candidates(end, candidates) => {
                let now = self.now;
                let refused = self.ends[end].selection.set_candidates(&candidates, now);
                assert_eq!(refused, []);
            }
            Event::Injected(end, source, bytes) => {
                let message = Message::parse(&bytes);
                let now = self.now;
                let selection = &mut self.ends[end].selection;
                message.map(|message| selection.handle_message(&message, source, now));
            }
            Event::Data => {
                if self.sends_data {
                    self.send_data();
                }
                self.at(ms(50), Event::Data);
            }
            Event::Report => {
                self.report();
                self.at(REPORT_EVERY, Event::Report);
            }
            Event::Opened(end, relay) => self.handle_opened(end, relay),
        }
    }

    fn handle_opened(&mut self, end: usize, relay: usize) {
        if !std::mem::take(&mut self.ends[end].opening[relay]) {
            return;
        }
        let (now, id) = (self.now, relay_id(relay));
        let it = &mut self.ends[end];
        if self.is_tls_blocked[end] || self.relays[relay].is_dead {
            let why = "connection refused".to_owned();
            return it.relays.handle_tls_ended((), id, why, now);
        }
        let number = u16::try_from(self.stream_relays.len()).unwrap();
        let local = SocketAddr::from(([127, 0, 0, 1], 10_000 + number));
        self.stream_relays.insert(local, relay);
        it.streams[relay] = Some(local);
        it.relays.handle_tls_opened((), id, local, now);
    }

    /// All streams of an end break off.
    pub(crate) fn break_streams(&mut self, end: usize) {
        let now = self.now;
        let it = &mut self.ends[end];
        for relay in 0..it.streams.len() {
            if it.streams[relay].take().is_some() {
                let why = "the connection broke off".to_owned();
                it.relays.handle_tls_ended((), relay_id(relay), why, now);
            }
        }
    }

    fn send_data(&mut self) {
        let now = self.now;
        let Some(to) = self.ends[CLIENT].endpoint else {
            return;
        };
        self.sent += 1;
        self.ends[CLIENT].unanswered.get_or_insert(now);
        let number = self.sent;
        self.send(CLIENT, to, Payload::Data { number });
    }

    fn report(&mut self) {
        let now = self.now;
        self.use_relays();
        let end = &mut self.ends[CLIENT];
        if let Some(endpoint) = end.endpoint {
            end.selection.handle_endpoint(endpoint, now);
        }
        if let Some(source) = end.heard_elsewhere {
            end.selection.handle_heard_from(source, now);
        }
        end.selection.handle_unanswered(end.unanswered);
        if self.sends_data {
            end.selection.handle_traffic(now);
        }
        let gateway = &mut self.ends[GATEWAY];
        let is_silent = |since: BootTime| now.has_passed(since, SILENCE);
        // An idle client would send a keepalive.
        if self.sends_data && gateway.unanswered.is_some_and(is_silent) {
            gateway.relays.check((), now);
        }
    }

    /// The handshake goes through a relay where both ends are registered.
    fn use_relays(&mut self) {
        let usable = |end: &End| end.relays.usable(());
        let (clients, gateways) = (usable(&self.ends[CLIENT]), usable(&self.ends[GATEWAY]));
        let meets = |relay| gateways.iter().any(|path| path.relay == relay);
        let first = clients.iter().find(|path| meets(path.relay));
        let client = &mut self.ends[CLIENT];
        if client.endpoint.is_none() {
            client.endpoint = first.map(|path| path.address);
        }
    }

    fn receive(&mut self, end: usize, source: SocketAddr, payload: Payload) {
        let now = self.now;
        if source.ip().is_loopback() && !self.ends[end].streams.contains(&Some(source)) {
            // The stream was closed meanwhile.
            return;
        }
        match payload {
            Payload::Probe(bytes) => {
                let message = Message::parse(&bytes).unwrap();
                if end == CLIENT && matches!(message, Message::ProbeAnswer(_)) {
                    self.came.insert(source, now);
                }
                let taken = self.ends[end]
                    .selection
                    .handle_message(&message, source, now);
                assert!(taken, "ends send each other authentic probes");
            }
            Payload::Data { number, .. } => {
                let it = &mut self.ends[end];
                it.received.push((now, number));
                it.unanswered = None;
                if it.is_pinned && it.endpoint != Some(source) {
                    it.heard_elsewhere = Some(source);
                } else {
                    it.heard_elsewhere = None;
                    it.endpoint = Some(source);
                }
                if end == GATEWAY {
                    it.unanswered = Some(now);
                    let to = it.endpoint.unwrap_or(source);
                    self.send(GATEWAY, to, Payload::Data { number });
                }
            }
            Payload::Control(bytes) => {
                self.ends[end].relays.handle_datagram(source, &bytes, now);
            }
        }
    }

    /// The portal tells the other end where this one may be.
    fn announce(&mut self, end: usize) {
        let it = &mut self.ends[end];
        let mut candidates = vec![it.address];
        candidates.extend(self.ipv6.map(|_| ipv6_address(end)));
        candidates.extend(it.relays.reflexive());
        candidates.dedup();
        if candidates != it.announced {
            it.announced.clone_from(&candidates);
            self.at(PORTAL_DELAY, Event::Candidates(1 - end, candidates));
        }
    }

    fn execute(&mut self) {
        for end in 0..2 {
            // News of one of the two are news for the other, and the other way round: at most twice.
            for _ in 0..4 {
                self.execute_selection(end);
                self.execute_relays(end);
            }
            assert_eq!(self.ends[end].selection.poll_output(), None);
        }
    }

    fn execute_selection(&mut self, end: usize) {
        while let Some(output) = self.ends[end].selection.poll_output() {
            match output {
                SelectionOutput::Send { datagram, to } => {
                    self.send(end, to, Payload::Probe(datagram.to_vec()));
                }
                SelectionOutput::Use(address) => self.choose(end, address),
                SelectionOutput::CheckRelays => self.ends[end].relays.check((), self.now),
                SelectionOutput::Changed => {}
            }
        }
    }

    fn execute_relays(&mut self, end: usize) {
        while let Some(output) = self.ends[end].relays.poll_output() {
            match output {
                RelaysOutput::Send { datagram, to } => {
                    self.send(end, to, Payload::Control(datagram));
                }
                RelaysOutput::OpenTls { relay, .. } => {
                    let relay = self.number_of(relay);
                    self.ends[end].opening[relay] = true;
                    self.at(TLS_OPENS, Event::Opened(end, relay));
                }
                RelaysOutput::CloseTls { relay, .. } => {
                    let relay = self.number_of(relay);
                    self.ends[end].opening[relay] = false;
                    self.ends[end].streams[relay] = None;
                }
                RelaysOutput::Changed => {
                    self.move_gateways_client(end);
                    let (it, now) = (&mut self.ends[end], self.now);
                    let (known, usable) = (it.relays.known(()), it.relays.usable(()));
                    it.selection.set_relays(&known, &usable, now);
                    self.announce(end);
                }
                RelaysOutput::TlsFailed { .. } | RelaysOutput::Registering { .. } => {}
                RelaysOutput::Refused { reason, .. } => panic!("refused: {reason}"),
            }
        }
    }

    /// The gateway sends to its client by where the relay is now.
    fn move_gateways_client(&mut self, end: usize) {
        for path in self.ends[end].relays.usable(()) {
            let relay = self.number_of(path.relay);
            let it = &mut self.ends[end];
            let before = it.relay_addresses[relay].replace(path.address);
            if end == GATEWAY && before.is_some() && it.endpoint == before {
                it.endpoint = Some(path.address);
            }
        }
    }

    fn number_of(&self, relay: culvert_ids::RelayId) -> usize {
        let mut numbers = 0..self.relays.len();
        numbers.find(|number| relay_id(*number) == relay).unwrap()
    }

    /// The client takes a path: it must be proven in both directions.
    fn choose(&mut self, end: usize, address: SocketAddr) {
        assert_eq!(end, CLIENT, "the gateway follows");
        let before = self.ends[CLIENT].endpoint;
        if !self.has_moved_with_registration(before, address) {
            self.assert_proven(address);
        }
        self.chosen.push((self.now, address));
        let client = &mut self.ends[CLIENT];
        client.endpoint = Some(address);
        client.is_pinned = true;
        client.heard_elsewhere = None;
        // A record at once, so that the gateway follows. It is no data that is counted.
        self.send(CLIENT, address, Payload::Data { number: 0 });
    }

    /// The registration at one relay has moved to another address.
    fn has_moved_with_registration(&self, before: Option<SocketAddr>, to: SocketAddr) -> bool {
        let usable = self.ends[CLIENT].relays.usable(());
        let is_usable = |at| usable.iter().any(|path| path.address == at);
        let relay_of = |at: SocketAddr| {
            let by_udp = self.relays.iter().position(|relay| relay.address == at);
            by_udp.or_else(|| self.stream_relays.get(&at).copied())
        };
        let moves = |before| !is_usable(before) && relay_of(before) == relay_of(to);
        before.is_some_and(moves) && is_usable(to) && relay_of(to).is_some()
    }

    fn assert_proven(&self, address: SocketAddr) {
        let lately =
            |at: Option<&BootTime>| at.is_some_and(|at| !self.now.has_passed(*at, ms(4_000)));
        assert!(
            lately(self.reached.get(&address)),
            "the client's probes do not arrive by {address}"
        );
        assert!(
            lately(self.came.get(&address)),
            "the gateway's answers do not come from {address}"
        );
    }

    /// A datagram that a stranger sends to an end, from whatever address. It passes all NATs.
    pub(crate) fn inject(&mut self, source: SocketAddr, end: usize, bytes: Vec<u8>) {
        self.at(ms(1), Event::Injected(end, source, bytes));
    }

    pub(crate) fn is_by_tls(&self) -> bool {
        let path = self.ends[CLIENT].selection.path();
        path.is_some_and(|path| path.by_tls)
    }

    /// The end is registered at a relay through a stream.
    pub(crate) fn is_registered_by_tls(&self, end: usize) -> bool {
        let usable = self.ends[end].relays.usable(());
        usable.iter().any(|path| path.by_tls)
    }

    pub(crate) fn is_direct(&self) -> bool {
        let path = self.ends[CLIENT].selection.path();
        path.is_some_and(|path| path.relay.is_none())
    }

    /// Data that the client sent, and data whose answer it has.
    pub(crate) fn traffic(&self) -> (u64, usize) {
        let mut answered: Vec<u64> = self.ends[CLIENT].received.iter().map(|it| it.1).collect();
        answered.retain(|number| *number > 0);
        answered.sort_unstable();
        answered.dedup();
        (self.sent, answered.len())
    }
}
