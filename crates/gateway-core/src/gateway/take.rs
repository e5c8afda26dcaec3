//! From a grant as it is received to one in force.

use super::Gateway;
use crate::backlog::{GRANTS_PER_TURN, MAX_BACKLOG, Offered};
use crate::clients::Identity;
use crate::grants::{Given, Held, Pending, Visible};
use crate::journal::AccessEvent;
use crate::names::{DEFER_AFTER, MAX_NAMES_PER_CLIENT, RESOLVE_LIMIT_MS};
use crate::questions::MAX_WAITING_PER_CLIENT;
use crate::services::ChangedServices;
use crate::verify::{GrantFault, Verified, unverified_claims};
use culvert_base::{BootTime, LogLine, UnixTime};
use culvert_ids::{ClientId, GrantId};
use culvert_policy::DomainName;
use culvert_wire::messages::{Existence, FromGateway, GrantLabels, ResolvedName, WantedName};
use culvert_wire::{GrantClaims, PresharedKey};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Grants that wait for the DNS at once. Each client has a few requests under way.
const MAX_PENDING: usize = 4096;

/// Grants at once: twice what a portal gives one gateway.
pub(super) const MAX_GRANTS: usize = 1 << 17;

impl Gateway {
    /// A grant of the portal: it waits until what else the portal has said is handled.
    pub(super) fn hear_grant(&mut self, offered: Offered, now: BootTime) {
        if self.grants.backlog.len() >= MAX_BACKLOG {
            self.take_next(now);
        }
        if let Some(offered) = self.grants.backlog.push(offered, now) {
            self.take_grant(offered, None, now);
        }
    }

    /// Looks at some of the grants that wait.
    pub(super) fn take_turn(&mut self, now: BootTime) {
        for _ in 0..GRANTS_PER_TURN.min(self.grants.backlog.len()) {
            self.take_next(now);
        }
    }

    fn take_next(&mut self, now: BootTime) {
        let Some(waiting) = self.grants.backlog.pop() else {
            return;
        };
        self.take_grant(waiting.offered, waiting.changed, now);
        if waiting.answer_now {
            self.answer_now(waiting.grant, now);
        }
    }

    /// Checks a grant, and puts it in force or waits for the DNS. `changed` are set since it was made.
    fn take_grant(&mut self, offered: Offered, changed: Option<ChangedServices>, now: BootTime) {
        let Offered {
            token,
            preshared_key,
            replaces,
            names,
            labels,
        } = offered;
        let unix = self
            .portal
            .session
            .portal_time(now)
            .unwrap_or(UnixTime::MAX);
        let verified = match self.verify(&token, unix) {
            Ok(verified) => verified,
            Err(fault) => {
                // If no id can be read from its claims, no refusal is sent, and the portal's wait times out.
                self.journal.counters.refused += 1;
                self.journal
                    .log
                    .push(LogLine::warn("a grant was refused").with("fault", &fault));
                if let Some(claims) = unverified_claims(&token) {
                    let (grant, reason) = (claims.grant, fault.reason());
                    self.tell(FromGateway::GrantRefused { grant, reason });
                }
                return;
            }
        };
        let claims = &verified.claims;
        let grant = claims.grant;
        self.log_not_understood(claims.resource, claims.filters.others());
        if self.grants.held.len() + self.grants.pending.len() >= MAX_GRANTS {
            self.refuse(grant, &GrantFault::TooMany(format!("{MAX_GRANTS} grants")));
            return;
        }
        match self.wanted_names(&verified, names, now) {
            Ok(mut names) => {
                self.outdate(&verified.claims);
                let (waiting, refused) =
                    self.ask_for_names(verified.claims.client, names.keys(), now);
                let is_unanswered = |name: &DomainName| {
                    let existence = self.dns.names.existence(name);
                    refused.contains(name) || existence == Some(Existence::Unanswered)
                };
                let unanswered = names.extract_if(.., |name, _| is_unanswered(name));
                let unanswered: BTreeSet<DomainName> = unanswered.map(|(name, _)| name).collect();
                if names.is_empty() && !refused.is_empty() {
                    let many = format!("{MAX_WAITING_PER_CLIENT} names of one client wait");
                    self.refuse(grant, &GrantFault::TooMany(many));
                    return;
                }
                let pending = Pending {
                    verified,
                    token,
                    preshared_key,
                    replaces,
                    names,
                    waiting,
                    unanswered,
                    deferred: BTreeSet::new(),
                    changed,
                    time_out: now.saturating_add(Duration::from_millis(RESOLVE_LIMIT_MS)),
                    defer: None,
                    labels,
                };
                self.await_or_install(pending, unix, now);
            }
            Err(fault) => self.refuse(grant, &fault),
        }
    }

