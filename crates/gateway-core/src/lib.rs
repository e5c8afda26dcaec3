//! The gateway without I/O: which grants are in force, and what follows for peers and packets.
//!
//! [`Gateway`] gets connections, messages, resolved names and the time through `handle_*`, and says
//! what is to be done through [`Gateway::poll_output`]. Call any `handle_*`, then
//! [`Gateway::poll_output`] until it returns `None`, and carry out the outputs in that order; then
//! sleep until [`Gateway::poll_timeout`] at the latest and call [`Gateway::handle_timeout`].
//!
//! Instants are those of the host's boot-time clock ([`BootTime`]), by which the gates of the data plane are asked too.

#![forbid(unsafe_code)]

mod clients;
mod flows;
mod grants;
mod host_addresses;
mod log;
mod log_limit;
mod messages;
mod names;
mod output;
mod persisted;
mod questions;
mod report;
mod room;
mod site_dns;
pub mod status;
mod take;
mod verify;

pub use clients::PeerUpdate;
pub use flows::MAX_WAITING_FLOWS;
pub use names::{MAX_NAMES, RESOLVE_LIMIT_MS, Resolution};
pub use output::{Ending, Output};
pub use persisted::{PersistedGrant, PersistedGrants};
pub use questions::{MAX_QUESTIONS, MAX_QUESTIONS_PER_CLIENT, MAX_WAITING_PER_CLIENT};
pub use report::{NotReady, View};
pub use site_dns::NotAsked;
pub use verify::{CLOCK_SKEW, GrantFault};

use clients::Clients;
use culvert_base::{BootTime, LogLine, LogQueue, Random, UnixTime};
use culvert_control::{ControlSession, RepeatedEvents};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId, SiteId};
use culvert_policy::Prefix;
use culvert_policy::gate::GateTable;
use culvert_wire::messages::{FromGateway, GatewayFeature, GatewayLoad, Interface, Ranges};
use culvert_wire::{Cipher, PROTOCOL, PublicKey};
use flows::Flows;
use grants::Grants;
use host_addresses::RefusedAtHost;
use log::AccessEvent;
use log_limit::LogLimit;
use names::Names;
use questions::Questions;
use site_dns::SiteQuestions;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use verify::GrantKeys;

/// How long a change waits before it is written for a restart: a change of a policy
/// comes as a burst of revocations, each of which would write all that is left.
const KEEP_DELAY: Duration = Duration::from_millis(100);

/// Who the gateway is.
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
}

/// How often the gateway did what, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants that came into force.
    pub accepted: u64,
    /// Grants that were refused.
    pub refused: u64,
    /// Grants taken back by the portal.
    pub revoked: u64,
    /// Grants that ended by time.
    pub expired: u64,
    /// Names that were not asked for, since too many of their client's were.
    pub questions_refused: u64,
    /// Names that turned out to lead out of the networks that their resource allows.
    pub names_outside: u64,
    /// Names without flows that gave way to others of their client.
    pub names_evicted: u64,
    /// Messages of the portal that broke the protocol.
    pub protocol_errors: u64,
}

/// What `welcome` told of the tunnel.
#[derive(Clone, Debug)]
struct Network {
    gateway: GatewayId,
    interface: Interface,
    /// As received, to be kept.
    ranges: Ranges,
    /// Of clients and gateways.
    machines: [Prefix; 2],
    /// Of names.
    names: [Prefix; 2],
    keys: GrantKeys,
}

/// Who wants the gateway to drain. The portal is told of the first alone: what it asked for itself ends
/// when it says so, whatever happened to the connection meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Drain {
    own: bool,
    portal: bool,
}

