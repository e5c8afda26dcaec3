//! One attempt to register: ask, then register where the first challenge came from.

use super::state::{Attempt, Phase, Registered};
use super::{
    AGAIN_AT_MOST_EVERY, ASK_AGAIN, ASK_AGAIN_MOST, ATTEMPTS, Datagram, Output, REFRESH_EVERY,
    REFUSED_FOR, Registration,
};
use crate::mac::Mac;
use crate::message::{
    self, Ask, Challenge, REGISTER_MAX_LEN, RefusalReason, Refused, Register, Transaction,
};
use culvert_base::BootTime;
use std::net::SocketAddr;
use std::time::Duration;

impl Registration {
    /// Begins from the start, now.
    pub(super) fn begin_again(&mut self, now: BootTime) {
        self.attempt = None;
        self.next_attempt = now;
    }

    /// Begins from the start, unless an attempt runs: at most once a second, and not while a refusal holds.
    pub(super) fn begin_soon(&mut self, now: BootTime) {
        if self.attempt.is_none() {
            let again = |last: BootTime| last.saturating_add(AGAIN_AT_MOST_EVERY);
            let earliest = self.last_attempt.map_or(now, again);
            let soon = earliest.max(now).max(self.refused_until);
            self.next_attempt = soon.min(self.next_attempt);
        }
    }

    /// Asks all addresses of the relay.
    pub(super) fn begin(&mut self, now: BootTime) {
        self.last_attempt = Some(now);
        // After the attempt another one begins only for a reason.
        self.next_attempt = BootTime::MAX;
        let transaction = self.transaction();
        self.asked = Some(transaction);
        self.attempt = Some(Attempt {
            transaction,
            phase: Phase::Asks,
            began: now,
            sent: 0,
            due: now,
        });
        self.repeat_attempt(now);
    }

    /// Sends the datagrams of the phase, once more or for the first time.
    pub(super) fn repeat_attempt(&mut self, now: BootTime) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let (phase, transaction) = (attempt.phase, attempt.transaction);
        if matches!(phase, Phase::Registers { .. }) && attempt.sent >= ATTEMPTS {
            // The relay answered a question, and no registration: its cookie may have expired.
            self.begin_again(now);
            return;
        }
        let wait = ASK_AGAIN.saturating_mul(1 << attempt.sent.min(8));
        attempt.sent = attempt.sent.saturating_add(1);
        attempt.due = now.saturating_add(wait.min(ASK_AGAIN_MOST));
        self.unanswered_since.get_or_insert(now);
        match phase {
            Phase::Asks => {
                for &to in &self.addresses {
                    let datagram = Datagram::new(&Ask { transaction }.encode());
                    self.outputs.push_back(Output::Send { to, datagram });
                }
            }
            Phase::Registers { relay, cookie } => {
                self.send_registration(relay, cookie, transaction);
            }
        }
    }

    fn send_registration(&mut self, to: SocketAddr, cookie: Mac, transaction: Transaction) {
        let mut bytes = [0; REGISTER_MAX_LEN];
        let key = self.permission.key.as_bytes();
        let token = &self.permission.token;
        match Register::write(transaction, cookie, token, key, &mut bytes) {
            Some(len) => {
                let datagram = Datagram::new(&bytes[..len]);
                self.outputs.push_back(Output::Send { to, datagram });
            }
            // The portal gave something that is no token: nothing but another one helps.
            None => self.refuse(RefusalReason::Token, BootTime::MAX),
        }
    }

    /// The address from outside, and for the first challenge of an attempt the way on.
    pub(super) fn handle_challenge(
        &mut self,
        source: SocketAddr,
        challenge: &Challenge,
        now: BootTime,
    ) -> bool {
        // The other addresses of the relay may answer once the end is registered at the first.
        if self.asked != Some(challenge.transaction) {
            return false;
        }
        let address = challenge.mapped;
        self.outputs.push_back(Output::Mapped {
            by: source,
            address,
        });
        if let Some(attempt) = &mut self.attempt
            && matches!(attempt.phase, Phase::Asks)
        {
            attempt.phase = Phase::Registers {
                relay: source,
                cookie: challenge.cookie,
            };
            (attempt.began, attempt.sent) = (now, 0);
            self.repeat_attempt(now);
        }
        true
    }

    pub(super) fn handle_registered(
        &mut self,
        source: SocketAddr,
        answer: &message::Registered,
        now: BootTime,
    ) -> bool {
        let key = self.permission.key.as_bytes();
        let Some(attempt) = self.registering(source, answer.transaction) else {
            return false;
        };
        if !answer.is_by(key) {
            return false;
        }
        let round_trip = now.saturating_since(attempt.began);
        let lifetime = Duration::from_secs(answer.lifetime_s.into());
        self.registered = Some(Registered {
            relay: source,
            key: answer.transaction.refresh_key(key),
            expires: now.saturating_add(lifetime),
            counter: 0,
            due: now.saturating_add(REFRESH_EVERY),
            unanswered: Vec::new(),
        });
        self.attempt = None;
        self.unanswered_since = None;
        self.outputs.push_back(Output::Registered {
            relay: source,
            round_trip,
        });
        true
    }

    pub(super) fn handle_refused(
        &mut self,
        source: SocketAddr,
        refused: Refused,
        now: BootTime,
    ) -> bool {
        if self.registering(source, refused.transaction).is_none() {
            return false;
        }
        self.unanswered_since = None;
        if refused.reason == RefusalReason::Cookie {
            self.attempt = None;
            self.begin_soon(now);
        } else {
            self.refuse(refused.reason, now.saturating_add(REFUSED_FOR));
        }
        true
    }

    fn refuse(&mut self, reason: RefusalReason, until: BootTime) {
        self.attempt = None;
        self.next_attempt = until;
        self.refused_until = until;
        self.outputs.push_back(Output::Refused(reason));
    }

    /// The attempt that waits for an answer of `source` to this registration.
    fn registering(&self, source: SocketAddr, transaction: Transaction) -> Option<&Attempt> {
        let attempt = self.attempt.as_ref()?;
        let is_its = match attempt.phase {
            Phase::Asks => false,
            Phase::Registers { relay, .. } => relay == source,
        };
        (is_its && attempt.transaction == transaction).then_some(attempt)
    }
}
