//! Clients that come, and what they say.

use super::Hub;
use crate::directory::Barred;
use crate::grants::Stage;
use crate::limits::{MAX_RESOURCES_PER_CLIENT, MAX_WELCOME_RESOURCES_LEN};
use crate::output::SessionId;
use crate::reasons::{self, StatedReason};
use crate::session::{ClientPath, ClientSession, Facts};
use crate::sessions::Party;
use crate::timers::Timer;
use culvert_base::LogLine;
use culvert_ids::{ClientId, GrantId, ResourceId, TokenId};
use culvert_policy::ClientFacts;
use culvert_store::{Client, EndedAccess, TokenScope};
use culvert_wire::messages::{ClientFeature, FromClient, Interface, ReasonCode, ToClient};
use culvert_wire::model::Dns;
use culvert_wire::{Cipher, PROTOCOL, PublicKey, Timestamp};

/// A client that has said hello, with a token that was accepted, and was enrolled.
#[derive(Clone, Debug)]
pub struct ClientJoin {
    /// The client's id.
    pub client: ClientId,
    /// The token that it came with.
    pub token: TokenId,
    /// The key that it said.
    pub public_key: PublicKey,
    /// The suites that it does fast.
    pub ciphers: Vec<Cipher>,
    /// The facts that conditions look at.
    pub seen: ClientFacts,
    /// Optional features that it supports.
    pub features: Vec<ClientFeature>,
}

impl Hub {
    /// A client has connected. The changes that its enrolment made have to be in already: whom the
    /// directory does not know is told to come back.
    pub fn handle_client_joined(&mut self, session: SessionId, join: ClientJoin, now: Timestamp) {
        let epoch = self.random.epoch();
        self.outbox.open(session, epoch);
        let client = match self.admit_client(&join, now) {
            Ok(client) => client,
            Err(barred) => {
                self.refuse_client(session, reasons::not_admitted(barred));
                return;
            }
        };
        let id = client.id;
        if let Some(old) = self.sessions.clients.get(id).map(|old| old.id) {
            self.expel(old, reasons::replaced(), now);
        }
        let facts = Facts {
            token: Some(join.token),
            seen: join.seen,
            keeps_applications: Some(join.features.contains(&ClientFeature::Applications)),
        };
        self.sessions.clients.learn(id, facts);
        self.watch_token(id);
        // Before the session is there, so that `welcome` does not list grants that end here.
        self.review_client_grants(id, now);
        let joined = ClientSession::new(session, join.ciphers, &join.features, now);
        self.sessions.join_client(id, joined);
        self.welcome_client(session, &client);
        self.tell_relays_in_use(id, now);
        self.finish(now);
    }

    /// A client said something.
    pub fn handle_client_message(
        &mut self,
        session: SessionId,
        message: FromClient,
        now: Timestamp,
    ) {
        let Some(Party::Client(client)) = self.sessions.party(session) else {
            return;
        };
        match message {
            FromClient::Hello { .. } => self.misbehaved(session, now),
            FromClient::RequestAccess {
                request,
                resource,
                names,
                avoid,
            } => self.request(client, request, resource, names, avoid, now),
            FromClient::AnswerNow { request, resource } => {
                self.answer_now((client, resource), request);
            }
            FromClient::ReleaseAccess { grant } => self.release(client, grant, now),
            FromClient::CandidatesChanged { candidates } => self.move_client(client, candidates),
            FromClient::RelaysReached { relays } => self.note_reached(client, relays),
            FromClient::PathChanged {
                gateway,
                path,
                relay,
                round_trip_us,
            } => {
                let path = ClientPath::told(path, relay, round_trip_us, now);
                self.note_path(client, gateway, path);
            }
            FromClient::NatFound { mapping } => self.note_nat(client, mapping),
            FromClient::Unsupported { kind } => {
                let line = LogLine::debug("the client does not know a message")
                    .with("client", client)
                    .with_text("kind", &kind);
                self.outbox.push_line(line);
            }
        }
        self.finish(now);
    }

    /// Sets a timer for the end of the client's token.
    pub(super) fn watch_token(&mut self, client: ClientId) {
        let token = self.sessions.clients.token(client);
        let token = token.and_then(|token| self.directory.token(token));
        if let Some((expires, token)) = token.and_then(|token| Some((token.expires?, token.id))) {
            self.timers.set(expires, Timer::Token(token));
        }
    }

    fn admit_client(&self, join: &ClientJoin, now: Timestamp) -> Result<Client, Barred> {
        let token = self.directory.admit_token(join.token, now)?;
        let client = self.directory.admit_client(join.client)?;
        let TokenScope::Client { actor } = token.scope else {
            return Err(Barred::Token);
        };
        if actor != client.actor {
            return Err(Barred::Token);
        }
        // The change that gave it this key is yet to come.
        if client.public_key != join.public_key {
            return Err(Barred::Unknown);
        }
        Ok(client.clone())
    }

