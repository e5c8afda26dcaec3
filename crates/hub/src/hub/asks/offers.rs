//! A grant is made, offered to a gateway, and put in force or taken back.

use super::ask::{Ask, Offer, Permit, Purpose, Waiter};
use super::pair::Pair;
use crate::grants::NewNames;
use crate::grants::{Grant, Stage};
use crate::hub::Hub;
use crate::limits::{GRANT_ANSWER_MS, MAX_GRANTS_PER_CLIENT};
use crate::reasons::StatedReason;
use crate::timers::{Timer, later};
use culvert_base::LogLine;
use culvert_ids::{ClientId, GatewayId, GrantId};
use culvert_store::AccessEntry;
use culvert_wire::messages::{
    GrantLabels, Interface, MAX_NAMES, Reason, ReasonCode, ResolvedName, ToClient, ToGateway,
};
use culvert_wire::{Cipher, GrantClaims, GrantTarget, Timestamp};
use std::collections::BTreeSet;

impl Hub {
    pub(super) fn offer(
        &mut self,
        pair: Pair,
        ask: &Ask,
        permit: Permit,
        gateway: GatewayId,
        now: Timestamp,
    ) -> Result<Offer, StatedReason> {
        if self.grants.of_client(pair.0).count() >= MAX_GRANTS_PER_CLIENT {
            let text = "the client has more grants than the portal keeps";
            return Err(StatedReason::plain(ReasonCode::TooMany, text));
        }
        let row = self.row_of(pair, permit, gateway, now)?;
        let internal = || StatedReason::plain(ReasonCode::Internal, "the grant could not be made");
        let claims = self.claims(&row).ok_or_else(internal)?;
        let token = self.signer.sign(&claims).map_err(|_| internal())?;
        let preshared_key = self
            .preshared_key_of(pair.0, gateway)
            .ok_or_else(internal)?;
        self.grants
            .forget_names(pair.0, &NewNames::new(ask.wish.names.values()));
        let current = self.grants.current(pair.0, pair.1);
        let replaces = current.filter(|current| current.row.gateway == gateway);
        let mut names: Vec<_> = ask.wish.names.values().cloned().collect();
        if replaces.is_none() {
            // Another gateway knows none of the names.
            let room = MAX_NAMES.saturating_sub(names.len());
            let known = current.into_iter().flat_map(|current| &current.names);
            let missing = known.filter(|name| !ask.wish.names.contains_key(&name.name));
            names.extend(missing.rev().take(room).cloned());
        }
        let message = ToGateway::Grant {
            token,
            preshared_key,
            replaces: replaces.map(|current| current.row.id),
            names: names.clone(),
            labels: self.labels_of(pair),
        };
        let is_new = !self.grants.serves(gateway, pair.0);
        if is_new {
            self.tell_client_candidates(gateway, pair.0);
        }
        let session = self
            .sessions
            .gateways
            .get_mut(gateway)
            .ok_or_else(internal)?;
        if is_new {
            session.load.give();
        }
        self.outbox.tell_gateway(session.id, message);
        let offer = Offer {
            grant: row.id,
            gateway,
            deadline: later(now, GRANT_ANSWER_MS),
            is_expedited: false,
        };
        self.timers.set(offer.deadline, Timer::Offer(offer.grant));
        self.grants.insert(Grant {
            row,
            stage: Stage::Offered,
            known_as: None,
            needs_recheck: false,
            names,
        });
        Ok(offer)
    }

    /// The names of the two, for a gateway's log.
    fn labels_of(&self, (client, resource): Pair) -> GrantLabels {
        let client = self.directory.client(client);
        let resource = self.directory.resource(resource);
        GrantLabels {
            client: client.map(|row| row.name.clone()),
            resource: resource.map(|row| row.shown.name.clone()),
        }
    }

