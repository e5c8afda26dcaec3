//! A small Internet: a client, a gateway, their NATs, and relays.

use crate::nat::{Behaviour, Nat};
use culvert_base::{BootTime, PresharedKey, Random};
use culvert_ids::RelayId;
use culvert_path::{Guard, Selection, SelectionOutput};
use culvert_relay_core::Message;
use culvert_relay_core::probe::{PairEnd, PairProbes};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The time between two looks of an end at its data plane.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// The time between two signs of life to a relay.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// A relay that has not answered for this long is not used.
const RELAY_GONE_AFTER: Duration = Duration::from_secs(12);
/// The time that the portal takes to hand on addresses.
const PORTAL_DELAY: Duration = Duration::from_millis(30);

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
    Register(usize),
    Registered,
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
    Refresh,
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
    /// By relay: the last answer, and the address that the relay saw.
    registered: Vec<Option<(BootTime, SocketAddr)>>,
    announced: Vec<SocketAddr>,
    pub(crate) received: Vec<(BootTime, u64)>,
}

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    pub(crate) is_dead: bool,
    ends: [Option<SocketAddr>; 2],
    delay: Duration,
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

/// The place of an end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    /// The NATs before it, the innermost first; none is a public address.
    pub(crate) nats: Vec<Behaviour>,
    /// It is behind the other end's outermost NAT instead of one of its own.
    pub(crate) shares_outermost: bool,
}

