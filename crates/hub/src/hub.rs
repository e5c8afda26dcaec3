//! The hub: takes what happens, and coordinates the parts that decide what follows.

mod asks;
mod candidates;
mod changes;
mod clients;
mod clock;
mod drain;
mod flows;
mod gateways;
mod held_grants;
mod no_gateway;
mod path_history;
mod plain_admissions;
mod plain_endpoints;
mod plain_grants;
mod plain_reviews;
mod portals;
mod relay_access;
mod relays;
mod returning;
mod review;
mod site_names;
mod verification;
mod views;

pub use clients::ClientJoin;
pub use gateways::GatewayJoin;
pub use relays::RelayJoin;

use super::directory::Directory;
use super::endpoints::Endpoints;
use super::grants::{Grant, Grants, Stage};
use super::name_asks::NameAsks;
use super::output::{Outbox, Output, SessionId};
use super::outside::GatewayRefusals;
use super::random::Random;
use super::relays::Relays;
use super::returning::Returning;
use super::session::Facts;
use super::sessions::{Party, Sessions};
use super::signing::Signer;
use super::timers::{Timer, Timers, later};
use super::views::Counters;
use super::{limits, reasons};
use asks::Asks;
use culvert_base::LogLine;
use culvert_ids::ClientId;
use culvert_wire::Timestamp;
use culvert_wire::messages::{PortalSet, Reason, ReasonCode, ToClient, ToGateway, ToRelay};
use path_history::PathHistory;
use plain_reviews::PlainReviews;
use std::collections::{BTreeMap, BTreeSet};

/// The sessions and grants of one account.
pub struct Hub {
    directory: Directory,
    signer: Box<dyn Signer>,
    random: Random,
    sessions: Sessions,
    grants: Grants,
    asks: Asks,
    timers: Timers,
    returning: Returning,
    outbox: Outbox,
    refusals: GatewayRefusals,
    counters: Counters,
    portals: PortalSet,
    relays: Relays,
    path_history: PathHistory,
    plain_reviews: PlainReviews,
    endpoints: Endpoints,
    site_names: NameAsks,
}

