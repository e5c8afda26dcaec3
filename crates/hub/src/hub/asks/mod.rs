//! From a request to a grant: evaluate, choose a gateway, offer it the grant, wait for its answer.

mod ask;
mod offers;
mod pair;
mod queue;
mod turns;

pub(super) use ask::{Ask, Asks, Purpose};
pub(super) use pair::Pair;

use super::Hub;
use crate::limits::{MAX_ASKS_PER_CLIENT, MAX_AVOIDED, MAX_WAITING_PER_CLIENT};
use crate::reasons::StatedReason;
use crate::session::{Facts, REQUEST_RATE};
use ask::{Permit, Waiter, Wish};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_policy::{Decision, DomainName, Explanation, Subject, evaluate};
use culvert_store::{AccessEntry, Client};
use culvert_wire::Timestamp;
use culvert_wire::messages::{MAX_NAMES, ReasonCode, ToClient, ToGateway, WantedName};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

impl Hub {
    /// The facts that policies look at.
    pub(super) fn subject(&self, row: &Client, facts: &Facts) -> Subject {
        Subject {
            groups: self.directory.groups_of(row.actor).collect(),
            verified: row.verified.is_some(),
            client: facts.seen.clone(),
        }
    }

    /// The decision of the policies, the token and the client's row at this time.
    pub(super) fn permit(&self, pair: Pair, now: Timestamp) -> Result<Permit, StatedReason> {
        let (client, resource) = pair;
        let facts = self.facts_of(pair, now);
        let row = self
            .directory
            .admit_client(client)
            .map_err(StatedReason::barred)?;
        let until = match facts.token {
            // It has a key alone.
            _ if row.is_plain() => Ok(None),
            Some(token) => {
                let token = self.directory.admit_token(token, now);
                token.map(|token| token.expires)
            }
            // A portal that has started anew does not know which one the client came with.
            None => self.directory.admit_any_token(row.actor, now),
        };
        let until = until.map_err(StatedReason::barred)?;
        if self.directory.resource(resource).is_none() {
            return Err(StatedReason::no_resource());
        }
        self.suits_plain_client(row, resource)?;
        // For a client that has not come since the portal's start, `restore` has ended doubtful grants.
        if facts.keeps_applications == Some(false) && !self.can_have(client, resource) {
            return Err(StatedReason::applications());
        }
        let subject = self.subject(row, &facts);
        let policies = self.directory.policies(resource);
        let decision = evaluate(policies, resource, &subject, now.unix_time());
        let Decision::Allow {
            policy,
            until: allowed_until,
        } = decision
        else {
            let policies: Vec<_> = self.directory.policies(resource).cloned().collect();
            let full = Explanation::new(&policies, resource, &subject, now.unix_time());
            let full = full.in_words(&self.directory).to_string();
            return Err(StatedReason::decided(&decision, full));
        };
        let decided = allowed_until.map(Timestamp::from);
        let until = until.into_iter().chain(decided).min();
        Ok(Permit { policy, until })
    }

    /// A client asks for access.
    pub(super) fn request(
        &mut self,
        client: ClientId,
        request: u64,
        resource: ResourceId,
        names: Vec<WantedName>,
        avoid: Vec<GatewayId>,
        now: Timestamp,
    ) {
        let pair = (client, resource);
        let asks = self.asks.of(client).count();
        let Some(session) = self.sessions.clients.get_mut(client) else {
            return;
        };
        if session.waiting.contains(&request) {
            // Its answer is on the way, and there is one for each number.
            self.counters.ignored += 1;
            return;
        }
        let is_asked = self.asks.contains(pair);
        let has_room = session.waiting.len() < MAX_WAITING_PER_CLIENT
            && (is_asked || asks < MAX_ASKS_PER_CLIENT)
            && avoid.len() <= MAX_AVOIDED
            && names.len() <= MAX_NAMES;
        let is_within_rate = session.requests.take(REQUEST_RATE, now.unix_time()).is_ok();
        let may_ask = is_within_rate && has_room;
        session.waiting.insert(request);
        let mut wish = Wish {
            waiters: vec![Waiter {
                request,
                names: names.iter().map(|name| name.name.clone()).collect(),
            }],
            names: BTreeMap::new(),
            avoid: avoid.into_iter().collect(),
        };
        if !may_ask {
            let refusal =
                StatedReason::plain(ReasonCode::TooMany, "more requests than the portal takes");
            self.deny(pair, &wish.waiters, &refusal, now);
            return;
        }
        match self.check_names(resource, names) {
            Ok(names) => wish.names = names,
            Err(refusal) => {
                self.deny(pair, &wish.waiters, &refusal, now);
                return;
            }
        }
        self.join_or_start(pair, wish, now);
    }