    fn row_of(
        &mut self,
        (client, resource): Pair,
        permit: Permit,
        gateway: GatewayId,
        now: Timestamp,
    ) -> Result<culvert_store::Grant, StatedReason> {
        let ciphers = |ciphers: Option<&Vec<Cipher>>| ciphers.cloned().unwrap_or_default();
        let of_client = ciphers(self.sessions.clients.get(client).map(|it| &it.ciphers));
        let of_gateway = ciphers(
            self.sessions
                .gateways
                .get(gateway)
                .map(|it| &it.announced.ciphers),
        );
        let earlier = self.grants.current(client, resource);
        let earlier = earlier.filter(|grant| grant.row.gateway == gateway);
        let cipher = match earlier {
            // The client is away and its grant is only shortened: what it does fast has not changed.
            Some(grant) if !self.sessions.clients.contains(client) => grant.row.cipher,
            _ => Cipher::choose(&of_client, &of_gateway),
        };
        let lifetime_ms = u64::from(self.directory.settings().grant_lifetime_s) * 1_000;
        let longest = later(now, lifetime_ms);
        Ok(culvert_store::Grant {
            id: self.random.grant_id(now),
            client,
            gateway,
            resource,
            policy: permit.policy,
            cipher,
            issued: now,
            expires: permit.until.map_or(longest, |until| until.min(longest)),
        })
    }

    fn claims(&self, row: &culvert_store::Grant) -> Option<GrantClaims> {
        let client = self.directory.client(row.client)?;
        let resource = self.directory.resource(row.resource)?;
        Some(GrantClaims {
            grant: row.id,
            client: row.client,
            client_key: client.public_key,
            client_ipv4: client.ipv4,
            client_ipv6: client.ipv6,
            gateway: row.gateway,
            resource: row.resource,
            target: GrantTarget::new(
                resource.shown.target.known()?.clone(),
                resource.within.as_ref(),
            ),
            filters: resource.shown.filters.clone(),
            inbound: resource.shown.inbound.clone(),
            cipher: row.cipher,
            plain: client.is_plain(),
            iat: row.issued,
            exp: row.expires,
        })
    }

    /// The gateway enforces the grant.
    pub(crate) fn offer_accepted(
        &mut self,
        gateway: GatewayId,
        grant: GrantId,
        names: &[ResolvedName],
        now: Timestamp,
    ) {
        let Some((pair, ask)) = self.take_offered(gateway, grant) else {
            self.counters.ignored += 1;
            return;
        };
        self.note_answer(gateway, &ask, now);
        let (known_as, is_cut) = self.supersede(pair, gateway, grant, &ask.wish.avoid);
        self.grants.set_stage(grant, Stage::Current);
        let Some(accepted) = self.grants.get_mut(grant) else {
            return;
        };
        accepted.known_as = match ask.purpose {
            Purpose::Answer => Some(grant),
            Purpose::Shorten => known_as,
        };
        let row = accepted.row.clone();
        self.timers.set(row.expires, Timer::Expiry(grant));
        self.outbox.save(row.clone());
        self.refusals.at_host.forget(pair.1);
        self.watch_standing(&row);
        if known_as.is_none() {
            self.tell_names_elsewhere_anew(pair.0);
        }
        self.counters.granted += 1;
        self.outbox.log(AccessEntry {
            at: now,
            client: pair.0,
            actor: self.directory.client(pair.0).map(|row| row.actor),
            resource: pair.1,
            gateway: Some(gateway),
            policy: Some(row.policy),
            grant: Some(grant),
            decision: culvert_store::Decision::Granted,
            reason: "a policy allows it".to_owned(),
        });
        for waiter in &ask.wish.waiters {
            self.answer(&row, waiter, names, now);
        }
        if let Some(old) = known_as.filter(|_| is_cut) {
            // Otherwise it would keep to the old one until its flows end.
            let text = "another gateway has taken the place of this one";
            let revoked = ToClient::AccessRevoked {
                grant: old,
                reason: StatedReason::plain(ReasonCode::NoGateway, text).brief,
            };
            self.send_client(pair.0, revoked);
        }
        if let Some(next) = ask.next {
            self.start(pair, next, now);
        }
    }

