//! The client without I/O: what it asks of the portal, which gateway a packet goes to, what waits.
//!
//! [`Client`] gets connections, messages, packets without a route, DNS queries, what is known of peers
//! and the time through `handle_*`, and says what is to be done through [`Client::poll_output`]. Call
//! any `handle_*`, then [`Client::poll_output`] until it returns `None`, and carry out the outputs in
//! that order; then sleep until [`Client::poll_timeout`] at the latest and call
//! [`Client::handle_timeout`]. At [`Client::poll_report`], tell it of the peers.
//!
//! Instants are those of the host's boot-time clock ([`BootTime`]), random numbers come from a seed. A packet is
//! whatever its owner keeps (`P`): the core looks at its [`PacketFacts`] alone and gives it back.
//!
//! What has no live grant has no route to a gateway: the data plane's ranges are derived from the
//! grants after every event, and what belongs to a narrower resource is cut out of a wider one.

#![forbid(unsafe_code)]

mod access;
mod answers;
mod asking;
mod directory;
mod domains;
mod gateways;
mod guard;
mod log;
mod messages;
mod names;
mod os_release;
mod output;
mod packet;
mod packets;
mod peers;
mod report;
mod same_target;
mod service_routes;
pub mod status;
mod subtract;

pub use access::{
    DENIAL_SHOWN_MS, MAX_DENIAL_MS, MAX_HELD_PER_RESOURCE, MAX_NAMES_PER_GRANT, MAX_WANTED_NAMES,
    MIN_DENIAL_MS,
};
pub use asking::{ANSWER_LIMIT_MS, MAX_ACCESSES, MAX_IN_FLIGHT, OFFLINE_LIMIT_MS};
pub use culvert_control::HELLO_LIMIT_MS;
pub use directory::{MAX_RESOURCES, MAX_SAME_TARGET};
pub use domains::{Domains, MAX_DOMAINS};
pub use gateways::{AVOID_MS, PeerReport};
pub use guard::GuardRules;
pub use names::DNS_PORT;
pub use os_release::{MAX_OS_RELEASE_LEN, parse_os_release};
pub use output::{Ending, Output, Peer, PeerUpdate};
pub use packet::{PacketFacts, PacketRefusal};
pub use packets::MAX_HELD_BYTES;
pub use peers::MAX_RANGES;

use access::{Access, Held};
use culvert_base::{BootTime, LogLine, LogQueue, Random, UnixTime};
use culvert_control::{ControlSession, RepeatedEvents};
use culvert_dns::Stub;
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use culvert_policy::conditions::OperatingSystem;
use culvert_policy::{DnsRules, DomainName, Prefix, RoutedServices};
use culvert_wire::messages::{ClientFeature, FromClient, Interface};
use culvert_wire::{Cipher, PROTOCOL, PublicKey};
use directory::Directory;
use gateways::Gateway;
use guard::Guard;
use log::LogEvent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Who the client is and how it answers names.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// What people call it.
    pub name: String,
    /// Its software version.
    pub version: String,
    /// Its key.
    pub public_key: PublicKey,
    /// Suites that its processor does fast.
    pub ciphers: Vec<Cipher>,
    /// Where DNS queries come in, besides the tunnel's own addresses.
    pub dns_listen: Vec<SocketAddr>,
    /// Resolvers for names that are no resource.
    pub dns_upstreams: Vec<SocketAddr>,
    /// Whether the system is to ask here for every name, where it could ask for some alone.
    pub asks_all: bool,
    /// The portal's name, which is never a resource: without it there is nobody to ask for access.
    pub portal: Option<DomainName>,
}

