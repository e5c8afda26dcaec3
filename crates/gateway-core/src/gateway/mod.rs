//! The gateway: its parts, and how an event goes through them.

mod devices;
mod flows;
mod grants;
mod host_addresses;
mod messages;
mod names;
mod paths;
mod persisted;
mod plain_dns;
mod report;
mod room;
mod site_dns;
mod site_names;
mod take;

pub use report::{NotReady, View};

use crate::admissions::Admissions;
use crate::counters::Counters;
use crate::data_plane::DataPlane;
use crate::dns::Dns;
use crate::endpoints::Endpoints;
use crate::flows::Flows;
use crate::grants::Grants;
use crate::journal::Journal;
use crate::network::Network;
use crate::options::Options;
use crate::output::{Ending, Output};
use crate::outputs::Outputs;
use crate::paths::Paths;
use crate::persistence::Persistence;
use crate::portal::Portal;
use culvert_base::{BootTime, LogLine, UnixTime};
use culvert_ids::{GatewayId, GrantId};
use culvert_policy::Prefix;
use culvert_policy::gate::GateTable;
use culvert_wire::PROTOCOL;
use culvert_wire::messages::{FromGateway, GRANTS_PER_PAGE, GatewayFeature, GatewayLoad};
use std::net::SocketAddr;

/// The gateway. See the [module](crate) for how it is driven.
pub struct Gateway {
    options: Options,
    portal: Portal,
    network: Option<Network>,
    grants: Grants,
    dns: Dns,
    flows: Flows,
    admissions: Admissions,
    endpoints: Endpoints,
    data_plane: DataPlane,
    paths: Paths,
    persistence: Persistence,
    outputs: Outputs,
    journal: Journal,
}

