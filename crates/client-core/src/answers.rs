//! The fate of requests and grants: granted, denied, revoked, ended.

use super::access::move_names;
use super::ask::Ask;
use super::client::Client;
use super::grant::{Grant, GrantedName, Introduction};
use super::log::LogEvent;
use super::packet::PacketRefusal;
use super::reason::tidy;
use culvert_base::{BootTime, LogLine, whole_millis};
use culvert_dns::{Addresses, Families, Outcome};
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::Timestamp;
use culvert_wire::messages::{Existence, Reason, ReasonCode, ResolvedName, ToClient};
use std::collections::BTreeMap;
use std::time::Duration;

/// A flow through a gateway that another one is to relieve has ended when it was silent for this
/// long.
const QUIET: Duration = Duration::from_secs(10);

/// The part of `access_granted` about the grant itself.
struct Granted {
    grant: GrantId,
    expires: Timestamp,
    introduction: Introduction,
    names: Vec<ResolvedName>,
}

impl<P> Client<P> {
    pub(super) fn handle_granted(&mut self, message: ToClient, now: BootTime) {
        let ToClient::AccessGranted {
            request,
            relays,
            resource,
            grant,
            expires,
            gateway,
            gateway_name,
            gateway_key,
            gateway_interface,
            candidates,
            preshared_key,
            cipher,
            names,
            answers_dns,
        } = message
        else {
            return;
        };
        let ask = self.accesses.take_answered(request, resource);
        let is_known = self.directory.get(resource).is_some();
        let (Some(ask), true) = (ask, is_known) else {
            // The request was given up, or the resource went away meanwhile. A request in its place has the same grant as its
            // answer, or will have: a release would end it.
            let is_wanted = self.accesses.resource_of(grant).is_some()
                || (is_known && self.accesses.is_asking(resource));
            if !is_wanted {
                self.release(grant);
            }
            return;
        };
        let granted = Granted {
            grant,
            expires,
            introduction: Introduction {
                id: gateway,
                name: tidy_name(&gateway_name),
                key: gateway_key,
                interface: gateway_interface,
                answers_dns,
                candidates,
                preshared_key,
                cipher,
                relays,
            },
            names,
        };
        self.take_grant(resource, ask, granted, now);
    }

    fn take_grant(&mut self, id: ResourceId, ask: Ask, granted: Granted, now: BootTime) {
        let network = self.network.as_ref();
        let lifetime = network.map_or(Duration::ZERO, |it| it.grant_lifetime);
        let expires = self
            .portal
            .local_time(granted.expires, now)
            .min(now.saturating_add(lifetime));
        let is_own_key = granted.introduction.key == self.portal.public_key();
        if expires <= now || is_own_key {
            let reason = Reason {
                code: ReasonCode::BadGrant,
                text: match is_own_key {
                    true => "the gateway has this client's key; give one of them a new key",
                    false => "the grant had expired when it came",
                }
                .to_owned(),
            };
            self.release(granted.grant);
            return self.fail(id, ask, &reason, now);
        }
        self.outbox.counters.granted += 1;
        let life_ms = whole_millis(expires.saturating_since(now));
        // Clients that asked at the same moment do not renew at the same moment.
        let renewed_after_ms = life_ms / 3 * 2 + self.random.up_to(life_ms / 12);
        let mut grant = Grant {
            id: granted.grant,
            gateway: granted.introduction,
            begun: now,
            expires,
            renew: now.saturating_add(Duration::from_millis(renewed_after_ms)),
            names: BTreeMap::new(),
        };
        for (name, addresses) in &ask.names {
            if let Outcome::Families(families) = outcome_of(&granted.names, name.as_str()) {
                let granted = GrantedName {
                    addresses: *addresses,
                    families,
                    asked: now,
                    is_lost: false,
                };
                grant.add_name(name.clone(), granted);
            }
        }
        self.log_granted(id, &grant.gateway, now);
        self.install(id, grant, now);
        for (name, addresses) in &ask.names {
            if self.stays_pending(id, name, &granted.names, ask.since, now) {
                self.want_one(id, Some((name, *addresses)), now);
                continue;
            }
            let outcome = outcome_of(&granted.names, name.as_str());
            self.take_outcome(id, name, *addresses, &outcome, now);
        }
    }