    fn verify(&self, token: &str, unix: UnixTime) -> Result<Verified, GrantFault> {
        let network = self.network.as_ref().ok_or(GrantFault::Signature)?;
        let verified = network.verify(token, unix)?;
        self.check_beside_others(&verified.claims)?;
        Ok(verified)
    }

    /// Checks what depends on other grants.
    fn check_beside_others(&self, claims: &GrantClaims) -> Result<(), GrantFault> {
        let is_own_key = claims.client_key == self.options.public_key;
        if is_own_key
            || self
                .data_plane
                .clients()
                .conflict_with(&Identity::from(claims))
        {
            return Err(GrantFault::Taken);
        }
        match self.grants.held.get(claims.grant) {
            Some(held) if held.claims != *claims => Err(GrantFault::SameId),
            _ => Ok(()),
        }
    }

    /// The names that a client wants, if they are of the resource and their addresses its own to give.
    fn wanted_names(
        &self,
        verified: &Verified,
        wanted: Vec<WantedName>,
        now: BootTime,
    ) -> Result<BTreeMap<DomainName, Visible>, GrantFault> {
        let network = self.network.as_ref().ok_or(GrantFault::Signature)?;
        let held = self.grants.of_client(verified.claims.client);
        let count = wanted.len() + held.map(|held| held.names.len()).sum::<usize>();
        if count > MAX_NAMES_PER_CLIENT {
            let many = format!("{count} names of one client");
            return Err(GrantFault::TooMany(many));
        }
        let mut names = BTreeMap::new();
        let mut given = BTreeSet::new();
        for wanted in wanted {
            let name = DomainName::shown(&wanted.name).map_err(|_| GrantFault::Name)?;
            let is_of_resource = verified
                .target
                .pattern()
                .is_some_and(|pattern| pattern.matches(&name));
            // One address for two names would lead to the wrong one of them.
            let is_its_own =
                given.insert(IpAddr::from(wanted.ipv4)) && given.insert(IpAddr::from(wanted.ipv6));
            let is_in_range = network.may_stand_for_names(wanted.ipv4, wanted.ipv6);
            if !is_of_resource || !is_its_own || !is_in_range {
                return Err(GrantFault::Name);
            }
            let visible = Visible {
                ipv4: wanted.ipv4,
                ipv6: wanted.ipv6,
                told: now,
            };
            names.insert(name, visible);
        }
        Ok(names)
    }

    fn await_or_install(&mut self, pending: Pending, unix: UnixTime, now: BootTime) {
        if pending.waiting.is_empty() {
            self.put_in_force(pending, unix, now);
        } else if self.grants.pending.len() >= MAX_PENDING {
            let fault = GrantFault::TooMany(format!("{MAX_PENDING} wait for the DNS"));
            self.refuse(pending.verified.claims.grant, &fault);
        } else {
            let grant = pending.verified.claims.grant;
            self.grants.pending.insert(grant, pending);
        }
    }

