//! Effects of a change of the configuration on connected machines and their grants.

use super::Hub;
use super::asks::Pair;
use crate::directory::{Effect, FeedError, MachineChange, ResourceChange};
use crate::reasons::{self, StatedReason};
use crate::sessions::Party;
use culvert_ids::{ActorId, ClientId, GatewayId, RelayId, ResourceId, TokenId};
use culvert_store::{Change, Client, Decision};
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToGateway};
use std::collections::{BTreeMap, BTreeSet};

/// Items to review after some changes; everything else is as it was.
#[derive(Debug, Default)]
struct Work {
    ranges: bool,
    dns: bool,
    ended_access: bool,
    flow_log: bool,
    paths: bool,
    site_relays: bool,
    relays: BTreeSet<RelayId>,
    pairs: BTreeSet<Pair>,
    resources: BTreeMap<ResourceId, ResourceChange>,
    clients: BTreeMap<ClientId, MachineChange>,
    gateways: BTreeMap<GatewayId, MachineChange>,
    tokens: BTreeMap<TokenId, Option<ActorId>>,
}

impl Hub {
    /// Follows the feed. Changes that are in already are passed over.
    ///
    /// # Errors
    /// [`FeedError`] where something is missing; nothing has changed then.
    pub fn handle_changes(&mut self, changes: &[Change], now: Timestamp) -> Result<(), FeedError> {
        self.directory.expect(changes)?;
        let mut work = Work::default();
        for change in changes {
            // One by one: a policy and a membership that go together are each found while the
            // other is still there.
            for effect in self.directory.apply(change) {
                self.collect(effect, &mut work);
            }
        }
        self.review_machines(&work, now);
        self.review_resources(&work, now);
        self.review_standing(&work, now);
        for relay in &work.relays {
            self.review_relay(*relay, now);
        }
        if work.paths {
            self.review_paths(now);
        } else if work.site_relays {
            self.withdraw_forbidden();
            self.review_relays_of_all(None, now);
        }
        if work.dns {
            self.tell_dns();
        }
        if work.ended_access {
            self.tell_ended_access();
        }
        if work.flow_log {
            self.tell_flow_log_to_all();
        }
        if work.ranges {
            let reason = "the networks of the tunnel have changed; connect again";
            let reason = reasons::brief(ReasonCode::TryLater, reason);
            for session in self.sessions.ids() {
                if matches!(self.sessions.party(session), Some(Party::Relay(_))) {
                    // It has no address inside the tunnel.
                    continue;
                }
                self.expel(session, reason.clone(), now);
            }
        }
        self.finish(now);
        Ok(())
    }

    fn collect(&self, effect: Effect, work: &mut Work) {
        match effect {
            Effect::Ranges => work.ranges = true,
            Effect::Dns => work.dns = true,
            Effect::EndedAccess => work.ended_access = true,
            Effect::FlowLog => work.flow_log = true,
            Effect::Paths => work.paths = true,
            Effect::SiteRelays => work.site_relays = true,
            Effect::Relay(relay) => {
                work.relays.insert(relay);
            }
            Effect::Policy { group, resource } => {
                let clients = self.directory.clients_in(group);
                work.pairs.extend(clients.map(|client| (client, resource)));
            }
            Effect::Member { actor, group } => {
                for client in self.directory.clients_of(actor) {
                    let resources = self.directory.resources_of(group);
                    work.pairs
                        .extend(resources.map(|resource| (client, resource)));
                }
            }
            Effect::Resource { id, change } => {
                if matches!(change, ResourceChange::Place | ResourceChange::Applications) {
                    for policy in self.directory.policies(id) {
                        let clients = self.directory.clients_in(policy.group);
                        work.pairs.extend(clients.map(|client| (client, id)));
                    }
                }
                let known = work.resources.entry(id).or_insert(change);
                *known = (*known).max(change);
            }
            Effect::Actor(actor) => {
                for client in self.directory.clients_of(actor) {
                    work.clients.entry(client).or_insert(MachineChange::Rights);
                }
            }
            Effect::Token { id, actor } => {
                work.tokens.insert(id, actor);
            }
            Effect::Client { id, change } => {
                let known = work.clients.entry(id).or_insert(change);
                *known = (*known).max(change);
            }
            Effect::Gateway { id, change } => {
                let known = work.gateways.entry(id).or_insert(change);
                *known = (*known).max(change);
            }
        }
    }

    fn review_machines(&mut self, work: &Work, now: Timestamp) {
        for (gateway, change) in &work.gateways {
            self.review_gateway(*gateway, *change, now);
        }
        for (client, change) in &work.clients {
            if *change == MachineChange::Identity {
                self.endpoints.forget_client(*client);
                let text = "the client has another key or other addresses now";
                let refusal = StatedReason::plain(ReasonCode::Revoked, text);
                self.end_client_grants(*client, &refusal, now);
                if self.directory.admit_client(*client).is_ok()
                    && let Some(session) = self.sessions.clients.get(*client)
                {
                    self.expel(session.id, reasons::replaced(), now);
                }
            }
            self.review_client(*client, now);
        }
        for (token, actor) in &work.tokens {
            self.review_token(*token, now);
            if let Some(actor) = actor {
                self.review_restored(*token, *actor, now);
            }
        }
    }