impl Gateway {
    /// A gateway that will connect at once. `seed` is secret and random.
    pub fn new(
        options: Options,
        candidates: Vec<SocketAddr>,
        seed: [u8; 32],
        now: BootTime,
    ) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        let spread = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Self {
            options,
            portal: Portal::new(candidates, spread, now),
            network: None,
            grants: Grants::default(),
            dns: Dns::new(seed),
            flows: Flows::new(spread),
            admissions: Admissions::default(),
            endpoints: Endpoints::default(),
            data_plane: DataPlane::new(),
            paths: Paths::new(seed, spread),
            persistence: Persistence::default(),
            outputs: Outputs::default(),
            journal: Journal::default(),
        }
    }

    /// The connection that [`Output::Connect`] asked for is there. `portal` is the portal's
    /// clock, or this machine's where the portal did not tell its own: grants end by it.
    pub fn handle_connected(&mut self, portal: UnixTime, now: BootTime) {
        if !self.portal.session.connected(portal, now) {
            return;
        }
        let candidates = self.candidates();
        self.portal.told_candidates.clone_from(&candidates);
        let grants: Vec<GrantId> = self.grants.ids().collect();
        let mut pages = grants.chunks(GRANTS_PER_PAGE).map(<[GrantId]>::to_vec);
        let first = pages.next().unwrap_or_default();
        let hello = FromGateway::Hello {
            protocols: vec![PROTOCOL],
            version: self.options.version.clone(),
            machine: self.options.machine.clone(),
            name: self.options.name.clone(),
            public_key: self.options.public_key,
            ciphers: self.options.ciphers.clone(),
            candidates,
            draining: self.portal.drain.own,
            more_grants: grants.len() > first.len(),
            grants: first,
            features: vec![
                GatewayFeature::Flows,
                GatewayFeature::Within,
                GatewayFeature::Dns,
                GatewayFeature::Portals,
                GatewayFeature::Relays,
                GatewayFeature::GrantPages,
                GatewayFeature::PlainDns,
                GatewayFeature::DeviceEndpoints,
                GatewayFeature::SiteNames,
                GatewayFeature::AdmittedDns,
            ],
        };
        self.outputs.push(Output::ToPortal(hello));
        let mut pages = pages.peekable();
        while let Some(grants) = pages.next() {
            let more = pages.peek().is_some();
            let page = FromGateway::GrantsHeld { grants, more };
            self.outputs.push(Output::ToPortal(page));
        }
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
        if self.portal.candidates == candidates {
            return;
        }
        self.portal.candidates = candidates;
        let candidates = self.candidates();
        self.portal.told_candidates.clone_from(&candidates);
        self.tell(FromGateway::CandidatesChanged { candidates });
        self.paths.handle_network_changed(now);
        self.portal.session.network_changed(now);
        self.finish(now);
    }

    /// The load of the data plane; the number of clients is the core's own.
    pub fn handle_load(&mut self, load: GatewayLoad) {
        let clients = u32::try_from(self.data_plane.clients().with_grants()).unwrap_or(u32::MAX);
        self.tell(FromGateway::Load(GatewayLoad { clients, ..load }));
    }

    /// Somebody at this machine wants it to drain, or no longer.
    pub fn handle_drain(&mut self, on: bool) {
        if self.portal.drain.own != on {
            self.portal.drain.own = on;
            self.tell(FromGateway::Draining { on });
        }
    }

    /// The kernel's guard behind the gates is gone, or stands again. Without it nothing passes; tunnels
    /// and grants stay.
    pub fn handle_guard(&mut self, stands: bool, now: BootTime) {
        if self.data_plane.handle_guard(stands) {
            self.finish(now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if self.portal.session.is_overdue(now) {
            self.break_off("the portal did not answer hello in time", now);
        }
        self.expire_grants(now);
        self.expire_admissions(now);
        self.tell_endpoints(now);
        self.come_due(now);
        self.renew_names(now);
        self.plain_queries_due(now);
        self.paths.handle_timeout(now);
        self.tell_flows(now);
        self.finish(now);
    }

    /// The time at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let times = [
            self.portal.session.next_timeout(),
            self.grants.held.next_due(),
            self.grants.pending.next_due(),
            self.grants.backlog.due(),
            self.dns.names.next_renewal(),
            self.dns.plain.next_due(),
            self.persistence.next_timeout(),
            self.flows.next_timeout(),
            self.admissions.next_timeout(),
            self.endpoints.next_timeout(),
            self.paths.poll_timeout(),
        ];
        times.into_iter().flatten().min()
    }

    /// The next output; none until something happens.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    /// The next line for the log, to be polled until there is none as well.
    pub fn poll_log(&mut self) -> Option<LogLine> {
        self.journal.log.pop()
    }

    /// Counts of the gateway's actions.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.journal.counters
    }

    /// True if the session with the portal is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.portal.session.is_open()
    }

    /// The reason for the end of the last attempt or session.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.portal.session.last_error.as_deref()
    }

    /// True if it takes no new clients.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.portal.is_draining()
    }

    /// True if the portal said that the gateway waits for verification by an administrator.
    #[must_use]
    pub const fn awaits_verification(&self) -> bool {
        self.portal.verification_awaited
    }

    /// True if [`Self::handle_drain`] asked for it.
    #[must_use]
    pub const fn is_draining_by_itself(&self) -> bool {
        self.portal.drain.own
    }

    /// Clients that hold a grant.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.data_plane.clients().with_grants()
    }

    /// Grants in force.
    pub fn grants(&self) -> impl Iterator<Item = GrantId> {
        self.grants.ids()
    }

    /// Grants that wait for their turn.
    #[must_use]
    pub fn waiting_grants(&self) -> usize {
        self.grants.backlog.len()
    }

    /// The destinations that clients may reach, as the data plane is told.
    #[must_use]
    pub const fn table(&self) -> &GateTable {
        self.data_plane.table()
    }

    /// The ranges of clients' addresses.
    #[must_use]
    pub fn machine_ranges(&self) -> Vec<Prefix> {
        let network = self.network.as_ref();
        network.map_or_else(Vec::new, |network| network.machines.to_vec())
    }

    /// The id that the portal gave this gateway; none before it has said so.
    #[must_use]
    pub fn id(&self) -> Option<GatewayId> {
        self.network.as_ref().map(|network| network.gateway)
    }

    fn tell(&mut self, message: FromGateway) {
        if self.portal.session.is_open() {
            self.outputs.push(Output::ToPortal(message));
        }
    }

    /// The portal broke the protocol, or is silent where it must not be.
    fn break_off(&mut self, why: &str, now: BootTime) {
        self.journal.counters.protocol_errors += 1;
        self.outputs.push(Output::Disconnect);
        self.lose_session(Some(why.to_owned()), None, now);
    }

    fn lose_session(&mut self, error: Option<String>, retry_after_ms: Option<u64>, now: BootTime) {
        self.portal.lose(error, retry_after_ms, now);
        self.flows.forget_session();
        self.endpoints.forget_session();
        self.admissions.forget_session(now);
        self.forget_pending();
        self.end_site_names(now);
    }

    /// The portal will not have this gateway: nobody gets anywhere through it any more.
    fn end(&mut self, ending: Ending, now: BootTime) {
        if self.portal.session.is_connected() {
            self.outputs.push(Output::Disconnect);
        }
        self.portal.session.end(now, ending.to_string());
        self.flows.forget_session();
        self.endpoints.forget_session();
        self.end_site_names(now);
        self.drop_all_grants(now);
        self.outputs.push(Output::End(ending));
    }

    /// Queues the outputs that an event made necessary: voids, tables, state to persist, connects.
    fn finish(&mut self, now: BootTime) {
        self.take_turn(now);
        // Ahead of the table without these grants, and so of any effect that a client notices.
        if let Some(void) = self.persistence.poll_void() {
            self.outputs.push_before_acceptances(Output::Void(void));
        }
        if let Some((peers, table)) = self.data_plane.poll_update() {
            self.follow_peers(&peers, now);
            let engine = Output::Engine { peers, table };
            self.outputs.push_before_acceptances(engine);
        }
        if let Some(sources) = self.data_plane.poll_inbound() {
            let output = Output::Inbound(sources);
            self.outputs.push_before_acceptances(output);
        }
        self.drive_paths(now);
        if std::mem::take(&mut self.dns.wants_look) {
            self.outputs.push(Output::NamesInUse);
        }
        while let Some(name) = self.dns.questions.next() {
            self.outputs.push(Output::Resolve(name));
        }
        if self.persistence.poll_due(now)
            && let Some(changes) = self.take_changes()
        {
            self.outputs.push(Output::Persist(Box::new(changes)));
        }
        if self.portal.session.begin_attempt(now) {
            self.outputs.push(Output::Connect);
        }
    }
}