/// How often the client did what, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent to the portal.
    pub requests: u64,
    /// Grants received.
    pub granted: u64,
    /// Requests denied.
    pub denied: u64,
    /// Requests that nobody answered in time.
    pub unanswered: u64,
    /// Grants taken back.
    pub revoked: u64,
    /// Gateways lost, by the portal's word or by silence.
    pub gateways_lost: u64,
    /// Packets without a route that came in.
    pub packets: u64,
    /// Packets that went on once they had a route.
    pub packets_resumed: u64,
    /// Packets whose senders heard that they go nowhere.
    pub packets_refused: u64,
    /// Packets that a gateway did not let pass, and said so.
    pub packets_refused_by_gateway: u64,
    /// Packets that gave way to newer ones while they waited, or came before the rule about
    /// applications that holds for them.
    pub packets_displaced: u64,
    /// Messages of the portal that broke the protocol.
    pub protocol_errors: u64,
    /// DNS queries.
    pub dns_queries: u64,
    /// DNS queries and answers that were dropped.
    pub dns_dropped: u64,
}

/// What `welcome` told of the tunnel.
#[derive(Clone, Debug)]
struct Network {
    client: ClientId,
    interface: Interface,
    /// Machines' and names' ranges: no resource is there.
    own: Vec<Prefix>,
    names: culvert_dns::Ranges,
    grant_lifetime: Duration,
}

/// The client. See the [module](self) for how it is driven.
pub struct Client<P> {
    options: Options,
    os: Option<OperatingSystem>,
    random: Random,
    dns_seed: [u8; 32],
    /// The search domains of the machine.
    dns_search: Vec<DomainName>,
    session: ControlSession,
    network: Option<Network>,
    directory: Directory,
    accesses: BTreeMap<ResourceId, Access<P>>,
    /// When each access is to be looked at; the same instants as in the accesses.
    timers: BTreeSet<(BootTime, ResourceId)>,
    /// Which access a grant belongs to, successors included.
    grants: BTreeMap<GrantId, ResourceId>,
    /// Accesses whose request waits to be sent.
    queue: VecDeque<ResourceId>,
    /// Requests sent and not answered.
    in_flight: BTreeMap<u64, ResourceId>,
    last_request: u64,
    gateways: BTreeMap<GatewayId, Gateway>,
    /// Gateways that did not answer, and until when they are avoided.
    avoid: BTreeMap<GatewayId, BootTime>,
    /// What the data plane was last told.
    applied: BTreeMap<PublicKey, Peer>,
    /// What the data plane routes, from `applied`.
    routed: BTreeMap<Prefix, GatewayId>,
    /// Of what is routed, the ranges whose route is for some services alone.
    services: BTreeMap<Prefix, RoutedServices>,
    /// Which programs may send where.
    guard: Guard,
    /// Whether `applied` may be out of date.
    is_stale: bool,
    routes: BTreeSet<Prefix>,
    /// The account's rules about names.
    dns_rules: DnsRules,
    /// Which names the system was told to ask here, and how short ones are completed.
    domains: Option<(Domains, Vec<DomainName>)>,
    /// Packets that go on with the next change of the data plane.
    resuming: Vec<Held<P>>,
    held_bytes: usize,
    stub: Option<Stub>,
    /// When names in use were last kept.
    names_kept: BootTime,
    /// When resources with the target of one in use are asked for next.
    same_target_due: BootTime,
    outputs: VecDeque<Output<P>>,
    log: LogQueue,
    counters: Counters,
    log_events: RepeatedEvents<LogEvent>,
}

impl<P> Client<P> {
    /// A client that will connect at once. `seed` is 32 random bytes.
    pub fn new(options: Options, seed: [u8; 32], now: BootTime) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        Self {
            options,
            os: None,
            random: Random::new(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            dns_seed: seed,
            dns_search: Vec::new(),
            session: ControlSession::new(now),
            network: None,
            directory: Directory::default(),
            accesses: BTreeMap::new(),
            timers: BTreeSet::new(),
            grants: BTreeMap::new(),
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            last_request: 0,
            gateways: BTreeMap::new(),
            avoid: BTreeMap::new(),
            applied: BTreeMap::new(),
            routed: BTreeMap::new(),
            services: BTreeMap::new(),
            guard: Guard::default(),
            is_stale: false,
            routes: BTreeSet::new(),
            dns_rules: DnsRules::default(),
            domains: None,
            resuming: Vec::new(),
            held_bytes: 0,
            stub: None,
            names_kept: now,
            same_target_due: now,
            outputs: VecDeque::new(),
            log: LogQueue::default(),
            counters: Counters::default(),
            log_events: RepeatedEvents::default(),
        }
    }

