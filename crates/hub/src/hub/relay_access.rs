//! The relays of each gateway, and the tokens for them.
//!
//! A gateway has up to [`RELAYS_PER_GATEWAY`] relays, and its clients use the same. New tokens are made in rounds: for the
//! gateway at once, and for its clients in steps, so that a large gateway does not hold up the hub.

use super::Hub;
use crate::limits::{
    RELAY_COST_CLIENTS, RELAY_RATE_BYTES_PER_S, RELAY_STEP_CLIENTS, RELAY_STEP_MS,
    RELAY_SWITCH_GAIN_US, RELAY_TOKEN_MS, UNKNOWN_ROUND_TRIP_US,
};
use crate::output::SessionId;
use crate::relays::Progress;
use crate::session::IssuedRelays;
use crate::timers::{Timer, later};
use culvert_base::LogLine;
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_store::PathRule;
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    RELAYS_PER_GATEWAY, RelayAccess, RelayClaims, ToClient, ToGateway, ToRelay,
};
use std::collections::BTreeSet;
use std::ops::Bound;

impl Hub {
    /// Chooses anew for every gateway. Ends that use `renewed` get new tokens even if the choice stays.
    pub(super) fn review_relays_of_all(&mut self, renewed: Option<RelayId>, now: Timestamp) {
        let connected = self.sessions.gateways.iter();
        let connected = connected.map(|(gateway, _)| gateway);
        let given = self.relays.given.keys().copied();
        let gateways: BTreeSet<GatewayId> = connected.chain(given).collect();
        for gateway in gateways {
            let given = self.relays.given.get(&gateway);
            let uses = |renewed: RelayId| {
                let mut relays = given.iter().flat_map(|given| &given.relays);
                relays.any(|(relay, _)| *relay == renewed)
            };
            let is_renewed = renewed.is_some_and(uses);
            self.review_relays(gateway, is_renewed, now);
        }
    }

    /// Chooses the relays of a gateway. If they are others than before, or `anew`, its ends get new tokens. One that is
    /// away keeps those that it may use, until it is back.
    pub(super) fn review_relays(&mut self, gateway: GatewayId, anew: bool, now: Timestamp) {
        let session = self.sessions.gateways.get(gateway);
        let given = self.relays.given.get(&gateway);
        let mut relays = given.iter().flat_map(|given| &given.relays);
        let keeps = match session {
            Some(session) if session.announced.uses_relays => true,
            Some(_) => false,
            None => relays.all(|(relay, _)| self.may_use_relay(gateway, *relay)),
        };
        let is_connected = session.is_some();
        if !keeps && given.is_some() {
            self.forget_relays_of(gateway);
        }
        if !is_connected || !keeps {
            return;
        }
        let chosen = self.choose_relays(gateway, now);
        let given = self.relays.given.entry(gateway).or_default();
        let before = std::mem::replace(&mut given.relays, chosen.clone());
        if before == chosen && (!anew || chosen.is_empty()) {
            return;
        }
        self.begin_round(gateway, now);
    }

    /// The best relays for a gateway, each with its port there.
    fn choose_relays(&mut self, gateway: GatewayId, now: Timestamp) -> Vec<(RelayId, u16)> {
        if self.directory.settings().paths == PathRule::Direct {
            return Vec::new();
        }
        let given = self.relays.given.get(&gateway);
        let is_given = |id: RelayId| {
            let mut relays = given.iter().flat_map(|given| &given.relays);
            relays.any(|(relay, _)| *relay == id)
        };
        let clients = self.clients_through(gateway);
        let clients: Vec<_> = clients.into_iter().take(RELAY_COST_CLIENTS).collect();
        let mut ranked: Vec<_> = self
            .relays
            .known
            .iter()
            .filter(|(id, relay)| relay.session.is_some() || is_given(**id))
            .filter(|(id, _)| self.may_use_relay(gateway, **id))
            .filter(|(id, _)| !self.is_relay_draining(**id) || is_given(**id))
            .map(|(id, relay)| {
                let gain = if is_given(*id) {
                    0
                } else {
                    RELAY_SWITCH_GAIN_US
                };
                let cost = self.relay_cost(gateway, &clients, *id).saturating_add(gain);
                let load = relay.load;
                let busy = (load.processor_permille, load.clients);
                (self.is_relay_draining(*id), cost, busy, *id)
            })
            .collect();
        ranked.sort_unstable();
        let is_all_draining = ranked.first().is_some_and(|(drains, ..)| *drains);
        let until = later(now, RELAY_TOKEN_MS);
        let mut chosen = Vec::new();
        for (drains, .., id) in ranked {
            if chosen.len() == RELAYS_PER_GATEWAY || (drains && !is_all_draining) {
                break;
            }
            let relay = self.relays.known.get_mut(&id);
            let port = relay.and_then(|relay| relay.ports.assign(gateway, now, until));
            chosen.extend(port.map(|port| (id, port)));
        }
        chosen
    }