    /// Others of the client wait for the answer to a request: the gateway is not to wait for the DNS any longer.
    pub(super) fn answer_now(&mut self, pair: Pair, request: u64) {
        let ask = self.asks.get_mut(pair).filter(|ask| {
            let mut waiters = ask.wish.waiters.iter();
            waiters.any(|waiter| waiter.request == request)
        });
        let offer = ask.and_then(|ask| ask.offer.as_mut());
        let Some(offer) = offer.filter(|offer| !offer.is_expedited) else {
            self.counters.ignored += 1;
            return;
        };
        offer.is_expedited = true;
        if let Some(session) = self.sessions.gateways.get(offer.gateway) {
            let grant = offer.grant;
            self.outbox
                .tell_gateway(session.id, ToGateway::AnswerNow { grant });
        }
    }

    /// A request for a pair that has a grant under way waits with the others, if the grant that was
    /// offered will do for it.
    fn join_or_start(&mut self, pair: Pair, wish: Wish, now: Timestamp) {
        let Some(ask) = self.asks.get_mut(pair) else {
            self.start(pair, wish, now);
            return;
        };
        let offered_to_avoided = ask
            .offer
            .is_some_and(|offer| wish.avoid.contains(&offer.gateway));
        let is_offered = wish
            .names
            .iter()
            .all(|(name, wanted)| ask.wish.names.get(name) == Some(wanted));
        if ask.purpose == Purpose::Answer && is_offered && !offered_to_avoided {
            ask.wish.waiters.extend(wish.waiters);
            return;
        }
        let next = ask.next.get_or_insert_default();
        let names = next.names.len() + wish.names.len();
        let avoid = next.avoid.len() + wish.avoid.len();
        if names > MAX_NAMES || avoid > MAX_AVOIDED {
            let refusal =
                StatedReason::plain(ReasonCode::TooMany, "more names than one grant takes");
            self.deny(pair, &wish.waiters, &refusal, now);
            return;
        }
        next.merge(wish);
    }

    /// Asks for a grant in the name of a plain WireGuard device, unless one is under way.
    pub(super) fn ask_standing(&mut self, pair: Pair, now: Timestamp) {
        if !self.asks.contains(pair) {
            self.start(pair, Wish::default(), now);
        }
    }

    fn start(&mut self, pair: Pair, wish: Wish, now: Timestamp) {
        let ask = Ask::new(Purpose::Answer, wish);
        self.advance(pair, ask, now);
    }

    /// Replaces the grant in use by one that ends when the policies say.
    pub(super) fn shorten(&mut self, pair: Pair, now: Timestamp) {
        let waits_for_turn = self.asks.get(pair).map(Ask::waits_for_turn);
        let waiting = match waits_for_turn {
            // The grant under way replaces the one in use, and ends in time.
            Some(false) => return,
            // It may wait for longer than the one in use is allowed now.
            Some(true) => self.take_ask(pair),
            None => None,
        };
        let mut ask = Ask::new(Purpose::Shorten, Wish::default());
        ask.next = waiting.and_then(Ask::into_wish);
        self.advance(pair, ask, now);
    }

    /// Offers the grant to the next gateway, waits for one that is busy or expected, or gives up.
    pub(super) fn advance(&mut self, pair: Pair, mut ask: Ask, now: Timestamp) {
        ask.offer = None;
        if let Some(turn) = &mut ask.turn {
            turn.gateway = None;
        }
        let chosen = self
            .permit(pair, now)
            .and_then(|permit| Ok((permit, self.gateway_for(pair, &ask)?)));
        let offered = match chosen {
            Ok((permit, gateway)) if self.has_to_wait(gateway, &ask, permit, now) => {
                self.wait_for_turn(pair, ask, gateway, permit, now);
                return;
            }
            Ok((permit, gateway)) => self.offer(pair, &ask, permit, gateway, now),
            Err(refusal) => Err(refusal),
        };
        match offered {
            Ok(offer) => {
                ask.offer = Some(offer);
                self.asks.insert(pair, ask);
            }
            Err(_) if self.waits_for_gateway(pair, &ask, now) => self.asks.insert(pair, ask),
            Err(refusal) => self.fail_ask(pair, ask, &refusal, now),
        }
    }

