//! A hub with a configuration, and simulated clients and gateways that follow its messages. A record of
//! the grants that may be in force is kept without it.

use crate::sim_relay::{SimRelay, Told};
use culvert_hub::limits::RELAY_TOKEN_MS;
use culvert_hub::{ClientJoin, Directory, Facts, GatewayJoin, Hub, Output, PortalKeys, SessionId};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId, TokenId};
use culvert_policy::ClientFacts;
use culvert_store::{
    AccessEntry, Account, AccountSettings, Author, Change, Entity, EntityId, FlowBatch, Grant,
    MachineId, Operation, SeenMachine, Seq, Snapshot, Stamp,
};
use culvert_wire::messages::{
    AdmittedDevice, ClientFeature, Existence, FromClient, FromGateway, GatewayFeature, Reason,
    ReasonCode, ResolvedName, ToClient, ToGateway, WantedName,
};
use culvert_wire::{Cipher, GrantClaims, PublicKey, Timestamp, model};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub(crate) use crate::rows::{
    ACCOUNT, SITE, START_MS, a_group, a_policy, actor, client, client_token, gateway, group,
    network, policy, resource, site_token,
};

/// The reaction of a gateway to a grant that it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Accept,
    Refuse(ReasonCode),
    Silent,
}

/// A grant that a gateway holds, as it understands it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) claims: GrantClaims,
    pub(crate) names: Vec<WantedName>,
}

#[derive(Debug)]
pub(crate) struct SimGateway {
    pub(crate) session: Option<SessionId>,
    pub(crate) manner: Manner,
    pub(crate) held: BTreeMap<GrantId, Held>,
    pub(crate) draining: bool,
    /// It was told that it waits to be verified.
    pub(crate) verification_awaited: bool,
    pub(crate) features: Vec<GatewayFeature>,
    /// Grants that it was offered and has not answered, in the order in which they came.
    pub(crate) unanswered: Vec<GrantId>,
    /// Grants that are still valid, while more of them are to be named.
    pub(crate) retained: Option<BTreeSet<GrantId>>,
    /// Plain devices that it admits without a grant, once it was told.
    pub(crate) admitted: Option<BTreeMap<ClientId, AdmittedDevice>>,
    /// Its last word in this session about each plain device: the address, and the handshake.
    pub(crate) told: BTreeMap<ClientId, (Option<IpAddr>, Timestamp)>,
    /// More of the list of admitted devices is to come.
    pub(crate) is_listing: bool,
}