/// The gateway. See the [module](self) for how it is driven.
pub struct Gateway {
    options: Options,
    random: Random,
    session: ControlSession,
    network: Option<Network>,
    /// Where the portal says that it stands.
    site: Option<SiteId>,
    /// The name of that site.
    site_name: Option<String>,
    /// Resources on this machine whose grants were refused.
    refused_at_host: RefusedAtHost,
    candidates: Vec<SocketAddr>,
    drain: Drain,
    /// The portal gives it no grants until an administrator has verified it.
    verification_awaited: bool,
    grants: Grants,
    clients: Clients,
    names: Names,
    questions: Questions,
    site_questions: SiteQuestions,
    flows: Flows,
    table: GateTable,
    /// Whether the kernel's guard stands.
    is_guarded: bool,
    /// Whether the data plane has not been told of the table yet.
    is_table_new: bool,
    /// Grants that have ended or changed, and are not to come back with a restart.
    void: Vec<GrantId>,
    /// Whether what is kept over a restart is out of date.
    is_kept_stale: bool,
    /// When it is to be written then.
    keep: Option<BootTime>,
    outputs: VecDeque<Output>,
    log: LogQueue,
    counters: Counters,
    /// Lines about names that lead out of the networks of their resource.
    log_outside: LogLimit,
    /// Lines about names that gave way to others of their client.
    log_evicted: LogLimit,
    /// The time of the last search of the flows for names in use.
    looked: Option<BootTime>,
    /// They are to be looked at now.
    wants_look: bool,
    /// Lines about names whose address is another one.
    log_moved: LogLimit,
    /// Lines about the access of a client to a resource.
    log_events: RepeatedEvents<(AccessEvent, ClientId, ResourceId)>,
}

impl Gateway {
    /// A gateway that will connect at once. `seed` spreads its attempts; it is no secret.
    pub fn new(options: Options, candidates: Vec<SocketAddr>, seed: u64, now: BootTime) -> Self {
        Self {
            options,
            random: Random::new(seed),
            session: ControlSession::new(now),
            network: None,
            site: None,
            site_name: None,
            refused_at_host: RefusedAtHost::default(),
            candidates,
            drain: Drain::default(),
            verification_awaited: false,
            grants: Grants::default(),
            clients: Clients::default(),
            names: Names::default(),
            questions: Questions::default(),
            site_questions: SiteQuestions::default(),
            flows: Flows::new(seed),
            table: GateTable::new(),
            is_guarded: true,
            is_table_new: true,
            void: Vec::new(),
            is_kept_stale: false,
            keep: None,
            outputs: VecDeque::new(),
            log: LogQueue::default(),
            counters: Counters::default(),
            log_outside: LogLimit::default(),
            log_moved: LogLimit::default(),
            log_evicted: LogLimit::default(),
            log_events: RepeatedEvents::default(),
            looked: None,
            wants_look: false,
        }
    }

    /// The connection that [`Output::Connect`] asked for is there. `portal` is the portal's
    /// clock, or this machine's where the portal did not tell its own: grants end by it.
    pub fn handle_connected(&mut self, portal: UnixTime, now: BootTime) {
        if !self.session.connected(portal, now) {
            return;
        }
        let hello = FromGateway::Hello {
            protocols: vec![PROTOCOL],
            version: self.options.version.clone(),
            machine: self.options.machine.clone(),
            name: self.options.name.clone(),
            public_key: self.options.public_key,
            ciphers: self.options.ciphers.clone(),
            candidates: self.candidates.clone(),
            draining: self.drain.own,
            grants: self.grants.ids().collect(),
            features: vec![
                GatewayFeature::Flows,
                GatewayFeature::Within,
                GatewayFeature::Dns,
            ],
        };
        self.outputs.push_back(Output::ToPortal(hello));
    }