    /// True if the account and the site let the gateway use the relay.
    fn may_use_relay(&self, gateway: GatewayId, relay: RelayId) -> bool {
        let site = self.directory.gateway(gateway).map(|row| row.site);
        self.directory.settings().paths != PathRule::Direct
            && self.directory.admit_relay(relay).is_ok()
            && site.is_some_and(|site| self.directory.site_uses_relay(site, relay))
    }

    /// The round trip from a gateway to its clients through a relay, in microseconds: its own to the relay, and the
    /// mean of those of its clients that told theirs.
    fn relay_cost(&self, gateway: GatewayId, clients: &[ClientId], relay: RelayId) -> u64 {
        let session = self.sessions.gateways.get(gateway);
        let own = session.and_then(|it| it.reached.get(&relay).copied());
        let own = own.map_or(UNKNOWN_ROUND_TRIP_US, u64::from);
        let of_clients = clients.iter().filter_map(|client| {
            let session = self.sessions.clients.get(*client)?;
            session.relaying.reached.get(&relay).copied()
        });
        let (mut sum, mut count) = (0_u64, 0_u64);
        for round_trip in of_clients {
            sum += u64::from(round_trip);
            count += 1;
        }
        own + sum.checked_div(count).unwrap_or(UNKNOWN_ROUND_TRIP_US)
    }

    /// Tokens for relays that the account or the site no longer allows count no more.
    pub(super) fn withdraw_forbidden(&mut self) {
        let relays: Vec<RelayId> = self.relays.known.keys().copied().collect();
        for relay in relays {
            self.withdraw_forbidden_at(relay);
        }
    }

    /// The same at one relay. The gateways keep what they have at others.
    fn withdraw_forbidden_at(&mut self, relay: RelayId) {
        let Some(known) = self.relays.known.get(&relay) else {
            return;
        };
        let held = known.ports.held().into_iter();
        let forbidden = held.filter(|port| !self.may_use_relay(port.gateway, relay));
        for port in forbidden.collect::<Vec<_>>() {
            let Some(known) = self.relays.known.get_mut(&relay) else {
                return;
            };
            known.ports.release(port.gateway);
            let until = known.issues.withdraw();
            if let Some(session) = known.session {
                let withdraw = ToRelay::Withdraw {
                    gateway: port.gateway,
                    client: None,
                    until,
                };
                self.outbox.tell_relay(session.id, withdraw);
            }
        }
    }

    /// New tokens for a gateway, and then for its clients.
    fn begin_round(&mut self, gateway: GatewayId, now: Timestamp) {
        let round = self.relays.next_round();
        let Some(given) = self.relays.given.get_mut(&gateway) else {
            return;
        };
        given.round = round;
        given.progress = Progress::Clients(None);
        let relays = self.issue_relays(gateway, None, now);
        if let Some(session) = self.sessions.gateways.session(gateway) {
            self.outbox
                .tell_gateway(session, ToGateway::RelaysSet { relays });
        }
        self.go_on_with_round(gateway, now);
    }