    fn gateway_for(&self, pair: Pair, ask: &Ask) -> Result<GatewayId, StatedReason> {
        if ask.purpose == Purpose::Shorten {
            let current = self.grants.current(pair.0, pair.1);
            let gateway = current.map(|grant| grant.row.gateway);
            let gateway = gateway.filter(|gateway| {
                self.sessions.gateways.contains(*gateway)
                    && self.directory.may_serve(*gateway)
                    && !ask.wish.avoid.contains(gateway)
            });
            return gateway.ok_or_else(|| {
                let text = "the access ends earlier than before, and the gateway can't be told";
                StatedReason::plain(ReasonCode::PolicyChanged, text)
            });
        }
        self.choose(pair, &ask.wish.avoid)
            .map_err(|none| none.refusal(ask.failure.as_ref()))
    }

    fn fail_ask(&mut self, pair: Pair, ask: Ask, refusal: &StatedReason, now: Timestamp) {
        match ask.purpose {
            Purpose::Answer => {
                self.deny(pair, &ask.wish.waiters, refusal, now);
                if ask.next.is_none() {
                    // The one in use was to be replaced, perhaps because it lasts too long.
                    self.review_grants(pair.0, pair.1, now);
                }
                self.retry_standing(pair.0, now);
            }
            Purpose::Shorten => {
                if let Some(grant) = self.grants.current(pair.0, pair.1) {
                    let id = grant.row.id;
                    self.end_grant(id, refusal, culvert_store::Decision::Revoked, now);
                }
            }
        }
        if let Some(next) = ask.next {
            self.start(pair, next, now);
        }
    }

    /// Names are the client's word: each has to fit the resource, and to stand for addresses of the
    /// range for names, no two of them for the same.
    fn check_names(
        &self,
        resource: ResourceId,
        wanted: Vec<WantedName>,
    ) -> Result<BTreeMap<String, WantedName>, StatedReason> {
        let Some(row) = self.directory.resource(resource) else {
            return Err(StatedReason::no_resource());
        };
        let refused = |text| StatedReason::plain(ReasonCode::NoAccess, text);
        let mut names = BTreeMap::new();
        let mut addresses = BTreeSet::new();
        for name in wanted {
            let Some(pattern) = row.parsed.target.pattern() else {
                return Err(refused("names were asked for of a resource that has none"));
            };
            let fits = DomainName::shown(&name.name).is_ok_and(|parsed| pattern.matches(&parsed));
            if !fits {
                return Err(refused("a name is not of the resource"));
            }
            let is_in_range = self
                .directory
                .names()
                .is_some_and(|names| names.hold(&name));
            let is_new =
                addresses.insert(IpAddr::V4(name.ipv4)) && addresses.insert(IpAddr::V6(name.ipv6));
            if !is_in_range || !is_new {
                return Err(refused("a name's address is not one for names"));
            }
            names.insert(name.name.clone(), name);
        }
        Ok(names)
    }

    /// Tells those who wait, and the log.
    fn deny(
        &mut self,
        (client, resource): Pair,
        waiters: &[Waiter],
        refusal: &StatedReason,
        now: Timestamp,
    ) {
        self.counters.denied += 1;
        let Some(session) = self.sessions.clients.get_mut(client) else {
            return;
        };
        for waiter in waiters {
            session.waiting.remove(&waiter.request);
            let denied = ToClient::AccessDenied {
                request: waiter.request,
                resource,
                reason: refusal.brief.clone(),
            };
            self.outbox.tell_client(session.id, denied);
        }
        // Of ids that a client makes up, nothing is written down.
        let exists = self.directory.resource(resource).is_some();
        if exists && session.is_news(resource, refusal.brief.code, now) {
            self.outbox.log(AccessEntry {
                at: now,
                client,
                actor: self.directory.client(client).map(|row| row.actor),
                resource,
                gateway: None,
                policy: None,
                grant: None,
                decision: culvert_store::Decision::Denied,
                reason: refusal.full.clone(),
            });
        }
    }
}
