//! Asking for access: one request a resource at a time, a bounded number of them in all.

use super::access::{Access, Ask, Expedite, refusal, wanted_names};
use super::guard::Standing;
use super::log::LogEvent;
use super::output::Output;
use super::{Client, PacketRefusal};
use culvert_base::{BootTime, LogLine};
use culvert_dns::{Addresses, Outcome};
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::messages::{FromClient, Reason, ReasonCode};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Resources with a request, a grant or a "no" at once. A program that looks at every address of a
/// network must not fill the memory; the oldest "no" gives way.
pub const MAX_ACCESSES: usize = 4096;

/// Requests on their way at once. The portal answers in some 10 ms, so this is thousands a second.
pub const MAX_IN_FLIGHT: usize = 64;

/// How long a request may take, in milliseconds: the portal gives each of three gateways 3 s.
pub const ANSWER_LIMIT_MS: u64 = 10_000;

/// How long a packet waits while there is no session with the portal, in milliseconds: a program
/// hears "unreachable" then, and a portal that restarts is back sooner.
pub const OFFLINE_LIMIT_MS: u64 = 5_000;

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
        if !self.accesses.contains_key(&id) && !self.make_room(now) {
            return;
        }
        let access = self.accesses.entry(id).or_default();
        if access.standing_denial(now).is_some() {
            return;
        }
        match name {
            None if access.grant.is_some() => return,
            None => {}
            Some((name, addresses)) if access.want(name.clone(), addresses) => {
                access.expedite_for(name, now);
                self.guard.is_stale = true;
            }
            Some(_) => return,
        }
        self.ask(id, now);
    }

    /// Puts a request for a resource into the queue, unless there is one.
    pub(super) fn ask(&mut self, id: ResourceId, now: BootTime) {
        let is_open = self.session.is_open();
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        if access.ask.is_none() {
            let limit_ms = match is_open {
                true => ANSWER_LIMIT_MS,
                false => OFFLINE_LIMIT_MS,
            };
            access.ask = Some(Ask {
                number: None,
                sent: now,
                expedite: Expedite::Never,
                names: BTreeMap::new(),
                until: now.saturating_add(Duration::from_millis(limit_ms)),
            });
            self.queue.push_back(id);
        }
        // Somebody waits, which is not so for a renewal.
        let is_wanted_now = access.grant.is_none() || !access.wanted.is_empty();
        if !is_open && is_wanted_now {
            self.session.hurry();
        }
        self.schedule(id, now);
    }

    /// Sends what waits to be sent, as far as it may.
    pub(super) fn send_asks(&mut self, now: BootTime) {
        self.avoid.retain(|_, until| now < *until);
        // What waits for the host to see to a rule about applications.
        let mut unruled = VecDeque::new();
        while self.session.is_open()
            && self.in_flight.len() < MAX_IN_FLIGHT
            && let Some(id) = self.queue.pop_front()
        {
            match self.standing(id) {
                Standing::Free | Standing::InForce => {}
                Standing::Pending => {
                    unruled.push_back(id);
                    continue;
                }
                Standing::Failed(why) => {
                    self.refuse_unruled(id, &why, now);
                    continue;
                }
            }
            let Some(access) = self.accesses.get_mut(&id) else {
                continue;
            };
            if access.ask.as_ref().is_none_or(|ask| ask.number.is_some()) {
                continue;
            }
            let names = access.take_names();
            self.last_request += 1;
            let request = self.last_request;
            let message = FromClient::RequestAccess {
                request,
                resource: id,
                names: wanted_names(&names),
                avoid: self.avoid.keys().copied().collect(),
            };
            access.ask = Some(Ask {
                number: Some(request),
                sent: now,
                expedite: Expedite::Never,
                names,
                until: now.saturating_add(Duration::from_millis(ANSWER_LIMIT_MS)),
            });
            self.in_flight.insert(request, id);
            self.counters.requests += 1;
            self.outputs.push_back(Output::ToPortal(message));
            self.schedule(id, now);
        }
        self.queue.append(&mut unruled);
    }

    /// Only some programs may reach the resource, and the host can't see to that: nobody may.
    fn refuse_unruled(&mut self, id: ResourceId, why: &str, now: BootTime) {
        let ask = self.accesses.get_mut(&id).and_then(|it| it.ask.take());
        if let Some(ask) = ask {
            let reason = Reason {
                code: ReasonCode::ConditionNotMet,
                text: format!("only some applications may use it: {why}"),
            };
            self.fail(id, ask, &reason, now);
        }
    }

    /// The session is gone, and with it every request: they are sent again in the next one.
    pub(super) fn requeue_asks(&mut self, now: BootTime) {
        self.in_flight.clear();
        self.queue.clear();
        let ids: Vec<ResourceId> = self.accesses.keys().copied().collect();
        let mut somebody_waits = false;
        for id in ids {
            let Some(access) = self.accesses.get_mut(&id) else {
                continue;
            };
            let Some(ask) = &mut access.ask else { continue };
            ask.number = None;
            ask.expedite = Expedite::Never;
            let offline_limit = Duration::from_millis(OFFLINE_LIMIT_MS);
            ask.until = ask.until.min(now.saturating_add(offline_limit));
            let names = std::mem::take(&mut ask.names);
            for (name, addresses) in names {
                access.wanted.entry(name).or_insert(addresses);
            }
            somebody_waits |= access.grant.is_none() || !access.wanted.is_empty();
            self.queue.push_back(id);
            self.schedule(id, now);
        }
        if somebody_waits {
            self.session.hurry();
        }
    }

    /// Does what is due for accesses: requests that were not answered, grants that end or are to be
    /// renewed.
    pub(super) fn handle_due_accesses(&mut self, now: BootTime) {
        let due: Vec<ResourceId> = self
            .timers
            .iter()
            .take_while(|(due, _)| *due <= now)
            .map(|(_, id)| *id)
            .collect();
        for id in due {
            self.handle_due(id, now);
            self.schedule(id, now);
        }
    }

    fn handle_due(&mut self, id: ResourceId, now: BootTime) {
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        let successor_ended = |access: &Access<P>| {
            let successor = access.successor.as_ref();
            successor.is_some_and(|grant| grant.expires <= now)
        };
        if successor_ended(access)
            && let Some(grant) = access.successor.take()
        {
            self.grants.remove(&grant.id);
        }
        if access.ask.as_ref().is_some_and(|ask| ask.until <= now) {
            self.time_out_ask(id, now);
        }
        self.expedite(id, now);
        let Some(grant) = self.accesses.get(&id).and_then(|it| it.grant.as_ref()) else {
            return;
        };
        let (grant_id, is_asking) = (grant.id, self.accesses[&id].ask.is_some());
        if grant.expires <= now {
            self.expire(id, grant_id, now);
        } else if grant.renew <= now && !is_asking {
            self.renew(id, now);
        }
    }

    /// Tells the portal that names wait for the answer to a request, where it is time.
    fn expedite(&mut self, id: ResourceId, now: BootTime) {
        let ask = self.accesses.get_mut(&id).and_then(|it| it.ask.as_mut());
        if let Some(ask) = ask
            && let Some(request) = ask.number
            && matches!(ask.expedite, Expedite::At(at) if at <= now)
        {
            ask.expedite = Expedite::Sent;
            self.outputs
                .push_back(Output::ToPortal(FromClient::AnswerNow {
                    request,
                    resource: id,
                }));
        }
    }

    /// Nobody answered: whoever waits hears it.
    fn time_out_ask(&mut self, id: ResourceId, now: BootTime) {
        let is_open = self.session.is_open();
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        let Some(ask) = access.ask.take() else { return };
        if let Some(number) = ask.number {
            self.in_flight.remove(&number);
            self.counters.unanswered += 1;
        }
        self.queue.retain(|queued| *queued != id);
        let text = match is_open {
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
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        let mut names = ask.names;
        names.append(&mut access.wanted);
        access.pending.clear();
        // Without a session there was no "no" that could be another one next time.
        let is_firm = self.session.is_open();
        let before = access.denial.take().map(|denial| denial.reason.text);
        access.deny(reason, is_firm, now);
        let denial = access.denial.as_ref().map(|denial| &denial.reason.text);
        let event = match is_firm {
            true => LogEvent::Denied(id, reason.code),
            false => LogEvent::Unasked(id),
        };
        if let Some(reason) = denial.filter(|reason| before.as_ref() != Some(reason))
            && let Some(repeated) = self.log_events.count(event, now)
        {
            let resource = self
                .directory
                .get(id)
                .map(|resource| resource.name.to_string());
            let resource = resource.unwrap_or_else(|| id.to_string());
            let what = match is_firm {
                true => "access denied",
                false => "access could not be asked for",
            };
            let line = LogLine::info(what)
                .with_text("resource", &resource)
                .with_text("reason", reason)
                .with("repeated", repeated);
            self.log.push(line);
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
        let held = self.take_held(id);
        self.refuse_packets(held.into_iter().map(|held| held.packet).collect(), refused);
        for name in names.keys() {
            self.name_failed(name, &outcome, now);
        }
        self.schedule(id, now);
    }

    /// A live grant has passed two thirds of its life.
    fn renew(&mut self, id: ResourceId, now: BootTime) {
        let Some(grant) = self.accesses.get(&id).and_then(|it| it.grant.as_ref()) else {
            return;
        };
        let span = grant.life() / 3;
        if self.is_in_use(grant, span, now) {
            return self.ask(id, now);
        }
        // It may come into use before it ends.
        let later = now.saturating_add((grant.life() / 24).max(Duration::from_secs(1)));
        if let Some(grant) = self.accesses.get_mut(&id).and_then(|it| it.grant.as_mut()) {
            grant.renew = later;
        }
    }

    fn expire(&mut self, id: ResourceId, grant: GrantId, now: BootTime) {
        let was_used = self
            .accesses
            .get(&id)
            .and_then(|access| access.grant.as_ref())
            .is_some_and(|grant| self.is_in_use(grant, grant.life(), now));
        if !was_used {
            self.release(grant);
        }
        let line = LogLine::debug("a grant has expired").with("grant", grant);
        self.log.push(line);
        self.end_grant(grant, now);
    }

    /// Tells the portal that a grant is not needed.
    pub(super) fn release(&mut self, grant: GrantId) {
        if self.session.is_open() {
            let message = FromClient::ReleaseAccess { grant };
            self.outputs.push_back(Output::ToPortal(message));
        }
    }

    /// A resource is gone, or points elsewhere: nothing of the access to it is left.
    pub(super) fn drop_access(&mut self, id: ResourceId, now: BootTime) {
        let Some(access) = self.accesses.get(&id) else {
            return;
        };
        let grants = [&access.grant, &access.successor];
        let grants: Vec<GrantId> = grants.into_iter().flatten().map(|grant| grant.id).collect();
        let held = self.take_held(id);
        let packets = held.into_iter().map(|held| held.packet).collect();
        self.refuse_packets(packets, PacketRefusal::Prohibited);
        for grant in grants {
            self.grants.remove(&grant);
            self.is_stale = true;
        }
        let Some(access) = self.accesses.remove(&id) else {
            return;
        };
        if let Some(due) = access.due {
            self.timers.remove(&(due, id));
        }
        if let Some(number) = access.ask.as_ref().and_then(|ask| ask.number) {
            self.in_flight.remove(&number);
        }
        self.queue.retain(|queued| *queued != id);
        if let Some(stub) = &mut self.stub {
            stub.handle_access_ended(id, now);
        }
        let asked = access.ask.into_iter().flat_map(|ask| ask.names);
        let outcome = Outcome::Unreachable;
        for (name, _) in asked.chain(access.wanted) {
            self.name_failed(&name, &outcome, now);
        }
    }

    /// Whatever made the portal say "no" may be over.
    pub(super) fn forget_denial(&mut self, id: ResourceId, now: BootTime) {
        if let Some(access) = self.accesses.get_mut(&id) {
            access.denials = 0;
            if let Some(denial) = &mut access.denial {
                denial.until = denial.until.min(now);
            }
        }
        self.schedule(id, now);
    }

    /// Makes room for one more access; `false` where there is none.
    fn make_room(&mut self, now: BootTime) -> bool {
        if self.accesses.len() < MAX_ACCESSES {
            return true;
        }
        let denied = self.accesses.iter().filter(|(_, it)| it.is_only_denial());
        let oldest = denied.min_by_key(|(_, access)| access.denial.as_ref().map(|it| it.at));
        let Some(id) = oldest.map(|(id, _)| *id) else {
            return false;
        };
        self.drop_access(id, now);
        true
    }

    /// Notes when an access is to be looked at, and forgets one that is idle.
    pub(super) fn schedule(&mut self, id: ResourceId, now: BootTime) {
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        if let Some(due) = access.due.take() {
            self.timers.remove(&(due, id));
        }
        if access.is_idle(now) {
            self.accesses.remove(&id);
            return;
        }
        // What is overdue comes next time, once: looking at it always moves it on.
        let next = now.saturating_add(Duration::from_millis(1));
        access.due = access.next_due().map(|due| due.max(next));
        if let Some(due) = access.due {
            self.timers.insert((due, id));
        }
    }
}