    /// True if a name is asked for again, as the gateway has no answer of the DNS for it yet.
    fn stays_pending(
        &mut self,
        id: ResourceId,
        name: &DomainName,
        resolved: &[ResolvedName],
        sent: BootTime,
        now: BootTime,
    ) -> bool {
        let Some(access) = self.accesses.get_mut(id) else {
            return false;
        };
        let said = find(resolved, name.as_str()).map(|found| found.existence);
        if said == Some(Existence::Pending) {
            return access.stays_pending(name, sent, now);
        }
        access.pending.remove(name);
        false
    }

    /// Says who gives access to what, where that is news.
    fn log_granted(&mut self, id: ResourceId, to: &Introduction, now: BootTime) {
        let resource = self.directory.name_of(id);
        let gateway = &to.name;
        let held = self.accesses.grant(id);
        let held = held.map(|grant| (grant.gateway.id, grant.gateway.name.clone()));
        match held {
            None => {
                self.outbox.log_event(LogEvent::Granted(id), now, || {
                    LogLine::info("access granted")
                        .with_text("resource", &resource)
                        .with_text("gateway", gateway)
                });
            }
            Some((held, _)) if held == to.id => {
                let line = LogLine::debug("access renewed")
                    .with_text("resource", &resource)
                    .with_text("gateway", gateway);
                self.outbox.log(line);
            }
            Some((_, before)) => {
                self.outbox.log_event(LogEvent::Moved(id), now, || {
                    LogLine::info("access goes through another gateway")
                        .with_text("resource", &resource)
                        .with_text("gateway", gateway)
                        .with_text("before", &before)
                });
            }
        }
    }

    /// Takes in the gateway's answer about a name, with a grant that is in use by now.
    fn take_outcome(
        &mut self,
        id: ResourceId,
        name: &DomainName,
        addresses: Addresses,
        outcome: &Outcome,
        now: BootTime,
    ) {
        let access = self.accesses.get_mut(id);
        let grant = access.and_then(|access| access.grant.as_mut());
        match outcome {
            Outcome::Families(families) => {
                self.name_granted(name, addresses, *families, now);
            }
            Outcome::Unanswered => {
                // The answer that the gateway gave before still counts.
                let known = grant.and_then(|grant| grant.names.get(name).copied());
                match known.filter(|known| known.addresses == addresses && !known.is_lost) {
                    Some(known) => self.name_granted(name, addresses, known.families, now),
                    None => self.name_failed(name, outcome, now),
                }
            }
            _ => {
                // A grant that this one replaced may have had it, and flows of it go on.
                if let Some(known) = grant.and_then(|grant| grant.names.get_mut(name)) {
                    known.is_lost = true;
                }
                self.name_failed(name, outcome, now);
            }
        }
    }

    /// Puts a grant to use, or keeps it until the flows through the one in use have ended.
    fn install(&mut self, id: ResourceId, grant: Grant, now: BootTime) {
        self.routes.set_stale();
        let introduction = grant.gateway.clone();
        let is_avoided = |gateway| self.gateways.is_avoided(gateway);
        if self.accesses.install(id, grant, is_avoided, now) {
            let held = self.accesses.take_held(id);
            self.routes.resume(held);
            self.tell_site(id, now);
            self.meet_gateway(&introduction, now);
        }
        if self.accesses.wants_names(id) {
            self.ask(id, now);
        }
        self.accesses.schedule(id, now);
    }

    pub(super) fn handle_denied(
        &mut self,
        request: u64,
        resource: ResourceId,
        reason: &Reason,
        now: BootTime,
    ) {
        let Some(ask) = self.accesses.take_answered(request, resource) else {
            return;
        };
        let of_names = match reason.code {
            ReasonCode::NameNotFound => Some(Outcome::NxDomain),
            ReasonCode::NameUnanswered => Some(Outcome::Unanswered),
            _ => None,
        };
        if let Some(outcome) = of_names.filter(|_| !ask.names.is_empty()) {
            // The resource is fine: only the names are not there.
            for name in ask.names.keys() {
                self.name_failed(name, &outcome, now);
            }
            let held = self.accesses.take_held(resource);
            let packets = held.into_iter().map(|held| held.packet).collect();
            self.outbox.refuse(packets, PacketRefusal::Unreachable);
            if self.accesses.wants_names(resource) {
                self.ask(resource, now);
            }
            return self.accesses.schedule(resource, now);
        }
        self.outbox.counters.denied += 1;
        if reason.code == ReasonCode::NoGateway {
            // Those that did not answer may be all there are; one of them may be back.
            self.gateways.avoid_none();
        }
        self.fail(resource, ask, reason, now);
    }

