//! Asking for access: one request a resource at a time, a bounded number of them in all.

use super::access::Access;
use super::accesses::{ANSWER_LIMIT_MS, OFFLINE_LIMIT_MS};
use super::ask::{Ask, wanted_names};
use super::client::Client;
use super::guard::ApplicationRule;
use super::log::LogEvent;
use super::packet::PacketRefusal;
use super::reason::refusal;
use culvert_base::{BootTime, LogLine};
use culvert_dns::{Addresses, Outcome};
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::messages::{FromClient, OWNER_DISABLED, Reason, ReasonCode};
use std::collections::VecDeque;
use std::time::Duration;

impl<P> Client<P> {
    /// Somebody at this machine wants access to a resource, without a packet or a query.
    pub fn handle_ask(&mut self, resource: ResourceId, now: BootTime) {
        self.want(resource, None, now);
        self.finish(now);
    }

    /// Makes sure that access to a resource is asked for, and to those with the same target.
    /// `name` is wanted with it where the target is a pattern.
    pub(super) fn want(
        &mut self,
        resource: ResourceId,
        name: Option<(&DomainName, Addresses)>,
        now: BootTime,
    ) {
        let Some(found) = self.directory.get(resource) else {
            return;
        };
        for id in self.directory.with_same_target(found) {
            self.want_one(id, name, now);
        }
    }

    pub(super) fn want_one(
        &mut self,
        id: ResourceId,
        name: Option<(&DomainName, Addresses)>,
        now: BootTime,
    ) {
        if self.accesses.get(id).is_none() && !self.make_room(now) {
            return;
        }
        let access = self.accesses.entry(id);
        if access.current_denial(now).is_some() {
            return;
        }
        if self.portal.is_owner_disabled() {
            // Nobody is to wait for a session that may be days away.
            let reason = Reason {
                code: ReasonCode::OwnerDisabled,
                text: OWNER_DISABLED.to_owned(),
            };
            access.deny(&reason, false, now);
            return self.accesses.schedule(id, now);
        }
        match name {
            None if access.grant.is_some() => return,
            None => {}
            Some((name, addresses)) if access.want(name.clone(), addresses) => {
                access.expedite_for(name, now);
                self.guard.set_stale();
            }
            Some(_) => return,
        }
        self.ask(id, now);
    }

    /// Puts a request for a resource into the queue, unless there is one.
    pub(super) fn ask(&mut self, id: ResourceId, now: BootTime) {
        let is_open = self.portal.is_open();
        let limit_ms = match is_open {
            true => ANSWER_LIMIT_MS,
            false => OFFLINE_LIMIT_MS,
        };
        self.accesses.begin_ask(id, limit_ms, now);
        let access = self.accesses.get(id);
        if !is_open && access.is_some_and(Access::somebody_waits) {
            self.portal.hurry();
        }
        self.accesses.schedule(id, now);
    }

    /// Sends what waits to be sent, as far as it may.
    pub(super) fn send_asks(&mut self, now: BootTime) {
        self.gateways.expire_avoided(now);
        // Requests that wait until the host enforces a rule about applications.
        let mut unruled = VecDeque::new();
        while self.portal.is_open()
            && let Some(id) = self.accesses.next_queued()
        {
            match self.application_rule(id) {
                ApplicationRule::Free | ApplicationRule::InForce => {}
                ApplicationRule::Pending => {
                    unruled.push_back(id);
                    continue;
                }
                ApplicationRule::Failed(why) => {
                    self.refuse_unruled(id, &why, now);
                    continue;
                }
            }
            let Some((request, names)) = self.accesses.send_ask(id, now) else {
                continue;
            };
            let message = FromClient::RequestAccess {
                request,
                resource: id,
                names: wanted_names(names),
                avoid: self.gateways.avoided(),
            };
            self.outbox.counters.requests += 1;
            self.outbox.tell_portal(message);
            self.accesses.schedule(id, now);
        }
        self.accesses.queue_again(unruled);
    }

    /// Only some programs may reach the resource, and the host can't see to that: nobody may.
    fn refuse_unruled(&mut self, id: ResourceId, why: &str, now: BootTime) {
        let ask = self.accesses.get_mut(id).and_then(|it| it.ask.take());
        if let Some(ask) = ask {
            let reason = Reason {
                code: ReasonCode::ConditionNotMet,
                text: format!("only some applications may use it: {why}"),
            };
            self.fail(id, ask, &reason, now);
        }
    }

    /// Does what is due for accesses: requests that were not answered, grants that end or are to be
    /// renewed.
    pub(super) fn handle_due_accesses(&mut self, now: BootTime) {
        for id in self.accesses.due(now) {
            self.handle_due(id, now);
            self.accesses.schedule(id, now);
        }
    }

    fn handle_due(&mut self, id: ResourceId, now: BootTime) {
        self.accesses.expire_successor(id, now);
        if let Some(ask) = self.accesses.take_overdue(id, now) {
            self.time_out_ask(id, ask, now);
        }
        self.expedite(id, now);
        let Some(access) = self.accesses.get(id) else {
            return;
        };
        let Some(grant) = &access.grant else { return };
        if grant.expires <= now {
            self.expire(id, grant.id, now);
        } else if grant.renew <= now && access.ask.is_none() {
            self.renew(id, now);
        }
    }

    /// Tells the portal that names wait for the answer to a request, where it is time.
    fn expedite(&mut self, id: ResourceId, now: BootTime) {
        let access = self.accesses.get_mut(id);
        if let Some(request) = access.and_then(|access| access.take_expedited(now)) {
            self.outbox.tell_portal(FromClient::AnswerNow {
                request,
                resource: id,
            });
        }
    }

