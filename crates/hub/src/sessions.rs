//! The machines that are connected, and the facts that are kept of clients while they are away.

use super::SessionId;
use super::session::{ClientSession, Facts, GatewaySession};
use super::slots::Slots;
use culvert_ids::{ClientId, GatewayId, ID_LEN, RelayId, ResourceId, TokenId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// At whose end a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Client(ClientId),
    Gateway(GatewayId),
    Relay(RelayId),
}

/// All sessions. A machine has one, or none.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    parties: BTreeMap<SessionId, Party>,
    pub(super) clients: Clients,
    pub(super) gateways: Gateways,
}

impl Sessions {
    /// No session yet, and `facts` of clients that came before.
    pub(super) fn new(facts: BTreeMap<ClientId, Facts>) -> Self {
        let mut clients = Clients::default();
        for (id, facts) in facts {
            clients.learn(id, facts);
        }
        Self {
            clients,
            ..Self::default()
        }
    }

    pub(super) fn party(&self, session: SessionId) -> Option<Party> {
        self.parties.get(&session).copied()
    }

    pub(super) fn join_client(&mut self, id: ClientId, joined: ClientSession) {
        self.parties.insert(joined.id, Party::Client(id));
        self.clients.sessions.insert(id, joined);
    }

    pub(super) fn join_gateway(&mut self, id: GatewayId, joined: GatewaySession) {
        self.parties.insert(joined.id, Party::Gateway(id));
        self.gateways.sessions.insert(id, joined);
    }

    /// A relay has joined. The rest of it is in [`Relays`](super::relays::Relays).
    pub(super) fn join_relay(&mut self, session: SessionId, id: RelayId) {
        self.parties.insert(session, Party::Relay(id));
    }

    /// Forgets a session. Returns the machine that had it.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<Party> {
        let party = self.parties.remove(&session)?;
        match party {
            Party::Client(id) => drop(self.clients.sessions.remove(&id)),
            Party::Gateway(id) => drop(self.gateways.sessions.remove(&id)),
            Party::Relay(_) => {}
        }
        Some(party)
    }

    /// Every session, in the order of their numbers.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.parties.keys().copied().collect()
    }

    /// Every session: relays, then gateways, then clients.
    pub(super) fn gateways_first(&self) -> Vec<SessionId> {
        let gateways = self.gateways.sessions.values().map(|gateway| gateway.id);
        let clients = self.clients.sessions.values().map(|client| client.id);
        let relays = self.parties.iter();
        let relays = relays.filter(|(_, party)| matches!(party, Party::Relay(_)));
        let relays = relays.map(|(session, _)| *session);
        relays.chain(gateways).chain(clients).collect()
    }
}

/// Clients: those that are connected, and the facts of those that ever came.
#[derive(Debug, Default)]
pub(super) struct Clients {
    sessions: BTreeMap<ClientId, ClientSession>,
    facts: BTreeMap<ClientId, Facts>,
    /// The clients that last came with a token.
    by_token: BTreeSet<(TokenId, ClientId)>,
    /// Numbers for the resources that sessions were told of.
    slots: Slots,
}

impl Clients {
    pub(super) fn get(&self, id: ClientId) -> Option<&ClientSession> {
        self.sessions.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut ClientSession> {
        self.sessions.get_mut(&id)
    }

    pub(super) fn contains(&self, id: ClientId) -> bool {
        self.sessions.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &ClientSession)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Those whose ids come after this one.
    pub(super) fn after(
        &self,
        after: Option<ClientId>,
    ) -> impl Iterator<Item = (ClientId, &ClientSession)> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.sessions.range((behind, Bound::Unbounded));
        sessions.map(|(id, session)| (*id, session))
    }

    /// Sessions of those that follow the account's rules about names.
    pub(super) fn following_dns(&self) -> impl Iterator<Item = SessionId> {
        let following = self.sessions.values().filter(|it| it.follows_dns);
        following.map(|session| session.id)
    }

    /// Sessions of those that follow the account's rule about access that ended.
    pub(super) fn following_ended_access(&self) -> impl Iterator<Item = SessionId> {
        let following = self.sessions.values().filter(|it| it.follows_ended_access);
        following.map(|session| session.id)
    }

    pub(super) fn facts(&self, id: ClientId) -> Option<&Facts> {
        self.facts.get(&id)
    }

    pub(super) fn learn(&mut self, id: ClientId, facts: Facts) {
        self.forget_facts(id);
        self.by_token.extend(facts.token.map(|token| (token, id)));
        self.facts.insert(id, facts);
    }