impl SimGateway {
    fn hear_retained(&mut self, retained: BTreeSet<GrantId>, more: bool) {
        match more {
            true => self.retained = Some(retained),
            false => self.held.retain(|grant, _| retained.contains(grant)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SimClient {
    pub(crate) session: Option<SessionId>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) features: Vec<ClientFeature>,
    /// Grants that it believes in, and through which gateway.
    pub(crate) grants: BTreeMap<GrantId, (ResourceId, GatewayId)>,
    pub(crate) resources: BTreeMap<ResourceId, model::Resource>,
    pub(crate) waiting: BTreeSet<u64>,
    pub(crate) next_request: u64,
}

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) now: Timestamp,
    pub(crate) rows: BTreeMap<EntityId, Entity>,
    pub(crate) clients: BTreeMap<ClientId, SimClient>,
    pub(crate) gateways: BTreeMap<GatewayId, SimGateway>,
    pub(crate) relays: BTreeMap<RelayId, SimRelay>,
    /// Every token for a relay that an end was told.
    pub(crate) told: Vec<Told>,
    pub(crate) saved: BTreeMap<GrantId, Grant>,
    restarts: u8,
    pub(crate) log: Vec<AccessEntry>,
    pub(crate) flows: Vec<(SessionId, FlowBatch)>,
    pub(crate) traffic_bytes: u64,
    pub(crate) seen: Vec<SeenMachine>,
    /// Messages since the last look, of each session.
    pub(crate) to_clients: Vec<(ClientId, ToClient)>,
    pub(crate) to_gateways: Vec<(GatewayId, ToGateway)>,
    pub(crate) closed: Vec<(SessionId, ReasonCode)>,
    parties: BTreeMap<SessionId, Party>,
    places: BTreeMap<SessionId, (u64, u64)>,
    next_session: u64,
    seq: u64,
}

#[derive(Clone, Copy)]
enum Party {
    Client(ClientId),
    Gateway(GatewayId),
    Relay(RelayId),
}

fn keys() -> Box<PortalKeys> {
    Box::new(PortalKeys::new(&[7; 32], &[8; 32]).unwrap())
}

/// As it was set last.
fn account(rows: &BTreeMap<EntityId, Entity>) -> Account {
    match rows.get(&ACCOUNT.into()) {
        Some(Entity::Account(account)) => account.clone(),
        _ => Account {
            id: ACCOUNT,
            name: "corp".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        },
    }
}

impl World {
    /// A portal with an account in which nothing is yet.
    pub(crate) fn new() -> Self {
        let now = Timestamp::from_unix_ms(START_MS);
        let snapshot = snapshot(&BTreeMap::new(), 0);
        let directory = Directory::new(snapshot);
        Self {
            hub: Hub::new(
                directory,
                keys(),
                &[1; 32],
                Vec::new(),
                BTreeMap::new(),
                now,
            ),
            now,
            rows: BTreeMap::new(),
            clients: BTreeMap::new(),
            gateways: BTreeMap::new(),
            relays: BTreeMap::new(),
            told: Vec::new(),
            saved: BTreeMap::new(),
            restarts: 1,
            log: Vec::new(),
            flows: Vec::new(),
            traffic_bytes: 0,
            seen: Vec::new(),
            to_clients: Vec::new(),
            to_gateways: Vec::new(),
            closed: Vec::new(),
            parties: BTreeMap::new(),
            places: BTreeMap::new(),
            next_session: 0,
            seq: 0,
        }
    }

    /// One client of one actor in group 1, which may use resource 1 through gateway 1; nobody is
    /// connected.
    pub(crate) fn simple() -> Self {
        let mut world = Self::new();
        world.set_actor(1, false);
        world.add_member(1, 1);
        world.set_client(1, 1);
        world.set_gateway(1, SITE);
        world.set_network(1, SITE);
        world.set_policy(1, 1, 1, Vec::new());
        world
    }

    /// The same with everyone connected.
    pub(crate) fn connected() -> Self {
        let mut world = Self::simple();
        world.join_gateway(1);
        world.join_client(1);
        world
    }

    // The configuration.

    pub(crate) fn apply(&mut self, edits: Vec<(EntityId, Option<Entity>)>) {
        let mut changes = Vec::new();
        for (id, mut after) in edits {
            let before = match &after {
                Some(row) => self.rows.insert(id, row.clone()),
                None => self.rows.remove(&id),
            };
            if before.is_none() && after.is_none() {
                continue;
            }
            self.seq += 1;
            if let Some(Entity::Resource(row)) = &mut after {
                row.stamp.updated = self.now;
                self.rows.insert(id, Entity::Resource(row.clone()));
            }
            changes.push(Change {
                skipped: 0,
                seq: Seq(self.seq),
                account: ACCOUNT,
                at: self.now,
                author: Author::PORTAL,
                operation: match (&before, &after) {
                    (None, _) => Operation::Create,
                    (Some(_), Some(_)) => Operation::Update,
                    (Some(_), None) => Operation::Delete,
                },
                id,
                before,
                after,
            });
        }
        self.hub.handle_changes(&changes, self.now).unwrap();
        self.drain();
    }

    pub(crate) fn set(&mut self, row: impl Into<Entity>) {
        let row = row.into();
        self.apply(vec![(row.id(), Some(row))]);
    }

    pub(crate) fn remove(&mut self, id: impl Into<EntityId>) {
        self.apply(vec![(id.into(), None)]);
    }

