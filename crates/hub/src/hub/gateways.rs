//! Gateways that come, what they say, and which of them a client is given.

use super::Hub;
use super::asks::Pair;
use super::no_gateway::NoGateway;
use super::site_names::NameQuestion;
use crate::directory::Barred;
use crate::endpoints::SessionDevices;
use crate::grants::Stage;
use crate::limits::{CLOCK_RECHECK_MS, MAX_GRANTS_PER_GATEWAY};
use crate::output::SessionId;
use crate::reasons::{self, StatedReason};
use crate::session::{Announced, GatewaySession, Load};
use crate::sessions::Party;
use crate::timers::Timer;
use culvert_base::LogLine;
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId, TokenId};
use culvert_store::{Decision, Gateway, TokenScope};
use culvert_wire::messages::{
    FromGateway, GRANTS_PER_PAGE, GatewayFeature, Interface, Reason, ReasonCode, ToClient,
    ToGateway,
};
use culvert_wire::{Cipher, PROTOCOL, PublicKey, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A gateway that has said hello, with a token that was accepted, and was enrolled.
#[derive(Clone, Debug)]
pub struct GatewayJoin {
    /// The client's id.
    pub gateway: GatewayId,
    /// The token that it came with.
    pub token: TokenId,
    /// The key that it said.
    pub public_key: PublicKey,
    /// The suites that it does fast.
    pub ciphers: Vec<Cipher>,
    /// The addresses at which clients may reach it.
    pub candidates: Vec<SocketAddr>,
    /// It takes no new clients.
    pub draining: bool,
    /// Grants that it holds.
    pub grants: Vec<GrantId>,
    /// It is going to name more of them.
    pub more_grants: bool,
    /// Optional features that it supports.
    pub features: Vec<GatewayFeature>,
}

impl Hub {
    /// A gateway has connected. The changes that its enrolment made have to be in already.
    pub fn handle_gateway_joined(&mut self, session: SessionId, join: GatewayJoin, now: Timestamp) {
        let epoch = self.random.epoch();
        self.outbox.open_gateway(session, epoch);
        let gateway = match self.admit_gateway(&join, now) {
            Ok(gateway) => gateway,
            Err(barred) => {
                self.refuse_gateway(session, reasons::not_admitted(barred));
                return;
            }
        };
        let before = self.sessions.gateways.get(gateway.id);
        let before = before.map(|session| session.announced.candidates().to_vec());
        let interrupted = self.take_over(gateway.id);
        self.stop_expecting(gateway.id);
        self.asks.queues.begin(gateway.id);
        let announced =
            Announced::new(join.ciphers, join.candidates, join.draining, &join.features);
        // Before the session is there: `welcome` is the first that it hears.
        let held = join.grants.into_iter().take(MAX_GRANTS_PER_GATEWAY);
        let held: BTreeSet<GrantId> = held.collect();
        let unnamed = self.prune(gateway.id, &held, announced.max_grants(), now);
        let unconfirmed = match join.more_grants {
            true => Some(unnamed),
            false => {
                self.end_unheld(unnamed, now);
                None
            }
        };
        if let Some(expires) = self
            .directory
            .token(join.token)
            .and_then(|token| token.expires)
        {
            self.timers.set(expires, Timer::Token(join.token));
        }
        let joined = GatewaySession {
            id: session,
            since: now,
            token: join.token,
            told_draining: gateway.draining,
            verification: self.verification_of(gateway.id),
            announced,
            load: Load::default(),
            reached: BTreeMap::new(),
            nat: None,
            unconfirmed,
            devices: SessionDevices::default(),
        };
        let tells_flows = joined.may_tell_flows();
        self.sessions.join_gateway(gateway.id, joined);
        self.welcome_gateway(session, &gateway, now);
        if tells_flows {
            self.tell_flow_log(session);
        }
        self.list_admitted(gateway.id);
        self.tell_clients_of_move(gateway.id, before.as_deref());
        self.tell_all_candidates(gateway.id);
        self.review_relays(gateway.id, true, now);
        for pair in interrupted {
            self.retry_offer(pair, gateway.id, true, now);
        }
        self.serve_waiting(Some(gateway.id), now);
        self.review_standing_of(gateway.id, now);
        self.finish(now);
    }

    /// A gateway said something.
    pub fn handle_gateway_message(
        &mut self,
        session: SessionId,
        message: FromGateway,
        now: Timestamp,
    ) {
        let Some(Party::Gateway(id)) = self.sessions.party(session) else {
            return;
        };
        let Some(gateway) = self.sessions.gateways.get_mut(id) else {
            return;
        };
        match message {
            FromGateway::Hello { .. } => self.misbehaved(session, now),
            FromGateway::GrantsHeld { grants, more } => self.note_held(id, &grants, more, now),
            FromGateway::GrantAccepted { grant, names } => {
                self.offer_accepted(id, grant, &names, now);
            }
            FromGateway::GrantRefused { grant, reason } => {
                self.grant_refused(id, grant, reason, now);
            }
            FromGateway::Load(load) => {
                gateway.load.report(load);
                self.count_traffic(id, load.rate_bytes_per_s, now);
            }
            FromGateway::Flows(report) => self.take_flows(id, &report, now),
            FromGateway::CandidatesChanged { candidates } => {
                let before = gateway.announced.replace_candidates(candidates);
                self.tell_clients_of_move(id, Some(&before));
            }
            FromGateway::RelaysReached { relays } => self.note_reached_by_gateway(id, relays),
            FromGateway::Draining { on } => gateway.announced.draining = on,
            FromGateway::NatFound { mapping } => gateway.nat = Some(mapping),
            FromGateway::DeviceEndpoints { devices, more } => {
                self.note_endpoints(id, devices, more, now);
            }
            FromGateway::AskName {
                ask,
                client,
                resource,
                name,
            } => {
                let question = NameQuestion {
                    ask,
                    client,
                    resource,
                    name,
                };
                self.ask_name(id, question, now);
            }
            FromGateway::NameAnswered { ask, answer } => self.name_answered(id, ask, answer),
            FromGateway::Unsupported { kind } => {
                let line = LogLine::debug("the gateway does not know a message")
                    .with("gateway", id)
                    .with_text("kind", &kind);
                self.outbox.push_line(line);
            }
        }
        self.finish(now);
    }

    /// Tells its clients where a gateway is now, unless that is where it was `before`.
    fn tell_clients_of_move(&mut self, id: GatewayId, before: Option<&[SocketAddr]>) {
        let Some(session) = self.sessions.gateways.get(id) else {
            return;
        };
        let candidates = session.announced.candidates().to_vec();
        if before == Some(&candidates[..]) || !self.shows_addresses() {
            return;
        }
        for client in self.clients_through(id) {
            let moved = ToClient::GatewayMoved {
                gateway: id,
                candidates: candidates.clone(),
            };
            self.send_client(client, moved);
        }
    }

    /// The best gateway of the site for a grant. The first choice is the one through which the client has
    /// the resource already, so that no renewal cuts a flow. Then come, in this order, a gateway that serves
    /// the client, one that takes the offer now, the one that is expected to be least busy, the one with fewest clients,
    /// the smallest id.
    ///
    /// A gateway that drains is given only to renew a grant through it, and only if there is no other.
    pub(super) fn choose(
        &self,
        (client, resource): Pair,
        avoid: &BTreeSet<GatewayId>,
    ) -> Result<GatewayId, NoGateway> {
        let Some(row) = self.directory.resource(resource) else {
            return Err(NoGateway::Absent);
        };
        let (mut best, mut is_busy) = (None, false);
        let (mut is_outdated, mut is_unverified, mut is_unrelayed) = (false, false, false);
        let mut is_verified = |id: &GatewayId| {
            let may_serve = self.directory.may_serve(*id);
            is_unverified |= !may_serve;
            may_serve
        };
        let mut is_capable = |id: &GatewayId| {
            let session = self.sessions.gateways.get(*id);
            let keeps = session.map(|session| session.announced.keeps_within);
            let is_capable = row.within.is_none() || keeps == Some(true);
            is_outdated |= !is_capable;
            is_capable
        };
        // The file of a plain device has the keys of these alone.
        let plain = self.directory.client(client).filter(|row| row.is_plain());
        let present = self.directory.gateways_of(row.parsed.site).filter(|id| {
            plain.is_none_or(|row| row.gateways.contains(id))
                && !avoid.contains(id)
                && !self.sessions.gateways.is_leaving(*id)
                && self.sessions.gateways.contains(*id)
                && self.directory.admit_gateway(*id).is_ok()
        });
        let present = present.filter(&mut is_verified);
        let present = present.filter(&mut is_capable).filter(|id| {
            let is_reached = self.is_reached(*id, client);
            is_unrelayed |= !is_reached;
            is_reached
        });
        let present: Vec<GatewayId> = present.collect();
        let renewed = self.grants.current(client, resource);
        let renewed = renewed.map(|grant| grant.row.gateway);
        for &id in present.iter().filter(|id| !self.is_draining(**id)) {
            let count = self.grants.count(id);
            let session = self.sessions.gateways.get(id);
            if session.is_none_or(|session| count.grants >= session.announced.max_grants()) {
                is_busy = true;
                continue;
            }
            let expected = session.map(|session| session.load.expected_permille());
            let serves = self.grants.serves(id, client);
            let has_to_wait = !self.asks.queues.has_room(id, count.offers);
            let rank = (
                renewed != Some(id),
                !serves,
                has_to_wait,
                expected,
                count.clients,
                id,
            );
            best = best.into_iter().chain([rank]).min();
        }
        if let Some((.., id)) = best {
            return Ok(id);
        }
        match renewed.filter(|id| present.contains(id)) {
            Some(id) => Ok(id),
            None if is_outdated && present.is_empty() => Err(NoGateway::Outdated),
            None if is_busy => Err(NoGateway::Busy),
            None if is_unverified && present.is_empty() => Err(NoGateway::Unverified),
            None if is_unrelayed && present.is_empty() => Err(NoGateway::Unrelayed),
            None => Err(NoGateway::Absent),
        }
    }

    pub(super) fn is_draining(&self, id: GatewayId) -> bool {
        self.directory.gateway(id).is_none_or(|row| row.draining)
            || self
                .sessions
                .gateways
                .get(id)
                .is_none_or(|session| session.announced.draining)
    }

    /// A gateway is gone: grants through it are void, and offers that it had not answered go to other
    /// gateways.
    pub(super) fn lose_gateway(&mut self, gateway: GatewayId, now: Timestamp) {
        self.stop_expecting(gateway);
        self.endpoints.forget_gateway(gateway);
        let lost = StatedReason::plain(ReasonCode::NoGateway, "the gateway is gone");
        self.void_grants_through(gateway, &lost, Decision::Ended, now);
    }

    /// Tells a connected gateway that all its grants end.
    pub(super) fn revoke_grants_through(&mut self, gateway: GatewayId) {
        let Some(session) = self.sessions.gateways.session(gateway) else {
            return;
        };
        for grant in self.grants_of_gateway(gateway) {
            self.outbox
                .tell_gateway(session, ToGateway::Revoke { grant });
        }
    }

    /// Forgets all grants through a gateway: its clients are told that it is lost, and what it had not
    /// answered is offered to others.
    pub(super) fn void_grants_through(
        &mut self,
        gateway: GatewayId,
        refusal: &StatedReason,
        decision: Decision,
        now: Timestamp,
    ) {
        let clients = self.clients_through(gateway);
        // One word for all of its clients.
        self.forget_relays_of(gateway);
        let mut offered = Vec::new();
        for id in self.grants_of_gateway(gateway) {
            let Some(grant) = self.drop_grant(id) else {
                continue;
            };
            match grant.stage {
                Stage::Offered => offered.push((grant.row.client, grant.row.resource)),
                Stage::Current | Stage::Leftover => {
                    self.counters.revoked += u64::from(decision == Decision::Revoked);
                    self.log_end(&grant.row, refusal, decision, now);
                }
            }
        }
        for client in clients {
            self.send_client(client, ToClient::GatewayLost { gateway });
        }
        for pair in offered {
            self.retry_offer(pair, gateway, false, now);
        }
    }

    pub(super) fn grants_of_gateway(&self, gateway: GatewayId) -> Vec<GrantId> {
        let grants = self.grants.of_gateway(gateway);
        grants.map(|grant| grant.row.id).collect()
    }

    pub(super) fn send_client(&mut self, client: ClientId, message: ToClient) {
        if let Some(session) = self.sessions.clients.get(client) {
            self.outbox.tell_client(session.id, message);
        }
    }

    fn admit_gateway(&self, join: &GatewayJoin, now: Timestamp) -> Result<Gateway, Barred> {
        let token = self.directory.admit_token(join.token, now)?;
        let gateway = self.directory.admit_gateway(join.gateway)?;
        let TokenScope::Gateway { site } = token.scope else {
            return Err(Barred::Token);
        };
        if site != gateway.site {
            return Err(Barred::Token);
        }
        // The change that gave it this key is yet to come.
        if gateway.public_key != join.public_key {
            return Err(Barred::Unknown);
        }
        Ok(gateway.clone())
    }

    /// Ends an older session of the gateway without calling the gateway lost. Returns the
    /// pairs whose offers it had not answered.
    fn take_over(&mut self, gateway: GatewayId) -> Vec<Pair> {
        let Some(old) = self.sessions.gateways.session(gateway) else {
            return Vec::new();
        };
        self.sessions.remove(old);
        self.refuse_gateway(old, reasons::replaced());
        let mut interrupted = Vec::new();
        for id in self.grants_of_gateway(gateway) {
            let offered = self.grants.get(id);
            if offered.is_some_and(|grant| grant.stage == Stage::Offered)
                && let Some(grant) = self.drop_grant(id)
            {
                interrupted.push((grant.row.client, grant.row.resource));
            }
        }
        interrupted
    }

    fn welcome_gateway(&mut self, session: SessionId, gateway: &Gateway, now: Timestamp) {
        let mut refiltered = BTreeSet::new();
        let mut retained = Vec::new();
        for grant in self.grants.of_gateway(gateway.id) {
            retained.push(grant.row.id);
            if self.was_refiltered(grant.row.resource, grant.row.issued) {
                refiltered.insert(grant.row.resource);
            }
        }
        let mut pages = retained.chunks(GRANTS_PER_PAGE).map(<[GrantId]>::to_vec);
        let first = pages.next().unwrap_or_default();
        let welcome = ToGateway::Welcome {
            protocol: PROTOCOL,
            gateway: gateway.id,
            site: Some(gateway.site),
            site_name: self.directory.site_name(gateway.site).map(str::to_owned),
            interface: Interface {
                ipv4: gateway.ipv4,
                ipv6: gateway.ipv6,
            },
            ranges: self.directory.settings().ranges.clone(),
            grant_keys: self.signer.public_keys(),
            more_grants: retained.len() > first.len(),
            grants: first,
            draining: gateway.draining,
            verification_awaited: !self.directory.may_serve(gateway.id),
            portals: self.portals.clone(),
        };
        self.outbox.tell_gateway(session, welcome);
        let mut pages = pages.peekable();
        while let Some(grants) = pages.next() {
            let more = pages.peek().is_some();
            self.outbox
                .tell_gateway(session, ToGateway::GrantsRetained { grants, more });
        }
        for resource in refiltered {
            self.send_filters(gateway.id, resource);
        }
        self.sign_anew(gateway.id, now);
    }

    /// Replaces grants whose claims may be out of date. A leftover ends instead.
    fn sign_anew(&mut self, gateway: GatewayId, now: Timestamp) {
        let doubtful = self.grants.of_gateway(gateway);
        let doubtful: Vec<_> = doubtful
            .filter(|grant| grant.needs_recheck)
            .map(|grant| {
                (
                    grant.row.id,
                    grant.row.client,
                    grant.row.resource,
                    grant.stage,
                )
            })
            .collect();
        for (id, client, resource, stage) in doubtful {
            if stage == Stage::Current {
                self.shorten((client, resource), now);
                continue;
            }
            let text = "the portal does not know any more what it allowed";
            let refusal = StatedReason::plain(ReasonCode::PolicyChanged, text);
            self.end_grant(id, &refusal, Decision::Ended, now);
        }
    }

    /// True if the resource may have got other filters since the grant was signed.
    fn was_refiltered(&self, resource: ResourceId, issued: Timestamp) -> bool {
        self.directory.resource(resource).is_some_and(|row| {
            row.updated.unix_ms().saturating_add(CLOCK_RECHECK_MS) >= issued.unix_ms()
        })
    }

    pub(super) fn send_filters(&mut self, gateway: GatewayId, resource: ResourceId) {
        let (Some(row), Some(session)) = (
            self.directory.resource(resource),
            self.sessions.gateways.get(gateway),
        ) else {
            return;
        };
        let changed = ToGateway::FiltersChanged {
            resource,
            filters: row.shown.filters.clone(),
            inbound: row.shown.inbound.clone(),
        };
        self.outbox.tell_gateway(session.id, changed);
    }

    /// A gateway may also give up a grant that it had accepted.
    fn grant_refused(&mut self, gateway: GatewayId, id: GrantId, reason: Reason, now: Timestamp) {
        let held = self
            .grants
            .get(id)
            .filter(|grant| grant.row.gateway == gateway);
        match held.map(|grant| grant.stage) {
            Some(Stage::Current | Stage::Leftover) => {
                let full = format!("the gateway gave the grant up: {}", reason.text);
                let text = "the gateway gave the grant up";
                let refusal = StatedReason::new(ReasonCode::GatewayRefused, text, full);
                self.end_grant(id, &refusal, Decision::Ended, now);
            }
            Some(Stage::Offered) | None => self.offer_refused(gateway, id, reason, now),
        }
    }

    /// The connected clients that were told of a grant through the gateway.
    pub(super) fn clients_through(&self, gateway: GatewayId) -> BTreeSet<ClientId> {
        let told = self.grants.of_gateway(gateway);
        told.filter(|grant| grant.stage != Stage::Offered)
            .map(|grant| grant.row.client)
            .filter(|client| self.sessions.clients.contains(*client))
            .collect()
    }
}
