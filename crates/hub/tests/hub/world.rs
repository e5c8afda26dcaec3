//! A hub with a configuration, and simulated clients and gateways that follow its messages. A record of
//! the grants that may be in force is kept without it.

mod outputs;
mod sessions;

use crate::sim_relay::{SimRelay, Told};
use culvert_hub::limits::RELAY_TOKEN_MS;
use culvert_hub::{Directory, Facts, Hub, PortalKeys, SessionId};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId};
use culvert_policy::ClientFacts;
use culvert_store::{
    AccessEntry, Account, AccountSettings, Author, Change, Entity, EntityId, FlowBatch, Grant,
    Operation, SeenMachine, Seq, Snapshot, Stamp,
};
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    FromClient, FromGateway, ReasonCode, ToClient, ToGateway, WantedName,
};
use std::collections::BTreeMap;

pub(crate) use crate::rows::{
    ACCOUNT, SITE, START_MS, a_group, a_policy, actor, client, client_token, gateway, group,
    network, policy, resource, site_token,
};
pub(crate) use crate::sim_client::SimClient;
pub(crate) use crate::sim_gateway::{Manner, SimGateway, resolved};

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

pub(crate) fn keys() -> Box<PortalKeys> {
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