    /// The client does not exist any more.
    pub(super) fn forget_facts(&mut self, id: ClientId) {
        let before = self.facts.remove(&id);
        if let Some(token) = before.and_then(|facts| facts.token) {
            self.by_token.remove(&(token, id));
        }
    }

    /// Clients with facts, connected or not.
    pub(super) fn known(&self) -> Vec<ClientId> {
        self.facts.keys().copied().collect()
    }

    /// The token that a client last came with, if it has come to this portal.
    pub(super) fn token(&self, id: ClientId) -> Option<TokenId> {
        self.facts.get(&id).and_then(|facts| facts.token)
    }

    /// Clients that last came with the token, connected or not.
    pub(super) fn with_token(&self, token: TokenId) -> Vec<ClientId> {
        let first = ClientId::from_bytes([0; ID_LEN]);
        let last = ClientId::from_bytes([u8::MAX; ID_LEN]);
        let with = self.by_token.range((token, first)..=(token, last));
        with.map(|(_, client)| *client).collect()
    }

    /// True if the connected client was told of the resource.
    pub(super) fn is_told(&self, id: ClientId, resource: ResourceId) -> bool {
        let slot = self.slots.find(resource);
        let session = self.sessions.get(&id).zip(slot);
        session.is_some_and(|(session, slot)| session.told.contains(slot))
    }

    /// Connected clients that were told of the resource.
    pub(super) fn told(&self, resource: ResourceId) -> Vec<ClientId> {
        let Some(slot) = self.slots.find(resource) else {
            return Vec::new();
        };
        let told = self.sessions.iter();
        let told = told.filter(|(_, session)| session.told.contains(slot));
        told.map(|(client, _)| *client).collect()
    }

    /// The connected client is told of the resource.
    pub(super) fn note_told(&mut self, id: ClientId, resource: ResourceId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.told.insert(self.slots.take(resource));
        }
    }

    /// The connected client is told that it has the resource no more.
    pub(super) fn note_untold(&mut self, id: ClientId, resource: ResourceId) {
        if let Some(session) = self.sessions.get_mut(&id)
            && let Some(slot) = self.slots.find(resource)
        {
            session.told.remove(slot);
        }
    }

    /// The resource is gone, and no client is told of it any more.
    pub(super) fn release(&mut self, resource: ResourceId) {
        self.slots.release(resource);
    }
}

/// Gateways: those that are connected, and those whose grants are about to end.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    sessions: BTreeMap<GatewayId, GatewaySession>,
    /// They are given to no client.
    leaving: BTreeSet<GatewayId>,
}

impl Gateways {
    pub(super) fn get(&self, id: GatewayId) -> Option<&GatewaySession> {
        self.sessions.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: GatewayId) -> Option<&mut GatewaySession> {
        self.sessions.get_mut(&id)
    }

    pub(super) fn contains(&self, id: GatewayId) -> bool {
        self.sessions.contains_key(&id)
    }

    /// The session of a connected gateway.
    pub(super) fn session(&self, id: GatewayId) -> Option<SessionId> {
        self.sessions.get(&id).map(|session| session.id)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GatewayId, &GatewaySession)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Sessions that came with the token.
    pub(super) fn with_token(&self, token: TokenId) -> Vec<SessionId> {
        let with = self.sessions.values().filter(|it| it.token == token);
        with.map(|session| session.id).collect()
    }

    /// Sessions of those that can tell of flows, and have served.
    pub(super) fn telling_flows(&self) -> Vec<SessionId> {
        let telling = self.sessions.values().filter(|it| it.may_tell_flows());
        telling.map(|session| session.id).collect()
    }

    /// True if the gateway's reports of traffic count: a gateway that never might serve carries nothing.
    pub(super) fn has_served(&self, id: GatewayId) -> bool {
        let session = self.sessions.get(&id);
        session.is_some_and(|session| session.verification.has_served)
    }

    /// Gateways that are connected and wait for verification.
    pub(super) fn awaiting_verification(&self) -> usize {
        let sessions = self.sessions.values();
        let awaiting = sessions.filter(|session| session.verification.told_awaited);
        awaiting.count()
    }

    /// True if the gateway's grants are about to end.
    pub(super) fn is_leaving(&self, id: GatewayId) -> bool {
        self.leaving.contains(&id)
    }

    /// The gateway's grants are about to end.
    pub(super) fn leave(&mut self, id: GatewayId) {
        self.leaving.insert(id);
    }

    /// The gateway may have grants again.
    pub(super) fn stay(&mut self, id: GatewayId) {
        self.leaving.remove(&id);
    }
}