    pub(crate) fn account(&self) -> Account {
        account(&self.rows)
    }

    pub(crate) fn join_client(&mut self, number: u16) -> SessionId {
        let token = match self.rows.get(&client(number).into()) {
            Some(Entity::Client(row)) => {
                let [.., a, b] = *row.actor.as_bytes();
                client_token(u16::from_be_bytes([a, b]))
            }
            _ => client_token(number),
        };
        self.join_client_with(number, token)
    }

    pub(crate) fn join_client_with(&mut self, number: u16, token: TokenId) -> SessionId {
        let id = client(number);
        let public_key = match self.rows.get(&id.into()) {
            Some(Entity::Client(row)) => row.public_key,
            _ => PublicKey::from_bytes([9; 32]),
        };
        let session = self.new_session(Party::Client(id));
        let client = self.clients.entry(id).or_default();
        client.session = Some(session);
        client.waiting.clear();
        let join = ClientJoin {
            client: id,
            token,
            public_key,
            ciphers: vec![Cipher::Aes256Gcm],
            seen: ClientFacts::seen_at(client.address, |_| None),
            features: client.features.clone(),
        };
        self.hub.handle_client_joined(session, join, self.now);
        self.drain();
        session
    }

    pub(crate) fn join_gateway(&mut self, number: u16) -> SessionId {
        let id = gateway(number);
        let (public_key, site) = match self.rows.get(&id.into()) {
            Some(Entity::Gateway(row)) => (row.public_key, row.site),
            _ => (PublicKey::from_bytes([9; 32]), SITE),
        };
        let session = self.new_session(Party::Gateway(id));
        let gateway = self.gateways.get_mut(&id).unwrap();
        gateway.session = Some(session);
        let join = GatewayJoin {
            gateway: id,
            token: site_token(site),
            public_key,
            ciphers: vec![Cipher::Aes256Gcm],
            candidates: vec!["192.0.2.1:51820".parse().unwrap()],
            draining: gateway.draining,
            grants: gateway.held.keys().copied().collect(),
            more_grants: false,
            features: gateway.features.clone(),
        };
        self.hub.handle_gateway_joined(session, join, self.now);
        self.drain();
        session
    }

    /// The same for a gateway that names its grants in pages of this length.
    pub(crate) fn join_gateway_in_pages(&mut self, number: u16, page_len: usize) -> SessionId {
        let gateway = &self.gateways[&gateway(number)];
        let held: Vec<GrantId> = gateway.held.keys().copied().collect();
        let session = self.join_gateway_unfinished(number, page_len);
        let mut pages = held.chunks(page_len).skip(1).peekable();
        while let Some(grants) = pages.next() {
            let grants = grants.to_vec();
            let more = pages.peek().is_some();
            self.gateway_says(number, FromGateway::GrantsHeld { grants, more });
        }
        session
    }

    /// The same, but the first page comes alone.
    pub(crate) fn join_gateway_unfinished(&mut self, number: u16, page_len: usize) -> SessionId {
        let id = gateway(number);
        let held: Vec<GrantId> = self.gateways[&id].held.keys().copied().collect();
        let first: Vec<GrantId> = held.iter().copied().take(page_len).collect();
        let Some(Entity::Gateway(row)) = self.rows.get(&id.into()).cloned() else {
            panic!("no gateway {number}");
        };
        let session = self.new_session(Party::Gateway(id));
        let gateway = self.gateways.get_mut(&id).unwrap();
        gateway.session = Some(session);
        let join = GatewayJoin {
            gateway: id,
            token: site_token(row.site),
            public_key: row.public_key,
            ciphers: vec![Cipher::Aes256Gcm],
            candidates: vec!["192.0.2.1:51820".parse().unwrap()],
            draining: gateway.draining,
            more_grants: held.len() > first.len(),
            grants: first,
            features: gateway.features.clone(),
        };
        self.hub.handle_gateway_joined(session, join, self.now);
        self.drain();
        session
    }