    /// Makes room for the grant that takes the place of the one in use. Returns by which id the
    /// client knows that one, and whether it ends through a gateway that goes on.
    fn supersede(
        &mut self,
        pair: Pair,
        gateway: GatewayId,
        grant: GrantId,
        avoid: &BTreeSet<GatewayId>,
    ) -> (Option<GrantId>, bool) {
        let Some(old) = self.grants.current(pair.0, pair.1) else {
            return (None, false);
        };
        let (old_id, old_gateway, known_as) = (old.row.id, old.row.gateway, old.known_as);
        if old_gateway == gateway {
            // The gateway has put the new one in its place.
            let names = self.drop_grant(old_id).map(|old| old.names);
            if let Some(new) = self.grants.get_mut(grant) {
                let asked = std::mem::take(&mut new.names);
                new.remember(names.into_iter().flatten().chain(asked));
            }
        } else if self.keeps_as_leftover(old_gateway, avoid) {
            self.grants.set_stage(old_id, Stage::Leftover);
        } else {
            if let Some(session) = self.sessions.gateways.get(old_gateway) {
                let revoke = ToGateway::Revoke { grant: old_id };
                self.outbox.tell_gateway(session.id, revoke);
            }
            self.drop_grant(old_id);
            return (known_as, true);
        }
        (known_as, false)
    }

    /// True if flows go on through a gateway that another one replaces: it drains, and is connected.
    fn keeps_as_leftover(&self, gateway: GatewayId, avoid: &BTreeSet<GatewayId>) -> bool {
        !avoid.contains(&gateway)
            && !self.sessions.gateways.is_leaving(gateway)
            && self.sessions.gateways.contains(gateway)
            && self.is_draining(gateway)
    }

    fn answer(
        &mut self,
        row: &culvert_store::Grant,
        waiter: &Waiter,
        names: &[ResolvedName],
        now: Timestamp,
    ) {
        let relays = self.client_relays(row.client, row.gateway, now);
        let candidates = self.shown_candidates(row.gateway);
        let (Some(client), Some(gateway), Some(serving), Some(asking)) = (
            self.directory.client(row.client),
            self.directory.gateway(row.gateway),
            self.sessions.gateways.get(row.gateway),
            self.sessions.clients.get_mut(row.client),
        ) else {
            return;
        };
        asking.waiting.remove(&waiter.request);
        let names = names
            .iter()
            .filter(|name| waiter.names.contains(&name.name));
        let granted = ToClient::AccessGranted {
            request: waiter.request,
            resource: row.resource,
            grant: row.id,
            expires: row.expires,
            gateway: row.gateway,
            gateway_name: gateway.name.clone(),
            gateway_key: gateway.public_key,
            gateway_interface: Interface {
                ipv4: gateway.ipv4,
                ipv6: gateway.ipv6,
            },
            candidates,
            preshared_key: self
                .signer
                .preshared_key(&client.public_key, &gateway.public_key),
            cipher: row.cipher,
            names: names.cloned().collect(),
            answers_dns: serving.announced.answers_dns,
            relays,
        };
        self.outbox.tell_client(asking.id, granted);
    }