    /// The connection that [`Output::Connect`] asked for is there. `portal` is the portal's
    /// clock, or this machine's where the portal did not tell its own: grants end by it.
    pub fn handle_connected(&mut self, portal: UnixTime, now: BootTime) {
        if !self.session.connected(portal, now) {
            return;
        }
        self.outputs.push_back(Output::ToPortal(FromClient::Hello {
            protocols: vec![PROTOCOL],
            version: self.options.version.clone(),
            machine: self.options.machine.clone(),
            name: self.options.name.clone(),
            public_key: self.options.public_key,
            ciphers: self.options.ciphers.clone(),
            features: vec![ClientFeature::Applications, ClientFeature::Dns],
            os: self.os.clone(),
        }));
    }

    /// The operating system of this machine, to be told to the portal with the next session.
    pub fn set_operating_system(&mut self, os: OperatingSystem) {
        self.os = Some(os);
    }

    /// The connection ended, or did not come about: `error` is for people, `retry_after_ms` the
    /// portal's word.
    pub fn handle_disconnected(
        &mut self,
        error: String,
        retry_after_ms: Option<u64>,
        now: BootTime,
    ) {
        self.lose_session(Some(error), retry_after_ms, now);
        self.finish(now);
    }

    /// The portal refused the token before there was a session: another attempt ends alike.
    pub fn handle_unauthorized(&mut self, why: String, now: BootTime) {
        self.end(Ending::NotEnrolled(why), now);
    }

    /// The host's network is another: paths are tried again, and so is the portal.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        self.session.network_changed(now);
        self.race_again(now);
        self.connect_if_due(now);
        self.finish(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if self.session.is_overdue(now) {
            self.break_off("the portal did not answer hello in time", now);
        }
        self.handle_due_accesses(now);
        if let Some(stub) = &mut self.stub {
            stub.handle_timeout(now);
        }
        self.connect_if_due(now);
        self.finish(now);
    }

    /// When [`Self::handle_timeout`] has something to do. [`Self::poll_report`] tells another time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let access = self.timers.first().map(|(due, _)| *due);
        let stub = self.stub.as_ref().and_then(Stub::poll_timeout);
        let session = self.session.next_timeout();
        [access, stub, session].into_iter().flatten().min()
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// The next line for the log, to be polled until there is none as well.
    pub fn poll_log(&mut self) -> Option<LogLine> {
        self.log.pop()
    }

    /// How often the client did what.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the session with the portal is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.session.is_open()
    }

    fn connect_if_due(&mut self, now: BootTime) {
        if self.session.begin_attempt(now) {
            self.outputs.push_back(Output::Connect);
        }
    }

    /// The portal broke the protocol, or is silent where it must not be.
    fn break_off(&mut self, why: &str, now: BootTime) {
        self.counters.protocol_errors += 1;
        self.outputs.push_back(Output::Disconnect);
        self.lose_session(Some(why.to_owned()), None, now);
    }

    fn lose_session(&mut self, error: Option<String>, retry_after_ms: Option<u64>, now: BootTime) {
        let random = [self.random.next(), self.random.next()];
        self.session.lost(error, retry_after_ms, random, now);
        self.requeue_asks(now);
    }

    fn end(&mut self, ending: Ending, now: BootTime) {
        let why = match &ending {
            Ending::NotEnrolled(why) | Ending::Denied(why) | Ending::Failed(why) => why.clone(),
        };
        if self.session.is_connected() {
            self.outputs.push_back(Output::Disconnect);
        }
        self.session.end(now, why);
        self.outputs.push_back(Output::End(ending));
    }

    /// Does what one event may have made necessary for all: send requests, tell the data plane.
    fn finish(&mut self, now: BootTime) {
        self.drain_stub(now);
        self.apply(now);
        self.send_asks(now);
        self.drain_stub(now);
        self.connect_if_due(now);
    }
}
