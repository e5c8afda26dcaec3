//! A relay's decisions: registrations, and the way of each record.
//!
//! A [`Relay`] has some of the gateway ports of a machine, those of one worker: so no table is shared, and no lock is
//! taken for a packet. A port belongs to one gateway. Records of its clients go to the gateway, by the port alone.
//! Records of the gateway go to the client that owns the receiver index, which the relay read in the client's
//! handshake. Nothing is added to a record, and nothing else is read in it.
//!
//! [`Relay::handle_run`] takes a batch of datagrams from one source, and returns [`Decisions`]: the parts of the batch
//! that go to one address each, and answers to its sender.

mod batch;
mod claims;
mod control;
mod counters;
mod ends;
mod port;
mod record;
mod withdrawn;

pub use batch::{Decisions, Reply, Run, SubRun};
pub use counters::{Counters, DropReason};
pub use ends::{INDICES_PER_CLIENT, SILENT_FOR, TAGS_PER_CLIENT};
pub use port::SEARCHES_PER_S;
pub use withdrawn::WITHDRAWN_MOST;

use crate::budget::SharedBudget;
use crate::cookie::Cookies;
use crate::hash::HashKey;
use crate::mac::{KEY_LEN, derive};
use crate::message::Message;
use crate::token::{self, TokenKeys};
use culvert_base::{BootTime, PresharedKey, TokenBucket, TokenRate, UnixTime};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayPort;
use ends::Ends;
use port::{Forwarding, Port};
use record::Record;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use withdrawn::Withdrawn;

/// Gateway ports of a relay, at most.
pub const GATEWAY_PORTS_MOST: usize = 1_024;

/// Clients at one gateway port, at most.
pub const CLIENTS_PER_PORT: usize = 16_384;

/// Refusals, and answers to strangers, of a whole relay.
pub const REFUSALS_PER_S: u32 = 1_000;

/// Challenges of a whole relay. A storm of 10,000 clients takes a second.
pub const CHALLENGES_PER_S: u32 = 20_000;

/// The interval at which ends leave whose time is over.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The two clocks: one for spans, and one for the dates of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Of the host since its start.
    pub boot: BootTime,
    /// Of the wall.
    pub unix: UnixTime,
}

/// A port that a gateway has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The port.
    pub port: u16,
    /// The gateway.
    pub gateway: GatewayId,
    /// True while the gateway itself is registered.
    pub is_gateway_registered: bool,
    /// Clients that are registered.
    pub clients: usize,
}

/// The settings of one worker's part of a relay.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Its gateway ports, by which batches name them: at most [`GATEWAY_PORTS_MOST`].
    pub ports: Vec<u16>,
    /// Clients at one port, at most [`CLIENTS_PER_PORT`].
    pub clients_per_port: usize,
    /// Workers of the relay: what is limited in all is limited to a part for each.
    pub workers: NonZeroU32,
    /// Secret and random bytes, for cookies and tables.
    pub seed: [u8; KEY_LEN],
    /// The bytes of all workers.
    pub total: Arc<SharedBudget>,
}

/// One worker's part of a relay.
pub struct Relay {
    id: Option<RelayId>,
    keys: TokenKeys,
    cookies: Cookies,
    ports: Vec<Port>,
    withdrawn: Withdrawn,
    is_draining: bool,
    total: Arc<SharedBudget>,
    limits: Limits,
    counters: Counters,
    next_sweep: BootTime,
    out: Decisions,
    control: Vec<Range<usize>>,
}

/// The limits of a whole relay.
struct Limits {
    refusal_rate: TokenRate,
    refusals: TokenBucket<BootTime>,
    challenge_rate: TokenRate,
    challenges: TokenBucket<BootTime>,
}

impl Limits {
    fn new(workers: NonZeroU32) -> Self {
        let part = |per_second: u32| {
            let rate = (per_second / workers).max(1);
            TokenRate::per_second(rate, rate)
        };
        Self {
            refusal_rate: part(REFUSALS_PER_S),
            refusals: TokenBucket::FULL,
            challenge_rate: part(CHALLENGES_PER_S),
            challenges: TokenBucket::FULL,
        }
    }
}

impl Relay {
    /// Without an identity: it registers nobody before [`Self::set_identity`].
    #[must_use]
    pub fn new(settings: RelaySettings) -> Self {
        let secret = derive(&settings.seed, &[b"culvert relay tables"]);
        let key = HashKey::new(u64::from_ne_bytes(
            *secret.first_chunk().expect("a key has 32 bytes"),
        ));
        let clients_most = settings.clients_per_port.min(CLIENTS_PER_PORT);
        let port = |number| Port {
            number,
            owner: None,
            ends: Ends::new(clients_most, key),
            searches: TokenBucket::FULL,
        };
        let numbers = settings.ports.into_iter().take(GATEWAY_PORTS_MOST);
        Self {
            id: None,
            keys: TokenKeys::default(),
            cookies: Cookies::new(settings.seed),
            ports: numbers.map(port).collect(),
            withdrawn: Withdrawn::default(),
            is_draining: false,
            total: settings.total,
            limits: Limits::new(settings.workers),
            counters: Counters::default(),
            next_sweep: BootTime::ZERO,
            out: Decisions::default(),
            control: Vec::new(),
        }
    }

