//! Messages for the relay itself: questions, registrations, signs of life.

use super::batch::{Reply, Run};
use super::counters::DropReason;
use super::ends::{Checked, Unchanged};
use super::{Now, Relay};
use crate::message::{
    Ask, Challenge, Message, Refresh, RefusalReason, Refused, Register, Registered, Unknown,
};
use crate::token::{self, Issue};
use culvert_base::BootTime;
use culvert_wire::messages::RelayClaims;
use std::net::SocketAddr;
use zeroize::Zeroizing;

impl Relay {
    pub(super) fn handle_control(&mut self, port: usize, run: &Run<'_>, record: &[u8], now: Now) {
        let Some(message) = Message::parse(record) else {
            self.counters.drop_one(DropReason::Malformed);
            return;
        };
        match message {
            Message::Ask(ask) => {
                let number = self.ports[port].number;
                self.challenge(ask, number, run.source, now.boot);
            }
            Message::Register(register) => self.answer_registration(port, run, &register, now),
            Message::Refresh(refresh) => {
                self.handle_refresh(port, run, refresh, record, now.boot);
            }
            _ => self.counters.drop_one(DropReason::Unexpected),
        }
    }

    /// Answers a question with a cookie and the sender's address. Nothing is stored.
    pub(super) fn challenge(&mut self, ask: Ask, port: u16, source: SocketAddr, now: BootTime) {
        let limits = &mut self.limits;
        if limits.challenges.take(limits.challenge_rate, now).is_err() {
            self.counters.drop_one(DropReason::AskLimit);
            return;
        }
        let challenge = Challenge {
            transaction: ask.transaction,
            cookie: self.cookies.make(source, port, now),
            mapped: source,
        };
        self.out.replies.push(Reply::new(&challenge.encode()));
    }

    fn answer_registration(
        &mut self,
        port: usize,
        run: &Run<'_>,
        register: &Register<'_>,
        now: Now,
    ) {
        let transaction = register.transaction;
        match self.register(port, run, register, now) {
            Ok(registered) => {
                self.counters.registered += 1;
                self.out.replies.push(Reply::new(&registered.encode()));
            }
            Err(reason) => {
                self.counters.refuse(reason);
                if self.may_refuse(now.boot) {
                    let refused = Refused {
                        transaction,
                        reason,
                    };
                    self.out.replies.push(Reply::new(&refused.encode()));
                }
            }
        }
    }

    /// Checks a registration, the cheapest first, and puts it in force.
    fn register(
        &mut self,
        port: usize,
        run: &Run<'_>,
        register: &Register<'_>,
        now: Now,
    ) -> Result<Registered, RefusalReason> {
        let number = self.ports[port].number;
        let cookie = register.cookie;
        if !self.cookies.is_valid(cookie, run.source, number, now.boot) {
            return Err(RefusalReason::Cookie);
        }
        let (claims, issue) = self.keys.open(register.token, self.id, number, now.unix)?;
        let key = Zeroizing::new(*claims.key.as_bytes());
        if !register.is_by(&key) {
            return Err(RefusalReason::Token);
        }
        if self.withdrawn.covers(&claims, issue) {
            return Err(RefusalReason::Outdated);
        }
        self.own_port(port, &claims, issue)?;
        let lifetime = token::expiry(&claims).saturating_since(now.unix);
        let lifetime_s = u16::try_from(lifetime.as_secs()).unwrap_or(u16::MAX);
        if lifetime_s == 0 {
            return Err(RefusalReason::Expired);
        }
        let checked = Checked {
            client: claims.client,
            public_key: claims.public_key,
            key: register.transaction.refresh_key(&key),
            issued: issue,
            rate_bytes_per_s: claims.rate_bytes_per_s,
            expires: now.boot.saturating_add(lifetime),
            at: run.sender(),
            fingerprint: register.fingerprint(),
        };
        let ends = &mut self.ports[port].ends;
        ends.register(checked, now.boot).map_err(|why| match why {
            Unchanged::Outdated => RefusalReason::Outdated,
            Unchanged::TooOften => RefusalReason::TooOften,
            Unchanged::Full => RefusalReason::Full,
        })?;
        Ok(Registered::new(register.transaction, lifetime_s, &key))
    }

    /// Gives the port to the gateway of the claims, if it has none, or one with earlier tokens.
    fn own_port(
        &mut self,
        port: usize,
        claims: &RelayClaims,
        issue: Issue,
    ) -> Result<(), RefusalReason> {
        let is_draining = self.is_draining;
        let port = &mut self.ports[port];
        let owner = port.owner.filter(|_| !port.ends.is_empty());
        let is_known = match owner {
            Some((gateway, _)) if gateway == claims.gateway => port.ends.knows(claims.client),
            // The portal gave the port to another gateway since.
            Some((_, latest)) if issue <= latest => return Err(RefusalReason::Outdated),
            _ => false,
        };
        if is_draining && !is_known {
            return Err(RefusalReason::Draining);
        }
        port.owner = Some(match owner {
            Some((gateway, latest)) if gateway == claims.gateway => (gateway, latest.max(issue)),
            _ => {
                self.counters.left += port.ends.clear();
                (claims.gateway, issue)
            }
        });
        Ok(())
    }

    fn handle_refresh(
        &mut self,
        port: usize,
        run: &Run<'_>,
        refresh: Refresh,
        record: &[u8],
        now: BootTime,
    ) {
        let ends = &mut self.ports[port].ends;
        let found = ends.find(run.source);
        let Some(end) = found.and_then(|slot| ends.get_mut(slot)) else {
            self.counters.drop_one(DropReason::UnknownSender);
            self.tell_unknown(record, now);
            return;
        };
        if !refresh.is_question_by(&end.key) {
            // An end with a later token than the relay knows asks in vain, and registers again.
            self.counters.drop_one(DropReason::ForgedRefresh);
            return;
        }
        if refresh.counter <= end.counter {
            self.counters.drop_one(DropReason::ReplayedRefresh);
            return;
        }
        end.counter = refresh.counter;
        end.hear(now);
        let answer = Refresh::answer(refresh.counter, &end.key);
        self.out.replies.push(Reply::new(&answer.encode_answer()));
    }

    /// Tells the sender of a record that it is not registered.
    pub(super) fn tell_unknown(&mut self, record: &[u8], now: BootTime) {
        if let Some(unknown) = Unknown::to(record)
            && self.may_refuse(now)
        {
            self.out.replies.push(Reply::new(&unknown.encode()));
        }
    }

    fn may_refuse(&mut self, now: BootTime) -> bool {
        let limits = &mut self.limits;
        let may = limits.refusals.take(limits.refusal_rate, now).is_ok();
        if !may {
            self.counters.drop_one(DropReason::RefusalLimit);
        }
        may
    }
}
