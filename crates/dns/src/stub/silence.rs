//! Names of sites that do not answer.
//!
//! A resolver with a search list asks `www.example.com.corp.example` before `www.example.com`. If the site of
//! `corp.example` is silent, the first must not hold the second up, and must not end the search: glibc goes on after
//! SERVFAIL, musl only after NXDOMAIN. So the upstreams are asked for the name without the search domain. If they have it,
//! the longer one does not exist for now.

use super::{FULL, Stub, UNREACHABLE};
use crate::answer::{Records, Reply};
use crate::constants::PLAIN_TTL;
use crate::names::{Decision, Plain, PlainExistence};
use crate::query::{self, Asked, Asker};
use crate::ranges::Offset;
use crate::sites::{Silent, SiteHealth};
use crate::upstreams::{Pending, Purpose};
use crate::waiting::{Waiter, WaitsFor};
use crate::zones::Of;
use crate::{ACCESS_WAIT, DEAD_WAIT, Outcome, SUSPECT_AFTER, SUSPECT_WAIT, Transport, name};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{DomainName, MAX_SEARCH_DOMAINS};
use domain::base::Name;
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::net::{Ipv4Addr, SocketAddr};

impl Stub {
    /// Programs complete names with these domains from now on. At most
    /// [`MAX_SEARCH_DOMAINS`] of them count, as every resolver reads so many.
    pub fn set_search(&mut self, domains: &[DomainName]) {
        let domains = domains.iter().take(MAX_SEARCH_DOMAINS);
        self.search = domains.filter_map(name::write).collect();
        self.search
            .sort_by_key(|domain| std::cmp::Reverse(domain.label_count()));
    }

    /// The name without the search domain at its end. None where a search list has not made it, or the rest is one label,
    /// which is a host of the site and no name of elsewhere, or is a name of a resource.
    pub(super) fn plain(
        &self,
        name: &Name<Vec<u8>>,
        resource_of: impl Fn(&DomainName) -> Option<ResourceId>,
    ) -> Option<Name<Vec<u8>>> {
        let domain = self.search.iter().find(|domain| name.ends_with(*domain))?;
        let (name, domain) = (name.as_slice(), domain.as_slice());
        let mut plain = name.get(..name.len() - domain.len())?.to_vec();
        plain.push(0);
        let plain = Name::from_octets(plain).ok()?;
        // The root is a label of each.
        let is_of_outside = plain.label_count() > 2;
        let is_of_resource =
            || name::read(&plain).is_some_and(|plain| resource_of(&plain).is_some());
        (is_of_outside && !is_of_resource()).then_some(plain)
    }

    /// A query waits for access.
    pub(super) fn wait(&mut self, asked: &Asked, asker: Asker, offset: Offset, now: BootTime) {
        let Some(resource) = self.resource_at(offset) else {
            return;
        };
        let health = self.sites.health(resource, now);
        let (suspect_after, wait, waits_for) = match health {
            SiteHealth::Alive => (Some(SUSPECT_AFTER), ACCESS_WAIT, WaitsFor::Access),
            SiteHealth::Suspect => (Some(SUSPECT_WAIT), ACCESS_WAIT, WaitsFor::Access),
            SiteHealth::Dead => (None, DEAD_WAIT, WaitsFor::AccessOfDead),
        };
        let waiter = Waiter {
            asked: asked.clone(),
            asker,
            offset,
            // Without a search list, nothing is done about it.
            suspect_at: suspect_after
                .filter(|_| !self.search.is_empty())
                .map(|after| now.saturating_add(after)),
            deadline: now.saturating_add(wait),
            waits_for,
        };
        if health != SiteHealth::Alive {
            self.ask_plain(offset, now);
        }
        if health == SiteHealth::Dead && self.exists_outside(&waiter, now) == Some(true) {
            return self.answer(asked, asker, &SEARCH_ON);
        }
        match self.waiting.push(waiter) {
            Ok(()) => self.names.extend(offset, now.saturating_add(ACCESS_WAIT)),
            Err(_) => self.answer(asked, asker, &FULL),
        }
    }

    /// A query has waited until something is to be done about it.
    pub(super) fn handle_waited(&mut self, mut waiter: Waiter, now: BootTime) {
        let Some(resource) = self.resource_at(waiter.offset) else {
            return self.answer(&waiter.asked, waiter.asker, &UNREACHABLE);
        };
        if waiter.suspect_at.take().is_some() {
            self.sites.suspect(resource, now);
            if self.exists_outside(&waiter, now) == Some(true) {
                return self.answer(&waiter.asked, waiter.asker, &SEARCH_ON);
            }
            self.ask_plain(waiter.offset, now);
        }
        if now < waiter.deadline {
            return self.waiting.put_back(waiter);
        }
        match waiter.waits_for {
            WaitsFor::Plain => self.answer_silence(&waiter.asked, waiter.asker, waiter.offset),
            WaitsFor::Access | WaitsFor::AccessOfDead => {
                if waiter.waits_for == WaitsFor::Access {
                    self.sites.silent(resource, Silent::Resource, now);
                }
                self.answer_without_site(&waiter.asked, waiter.asker, waiter.offset, now);
            }
        }
    }

    /// Notes whether the site of a name answers. A repeated outcome for a name that was found before is no sign of
    /// that, because the gateway knows it without asking the site.
    pub(super) fn note_outcome(&mut self, offset: Offset, outcome: &Outcome, now: BootTime) {
        let Some(resource) = self.resource_at(offset) else {
            return;
        };
        let decision = self.names.entry(offset).map(|entry| &entry.decision);
        let was_found = matches!(
            decision,
            Some(Decision::Made {
                outcome: Outcome::Families(_),
                ..
            })
        );
        match outcome {
            Outcome::Unanswered => self.sites.silent(resource, Silent::Name(offset), now),
            Outcome::Unreachable => self.sites.silent(resource, Silent::Resource, now),
            Outcome::Families(_)
            | Outcome::NoAddress
            | Outcome::NxDomain
            | Outcome::Denied { .. } => {
                if !was_found {
                    self.sites.answered(resource);
                }
            }
        }
    }