    /// Standing grants that begin, or are no longer possible. The grants that end have ended.
    fn review_standing(&mut self, work: &Work, now: Timestamp) {
        if work.ranges || work.paths {
            self.review_all_standing(now);
            return;
        }
        let of_pairs = work.pairs.iter().map(|(client, _)| *client);
        let of_gateways = work.gateways.keys().copied();
        let of_gateways = of_gateways.flat_map(|id| self.directory.plain_clients_of(id));
        let touched = work.clients.keys().copied();
        let touched: BTreeSet<_> = touched.chain(of_pairs).chain(of_gateways).collect();
        for client in touched {
            self.serve_standing(client, now);
        }
    }

    fn review_gateway(&mut self, id: GatewayId, change: MachineChange, now: Timestamp) {
        let admitted = self.directory.admit_gateway(id).map(|row| row.draining);
        let session = self.sessions.gateways.session(id);
        let reason = match (admitted, change) {
            (Ok(draining), MachineChange::Rights) => {
                self.drain(id, draining);
                self.review_verification(id, now);
                return;
            }
            (Ok(_), MachineChange::Identity) => reasons::replaced(),
            (Err(barred), _) => reasons::not_admitted(barred.known()),
        };
        match session {
            Some(session) => self.expel(session, reason, now),
            // Grants that it may have from before the portal's start are void as well.
            None => self.lose_gateway(id, now),
        }
    }

    fn drain(&mut self, id: GatewayId, on: bool) {
        if !on {
            self.sessions.gateways.stay(id);
        }
        let Some(session) = self.sessions.gateways.get_mut(id) else {
            return;
        };
        if session.told_draining != on {
            session.told_draining = on;
            self.outbox
                .tell_gateway(session.id, ToGateway::Drain { on });
        }
    }

    /// Of clients that have not come since the portal's start it is not known with which token they
    /// last came. It may be this one: what it no longer allows ends.
    fn review_restored(&mut self, token: TokenId, actor: ActorId, now: Timestamp) {
        let admitted = self.directory.admit_token(token, now);
        let limit = admitted.map_or(Some(now), |token| token.expires);
        let Some(limit) = limit else {
            return;
        };
        let text = "the token that the client may have come with is not accepted for so long";
        let refusal = StatedReason::new(
            ReasonCode::Revoked,
            "the token of this client was revoked",
            text,
        );
        for client in self.directory.clients_of(actor).collect::<Vec<_>>() {
            // A plain device has no token.
            let row = self.directory.client(client);
            let is_plain = row.is_some_and(Client::is_plain);
            if is_plain || self.sessions.clients.token(client).is_some() {
                continue;
            }
            let grants = self.grants.of_client(client);
            let beyond: Vec<_> = grants
                .filter(|grant| grant.row.expires > limit)
                .map(|grant| grant.row.id)
                .collect();
            for grant in beyond {
                self.end_grant(grant, &refusal, Decision::Revoked, now);
            }
        }
    }

    fn review_resources(&mut self, work: &Work, now: Timestamp) {
        let moved = work.resources.iter();
        let moved = moved.filter(|(_, change)| **change == ResourceChange::Place);
        for (resource, _) in moved {
            let text = "the resource is another one now, or gone";
            let refusal = StatedReason::plain(ReasonCode::PolicyChanged, text);
            let granted: BTreeSet<_> = self
                .grants
                .of_resource(*resource)
                .map(|grant| (grant.row.client, grant.row.resource))
                .collect();
            for pair in granted {
                self.end_pair(pair, &refusal, now);
            }
        }
        for (resource, change) in &work.resources {
            if *change == ResourceChange::Applications {
                self.change_applications(*resource, now);
            }
        }
        for (client, resource) in &work.pairs {
            self.review_grants(*client, *resource, now);
        }
        for (resource, change) in &work.resources {
            if matches!(
                *change,
                ResourceChange::Filters | ResourceChange::Applications
            ) {
                self.change_filters(*resource);
            }
        }
        let shown: BTreeSet<_> = work.resources.keys().copied().collect();
        for (client, resource) in &work.pairs {
            self.show(*client, *resource, shown.contains(resource));
        }
        for resource in shown {
            self.show_to_all(resource, &work.pairs);
        }
    }

    /// Ends grants of clients that are not known to enforce the resource's rule about applications.
    /// The other clients are told of the rule.
    fn change_applications(&mut self, resource: ResourceId, now: Timestamp) {
        let granted: BTreeSet<_> = self
            .grants
            .of_resource(resource)
            .map(|grant| (grant.row.client, grant.row.resource))
            .collect();
        for pair in granted {
            if !self.can_have(pair.0, pair.1) {
                self.end_pair(pair, &StatedReason::applications(), now);
            }
        }
    }

    fn change_filters(&mut self, resource: ResourceId) {
        let gateways: BTreeSet<_> = self
            .grants
            .of_resource(resource)
            .map(|grant| grant.row.gateway)
            .collect();
        for gateway in gateways {
            self.send_filters(gateway, resource);
        }
    }

    /// Brings a resource that has changed up to date for everyone who was told of it, but for the
    /// pairs that are done.
    fn show_to_all(&mut self, resource: ResourceId, done: &BTreeSet<Pair>) {
        for client in self.sessions.clients.told(resource) {
            if !done.contains(&(client, resource)) {
                self.show(client, resource, true);
            }
        }
        if self.directory.resource(resource).is_none() {
            self.sessions.clients.release(resource);
        }
    }
}