    /// Puts a grant in force and says so.
    fn install(&mut self, pending: Pending, unix: UnixTime, now: BootTime) {
        let claims = pending.verified.claims.clone();
        // The DNS took its time: others may have come, and this one's end.
        let end = claims.exp.unix_time();
        let is_fit = match end <= unix {
            true => Err(GrantFault::Expired(unix.saturating_since(end).as_secs())),
            false => self.check_beside_others(&claims),
        };
        if let Err(fault) = is_fit {
            self.refuse(claims.grant, &fault);
            return;
        }
        let leads_somewhere = self
            .check_within(&pending, now)
            .and_then(|()| self.check_host_addresses(&pending, now));
        let pair = (claims.client, claims.resource);
        if let Err(fault) = leads_somewhere {
            let refused = AccessEvent::Refused;
            self.journal
                .log_access(refused, pair, &pending.labels, claims.grant, now);
            self.refuse(claims.grant, &fault);
            return;
        }
        let event = match pending.replaces {
            Some(_) => AccessEvent::Renewed,
            None => AccessEvent::Granted,
        };
        let within = pending.verified.within.as_ref();
        let names = pending.names.keys();
        let answered: Vec<ResolvedName> = names
            .map(|name| self.dns.names.families(name, within))
            .chain(without_answer(&pending.unanswered, Existence::Unanswered))
            .chain(without_answer(&pending.deferred, Existence::Pending))
            .collect();
        let superseded = self.superseded(&pending);
        let mut held = Held {
            expires: now.saturating_add(end.saturating_since(unix)),
            claims,
            target: pending.verified.target,
            within: pending.verified.within,
            filters: pending.verified.filters,
            inbound: pending.verified.inbound,
            changed: None,
            token: pending.token,
            preshared_key: pending.preshared_key,
            names: pending.names,
            labels: pending.labels,
        };
        let labels = held.labels.clone();
        if let Some(written) = &pending.changed {
            held.set_services(written);
        }
        let (id, client) = (held.claims.grant, held.claims.client);
        let superseded: Vec<Held> = superseded
            .into_iter()
            .filter_map(|old| self.grants.remove(old))
            .collect();
        let given = Given::new(&held.names);
        for old in &superseded {
            if old.claims.resource == held.claims.resource {
                for (name, visible) in &old.names {
                    if !given.outdate(name, *visible) {
                        held.names.entry(name.clone()).or_insert(*visible);
                    }
                }
            }
        }
        let outdated = self.grants.take_names(client, &given);
        self.grants.insert(held);
        if let Err(fault) = self.rebuild(client) {
            self.grants.remove(id);
            self.grants.give_names_back(outdated);
            superseded
                .into_iter()
                .for_each(|old| self.grants.insert(old));
            self.rebuild_or_deny(client);
            self.refuse(id, &fault);
            return;
        }
        let superseded: Vec<GrantId> = superseded.iter().map(|old| old.claims.grant).collect();
        // They may allow more than the new one, or last longer, or be of a key that the client has no more.
        let replaced = superseded.iter().copied().filter(|old| *old != id);
        self.persistence.void(replaced);
        self.outputs.take_acceptances_back(&superseded, id);
        let without_names = outdated.iter().map(|(grant, ..)| *grant);
        let changed = superseded.iter().copied().chain(without_names).chain([id]);
        self.persistence.change_all(changed);
        self.journal.counters.accepted += 1;
        self.journal.log_access(event, pair, &labels, id, now);
        self.tell(FromGateway::GrantAccepted {
            grant: id,
            names: answered,
        });
        self.look_for_room(client, now);
    }

    /// Notes each name that leads out of the ranges of its resource. If all do, the grant opens nothing,
    /// and is refused with the reason.
    fn check_within(&mut self, pending: &Pending, now: BootTime) -> Result<(), GrantFault> {
        let Verified { claims, within, .. } = &pending.verified;
        let names = pending.names.keys();
        let outside: Vec<(DomainName, IpAddr)> = names
            .filter_map(|name| Some((name.clone(), self.dns.names.outside(name, within.as_ref())?)))
            .collect();
        for (name, address) in &outside {
            self.journal
                .note_outside(name, *address, claims.resource, now);
        }
        let are_all = outside.len() == pending.names.len();
        match outside.into_iter().next() {
            Some((name, address)) if are_all => Err(GrantFault::Outside { name, address }),
            _ => Ok(()),
        }
    }

    /// Drops pending grants that newer claims of the portal outdate: a grant with the same id, and grants of
    /// the client from before it had another key or other addresses. The latter are refused.
    fn outdate(&mut self, claims: &GrantClaims) {
        self.grants.pending.remove(claims.grant);
        let pending = self.grants.pending.of_client(claims.client);
        let moved: Vec<GrantId> = pending
            .filter(|(_, old)| has_moved(&old.verified.claims, claims))
            .map(|(id, _)| id)
            .collect();
        for id in moved {
            self.grants.pending.remove(id);
            self.refuse(id, &GrantFault::Outdated);
        }
    }

    /// The grants that end when this one comes into force. They are the one that it replaces, an earlier copy of
    /// itself, and those of the same client with another key or other addresses. The latter are of no use, because
    /// a client has only one key at a time.
    fn superseded(&self, pending: &Pending) -> BTreeSet<GrantId> {
        let claims = &pending.verified.claims;
        let moved = self
            .grants
            .of_client(claims.client)
            .filter(|old| has_moved(&old.claims, claims));
        moved
            .map(|old| old.claims.grant)
            .chain(self.replaced(pending))
            .chain([claims.grant])
            .collect()
    }

    /// The grant that this one replaces: one of the same client for the same resource.
    fn replaced(&self, pending: &Pending) -> Option<GrantId> {
        let claims = &pending.verified.claims;
        let id = pending.replaces.filter(|id| *id != claims.grant)?;
        let old = &self.grants.held.get(id)?.claims;
        (old.client == claims.client && old.resource == claims.resource).then_some(id)
    }

    fn refuse(&mut self, grant: GrantId, fault: &GrantFault) {
        self.journal.counters.refused += 1;
        let reason = fault.reason();
        self.tell(FromGateway::GrantRefused { grant, reason });
    }