    /// The portal says who the relay is, and by which key its tokens are opened. Earlier keys count on.
    ///
    /// Another identity is another portal, or another enrolment: all ends leave.
    pub fn set_identity(&mut self, relay: RelayId, key: &PresharedKey) {
        if self.id != Some(relay) {
            self.keys.clear();
            for port in &mut self.ports {
                self.counters.left += port.ends.clear();
                port.owner = None;
            }
        }
        self.id = Some(relay);
        self.keys.add(key);
    }

    /// The portal withdraws the tokens of a pair that were issued up to `until`, and all of earlier keys; without a client, those
    /// of the gateway and of all its clients.
    ///
    /// An end whose token would be refused now because its issue lies in the future leaves too: the portal's clock was set
    /// back since.
    pub fn withdraw(
        &mut self,
        gateway: GatewayId,
        client: Option<ClientId>,
        until: Timestamp,
        now: UnixTime,
    ) {
        let until = self.keys.issue_until(until);
        self.withdrawn.add(gateway, client, until);
        let of_gateway = |port: &&mut Port| port.owner.is_some_and(|(owner, _)| owner == gateway);
        for port in self.ports.iter_mut().filter(of_gateway) {
            self.counters.left += port.ends.remove_where(|end| {
                let is_meant = end.issued <= until || token::is_of_future(end.issued.at, now);
                is_meant && (client.is_none() || end.client == client)
            });
        }
    }

    /// True if new ends are refused. Those that are there stay, and register again.
    pub const fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// A batch came to the gateway port of this place in [`RelaySettings::ports`].
    pub fn handle_run(&mut self, port: usize, run: &Run<'_>, now: Now) -> &Decisions {
        self.out.clear();
        self.control.clear();
        let Some(at) = self.ports.get(port) else {
            return &self.out;
        };
        let mut from = at.ends.find(run.source);
        let mut begin = 0;
        if from.is_none() {
            begin = self.handle_stranger(port, run, now);
            from = self.ports[port].ends.find(run.source);
        }
        if let Some(from) = from.filter(|_| begin < run.bytes.len()) {
            let forwarding = Forwarding {
                port: &mut self.ports[port],
                run,
                begin,
                from,
                now: now.boot,
                total: &self.total,
                counters: &mut self.counters,
                out: &mut self.out,
                control: &mut self.control,
            };
            forwarding.forward();
            for index in 0..self.control.len() {
                let place = self.control[index].clone();
                self.handle_control(port, run, &run.bytes[place], now);
            }
        }
        &self.out
    }

    /// A batch came to the main port, where only questions for addresses are answered.
    pub fn handle_main_run(&mut self, main_port: u16, run: &Run<'_>, now: Now) -> &Decisions {
        self.out.clear();
        for record in run.records() {
            match Message::parse(record) {
                Some(Message::Ask(ask)) => self.challenge(ask, main_port, run.source, now.boot),
                Some(_) => self.counters.drop_one(DropReason::Unexpected),
                None => self.counters.drop_one(DropReason::Malformed),
            }
        }
        &self.out
    }

    /// Handles the records of a sender that is not registered, up to its registration: an end sends records at once behind
    /// it, which may come in the same batch. Returns the place of the first record behind.
    fn handle_stranger(&mut self, port: usize, run: &Run<'_>, now: Now) -> usize {
        let mut is_told = false;
        let mut begin = 0;
        for record in run.records() {
            begin += record.len();
            match Record::of(record) {
                Record::Malformed => self.counters.drop_one(DropReason::Malformed),
                Record::Control => {
                    self.handle_control(port, run, record, now);
                    if self.ports[port].ends.find(run.source).is_some() {
                        break;
                    }
                }
                _ => {
                    self.counters.drop_one(DropReason::UnknownSender);
                    if !is_told {
                        self.tell_unknown(record, now.boot);
                        is_told = true;
                    }
                }
            }
        }
        begin
    }

    /// Time passed. Ends whose time is over leave.
    pub fn handle_timeout(&mut self, now: Now) {
        if now.boot < self.next_sweep {
            return;
        }
        self.next_sweep = now.boot.saturating_add(SWEEP_EVERY);
        for port in &mut self.ports {
            self.counters.left += port.ends.expire(now.boot);
            if port.ends.is_empty() {
                port.owner = None;
            }
        }
        self.withdrawn.expire(now.unix);
    }

    /// The instant at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> BootTime {
        self.next_sweep
    }

    /// The counts since the start.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Gateways that are registered.
    #[must_use]
    pub fn gateways(&self) -> usize {
        self.ports
            .iter()
            .filter(|port| port.ends.has_gateway())
            .count()
    }

    /// Clients that are registered, over all ports.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.ports.iter().map(|port| port.ends.clients()).sum()
    }

    /// The ports that a gateway has, with their ends.
    pub fn ports(&self) -> impl Iterator<Item = PortView> {
        self.ports.iter().filter_map(|port| {
            let (gateway, _) = port.owner?;
            Some(PortView {
                port: port.number,
                gateway,
                is_gateway_registered: port.ends.has_gateway(),
                clients: port.ends.clients(),
            })
        })
    }

    /// The gateways that have a port.
    pub fn assigned(&self) -> impl Iterator<Item = RelayPort> {
        self.ports.iter().filter_map(|port| {
            let (gateway, _) = port.owner?;
            let port = port.number;
            Some(RelayPort { port, gateway })
        })
    }
}