    pub(super) fn handle_revoked(&mut self, grant: GrantId, reason: &Reason, now: BootTime) {
        let Some(id) = self.accesses.resource_of(grant) else {
            return;
        };
        self.outbox.counters.revoked += 1;
        let current = self.accesses.grant(id).map(|current| current.id);
        let is_current = current == Some(grant);
        let resource = self.directory.name_of(id);
        let access = self.accesses.get(id);
        if access.is_some_and(|access| access.successor.is_none()) {
            self.outbox.log_event(LogEvent::Revoked(id), now, || {
                LogLine::info("access revoked")
                    .with_text("resource", &resource)
                    .with_text("reason", &tidy(reason).text)
                    .with("grant", grant)
            });
        }
        self.end_grant(grant, now);
        let is_over = self.accesses.grant(id).is_none();
        if is_current && is_over && reason.code != ReasonCode::Expired {
            let access = self.accesses.entry(id);
            access.deny(reason, true, now);
        }
        self.accesses.schedule(id, now);
    }

    /// A grant does not stand any more, but nobody has said "no": it is asked for again if it was in
    /// use.
    pub(super) fn lose_grant(&mut self, grant: GrantId, now: BootTime) {
        let Some(id) = self.accesses.resource_of(grant) else {
            return;
        };
        let current = self.accesses.grant(id);
        let was_in_use = current.is_some_and(|current| {
            let span = current.life() / 3;
            current.id == grant && self.is_wanted(id, current, span, now)
        });
        self.end_grant(grant, now);
        let is_gone = self.accesses.grant(id).is_none();
        if was_in_use && is_gone && self.directory.get(id).is_some() {
            self.accesses.entry(id);
            self.ask(id, now);
        }
    }

    /// A grant is over; its successor takes its place if there is one.
    pub(super) fn end_grant(&mut self, grant: GrantId, now: BootTime) {
        let Some(id) = self.accesses.forget_grant(grant) else {
            return;
        };
        self.routes.set_stale();
        let Some(access) = self.accesses.get_mut(id) else {
            return;
        };
        access.successor.take_if(|successor| successor.id == grant);
        let Some(mut ended) = access.grant.take_if(|current| current.id == grant) else {
            return self.accesses.schedule(id, now);
        };
        let successor = access.successor.take().filter(|it| it.expires > now);
        match successor {
            Some(mut successor) => {
                ended.expires = now;
                move_names(ended, &mut successor, &mut access.wanted, &access.ask);
                access.grant = Some(successor);
                if !access.wanted.is_empty() {
                    self.ask(id, now);
                }
                self.tell_site(id, now);
            }
            None => {
                self.directory.opening_mut().hurry();
                // The next grant may come from another gateway, which knows none of them.
                for (name, granted) in ended.names {
                    if !granted.is_lost && !access.awaits(&name) && access.ask.is_some() {
                        access.want(name, granted.addresses);
                    }
                }
                self.names.handle_access_ended(id, now);
            }
        }
        self.accesses.schedule(id, now);
    }

    /// Gives way to successors where the flows through the gateway in use have ended.
    pub(super) fn promote_successors(&mut self, now: BootTime) {
        let waiting = self.accesses.iter();
        let waiting = waiting.filter(|(_, access)| access.successor.is_some());
        let grants = waiting.filter_map(|(_, access)| access.grant.as_ref());
        let quiet: Vec<GrantId> = grants
            .filter(|grant| !self.gateways.is_in_use(grant, QUIET, now))
            .map(|grant| grant.id)
            .collect();
        for grant in quiet {
            self.end_grant(grant, now);
        }
    }
}

/// The outcome that the gateway found for a name.
fn outcome_of(resolved: &[ResolvedName], name: &str) -> Outcome {
    let Some(found) = find(resolved, name) else {
        return Outcome::Unanswered;
    };
    let families = Families {
        v4: found.ipv4,
        v6: found.ipv6,
    };
    match found.existence {
        _ if families != Families::default() => Outcome::Families(families),
        Existence::Exists => Outcome::NoAddress,
        Existence::Missing => Outcome::NxDomain,
        Existence::Unanswered | Existence::Pending => Outcome::Unanswered,
    }
}

fn find<'a>(resolved: &'a [ResolvedName], name: &str) -> Option<&'a ResolvedName> {
    let mut resolved = resolved.iter();
    resolved.find(|resolved| resolved.name.eq_ignore_ascii_case(name))
}

/// A gateway's name, for terminals and logs.
fn tidy_name(name: &str) -> String {
    const MAX_CHARS: usize = 64;
    let plain = name.chars().filter(|letter| !letter.is_control());
    plain.take(MAX_CHARS).collect()
}