    fn welcome_client(&mut self, session: SessionId, client: &Client) {
        let joined = self.sessions.clients.get(client.id);
        let follows_dns = joined.is_some_and(|joined| joined.follows_dns);
        let uses_relays = joined.is_some_and(|joined| joined.relaying.uses_relays);
        let mut resources = Vec::new();
        let mut later = Vec::new();
        let mut len = 0;
        let mut shown = self.directory.shown_to(client.id);
        shown.retain(|resource| self.can_have(client.id, *resource));
        for id in shown.into_iter().take(MAX_RESOURCES_PER_CLIENT) {
            let Some(row) = self.directory.resource(id) else {
                continue;
            };
            len += row.shown_len + 1;
            if len <= MAX_WELCOME_RESOURCES_LEN {
                resources.push(row.shown.clone());
            } else {
                later.push(row.shown.clone());
            }
            self.sessions.clients.note_told(client.id, id);
        }
        let settings = self.directory.settings();
        let welcome = ToClient::Welcome {
            protocol: PROTOCOL,
            client: client.id,
            interface: Interface {
                ipv4: client.ipv4,
                ipv6: client.ipv6,
            },
            ranges: settings.ranges.clone(),
            resources,
            later_resources: u32::try_from(later.len()).unwrap_or(u32::MAX),
            grants: self.known_grants(client.id),
            grant_lifetime_s: settings.grant_lifetime_s,
            dns: match follows_dns {
                true => settings.dns.clone(),
                false => Dns::default(),
            },
            portals: self.portals.clone(),
            relays: match uses_relays {
                true => self.relays.told_places.clone(),
                false => Vec::new(),
            },
            releases_ended_access: settings.ended_access == EndedAccess::Release,
        };
        self.outbox.tell_client(session, welcome);
        for resource in later {
            self.outbox
                .tell_client(session, ToClient::ResourceSet { resource });
        }
    }

    /// Has every client that can follow them know the rules about names as they are now.
    pub(super) fn tell_dns(&mut self) {
        let dns = &self.directory.settings().dns;
        for session in self.sessions.clients.following_dns() {
            let message = ToClient::DnsSet { dns: dns.clone() };
            self.outbox.tell_client(session, message);
        }
    }

    /// Has every client that can follow it know the rule about access that ended.
    pub(super) fn tell_ended_access(&mut self) {
        let releases = self.directory.settings().ended_access == EndedAccess::Release;
        for session in self.sessions.clients.following_ended_access() {
            let message = ToClient::EndedAccessSet { releases };
            self.outbox.tell_client(session, message);
        }
    }

    /// True if the resource has no rule about applications, or the client is known to enforce it. A client
    /// that does not know the rule would let every program pass.
    pub(super) fn can_have(&self, client: ClientId, resource: ResourceId) -> bool {
        let is_ruled = self
            .directory
            .resource(resource)
            .is_some_and(|row| !row.parsed.applications.is_any());
        let facts = self.sessions.clients.facts(client);
        !is_ruled || facts.is_some_and(|facts| facts.keeps_applications == Some(true))
    }

    /// The client's grants by the ids that it knows.
    fn known_grants(&self, client: ClientId) -> Vec<GrantId> {
        let current = self
            .grants
            .of_client(client)
            .filter(|grant| grant.stage == Stage::Current);
        current.filter_map(|grant| grant.known_as).collect()
    }

    fn release(&mut self, client: ClientId, known_as: GrantId, now: Timestamp) {
        let found = self
            .grants
            .of_client(client)
            .find(|grant| grant.known_as == Some(known_as));
        let Some(id) = found.map(|grant| grant.row.id) else {
            self.counters.ignored += 1;
            return;
        };
        if let Some(grant) = self.grants.get_mut(id) {
            // It is the client that gives it up: it need not be told.
            grant.known_as = None;
        }
        let released = StatedReason::plain(ReasonCode::Expired, "the client gave the grant back");
        self.end_grant(id, &released, culvert_store::Decision::Ended, now);
    }

    /// Brings what the client was told of a resource up to date. `anew` where the resource itself
    /// has changed.
    pub(super) fn show(&mut self, client: ClientId, resource: ResourceId, anew: bool) {
        let shows = self.directory.shows(client, resource) && self.can_have(client, resource);
        let Some(session) = self.sessions.clients.get(client) else {
            return;
        };
        let (session, told) = (session.id, session.told.len());
        let is_told = self.sessions.clients.is_told(client, resource);
        match (is_told, shows) {
            (true, true) if !anew => {}
            (false, false) => {}
            (true, false) => {
                self.sessions.clients.note_untold(client, resource);
                let message = ToClient::ResourceRemoved { resource };
                self.outbox.tell_client(session, message);
            }
            (_, true) => {
                if !is_told && told >= MAX_RESOURCES_PER_CLIENT {
                    self.counters.untold_resources += 1;
                    return;
                }
                let Some(row) = self.directory.resource(resource) else {
                    return;
                };
                self.sessions.clients.note_told(client, resource);
                let resource = row.shown.clone();
                self.outbox
                    .tell_client(session, ToClient::ResourceSet { resource });
            }
        }
    }
}