    /// Gives some more clients the tokens of this round.
    fn go_on_with_round(&mut self, gateway: GatewayId, now: Timestamp) {
        let Some(given) = self.relays.given.get(&gateway) else {
            return;
        };
        let Progress::Clients(after) = given.progress else {
            return;
        };
        let behind = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Unbounded,
        };
        let clients = self.clients_through(gateway);
        let some = clients.range((behind, Bound::Unbounded));
        let some: Vec<_> = some.copied().take(RELAY_STEP_CLIENTS).collect();
        for client in &some {
            self.tell_relays(*client, gateway, now);
        }
        let is_done = some.len() < RELAY_STEP_CLIENTS;
        let (progress, wait_ms) = match is_done {
            true => (Progress::Done, RELAY_TOKEN_MS / 2),
            false => (Progress::Clients(some.last().copied()), RELAY_STEP_MS),
        };
        if let Some(given) = self.relays.given.get_mut(&gateway) {
            self.timers.clear(given.next, Timer::Relays(gateway));
            given.progress = progress;
            given.next = later(now, wait_ms);
            self.timers.set(given.next, Timer::Relays(gateway));
        }
    }

    /// The next step of a round is due, or the next round.
    pub(super) fn renew_relays(&mut self, gateway: GatewayId, now: Timestamp) {
        let Some(given) = self.relays.given.get(&gateway) else {
            return;
        };
        match given.progress {
            Progress::Clients(_) => self.go_on_with_round(gateway, now),
            Progress::Done if self.sessions.gateways.contains(gateway) => {
                self.review_relays(gateway, true, now);
            }
            // It gets new ones when it is back.
            Progress::Done => {}
        }
    }

    /// The gateway is gone: nobody reaches it through a relay.
    pub(super) fn forget_relays_of(&mut self, gateway: GatewayId) {
        let given = self.relays.given.remove(&gateway);
        if let Some(given) = &given {
            self.timers.clear(given.next, Timer::Relays(gateway));
        }
        let mut known = self.relays.known.values();
        let has_port = known.any(|relay| relay.ports.find(gateway).is_some());
        if has_port || given.is_some() {
            self.withdraw_relays(gateway, None);
        }
    }

    /// Tells a client that has come of the relays of the gateways that it uses: what it knows from before may be of keys
    /// that count no more. A gateway that is not back yet brings its relays with it.
    pub(super) fn tell_relays_in_use(&mut self, client: ClientId, now: Timestamp) {
        let grants = self.grants.of_client(client);
        let gateways: BTreeSet<GatewayId> = grants.map(|grant| grant.row.gateway).collect();
        for gateway in gateways {
            let given = self.relays.given.get(&gateway);
            if given.is_some_and(|given| !given.relays.is_empty()) {
                self.tell_relays(client, gateway, now);
            }
        }
    }

    /// Tells a client of the relays of a gateway, unless it knows them.
    fn tell_relays(&mut self, client: ClientId, gateway: GatewayId, now: Timestamp) {
        let round = self.relays.given.get(&gateway).map(|given| given.round);
        let Some(session) = self.sessions.clients.get(client) else {
            return;
        };
        let issued = session.relaying.issued.get(&gateway);
        let is_known = issued.is_some_and(|issued| Some(issued.round) == round);
        if !session.relaying.uses_relays || is_known {
            return;
        }
        let id = session.id;
        let relays = self.client_relays(client, gateway, now);
        self.outbox
            .tell_client(id, ToClient::RelaysSet { gateway, relays });
    }

    /// The relays of a gateway, with tokens for a client: those that it has, or new ones.
    pub(super) fn client_relays(
        &mut self,
        client: ClientId,
        gateway: GatewayId,
        now: Timestamp,
    ) -> Vec<RelayAccess> {
        let Some(round) = self.relays.given.get(&gateway).map(|given| given.round) else {
            return Vec::new();
        };
        let Some(session) = self.sessions.clients.get(client) else {
            return Vec::new();
        };
        if !session.relaying.uses_relays {
            return Vec::new();
        }
        if let Some(issued) = session.relaying.issued.get(&gateway)
            && issued.round == round
        {
            return issued.relays.clone();
        }
        let relays = self.issue_relays(gateway, Some(client), now);
        if let Some(session) = self.sessions.clients.get_mut(client) {
            let issued = IssuedRelays {
                round,
                relays: relays.clone(),
            };
            session.relaying.issued.insert(gateway, issued);
        }
        relays
    }

    /// Tokens for the relays of a gateway, for itself or for one of its clients. A client has the relay first over which
    /// the two are closest.
    fn issue_relays(
        &mut self,
        gateway: GatewayId,
        client: Option<ClientId>,
        now: Timestamp,
    ) -> Vec<RelayAccess> {
        let public_key = match client {
            Some(client) => self.directory.client(client).map(|row| row.public_key),
            None => self.directory.gateway(gateway).map(|row| row.public_key),
        };
        let given = self.relays.given.get(&gateway);
        let (Some(public_key), Some(given)) = (public_key, given) else {
            return Vec::new();
        };
        let mut relays = given.relays.clone();
        relays.sort_by_key(|(relay, _)| self.distance(gateway, client, *relay));
        let (mut issued, mut last) = (Vec::new(), None);
        for (relay, port) in relays {
            let Some(known) = self.relays.known.get_mut(&relay) else {
                continue;
            };
            let iat = known.issues.issue(now);
            let exp = later(iat, RELAY_TOKEN_MS);
            let claims = RelayClaims {
                relay,
                port,
                gateway,
                client,
                public_key,
                key: self.random.key(),
                rate_bytes_per_s: RELAY_RATE_BYTES_PER_S,
                iat,
                exp,
            };
            match self.signer.seal(&known.key, &claims) {
                Ok(token) => {
                    known.ports.assign(gateway, now, exp);
                    last = last.max(Some(iat));
                    issued.push(RelayAccess {
                        place: known.place.clone(),
                        port,
                        token,
                        key: claims.key,
                        expires: exp,
                    });
                }
                Err(error) => {
                    let line = LogLine::error("no token for a relay")
                        .with("relay", relay)
                        .with("error", error);
                    self.outbox.push_line(line);
                }
            }
        }
        if let Some(last) = last {
            self.relays.note_issue(last);
        }
        if let Some(client) = client.filter(|_| !issued.is_empty()) {
            self.relays.pairs.insert((gateway, client));
        }
        issued
    }

    /// The round trip from one end to the other through a relay, as far as it is known.
    fn distance(&self, gateway: GatewayId, client: Option<ClientId>, relay: RelayId) -> u64 {
        let session = self.sessions.gateways.get(gateway);
        let own = session.and_then(|it| it.reached.get(&relay).copied());
        let client = client.and_then(|client| self.sessions.clients.get(client));
        let others = client.and_then(|it| it.relaying.reached.get(&relay).copied());
        let known = |round_trip: Option<u32>| round_trip.map_or(UNKNOWN_ROUND_TRIP_US, u64::from);
        known(own) + known(others)
    }

    /// A grant has ended. If it was the pair's last one, the client's tokens count no more.
    pub(super) fn withdraw_unless_served(&mut self, gateway: GatewayId, client: ClientId) {
        if self.grants.serves(gateway, client) || !self.relays.pairs.remove(&(gateway, client)) {
            return;
        }
        self.withdraw_relays(gateway, Some(client));
        if let Some(session) = self.sessions.clients.get_mut(client) {
            session.relaying.issued.remove(&gateway);
            session.relaying.paths.remove(&gateway);
        }
    }

    /// Tokens of a gateway or of one of its clients count no more. Those of a gateway include its clients'.
    pub(super) fn withdraw_relays(&mut self, gateway: GatewayId, client: Option<ClientId>) {
        if client.is_none() {
            self.relays.forget_pairs(gateway);
        }
        for (session, until) in self.relays.withdraw(gateway, client) {
            let withdraw = ToRelay::Withdraw {
                gateway,
                client,
                until,
            };
            self.outbox.tell_relay(session, withdraw);
        }
    }

    /// A relay that comes back hears what was withdrawn while it was away, and which gateways may not use it any more.
    pub(super) fn repeat_withdrawals(
        &mut self,
        relay: RelayId,
        session: SessionId,
        now: Timestamp,
    ) {
        let recent = self.relays.withdrawals.recent(now);
        let Some(known) = self
            .relays
            .known
            .get_mut(&relay)
            .filter(|_| !recent.is_empty())
        else {
            return self.withdraw_forbidden_at(relay);
        };
        // All tokens of the relay's earlier keys, and of this one none yet.
        let until = known.issues.withdraw();
        for (gateway, client) in recent {
            let withdraw = ToRelay::Withdraw {
                gateway,
                client,
                until,
            };
            self.outbox.tell_relay(session, withdraw);
        }
        // The account or the site may allow less by now.
        self.withdraw_forbidden_at(relay);
    }
}
