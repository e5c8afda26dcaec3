//! Grants that are out are looked at again, and end.

use super::Hub;
use super::asks::Pair;
use crate::grants::Stage;
use crate::reasons::{self, StatedReason};
use crate::timers::Timer;
use culvert_ids::{ClientId, GrantId, ResourceId, TokenId};
use culvert_store::{AccessEntry, Decision};
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToClient, ToGateway};
use std::collections::BTreeSet;

impl Hub {
    /// Reviews all grants of the client for the resource against the present configuration.
    pub(super) fn review_grants(&mut self, client: ClientId, resource: ResourceId, now: Timestamp) {
        let pair = (client, resource);
        let ids: Vec<_> = self.grants.of_pair(client, resource).collect();
        if ids.is_empty() {
            return;
        }
        let permit = self.permit(pair, now);
        for id in ids {
            let Some(grant) = self.grants.get(id) else {
                continue;
            };
            let (stage, expires) = (grant.stage, grant.row.expires);
            let refusal = match &permit {
                Ok(permit) if permit.until.is_none_or(|until| expires <= until) => continue,
                Ok(_) => None,
                Err(refusal) => Some(refusal.clone()),
            };
            match (stage, refusal) {
                // It is asked for again under what holds now, or denied.
                (Stage::Offered, _) => {
                    if let Some(ask) = self.take_ask(pair) {
                        self.withdraw(id);
                        self.advance(pair, ask, now);
                    }
                }
                (Stage::Current, None) => self.shorten(pair, now),
                (Stage::Leftover, None) => {
                    let text = "the access ends earlier than before";
                    let refusal = StatedReason::plain(ReasonCode::PolicyChanged, text);
                    self.end_grant(id, &refusal, Decision::Revoked, now);
                }
                (Stage::Current | Stage::Leftover, Some(refusal)) => {
                    self.end_grant(id, &refusal, Decision::Revoked, now);
                }
            }
        }
    }

    /// Reviews all grants of the client against the present configuration.
    pub(super) fn review_client_grants(&mut self, client: ClientId, now: Timestamp) {
        for resource in self.resources_granted(client) {
            self.review_grants(client, resource, now);
        }
    }

    /// The client, its actor or its token may have lost its standing.
    pub(super) fn review_client(&mut self, client: ClientId, now: Timestamp) {
        let token = self.sessions.clients.token(client);
        let rights = self.directory.admit_client(client).map(|_| ());
        let rights = rights.and_then(|()| match token {
            Some(token) => self.directory.admit_token(token, now).map(|_| ()),
            None => Ok(()),
        });
        self.review_client_grants(client, now);
        if let Err(barred) = rights
            && let Some(session) = self.sessions.clients.get(client)
        {
            let reason = StatedReason::barred(barred).brief;
            self.expel(session.id, reason, now);
        }
        if self.directory.client(client).is_none() {
            self.sessions.clients.forget_facts(client);
        }
    }

    /// Reviews the machines that came with the token, which may be invalid now or have another expiry.
    pub(super) fn review_token(&mut self, token: TokenId, now: Timestamp) {
        let clients = self.sessions.clients.with_token(token);
        let gateways = self.sessions.gateways.with_token(token);
        let relays = self.relays.with_token(token);
        let rights = self.directory.admit_token(token, now);
        let expires = rights.ok().and_then(|token| token.expires);
        let rights = rights.map(|_| ());
        if let Some(expires) = expires
            && !(clients.is_empty() && gateways.is_empty() && relays.is_empty())
        {
            self.timers.set(expires, Timer::Token(token));
        }
        for client in clients {
            self.review_client(client, now);
        }
        if let Err(barred) = rights {
            for session in gateways.into_iter().chain(relays) {
                self.expel(session, reasons::not_admitted(barred.known()), now);
            }
        }
    }

    /// Every grant of the client ends: it is worth nothing to what the client is now.
    pub(super) fn end_client_grants(
        &mut self,
        client: ClientId,
        refusal: &StatedReason,
        now: Timestamp,
    ) {
        for resource in self.resources_granted(client) {
            self.end_pair((client, resource), refusal, now);
        }
    }

    /// Ends every grant of the pair, allowed or not.
    pub(super) fn end_pair(&mut self, pair: Pair, refusal: &StatedReason, now: Timestamp) {
        for id in self.grants.of_pair(pair.0, pair.1).collect::<Vec<_>>() {
            let Some(grant) = self.grants.get(id) else {
                continue;
            };
            if grant.stage != Stage::Offered {
                self.end_grant(id, refusal, Decision::Revoked, now);
            } else if let Some(ask) = self.take_ask(pair) {
                self.withdraw(id);
                self.advance(pair, ask, now);
            }
        }
    }

    /// A grant that is out ends now: the gateway is told first, then the client.
    pub(super) fn end_grant(
        &mut self,
        id: GrantId,
        refusal: &StatedReason,
        decision: Decision,
        now: Timestamp,
    ) {
        let Some(grant) = self.drop_grant(id) else {
            return;
        };
        if decision == Decision::Revoked {
            self.counters.revoked += 1;
        }
        if let Some(session) = self.sessions.gateways.get(grant.row.gateway) {
            let revoke = ToGateway::Revoke { grant: id };
            self.outbox.tell_gateway(session.id, revoke);
        }
        if let Some(known_as) = grant.known_as {
            let revoked = ToClient::AccessRevoked {
                grant: known_as,
                reason: refusal.brief.clone(),
            };
            self.send_client(grant.row.client, revoked);
        }
        self.log_end(&grant.row, refusal, decision, now);
        if grant.stage == Stage::Current {
            self.drop_shortening((grant.row.client, grant.row.resource), now);
        }
    }

    pub(super) fn log_end(
        &mut self,
        row: &culvert_store::Grant,
        refusal: &StatedReason,
        decision: Decision,
        now: Timestamp,
    ) {
        self.outbox.log(AccessEntry {
            at: now,
            client: row.client,
            actor: self.directory.client(row.client).map(|row| row.actor),
            resource: row.resource,
            gateway: Some(row.gateway),
            policy: Some(row.policy),
            grant: Some(row.id),
            decision,
            reason: refusal.full.clone(),
        });
    }

    /// Forgets a grant, here and in the store; nobody is told.
    pub(super) fn drop_grant(&mut self, id: GrantId) -> Option<super::Grant> {
        let grant = self.grants.remove(id)?;
        self.timers.clear(grant.row.expires, Timer::Expiry(id));
        if grant.stage != Stage::Offered {
            self.outbox.end(id);
        }
        self.withdraw_unless_served(grant.row.gateway, grant.row.client);
        Some(grant)
    }

    /// Both ends know the time themselves; they are told for the case that their clocks differ.
    pub(super) fn grant_expired(&mut self, id: GrantId, now: Timestamp) {
        let expired = StatedReason::plain(ReasonCode::Expired, "the grant's time is over");
        self.end_grant(id, &expired, Decision::Ended, now);
    }

    fn resources_granted(&self, client: ClientId) -> BTreeSet<ResourceId> {
        let grants = self.grants.of_client(client);
        grants.map(|grant| grant.row.resource).collect()
    }
}