    /// Nobody answered: whoever waits hears it.
    fn time_out_ask(&mut self, id: ResourceId, ask: Ask, now: BootTime) {
        if ask.number().is_some() {
            self.outbox.counters.unanswered += 1;
        }
        let text = match self.portal.is_open() {
            true => "the portal did not answer in time",
            false => "there is no connection to the portal",
        };
        let reason = Reason {
            code: ReasonCode::TryLater,
            text: text.to_owned(),
        };
        self.fail(id, ask, &reason, now);
    }

    /// A request failed: packets and names that wait hear why, and a live grant is asked for again
    /// later.
    pub(super) fn fail(&mut self, id: ResourceId, ask: Ask, reason: &Reason, now: BootTime) {
        let refused = refusal(reason.code);
        let Some(access) = self.accesses.get_mut(id) else {
            return;
        };
        let mut names = ask.names;
        names.append(&mut access.wanted);
        access.pending.clear();
        // Without a session there was no "no" that could be another one next time.
        let is_firm = self.portal.is_open();
        let before = access.denial.take().map(|denial| denial.reason.text);
        access.deny(reason, is_firm, now);
        let denial = access.denial.as_ref().map(|denial| &denial.reason.text);
        let event = match is_firm {
            true => LogEvent::Denied(id, reason.code),
            false => LogEvent::Unasked(id),
        };
        if let Some(reason) = denial.filter(|reason| before.as_ref() != Some(reason)) {
            self.outbox.log_event(event, now, || {
                let what = match is_firm {
                    true => "access denied",
                    false => "access could not be asked for",
                };
                LogLine::info(what)
                    .with_text("resource", &self.directory.name_of(id))
                    .with_text("reason", reason)
            });
        }
        if let (Some(grant), Some(denial)) = (&mut access.grant, &access.denial) {
            grant.renew = grant.renew.max(denial.until);
        }
        let brief = access
            .denial
            .as_ref()
            .map(|denial| denial.reason.text.clone());
        let outcome = match refused {
            PacketRefusal::Prohibited => Outcome::Denied {
                brief: brief.unwrap_or_default(),
            },
            PacketRefusal::Unreachable => Outcome::Unreachable,
        };
        let held = self.accesses.take_held(id);
        self.outbox
            .refuse(held.into_iter().map(|held| held.packet).collect(), refused);
        for name in names.keys() {
            self.name_failed(name, &outcome, now);
        }
        self.accesses.schedule(id, now);
    }

    /// A live grant has passed two thirds of its life.
    fn renew(&mut self, id: ResourceId, now: BootTime) {
        let Some(grant) = self.accesses.grant(id) else {
            return;
        };
        let span = grant.life() / 3;
        if self.is_wanted(id, grant, span, now) {
            return self.ask(id, now);
        }
        // It may come into use before it ends.
        let later = now.saturating_add((grant.life() / 24).max(Duration::from_secs(1)));
        if let Some(grant) = self.accesses.get_mut(id).and_then(|it| it.grant.as_mut()) {
            grant.renew = later;
        }
    }

    fn expire(&mut self, id: ResourceId, grant: GrantId, now: BootTime) {
        let was_used = self
            .accesses
            .grant(id)
            .is_some_and(|grant| self.gateways.is_in_use(grant, grant.life(), now));
        if !was_used {
            self.release(grant);
        }
        let line = LogLine::debug("a grant has expired").with("grant", grant);
        self.outbox.log(line);
        self.end_grant(grant, now);
    }

    /// Tells the portal that a grant is not needed.
    pub(super) fn release(&mut self, grant: GrantId) {
        if self.portal.is_open() {
            self.outbox.tell_portal(FromClient::ReleaseAccess { grant });
        }
    }

    /// A resource is gone, or points elsewhere: nothing of the access to it is left.
    pub(super) fn drop_access(&mut self, id: ResourceId, now: BootTime) {
        let Some(access) = self.accesses.get(id) else {
            return;
        };
        let grants = [&access.grant, &access.successor];
        let grants: Vec<GrantId> = grants.into_iter().flatten().map(|grant| grant.id).collect();
        let held = self.accesses.take_held(id);
        let packets = held.into_iter().map(|held| held.packet).collect();
        self.outbox.refuse(packets, PacketRefusal::Prohibited);
        for grant in grants {
            self.accesses.forget_grant(grant);
            self.routes.set_stale();
        }
        let Some(access) = self.accesses.remove(id) else {
            return;
        };
        self.names.handle_access_ended(id, now);
        let asked = access.ask.into_iter().flat_map(|ask| ask.names);
        let outcome = Outcome::Unreachable;
        for (name, _) in asked.chain(access.wanted) {
            self.name_failed(&name, &outcome, now);
        }
    }

    /// Forgets a "no", whose reason may be over.
    pub(super) fn forget_denial(&mut self, id: ResourceId, now: BootTime) {
        if let Some(access) = self.accesses.get_mut(id) {
            access.forget_denial(now);
        }
        self.accesses.schedule(id, now);
    }

    /// Makes room for one more access; `false` where there is none.
    fn make_room(&mut self, now: BootTime) -> bool {
        if !self.accesses.is_full() {
            return true;
        }
        let Some(id) = self.accesses.oldest_denial() else {
            return false;
        };
        self.drop_access(id, now);
        true
    }
}