    /// The gateway does not take the grant. Another one of the site would find no more names.
    pub(crate) fn offer_refused(
        &mut self,
        gateway: GatewayId,
        grant: GrantId,
        reason: Reason,
        now: Timestamp,
    ) {
        let Some((pair, mut ask)) = self.take_offered(gateway, grant) else {
            self.counters.ignored += 1;
            return;
        };
        self.note_answer(gateway, &ask, now);
        self.counters.offers_refused += 1;
        self.drop_grant(grant);
        let refusal = match reason.code {
            ReasonCode::NameNotFound => {
                Some(StatedReason::plain(reason.code, "the name has no address"))
            }
            ReasonCode::NameOutside => {
                self.refusals.outside.note(pair.1, &reason.text, now);
                Some(StatedReason::outside(&reason.text))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.fail_ask(pair, ask, &refusal, now);
            return;
        }
        let line = LogLine::info("grant refused")
            .with("gateway", gateway)
            .with("grant", grant)
            .with("code", format_args!("{:?}", reason.code))
            .with_text("text", &reason.text);
        self.outbox.push_line(line);
        if reason.code == ReasonCode::HostAddress {
            let name = self.directory.gateway(gateway).map(|row| row.name.as_str());
            let text = format!("{}: {}", name.unwrap_or_default(), reason.text);
            self.refusals.at_host.note(pair.1, &text, now);
        }
        ask.wish.avoid.insert(gateway);
        ask.failure = Some(reason);
        self.advance(pair, ask, now);
    }

    pub(crate) fn offer_timed_out(&mut self, grant: GrantId, now: Timestamp) {
        let Some(offered) = self.grants.get(grant) else {
            return;
        };
        let gateway = offered.row.gateway;
        let Some((pair, mut ask)) = self.take_offered(gateway, grant) else {
            return;
        };
        self.counters.offers_timed_out += 1;
        self.asks.queues.timed_out(gateway, now);
        self.withdraw(grant);
        ask.wish.avoid.insert(gateway);
        self.advance(pair, ask, now);
    }

    /// An offer without names waits for nothing but the gateway itself.
    fn note_answer(&mut self, gateway: GatewayId, ask: &Ask, now: Timestamp) {
        let Some(offer) = ask.offer.filter(|_| ask.wish.names.is_empty()) else {
            return;
        };
        let left_ms = offer.deadline.unix_ms().saturating_sub(now.unix_ms());
        let after_ms = GRANT_ANSWER_MS.saturating_sub(left_ms);
        self.asks.queues.answered(gateway, after_ms, now);
    }

    /// The ask whose offer this is, if the gateway is the one that it was made to.
    fn take_offered(&mut self, gateway: GatewayId, grant: GrantId) -> Option<(Pair, Ask)> {
        let offered = self.grants.get(grant)?;
        let row = &offered.row;
        if offered.stage != Stage::Offered || row.gateway != gateway {
            return None;
        }
        let pair = (row.client, row.resource);
        let ask = self.take_ask(pair)?;
        Some((pair, ask))
    }

    /// Stops an ask, whose offer is yet to be withdrawn.
    pub(crate) fn take_ask(&mut self, pair: Pair) -> Option<Ask> {
        let ask = self.asks.remove(pair)?;
        if let Some(offer) = ask.offer {
            self.timers.clear(offer.deadline, Timer::Offer(offer.grant));
        }
        Some(ask)
    }

    /// Takes an offer back: the gateway may have it in force already.
    pub(crate) fn withdraw(&mut self, grant: GrantId) {
        let Some(dropped) = self.drop_grant(grant) else {
            return;
        };
        if let Some(session) = self.sessions.gateways.get(dropped.row.gateway) {
            let revoke = ToGateway::Revoke { grant };
            self.outbox.tell_gateway(session.id, revoke);
        }
    }

    /// The client is gone: nobody waits for answers any more.
    pub(crate) fn drop_asks_of(&mut self, client: ClientId) {
        for pair in self.asks.of(client).collect::<Vec<_>>() {
            let Some(ask) = self.asks.get_mut(pair) else {
                continue;
            };
            ask.next = None;
            if ask.purpose == Purpose::Shorten {
                continue;
            }
            let offer = self.take_ask(pair).and_then(|ask| ask.offer);
            if let Some(offer) = offer {
                self.withdraw(offer.grant);
            }
        }
    }

    /// Ends the ask that shortens a grant which has ended.
    pub(crate) fn drop_shortening(&mut self, pair: Pair, now: Timestamp) {
        let ask = self.asks.get(pair);
        if ask.is_none_or(|ask| ask.purpose != Purpose::Shorten) {
            return;
        }
        let Some(ask) = self.take_ask(pair) else {
            return;
        };
        if let Some(offer) = ask.offer {
            self.withdraw(offer.grant);
        }
        if let Some(next) = ask.next {
            self.start(pair, next, now);
        }
    }

    /// Asks again where the gateway that was asked is gone; `anew` where it may be asked again.
    pub(crate) fn retry_offer(
        &mut self,
        pair: Pair,
        gateway: GatewayId,
        anew: bool,
        now: Timestamp,
    ) {
        let Some(mut ask) = self.take_ask(pair) else {
            return;
        };
        if !anew {
            ask.wish.avoid.insert(gateway);
        }
        self.advance(pair, ask, now);
    }
}