    pub(crate) fn leave_client(&mut self, number: u16) {
        let session = self
            .clients
            .get_mut(&client(number))
            .unwrap()
            .session
            .take();
        self.leave(session);
    }

    pub(crate) fn leave_gateway(&mut self, number: u16) {
        let gateway = self.gateways.get_mut(&gateway(number)).unwrap();
        let session = gateway.session.take();
        self.leave(session);
    }

    /// The portal that brings the gateway's session is gone.
    pub(crate) fn interrupt_gateway(&mut self, number: u16) {
        let gateway = self.gateways.get_mut(&gateway(number)).unwrap();
        let session = gateway.session.take().unwrap();
        self.parties.remove(&session);
        self.hub.handle_interrupted(session, self.now);
        self.drain();
    }

    /// The connection of the gateway's session breaks.
    pub(crate) fn break_off_gateway(&mut self, number: u16) {
        let gateway = self.gateways.get_mut(&gateway(number)).unwrap();
        if let Some(session) = gateway.session.take() {
            self.parties.remove(&session);
            self.hub.handle_broken(session, self.now);
            self.drain();
        }
    }

    pub(crate) fn new_relay_session(&mut self, id: RelayId) -> SessionId {
        self.new_session(Party::Relay(id))
    }

    pub(crate) fn leave(&mut self, session: Option<SessionId>) {
        if let Some(session) = session {
            self.parties.remove(&session);
            self.hub.handle_left(session, self.now);
            self.drain();
        }
    }

    fn new_session(&mut self, party: Party) -> SessionId {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        self.parties.insert(session, party);
        session
    }

    pub(crate) fn ask(&mut self, number: u16, on: u16) -> u64 {
        self.ask_for(number, on, Vec::new(), Vec::new())
    }

    pub(crate) fn ask_for(
        &mut self,
        number: u16,
        on: u16,
        names: Vec<WantedName>,
        avoid: Vec<GatewayId>,
    ) -> u64 {
        let client = self.clients.get_mut(&client(number)).unwrap();
        let request = client.next_request;
        let Some(session) = client.session else {
            return request;
        };
        client.next_request += 1;
        client.waiting.insert(request);
        let message = FromClient::RequestAccess {
            request,
            resource: resource(on),
            names,
            avoid,
        };
        self.client_says(session, message);
        request
    }

    pub(crate) fn client_says(&mut self, session: SessionId, message: FromClient) {
        self.hub.handle_client_message(session, message, self.now);
        self.drain();
    }

    pub(crate) fn gateway_says(&mut self, number: u16, message: FromGateway) {
        let at = self.gateways.get_mut(&gateway(number)).unwrap();
        if let FromGateway::DeviceEndpoints { devices, .. } = &message {
            let told = devices.iter();
            at.told
                .extend(told.map(|it| (it.client, (it.address, it.handshake))));
        }
        let session = at.session.unwrap();
        self.hub.handle_gateway_message(session, message, self.now);
        self.drain();
    }

    pub(crate) fn manner(&mut self, number: u16, manner: Manner) {
        self.gateways.get_mut(&gateway(number)).unwrap().manner = manner;
    }

    // Time.

    /// Lets time pass, stopping at each instant at which the hub wants to be called.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = Timestamp::from_unix_ms(self.now.unix_ms() + ms);
        while let Some(at) = self.hub.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.hub.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// The portal stops and starts anew: it has its database and nothing else.
    pub(crate) fn restart(&mut self) {
        let facts = self.clients.iter().map(|(id, client)| {
            let facts = Facts {
                token: None,
                seen: ClientFacts::seen_at(client.address, |_| None),
                keeps_applications: None,
            };
            (*id, facts)
        });
        let facts = facts.collect();
        let ends = |grant: &&Grant| grant.expires.unix_ms() + RELAY_TOKEN_MS;
        let recent = self.saved.values();
        let recent = recent.filter(|grant| self.now.unix_ms() < ends(grant));
        let recent = recent.cloned().collect();
        let directory = Directory::new(snapshot(&self.rows, self.seq));
        // No two lives of a portal draw the same numbers.
        self.restarts = self.restarts.wrapping_add(1);
        let seed = [self.restarts; 32];
        self.hub = Hub::new(directory, keys(), &seed, recent, facts, self.now);
        self.parties.clear();
        self.places.clear();
        for client in self.clients.values_mut() {
            client.session = None;
            client.waiting.clear();
        }
        for gateway in self.gateways.values_mut() {
            gateway.session = None;
        }
        for relay in self.relays.values_mut() {
            // One that was away may not have heard all that the portal before withdrew.
            if relay.session.take().is_none() {
                relay.forget();
            }
        }
        self.drain();
    }

