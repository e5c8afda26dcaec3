//! Machines that come, and go in each way.

use super::{Party, World};
use crate::rows::{SITE, client, client_token, gateway, site_token};
use culvert_hub::{ClientJoin, GatewayJoin, SessionId};
use culvert_ids::{GrantId, RelayId, TokenId};
use culvert_policy::ClientFacts;
use culvert_store::Entity;
use culvert_wire::messages::FromGateway;
use culvert_wire::{Cipher, PublicKey};

impl World {
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
}