    /// The connection ended, or did not come about: `error` is for people, `retry_after_ms` the
    /// portal's word. Grants stay in force until they expire.
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
        self.finish(now);
    }

    /// Clients may reach the gateway at other addresses.
    pub fn handle_candidates(&mut self, candidates: Vec<SocketAddr>, now: BootTime) {
        if self.candidates == candidates {
            return;
        }
        self.candidates = candidates.clone();
        self.tell(FromGateway::CandidatesChanged { candidates });
        self.session.network_changed(now);
        self.finish(now);
    }

    /// How busy the data plane is; the number of clients is the core's own.
    pub fn handle_load(&mut self, load: GatewayLoad) {
        let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        self.tell(FromGateway::Load(GatewayLoad { clients, ..load }));
    }

    /// Somebody at this machine wants it to drain, or no longer.
    pub fn handle_drain(&mut self, on: bool) {
        if self.drain.own != on {
            self.drain.own = on;
            self.tell(FromGateway::Draining { on });
        }
    }

    /// The kernel's guard behind the gates is gone, or stands again. Without it nothing passes; tunnels
    /// and grants stay.
    pub fn handle_guard(&mut self, stands: bool, now: BootTime) {
        if self.is_guarded != stands {
            self.is_guarded = stands;
            self.is_table_new = true;
            self.finish(now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if self.session.is_overdue(now) {
            self.break_off("the portal did not answer hello in time", now);
        }
        self.expire_grants(now);
        self.come_due(now);
        self.renew_names(now);
        self.tell_flows(now);
        self.finish(now);
    }

    /// When [`Self::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let times = [
            self.session.next_timeout(),
            self.grants.next_expiry(),
            self.grants.next_due(),
            self.names.next_renewal(),
            self.keep,
            self.flows.next_timeout(),
        ];
        times.into_iter().flatten().min()
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The next line for the log, to be polled until there is none as well.
    pub fn poll_log(&mut self) -> Option<LogLine> {
        self.log.pop()
    }

    /// How often the gateway did what.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the session with the portal is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.session.is_open()
    }

    /// Why the last attempt or session ended.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.session.last_error.as_deref()
    }

    /// Whether it takes no new clients.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.drain.own || self.drain.portal
    }

    /// True if the portal said that the gateway waits for verification by an administrator.
    #[must_use]
    pub const fn awaits_verification(&self) -> bool {
        self.verification_awaited
    }

    /// Whether [`Self::handle_drain`] asked for it.
    #[must_use]
    pub const fn is_draining_by_itself(&self) -> bool {
        self.drain.own
    }

    /// Clients that hold a grant.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Grants in force.
    pub fn grants(&self) -> impl Iterator<Item = GrantId> {
        self.grants.ids()
    }

    /// What clients may reach, as the data plane is told.
    #[must_use]
    pub const fn table(&self) -> &GateTable {
        &self.table
    }

    /// Where clients' addresses come from.
    #[must_use]
    pub fn machine_ranges(&self) -> Vec<Prefix> {
        let network = self.network.as_ref();
        network.map_or_else(Vec::new, |network| network.machines.to_vec())
    }

    /// Who the portal says this gateway is.
    #[must_use]
    pub fn id(&self) -> Option<GatewayId> {
        self.network.as_ref().map(|network| network.gateway)
    }

    fn tell(&mut self, message: FromGateway) {
        if self.session.is_open() {
            self.outputs.push_back(Output::ToPortal(message));
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
        // Gateways are few, and without one nobody gets anywhere: they never wait long.
        self.session.hurry();
        self.flows.forget_session();
        self.forget_pending();
    }

    /// The portal will not have this gateway: nobody gets anywhere through it any more.
    fn end(&mut self, ending: Ending, now: BootTime) {
        if self.session.is_connected() {
            self.outputs.push_back(Output::Disconnect);
        }
        self.session.end(now, ending.to_string());
        self.flows.forget_session();
        self.drop_all_grants(now);
        self.outputs.push_back(Output::End(ending));
    }

    /// Does what one event may have made necessary: tells the data plane, keeps, connects.
    fn finish(&mut self, now: BootTime) {
        self.write_void();
        let peers = self.clients.take_updates();
        if self.is_table_new || !peers.is_empty() {
            self.is_table_new = false;
            let table = Arc::new(match self.is_guarded {
                true => self.table.clone(),
                false => self.table.closed(),
            });
            // Ahead of what was said meanwhile: what is accepted is in force before it is said so.
            let place = self.outputs.len() - self.acceptances_at_end();
            let engine = Output::Engine { peers, table };
            self.outputs.insert(place, engine);
        }
        if std::mem::take(&mut self.wants_look) {
            self.outputs.push_back(Output::NamesInUse);
        }
        while let Some(name) = self.questions.next() {
            self.outputs.push_back(Output::Resolve(name));
        }
        if self.is_kept_stale {
            self.is_kept_stale = false;
            self.keep.get_or_insert(now.saturating_add(KEEP_DELAY));
        }
        if self.keep.is_some_and(|due| due <= now) {
            self.keep = None;
            let kept = self.persisted().map(Box::new);
            self.outputs.extend(kept.map(Output::Persist));
        }
        if self.session.begin_attempt(now) {
            self.outputs.push_back(Output::Connect);
        }
    }

    /// Ahead of the table that goes without them, and so of what anybody notices.
    fn write_void(&mut self) {
        if !self.void.is_empty() {
            let void = Output::Void(std::mem::take(&mut self.void));
            let place = self.outputs.len() - self.acceptances_at_end();
            self.outputs.insert(place, void);
        }
    }

    /// How many of the last outputs are words to the portal.
    fn acceptances_at_end(&self) -> usize {
        let words = self.outputs.iter().rev();
        words
            .take_while(|output| matches!(output, Output::ToPortal(_)))
            .count()
    }
}