    // Outputs of the hub.

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.hub.poll_output() {
            match output {
                Output::ToClient { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Client(id)) = self.parties.get(&session).copied() {
                        self.client_hears(id, session, message.message);
                    }
                }
                Output::ToGateway { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Gateway(id)) = self.parties.get(&session).copied() {
                        self.gateway_hears(id, session, message.message);
                    }
                }
                Output::ToRelay { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Relay(id)) = self.parties.get(&session).copied() {
                        self.relays.get_mut(&id).unwrap().hear(message.message);
                    }
                }
                Output::Close { session, reason } => self.close(session, reason),
                Output::SaveGrants(grants) => {
                    self.saved
                        .extend(grants.into_iter().map(|grant| (grant.id, grant)));
                }
                Output::EndGrants(grants) => {
                    for grant in grants {
                        self.saved.remove(&grant);
                    }
                }
                Output::AccessLog(entries) => self.log.extend(entries),
                Output::Flows { session, batch } => self.flows.push((session, batch)),
                Output::Traffic { bytes } => self.traffic_bytes += bytes,
                Output::Seen(machines) => self.record_seen(machines),
            }
        }
    }

    fn record_seen(&mut self, machines: Vec<SeenMachine>) {
        for machine in &machines {
            if let MachineId::Client(id) = machine.id {
                let client = self.clients.entry(id).or_default();
                client.address = machine.seen.address;
            }
        }
        self.seen.extend(machines);
    }

    fn close(&mut self, session: SessionId, reason: ReasonCode) {
        self.closed.push((session, reason));
        match self.parties.remove(&session) {
            Some(Party::Client(id)) => {
                let client = self.clients.get_mut(&id).unwrap();
                if client.session == Some(session) {
                    client.session = None;
                }
            }
            Some(Party::Gateway(id)) => {
                let gateway = self.gateways.get_mut(&id).unwrap();
                if gateway.session == Some(session) {
                    gateway.session = None;
                }
            }
            Some(Party::Relay(id)) => {
                let relay = self.relays.get_mut(&id).unwrap();
                if relay.session == Some(session) {
                    relay.session = None;
                }
            }
            None => {}
        }
    }

    fn check_place(&mut self, session: SessionId, epoch: u64, seq: u64) {
        let place = self.places.entry(session).or_insert((epoch, 0));
        place.1 += 1;
        assert_eq!(*place, (epoch, seq), "a gap in session {session:?}");
    }

    fn client_hears(&mut self, id: ClientId, session: SessionId, message: ToClient) {
        self.to_clients.push((id, message.clone()));
        if let ToClient::AccessGranted {
            gateway, relays, ..
        }
        | ToClient::RelaysSet { gateway, relays } = &message
        {
            self.note_told(*gateway, Some(id), relays);
        }
        let client = self.clients.get_mut(&id).unwrap();
        let is_current = client.session == Some(session);
        match message {
            ToClient::Welcome {
                resources, grants, ..
            } => {
                assert!(is_current);
                let listed = resources.into_iter();
                client.resources = listed.map(|resource| (resource.id, resource)).collect();
                client.grants.retain(|grant, _| grants.contains(grant));
            }
            ToClient::ResourceSet { resource } => {
                client.resources.insert(resource.id, resource);
            }
            ToClient::ResourceRemoved { resource } => {
                assert!(client.resources.remove(&resource).is_some());
            }
            ToClient::AccessGranted {
                request,
                resource,
                grant,
                gateway,
                ..
            } => {
                assert!(client.waiting.remove(&request), "an answer too many");
                client.grants.retain(|_, (known, _)| *known != resource);
                client.grants.insert(grant, (resource, gateway));
            }
            ToClient::AccessDenied { request, .. } => {
                assert!(client.waiting.remove(&request), "an answer too many");
            }
            ToClient::AccessRevoked { grant, .. } => {
                client.grants.remove(&grant);
            }
            ToClient::GatewayLost { gateway } => {
                client.grants.retain(|_, (_, through)| *through != gateway);
            }
            ToClient::Refused { .. }
            | ToClient::DnsSet { .. }
            | ToClient::EndedAccessSet { .. }
            | ToClient::PortalsSet { .. }
            | ToClient::RelayPlacesSet { .. }
            | ToClient::RelaysSet { .. }
            | ToClient::GatewayDraining { .. }
            | ToClient::GatewayMoved { .. }
            | ToClient::Unsupported { .. } => {}
        }
    }

    fn gateway_hears(&mut self, id: GatewayId, session: SessionId, message: ToGateway) {
        self.to_gateways.push((id, message.clone()));
        if let ToGateway::RelaysSet { relays } = &message {
            self.note_told(id, None, relays);
        }
        let gateway = self.gateways.get_mut(&id).unwrap();
        match message {
            ToGateway::Welcome {
                grants,
                more_grants,
                verification_awaited,
                ..
            } => {
                gateway.verification_awaited = verification_awaited;
                let grants = grants.into_iter().collect();
                gateway.hear_retained(grants, more_grants);
            }
            ToGateway::GrantsRetained { grants, more } => {
                let mut all = gateway
                    .retained
                    .take()
                    .expect("welcome said that more follow");
                all.extend(grants);
                gateway.hear_retained(all, more);
            }
            ToGateway::Grant {
                token,
                replaces,
                names,
                ..
            } => {
                let claims = verify(&token);
                assert_eq!(claims.gateway, id);
                let grant = claims.grant;
                let answer = match gateway.manner {
                    Manner::Silent => {
                        gateway.unanswered.push(grant);
                        None
                    }
                    Manner::Refuse(code) => Some(FromGateway::GrantRefused {
                        grant,
                        reason: Reason {
                            code,
                            text: "no".to_owned(),
                        },
                    }),
                    Manner::Accept => Some(FromGateway::GrantAccepted {
                        grant,
                        names: names.iter().map(|name| resolved(&name.name)).collect(),
                    }),
                };
                if !matches!(gateway.manner, Manner::Refuse(_)) {
                    let before = replaces.and_then(|old| gateway.held.remove(&old));
                    let mut all = before.map(|held| held.names).unwrap_or_default();
                    all.extend(names);
                    let held = Held { claims, names: all };
                    gateway.held.insert(grant, held);
                }
                if let Some(answer) = answer {
                    self.hub.handle_gateway_message(session, answer, self.now);
                }
            }
            ToGateway::Revoke { grant } => {
                gateway.held.remove(&grant);
            }
            ToGateway::FiltersChanged {
                resource,
                filters,
                inbound,
            } => {
                for held in gateway.held.values_mut() {
                    if held.claims.resource == resource {
                        held.claims.filters.clone_from(&filters);
                        held.claims.inbound.clone_from(&inbound);
                    }
                }
            }
            ToGateway::DevicesAdmitted { devices, more, .. } => {
                let is_first = gateway.admitted.is_none() || !gateway.is_listing;
                let mut all = match is_first {
                    true => BTreeMap::new(),
                    false => gateway.admitted.take().unwrap_or_default(),
                };
                all.extend(devices.into_iter().map(|device| (device.client, device)));
                gateway.admitted = Some(all);
                gateway.is_listing = more;
            }
            ToGateway::DeviceAdmitted { device } => {
                let admitted = gateway.admitted.as_mut().expect("the list comes first");
                admitted.insert(device.client, device);
            }
            ToGateway::DeviceDismissed { client } => {
                let admitted = gateway.admitted.as_mut().expect("the list comes first");
                assert!(admitted.remove(&client).is_some());
            }
            ToGateway::Drain { on } => gateway.draining = on,
            ToGateway::Verification { awaited } => gateway.verification_awaited = awaited,
            // To `AnswerNow`: it has answered by then, or says nothing at all.
            ToGateway::AnswerNow { .. }
            | ToGateway::FlowLog { .. }
            | ToGateway::FlowsTaken { .. }
            | ToGateway::NamesElsewhere { .. }
            | ToGateway::ResolveName { .. }
            | ToGateway::NameAnswered { .. }
            | ToGateway::PortalsSet { .. }
            | ToGateway::RelaysSet { .. }
            | ToGateway::ClientCandidates { .. }
            | ToGateway::Refused { .. }
            | ToGateway::Unsupported { .. } => {}
        }
    }

    // The reference.

    pub(crate) fn holds(&self, number: u16) -> usize {
        let held = self.gateways[&gateway(number)].held.values();
        held.filter(|held| held.claims.exp > self.now).count()
    }

    pub(crate) fn grants_of(&self, number: u16) -> usize {
        self.clients[&client(number)].grants.len()
    }

    pub(crate) fn forget_messages(&mut self) {
        self.to_clients.clear();
        self.to_gateways.clear();
        self.closed.clear();
        self.log.clear();
    }

    /// The codes of denials since the last look.
    pub(crate) fn denials(&self) -> Vec<ReasonCode> {
        let messages = self.to_clients.iter();
        let codes = messages.filter_map(|(_, message)| match message {
            ToClient::AccessDenied { reason, .. } => Some(reason.code),
            _ => None,
        });
        codes.collect()
    }

    /// The codes of revocations since the last look.
    pub(crate) fn revocations(&self) -> Vec<ReasonCode> {
        let messages = self.to_clients.iter();
        let codes = messages.filter_map(|(_, message)| match message {
            ToClient::AccessRevoked { reason, .. } => Some(reason.code),
            _ => None,
        });
        codes.collect()
    }
}