impl World {
    pub(crate) fn new(homes: [Home; 2], relays: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut nats: Vec<Nat> = Vec::new();
        let mut outermost = None;
        let mut ends = Vec::new();
        let key = PresharedKey::from_bytes([7; 32]);
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
                registered: vec![None; relays],
                announced: Vec::new(),
                received: Vec::new(),
            });
        }
        let relay = |number: usize| Relay {
            address: SocketAddr::from(([192, 0, 2, u8::try_from(number).unwrap() + 1], 3479)),
            is_dead: false,
            ends: [None; 2],
            delay: ms(15 + 10 * number as u64),
        };
        let mut world = Self {
            now: BootTime::from_nanos(1_000_000_000_000),
            events: BTreeMap::new(),
            count: 0,
            random,
            nats,
            ends,
            relays: (0..relays).map(relay).collect(),
            loss_per_mille: 0,
            deaf: [false; 2],
            repeated_by: None,
            sends_data: true,
            sent: 0,
            reached: BTreeMap::new(),
            came: BTreeMap::new(),
            chosen: Vec::new(),
            overheard: Vec::new(),
        };
        world.at(Duration::ZERO, Event::Refresh);
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
            let timer = self
                .ends
                .iter()
                .filter_map(|it| it.selection.poll_timeout());
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
                for end in 0..2 {
                    self.ends[end].selection.handle_timeout(next);
                }
                let is_met = |end: &End| end.selection.poll_timeout().is_none_or(|at| at > next);
                assert!(self.ends.iter().all(is_met), "a deadline is met once");
            }
            self.execute();
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
            Event::Refresh => {
                for end in 0..2 {
                    for relay in 0..self.relays.len() {
                        let to = self.relays[relay].address;
                        self.send(end, to, Payload::Register(end));
                    }
                }
                self.at(REFRESH_EVERY, Event::Refresh);
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
    }

    /// Each end uses the relays that have answered of late.
    fn use_relays(&mut self) {
        let now = self.now;
        let known = self.relays.iter().enumerate();
        let known: Vec<_> = known
            .map(|(number, relay)| (relay_id(number), relay.address))
            .collect();
        for end in &mut self.ends {
            let mut relays = Vec::new();
            for (number, relay) in self.relays.iter().enumerate() {
                let lives = |(at, _): (BootTime, _)| !now.has_passed(at, RELAY_GONE_AFTER);
                if end.registered[number].is_some_and(lives) {
                    relays.push((relay_id(number), relay.address));
                }
            }
            end.selection.set_relays(&known, &relays, now);
            // The handshake went through the first relay.
            if end.endpoint.is_none() {
                end.endpoint = relays.first().map(|(_, address)| *address);
            }
        }
    }

    fn receive(&mut self, end: usize, source: SocketAddr, payload: Payload) {
        let now = self.now;
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
                    self.send(GATEWAY, source, Payload::Data { number });
                }
            }
            Payload::Registered => {
                let relay = self
                    .relays
                    .iter()
                    .position(|it| it.address == source)
                    .unwrap();
                let seen = self.relays[relay].ends[end].unwrap();
                self.ends[end].registered[relay] = Some((now, seen));
                self.announce(end);
            }
            Payload::Register(_) => {}
        }
    }

    /// The portal tells the other end where this one may be.
    fn announce(&mut self, end: usize) {
        let it = &mut self.ends[end];
        let mut candidates = vec![it.address];
        candidates.extend(it.registered.iter().flatten().map(|(_, seen)| *seen));
        candidates.dedup();
        if candidates != it.announced {
            it.announced.clone_from(&candidates);
            self.at(PORTAL_DELAY, Event::Candidates(1 - end, candidates));
        }
    }

    /// At a relay.
    fn forward(&mut self, relay: usize, source: SocketAddr, payload: Payload) {
        let it = &mut self.relays[relay];
        if it.is_dead {
            return;
        }
        let (address, delay) = (it.address, it.delay);
        if let Payload::Register(end) = payload {
            it.ends[end] = Some(source);
            return self.route(None, address, source, Payload::Registered, delay);
        }
        let sender = it.ends.iter().position(|end| *end == Some(source));
        if let Some(to) = sender.and_then(|sender| it.ends[1 - sender]) {
            self.route(None, address, to, payload, delay);
        }
    }

    fn send(&mut self, end: usize, to: SocketAddr, payload: Payload) {
        let (behind, source) = (self.ends[end].behind, self.ends[end].address);
        self.route(behind, source, to, payload, ms(20));
    }

    /// Carries a datagram from the network behind a NAT, or from the Internet, to where it leads.
    fn route(
        &mut self,
        from: Option<usize>,
        source: SocketAddr,
        to: SocketAddr,
        payload: Payload,
        delay: Duration,
    ) {
        if self.random.up_to(999) < self.loss_per_mille {
            return;
        }
        let Some((place, source)) = self.lead(from, source, to) else {
            return;
        };
        let is_relays = |it: SocketAddr| self.relays.iter().any(|relay| relay.address == it);
        if let Place::End(end) = place
            && self.deaf[end]
            && !is_relays(source)
        {
            return;
        }
        if let (Place::End(end), Payload::Probe(bytes)) = (place, payload.clone()) {
            self.overheard.push((source, end, bytes.clone()));
            if let Some(stranger) = self.repeated_by {
                let bytes = bytes.clone();
                self.at(ms(1), Event::Injected(end, stranger, bytes));
            }
            if end == GATEWAY {
                let at = self.now.saturating_add(delay);
                self.reached.insert(to, at);
                if let Some(relay) = self.relays.iter().find(|it| it.address == source) {
                    self.reached.insert(relay.address, at);
                }
            }
        }
        self.at(delay, Event::Arrives(place, source, payload));
    }

    fn lead(
        &mut self,
        from: Option<usize>,
        mut source: SocketAddr,
        mut to: SocketAddr,
    ) -> Option<(Place, SocketAddr)> {
        let (mut network, now) = (from, self.now);
        // At most up through all NATs and down through all.
        for _ in 0..=2 * self.nats.len() {
            let is_here = |end: &End| end.behind == network && end.address == to;
            if let Some(end) = self.ends.iter().position(is_here) {
                return Some((Place::End(end), source));
            }
            let at_relay = self.relays.iter().position(|relay| relay.address == to);
            if let (None, Some(relay)) = (network, at_relay) {
                return Some((Place::Relay(relay), source));
            }
            let is_below = |nat: &Nat| nat.behind == network && nat.outside == to.ip();
            if let Some(below) = self.nats.iter().position(is_below) {
                to = self.nats[below].inbound(source, to, now)?;
                network = Some(below);
                continue;
            }
            let above = &mut self.nats[network?];
            if above.outside == to.ip() {
                return None;
            }
            source = above.outbound(source, to, now);
            network = above.behind;
        }
        None
    }

    fn execute(&mut self) {
        for end in 0..2 {
            while let Some(output) = self.ends[end].selection.poll_output() {
                match output {
                    SelectionOutput::Send { datagram, to } => {
                        self.send(end, to, Payload::Probe(datagram.to_vec()));
                    }
                    SelectionOutput::Use(address) => self.choose(end, address),
                    SelectionOutput::Changed => {}
                }
            }
        }
    }

    /// The client takes a path: it must be proven in both directions.
    fn choose(&mut self, end: usize, address: SocketAddr) {
        assert_eq!(end, CLIENT, "the gateway follows");
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
        self.chosen.push((self.now, address));
        let client = &mut self.ends[CLIENT];
        client.endpoint = Some(address);
        client.is_pinned = true;
        client.heard_elsewhere = None;
        // A record at once, so that the gateway follows. It is no data that is counted.
        self.send(CLIENT, address, Payload::Data { number: 0 });
    }

    /// A datagram that a stranger sends to an end, from whatever address. It passes all NATs.
    pub(crate) fn inject(&mut self, source: SocketAddr, end: usize, bytes: Vec<u8>) {
        self.at(ms(1), Event::Injected(end, source, bytes));
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

pub(crate) fn relay_id(number: usize) -> RelayId {
    RelayId::from_bytes([u8::try_from(number).unwrap() + 1; 16])
}