    /// The site gives no answer: what is said depends on whether the name exists without its search domain.
    pub(super) fn answer_without_site(
        &mut self,
        asked: &Asked,
        asker: Asker,
        offset: Offset,
        now: BootTime,
    ) {
        let waiter = Waiter {
            asked: asked.clone(),
            asker,
            offset,
            suspect_at: None,
            deadline: now.saturating_add(ACCESS_WAIT),
            waits_for: WaitsFor::Plain,
        };
        match self.exists_outside(&waiter, now) {
            Some(true) => self.answer(asked, asker, &SEARCH_ON),
            Some(false) => self.answer_silence(asked, asker, offset),
            None => {
                self.ask_plain(offset, now);
                match self.exists_outside(&waiter, now) {
                    None => {
                        if self.waiting.push(waiter).is_err() {
                            self.answer(asked, asker, &FULL);
                        }
                    }
                    Some(_) => self.answer_silence(asked, asker, offset),
                }
            }
        }
    }

    /// An upstream has said whether a name exists without its search domain, or none has answered.
    pub(super) fn plain_told(
        &mut self,
        offset: Offset,
        query: &Pending,
        exists: Option<bool>,
        now: BootTime,
    ) {
        let question = query.asked.question.as_ref();
        let is_it = |plain: &&mut Plain| question.is_some_and(|it| *it.qname() == plain.name);
        // The place may be another name's by now.
        let Some(plain) = self.names.plain_mut(offset).filter(is_it) else {
            return;
        };
        plain.existence = match exists {
            Some(exists) => PlainExistence::Told {
                exists,
                until: now.saturating_add(PLAIN_TTL),
            },
            None => PlainExistence::Unknown,
        };
        for waiter in self.waiting.take(offset) {
            match (exists, waiter.waits_for, waiter.suspect_at) {
                (Some(true), _, None) if waiter.asked.aliases.is_empty() => {
                    self.answer(&waiter.asked, waiter.asker, &SEARCH_ON);
                }
                (_, WaitsFor::Plain, _) => {
                    self.answer_silence(&waiter.asked, waiter.asker, offset);
                }
                _ => self.waiting.put_back(waiter),
            }
        }
    }

    /// Asks the upstreams for a name without its search domain, unless that is known.
    fn ask_plain(&mut self, offset: Offset, now: BootTime) {
        let Some(plain) = self.names.plain_mut(offset) else {
            return;
        };
        match plain.existence {
            PlainExistence::Asked => return,
            PlainExistence::Told { until, .. } if now < until => return,
            PlainExistence::Told { .. } | PlainExistence::Unknown => {}
        }
        plain.existence = PlainExistence::Unknown;
        let asked = Asked::of_own(plain.name.clone());
        let of = Of::Name(plain.name.clone());
        let purpose = Purpose::Search(offset);
        let output = query::write(&asked).and_then(|bytes| {
            self.upstreams
                .forward(&bytes, &of, &asked, OURSELVES, purpose, now)
        });
        if let (Some(output), Some(plain)) = (output, self.names.plain_mut(offset)) {
            plain.existence = PlainExistence::Asked;
            self.outputs.push_back(output);
        }
    }

    /// True if the name of a query exists without its search domain. None if no server has answered yet; false if it
    /// has no search domain, or no server can be asked.
    fn exists_outside(&self, waiter: &Waiter, now: BootTime) -> Option<bool> {
        let entry = self.names.entry(waiter.offset);
        let plain = entry.and_then(|entry| entry.plain.as_ref());
        // An alias has led there: no search list has.
        let Some(plain) = plain.filter(|_| waiter.asked.aliases.is_empty()) else {
            return Some(false);
        };
        match plain.existence {
            PlainExistence::Told { exists, until } if now < until => Some(exists),
            PlainExistence::Asked => None,
            PlainExistence::Told { .. } | PlainExistence::Unknown => {
                let of = Of::Name(plain.name.clone());
                let nobody = self.upstreams.zones().pool(&of).servers.is_empty();
                nobody.then_some(false)
            }
        }
    }

    fn answer_silence(&mut self, asked: &Asked, asker: Asker, offset: Offset) {
        let decision = self.names.entry(offset).map(|entry| &entry.decision);
        let reply = match decision {
            Some(Decision::Made {
                outcome: Outcome::Unanswered,
                ..
            }) => &UNANSWERED,
            _ => &UNREACHABLE,
        };
        self.answer(asked, asker, reply);
    }

    fn resource_at(&self, offset: Offset) -> Option<ResourceId> {
        self.names
            .assigned(offset)
            .map(|assigned| assigned.resource)
    }
}

/// The asker of a query whose answer nobody gets.
const OURSELVES: Asker = Asker {
    from: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    transport: Transport::Udp,
};

const UNANSWERED: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: Records::None,
    error: Some((
        ExtendedErrorCode::NETWORK_ERROR,
        "the DNS of the resource's site did not answer for this name",
    )),
};

/// Nobody may remember it: there is no SOA record (RFC 2308, section 5).
const SEARCH_ON: Reply<'static> = Reply {
    code: OptRcode::NXDOMAIN,
    records: Records::None,
    error: Some((
        ExtendedErrorCode::NETWORK_ERROR,
        "the resource's site does not answer, and the name exists without the search domain",
    )),
};