impl Hub {
    /// The hub of an account whose machines are all yet to come.
    ///
    /// `grants` are those that lived when the portal last ran, or until [`RELAY_TOKEN_MS`](limits::RELAY_TOKEN_MS) ago,
    /// and `facts` the last ones known of their clients: with these, a restart cuts no access. `seed` is random.
    #[must_use]
    pub fn new(
        directory: Directory,
        signer: Box<dyn Signer>,
        seed: &[u8; 32],
        grants: Vec<culvert_store::Grant>,
        facts: BTreeMap<ClientId, Facts>,
        now: Timestamp,
    ) -> Self {
        let plain: BTreeSet<ClientId> = directory.plain_clients().collect();
        let (presumed, facts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            facts.into_iter().partition(|(id, _)| plain.contains(id));
        let presumed = presumed.into_iter().map(|(id, facts)| (id, facts.seen));
        let presumed = presumed.collect();
        let mut hub = Self {
            directory,
            signer,
            random: Random::new(seed),
            sessions: Sessions::new(facts),
            grants: Grants::default(),
            asks: Asks::default(),
            timers: Timers::default(),
            returning: Returning::default(),
            outbox: Outbox::default(),
            refusals: GatewayRefusals::default(),
            counters: Counters::default(),
            portals: PortalSet::default(),
            relays: Relays::new(now),
            path_history: PathHistory::default(),
            plain_reviews: PlainReviews::default(),
            endpoints: Endpoints::new(presumed, now),
            site_names: NameAsks::default(),
        };
        hub.restore(grants, now);
        hub
    }

    /// The configuration that it decides by.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// A session is over: its machine said goodbye, or was silent for too long.
    pub fn handle_left(&mut self, session: SessionId, now: Timestamp) {
        self.outbox.discard(session);
        self.forget(session, now);
        self.finish(now);
    }

    /// A session is over because the portal that brought it is gone. Its machine comes back to another one: a gateway's
    /// grants stay in force meanwhile.
    pub fn handle_interrupted(&mut self, session: SessionId, now: Timestamp) {
        self.outbox.discard(session);
        match self.sessions.remove(session) {
            Some(Party::Client(client)) => self.drop_asks_of(client),
            Some(Party::Gateway(gateway)) => {
                self.interrupt_gateway(gateway, limits::GATEWAY_RETURN_MS, now);
            }
            Some(Party::Relay(relay)) => self.expect_relay(relay, now),
            None => {}
        }
        self.finish(now);
    }

    /// A session is over because its connection broke. A gateway may come back at once, as behind a proxy that breaks off:
    /// its grants stay in force meanwhile. One that drains is not waited for.
    pub fn handle_broken(&mut self, session: SessionId, now: Timestamp) {
        match self.sessions.party(session) {
            Some(Party::Gateway(gateway))
                if !self.is_draining(gateway) && !self.sessions.gateways.is_leaving(gateway) =>
            {
                self.outbox.discard(session);
                self.sessions.remove(session);
                self.interrupt_gateway(gateway, limits::GATEWAY_RECONNECT_MS, now);
                self.finish(now);
            }
            _ => self.handle_left(session, now),
        }
    }

    /// A message came that this build does not know.
    pub fn handle_unknown(&mut self, session: SessionId, kind: String, now: Timestamp) {
        match self.sessions.party(session) {
            Some(Party::Client(_)) => {
                let answer = ToClient::Unsupported { kind };
                self.outbox.tell_client(session, answer);
            }
            Some(Party::Gateway(gateway)) => {
                if kind == "grants_held" {
                    // An older portal that brings the session does not pass it on.
                    self.end_unconfirmed(gateway, now);
                }
                let answer = ToGateway::Unsupported { kind };
                self.outbox.tell_gateway(session, answer);
            }
            Some(Party::Relay(_)) => {
                let answer = ToRelay::Unsupported { kind };
                self.outbox.tell_relay(session, answer);
            }
            None => {}
        }
        self.finish(now);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Offer(grant) => self.offer_timed_out(grant, now),
                Timer::Expiry(grant) => self.grant_expired(grant, now),
                Timer::Token(token) => self.review_token(token, now),
                Timer::Drained(gateway) => self.end_drained(gateway, now),
                Timer::Requests => self.serve_waiting(None, now),
                Timer::Turns(gateway) => self.end_turns(gateway, now),
                Timer::PlainReview(client) => self.standing_due(client, now),
                Timer::NameAsk(ask) => self.name_timed_out(ask),
                Timer::Relays(gateway) => self.renew_relays(gateway, now),
                Timer::RelayReturn(relay) => self.lose_relay_unless_back(relay, now),
                Timer::Return(gateway) => {
                    self.stop_expecting(gateway);
                    if !self.sessions.gateways.contains(gateway) {
                        self.lose_gateway(gateway, now);
                    }
                }
            }
        }
        self.finish(now);
    }

    /// The portal stops: every machine is told to come back, the gateways first, spread over as long as a portal takes to
    /// let them in, and `within_s` seconds at most. Grants stay in force. Afterwards, the hub may be polled for its output
    /// alone.
    pub fn handle_stop(&mut self, within_s: u32) {
        self.send_away("the portal is stopping", within_s);
    }

    /// The next output; none until something happens.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// The next line for the log, to be polled until there is none as well.
    pub fn poll_log(&mut self) -> Option<LogLine> {
        self.outbox.poll_line()
    }

    /// The time at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Makes the offers for which there is room after an event. Ends sessions whose queue of messages has overflowed: their
    /// machines come back and get everything anew, so they lack nothing.
    fn finish(&mut self, now: Timestamp) {
        self.offer_waiting(now);
        while let Some(session) = self.outbox.take_overflowed() {
            self.counters.overflows += 1;
            self.outbox.empty(session);
            self.expel(session, reasons::overflow(), now);
            self.offer_waiting(now);
        }
    }

    /// A last message, and the end.
    fn expel(&mut self, session: SessionId, reason: Reason, now: Timestamp) {
        match self.sessions.party(session) {
            Some(Party::Client(_)) => self.refuse_client(session, reason),
            Some(Party::Gateway(gateway)) => {
                if reasons::is_lasting(reason.code) {
                    // It is not coming back to hear what of its grants still stands.
                    self.revoke_grants_through(gateway);
                }
                self.refuse_gateway(session, reason);
            }
            Some(Party::Relay(_)) => self.refuse_relay(session, reason),
            None => {}
        }
        self.forget(session, now);
    }

    fn refuse_client(&mut self, session: SessionId, reason: Reason) {
        let code = reason.code;
        let retry_after_s = reasons::retry_after_s(code);
        let refused = ToClient::Refused {
            reason,
            retry_after_s,
        };
        self.outbox.tell_client(session, refused);
        self.outbox.close(session, code);
    }

    fn refuse_gateway(&mut self, session: SessionId, reason: Reason) {
        let code = reason.code;
        let retry_after_s = reasons::retry_after_s(code);
        let refused = ToGateway::Refused {
            reason,
            retry_after_s,
        };
        self.outbox.tell_gateway(session, refused);
        self.outbox.close(session, code);
    }

    /// A second hello, or a message of the other side's: who sends that is not what it says.
    fn misbehaved(&mut self, session: SessionId, now: Timestamp) {
        let reason = reasons::brief(
            ReasonCode::Protocol,
            "hello is the first message and comes once",
        );
        self.expel(session, reason, now);
    }

    fn forget(&mut self, session: SessionId, now: Timestamp) {
        match self.sessions.remove(session) {
            Some(Party::Client(client)) => self.drop_asks_of(client),
            Some(Party::Gateway(gateway)) => self.lose_gateway(gateway, now),
            Some(Party::Relay(relay)) => self.expect_relay(relay, now),
            None => {}
        }
    }

    /// Takes over the grants of the portal's last run: of several for the same, the newest is the
    /// one in use, and those that another gateway has still run out.
    fn restore(&mut self, mut rows: Vec<culvert_store::Grant>, now: Timestamp) {
        rows.sort_by_key(|row| (row.issued, row.id));
        // Each may have tokens that the portal before made.
        let pairs: BTreeSet<_> = rows.iter().map(|row| (row.gateway, row.client)).collect();
        self.relays.pairs.clone_from(&pairs);
        for row in rows.into_iter().rev() {
            let is_known = self.is_still_possible(&row);
            let gateway_is_full =
                self.grants.count(row.gateway).grants >= limits::MAX_GRANTS_PER_GATEWAY;
            let newer = self.grants.current(row.client, row.resource);
            let is_replaced = newer.is_some_and(|newer| newer.row.gateway == row.gateway);
            // Of a client that has not come yet it is not known whether it keeps a rule that may be
            // newer than the grant.
            let is_unruled =
                self.may_have_changed(&row) && !self.can_have(row.client, row.resource);
            if row.expires <= now || !is_known || gateway_is_full || is_replaced || is_unruled {
                self.outbox.end(row.id);
                continue;
            }
            let stage = match newer {
                Some(_) => Stage::Leftover,
                None => Stage::Current,
            };
            self.timers.set(row.expires, Timer::Expiry(row.id));
            self.grants.insert(Grant {
                stage,
                known_as: (stage == Stage::Current).then_some(row.id),
                needs_recheck: self.may_have_changed(&row),
                names: Vec::new(),
                row,
            });
        }
        for gateway in self.grants.gateways().collect::<Vec<_>>() {
            self.expect_gateway(gateway, limits::GATEWAY_RETURN_MS, now);
        }
        for client in self.sessions.clients.known() {
            self.watch_token(client);
        }
        let granted = self.grants.pairs();
        for (client, resource) in granted {
            self.review_grants(client, resource, now);
        }
        for (gateway, client) in pairs {
            self.withdraw_unless_served(gateway, client);
        }
        self.review_all_standing(now);
    }
}

impl Hub {
    /// True if the grant's ends are there, in one site, and the gateway may have grants.
    fn is_still_possible(&self, row: &culvert_store::Grant) -> bool {
        let gateway = self.directory.gateway(row.gateway);
        let resource = self.directory.resource(row.resource);
        let is_one_site = gateway
            .zip(resource)
            .is_some_and(|(gateway, resource)| gateway.site == resource.parsed.site);
        is_one_site
            && self.directory.may_serve(row.gateway)
            && self.directory.client(row.client).is_some()
    }

    /// True if the claims of a grant of the portal's last run may be out of date. The database does not
    /// keep the keys, addresses and targets that it was signed for.
    fn may_have_changed(&self, row: &culvert_store::Grant) -> bool {
        let of_resource = self.directory.resource(row.resource);
        let of_resource = of_resource.map(|resource| resource.updated);
        let of_client = self.directory.client(row.client);
        let of_client = of_client.map(|client| client.stamp.updated);
        let latest = of_resource.max(of_client);
        latest.is_none_or(|at| later(at, limits::CLOCK_RECHECK_MS) >= row.issued)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Hub")
            .field("account", &self.directory.account())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
