//! The addresses that one end is told of the other, and the paths that clients tell.

use super::Hub;
use crate::limits::{MAX_CANDIDATES, MAX_CANDIDATES_AT_JOIN};
use crate::session::{ClientPath, ClientRelays};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_store::{Client, PathRule};
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    MAX_RELAY_PLACES, NatMapping, PathKind, RelayReach, ToClient, ToGateway,
};
use culvert_wire::words;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

impl Hub {
    /// True if the ends are told where the other one is.
    pub(super) fn shows_addresses(&self) -> bool {
        self.directory.settings().paths != PathRule::Relayed
    }

    /// True if the account's rule about paths lets the two reach each other. Of a client that is away it is not known
    /// whether it uses relays.
    pub(super) fn is_reached(&self, gateway: GatewayId, client: ClientId) -> bool {
        if self.shows_addresses() {
            return true;
        }
        let given = self.relays.given.get(&gateway);
        let session = self.sessions.clients.get(client);
        given.is_some_and(|given| !given.relays.is_empty())
            && session.is_none_or(|session| session.relaying.uses_relays)
    }

    /// The addresses of a gateway that clients are told.
    pub(super) fn shown_candidates(&self, gateway: GatewayId) -> Vec<SocketAddr> {
        let session = self.sessions.gateways.get(gateway);
        let candidates = session.map(|session| session.announced.candidates());
        candidates
            .filter(|_| self.shows_addresses())
            .unwrap_or_default()
            .to_vec()
    }

    /// Tells a gateway where a client is, if both know what to do with it.
    pub(super) fn tell_client_candidates(&mut self, gateway: GatewayId, client: ClientId) {
        let Some(session) = self.sessions.clients.get(client) else {
            return;
        };
        let (Some(row), Some(at)) = (
            self.directory.client(client),
            self.sessions.gateways.get(gateway),
        ) else {
            return;
        };
        if !at.announced.uses_relays || session.relaying.candidates.is_empty() {
            return;
        }
        let candidates = match self.shows_addresses() {
            true => session.relaying.candidates.clone(),
            false => return,
        };
        let message = ToGateway::ClientCandidates {
            client,
            client_key: row.public_key,
            candidates,
        };
        self.outbox.tell_gateway(at.id, message);
    }

    /// A client is elsewhere: its gateways are told, even if it is nowhere now.
    pub(super) fn move_client(&mut self, client: ClientId, mut candidates: Vec<SocketAddr>) {
        candidates.truncate(MAX_CANDIDATES);
        let Some(session) = self.sessions.clients.get_mut(client) else {
            return;
        };
        if session.relaying.candidates == candidates {
            return;
        }
        session.relaying.candidates = candidates;
        if self.shows_addresses() {
            self.tell_gateways_of(client, true);
        }
    }

    /// Tells the gateways of a client its addresses, or that it has none.
    fn tell_gateways_of(&mut self, client: ClientId, shown: bool) {
        let grants = self.grants.of_client(client);
        let gateways: BTreeSet<GatewayId> = grants.map(|grant| grant.row.gateway).collect();
        let session = self.sessions.clients.get(client);
        let (Some(session), Some(row)) = (session, self.directory.client(client)) else {
            return;
        };
        let candidates = match shown {
            true => session.relaying.candidates.clone(),
            false => Vec::new(),
        };
        let client_key = row.public_key;
        for gateway in gateways {
            let Some(at) = self.sessions.gateways.get(gateway) else {
                continue;
            };
            if at.announced.uses_relays {
                let message = ToGateway::ClientCandidates {
                    client,
                    client_key,
                    candidates: candidates.clone(),
                };
                self.outbox.tell_gateway(at.id, message);
            }
        }
    }

    /// A gateway that has come with grants is told where its clients are.
    pub(super) fn tell_all_candidates(&mut self, gateway: GatewayId) {
        let clients = self.clients_through(gateway).into_iter();
        for client in clients.take(MAX_CANDIDATES_AT_JOIN) {
            self.tell_client_candidates(gateway, client);
        }
    }