pub(crate) fn resolved(name: &str) -> ResolvedName {
    ResolvedName {
        name: name.to_owned(),
        ipv4: true,
        ipv6: false,
        existence: Existence::Exists,
    }
}

fn snapshot(rows: &BTreeMap<EntityId, Entity>, seq: u64) -> Snapshot {
    fn of<T: culvert_store::Kind>(rows: &BTreeMap<EntityId, Entity>) -> Vec<T> {
        rows.values().cloned().filter_map(T::from_entity).collect()
    }
    Snapshot {
        seq: Seq(seq),
        account: account(rows),
        actors: of(rows),
        groups: of(rows),
        memberships: of(rows),
        sites: of(rows),
        resources: of(rows),
        policies: of(rows),
        tokens: of(rows),
        clients: of(rows),
        gateways: of(rows),
        relays: of(rows),
    }
}
/// The claims of a grant, after a check of its signature, as a gateway does it first.
pub(crate) fn verify(token: &str) -> GrantClaims {
    use base64::Engine;
    use culvert_hub::Signer;
    use pasetors::keys::AsymmetricPublicKey;
    use pasetors::token::UntrustedToken;
    use pasetors::{Public, version4};
    let public = &keys().public_keys()[0];
    let public = base64::engine::general_purpose::STANDARD
        .decode(public)
        .unwrap();
    let public = AsymmetricPublicKey::<version4::V4>::from(&public).unwrap();
    let token = UntrustedToken::<Public, version4::V4>::try_from(token).unwrap();
    let token = version4::PublicToken::verify(&public, &token, None, None).unwrap();
    serde_json::from_str(token.payload()).unwrap()
}