    /// A grant that an earlier run has kept.
    ///
    /// # Errors
    /// The reason for which it is left out.
    pub(super) fn restore_grant(
        &mut self,
        token: &str,
        preshared_key: PresharedKey,
        names: Vec<WantedName>,
        unix: UnixTime,
        now: BootTime,
    ) -> Result<GrantId, GrantFault> {
        let verified = self.verify(token, unix)?;
        let names = self.wanted_names(&verified, names, now)?;
        // They come into force as the DNS answers; until then they lead nowhere.
        let (_waiting, later) = self.ask_for_names(verified.claims.client, names.keys(), now);
        for name in &later {
            self.dns.names.ask_later(name, now);
        }
        let id = verified.claims.grant;
        let pending = Pending {
            verified,
            token: token.to_owned(),
            preshared_key,
            replaces: None,
            names,
            waiting: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            deferred: BTreeSet::new(),
            changed: None,
            time_out: now,
            defer: None,
            labels: GrantLabels::default(),
        };
        self.install(pending, unix, now);
        match self.grants.held.contains(id) {
            true => Ok(id),
            false => Err(GrantFault::Unfit),
        }
    }

    /// A grant that has waited for the DNS for too long goes on with the names that are known.
    pub(super) fn come_due(&mut self, now: BootTime) {
        for id in self.grants.pending.due(now) {
            let Some(mut pending) = self.grants.pending.remove(id) else {
                continue;
            };
            match pending.time_out <= now {
                true => pending.time_out_names(),
                false => pending.defer_waiting(),
            }
            self.come_into_force(pending, now);
        }
    }

    /// Others wait for the answer to a grant.
    pub(super) fn answer_now(&mut self, id: GrantId, now: BootTime) {
        if self.grants.backlog.answer_now(id) {
            return;
        }
        // It may have been answered while the message was on its way.
        if let Some(mut pending) = self.grants.pending.remove(id) {
            pending.defer_waiting();
            self.come_into_force(pending, now);
        }
    }

    /// The DNS has answered for a name, or never will: grants that waited for nothing else come into
    /// force.
    pub(super) fn name_resolved(&mut self, name: &DomainName, now: BootTime) {
        let existence = self.dns.names.existence(name);
        let waiting = self.grants.pending.of_name(name);
        let waiting = waiting.filter(|(_, pending)| pending.waiting.contains(name));
        for id in waiting.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(mut pending) = self.grants.pending.remove(id) else {
                continue;
            };
            pending.waiting.remove(name);
            if matches!(existence, None | Some(Existence::Unanswered)) {
                // Asked for again when the client asks for it again.
                pending.leave_out(name);
            }
            if pending.waiting.is_empty() {
                self.come_into_force(pending, now);
            } else {
                pending.defer.get_or_insert(now.saturating_add(DEFER_AFTER));
                self.grants.pending.insert(id, pending);
            }
        }
    }

    fn come_into_force(&mut self, pending: Pending, now: BootTime) {
        let unix = self
            .portal
            .session
            .portal_time(now)
            .unwrap_or(UnixTime::MAX);
        self.put_in_force(pending, unix, now);
    }

    /// One name whose servers are down does not cost a client the others. If no name is left, the
    /// grant is refused, and the portal may find a gateway that gets an answer.
    fn put_in_force(&mut self, pending: Pending, unix: UnixTime, now: BootTime) {
        match pending.unanswered.first() {
            Some(name) if pending.names.is_empty() && pending.deferred.is_empty() => {
                let fault = GrantFault::NoDns(name.to_string());
                self.refuse(pending.verified.claims.grant, &fault);
            }
            _ => self.install(pending, unix, now),
        }
    }

    /// Asks for those names that are not known; returns those that are asked for, and those that are not
    /// since too many are.
    fn ask_for_names<'a>(
        &mut self,
        client: ClientId,
        names: impl Iterator<Item = &'a DomainName>,
        now: BootTime,
    ) -> (BTreeSet<DomainName>, BTreeSet<DomainName>) {
        let unknown: Vec<_> = names
            .filter(|name| self.dns.names.existence(name).is_none())
            .collect();
        let parted = unknown.into_iter().cloned();
        parted.partition(|name| self.ask(client, name, now))
    }
}

/// The answer to a client about names that the DNS did not answer for, or has not yet.
fn without_answer(
    names: &BTreeSet<DomainName>,
    existence: Existence,
) -> impl Iterator<Item = ResolvedName> {
    names.iter().map(move |name| ResolvedName {
        name: name.as_str().to_owned(),
        ipv4: false,
        ipv6: false,
        existence,
    })
}

/// True if the client has another key or other addresses than before.
fn has_moved(old: &GrantClaims, new: &GrantClaims) -> bool {
    let addresses = |it: &GrantClaims| (it.client_ipv4, it.client_ipv6);
    old.client_key != new.client_key || addresses(old) != addresses(new)
}