    /// The account's rule about paths is another one: what the ends know of each other's addresses is brought up to date.
    pub(super) fn review_paths(&mut self, now: Timestamp) {
        let gateways = self.sessions.gateways.iter();
        let gateways: Vec<_> = gateways.map(|(gateway, _)| gateway).collect();
        for gateway in gateways {
            let candidates = self.shown_candidates(gateway);
            for client in self.clients_through(gateway) {
                let moved = ToClient::GatewayMoved {
                    gateway,
                    candidates: candidates.clone(),
                };
                self.send_client(client, moved);
            }
        }
        let clients = self.sessions.clients.iter();
        let located = clients.filter(|(_, session)| !session.relaying.candidates.is_empty());
        let located: Vec<_> = located.map(|(client, _)| client).collect();
        let shown = self.shows_addresses();
        for client in located {
            self.tell_gateways_of(client, shown);
        }
        self.withdraw_forbidden();
        self.review_relays_of_all(None, now);
        self.tell_places();
    }

    /// A client measured relays.
    pub(super) fn note_reached(&mut self, client: ClientId, relays: Vec<RelayReach>) {
        if let Some(session) = self.sessions.clients.get_mut(client) {
            session.relaying.reached = measured(relays);
        }
    }

    /// A gateway measured the relays that it has. Earlier measurements of other relays stay.
    pub(super) fn note_reached_by_gateway(&mut self, gateway: GatewayId, relays: Vec<RelayReach>) {
        let known: BTreeSet<RelayId> = self.relays.known.keys().copied().collect();
        if let Some(session) = self.sessions.gateways.get_mut(gateway) {
            session.reached.extend(measured(relays));
            session.reached.retain(|relay, _| known.contains(relay));
        }
    }

    /// The path from a client to a gateway is another one.
    pub(super) fn note_path(&mut self, client: ClientId, gateway: GatewayId, path: ClientPath) {
        if !self.grants.serves(gateway, client) {
            self.counters.ignored += 1;
            return;
        }
        if let Some(session) = self.sessions.clients.get_mut(client) {
            session.relaying.paths.insert(gateway, path);
            self.path_history.note(client, gateway, path);
        }
    }

    /// Relays show another NAT in front of a client.
    pub(super) fn note_nat(&mut self, client: ClientId, mapping: NatMapping) {
        if let Some(session) = self.sessions.clients.get_mut(client) {
            session.relaying.nat = Some(mapping);
        }
    }

    /// The path by which a flow of the client went through the gateway, which ended at `ended`.
    pub(super) fn path_of_flow(
        &self,
        client: ClientId,
        gateway: GatewayId,
        ended: Timestamp,
    ) -> Option<(PathKind, Option<RelayId>)> {
        if let Some(path) = self.path_history.at(client, gateway, ended) {
            return Some((path.path, path.relay));
        }
        let row = self.directory.client(client);
        if row.is_some_and(Client::is_plain) {
            // A plain device knows no relay.
            return Some((PathKind::Direct, None));
        }
        // Only of a gateway with relays does a client tell its path.
        let given = self.relays.given.get(&gateway);
        let has_relays = given.is_some_and(|given| !given.relays.is_empty());
        let session = self.sessions.clients.get(client);
        let knows_relays = session.is_none_or(|session| session.relaying.uses_relays);
        (!has_relays || !knows_relays).then_some((PathKind::Direct, None))
    }

    /// The reason why a path is not direct, in words.
    pub(super) fn why_not_direct(
        &self,
        client: &ClientRelays,
        gateway: GatewayId,
        path: &ClientPath,
    ) -> Option<String> {
        let session = self.sessions.gateways.get(gateway);
        let why = words::why_not_direct(words::PathFacts {
            path: path.path,
            client: client.nat,
            gateway: session.and_then(|session| session.nat),
            has_address: !self.shown_candidates(gateway).is_empty(),
        });
        why.map(str::to_owned)
    }
}

/// The round trips in microseconds, of as many relays as a client is told of.
fn measured(relays: Vec<RelayReach>) -> BTreeMap<RelayId, u32> {
    let some = relays.into_iter().take(MAX_RELAY_PLACES);
    some.map(|reach| (reach.relay, reach.round_trip_us))
        .collect()
}

impl ClientPath {
    /// A path that a client told. Only one through a relay names one.
    pub(super) fn told(
        path: PathKind,
        relay: Option<RelayId>,
        round_trip_us: Option<u32>,
        since: Timestamp,
    ) -> Self {
        Self {
            path,
            relay: relay.filter(|_| path != PathKind::Direct),
            round_trip_us,
            since,
        }
    }
}
