//! DNS queries and the account's rules about names: the names that the stub wants are asked for.

use super::client::Client;
use super::names::KEEP_NAMES_EVERY;
use super::output::Output;
use super::packet::PacketRefusal;
use super::reason::refusal;
use culvert_base::{BootTime, LogLine};
use culvert_dns::{Addresses, DropReason, Families, ForwardId, Outcome, Transport};
use culvert_ids::ResourceId;
use culvert_policy::{DomainName, Resource};
use culvert_wire::model::Dns;
use std::net::SocketAddr;
use std::time::Duration;

/// An answer of the gateway for a name is good this long without asking again: the
/// stub asks again every minute, and two programs at the same moment get one answer.
const FRESH: Duration = Duration::from_secs(30);

/// The reason that programs hear of a name to which access ended.
const ACCESS_ENDED: &str = "access to it has ended";

/// Tells of an upstream that answers in other letters. The stub tells it once in an hour.
fn case_line(upstream: SocketAddr, answers_tcp: bool) -> LogLine {
    let line = match answers_tcp {
        true => LogLine::info("a DNS upstream does not keep the case of names and is asked by TCP"),
        false => LogLine::warn(
            "a DNS upstream does not keep the case of names and does not answer by TCP: its answers are \
             easier to forge",
        ),
    };
    line.with("upstream", upstream)
}

impl<P> Client<P> {
    /// A DNS query came in.
    pub fn handle_dns_query(
        &mut self,
        query: &[u8],
        transport: Transport,
        from: SocketAddr,
        now: BootTime,
    ) {
        self.outbox.counters.dns_queries += 1;
        if !self.names.has_stub() {
            self.outbox.counters.dns_dropped += 1;
            return;
        }
        let directory = &self.directory;
        let taken = self
            .names
            .handle_query(query, transport, from, directory, now);
        if let Err(reason) = taken {
            self.note_dropped("a DNS query is dropped", reason);
        }
        self.finish(now);
    }

    /// An upstream resolver answered.
    pub fn handle_dns_answer(
        &mut self,
        answer: &[u8],
        transport: Transport,
        from: SocketAddr,
        now: BootTime,
    ) {
        let directory = &self.directory;
        let taken = self
            .names
            .handle_answer(answer, transport, from, directory, now);
        if let Err(reason) = taken {
            self.note_dropped("an answer of a DNS upstream is dropped", reason);
        }
        self.finish(now);
    }

    fn note_dropped(&mut self, what: &str, reason: DropReason) {
        let line = LogLine::trace(what).with("reason", format_args!("{reason:?}"));
        self.outbox.log(line);
        self.outbox.counters.dns_dropped += 1;
    }

    /// A query could not be sent to an upstream resolver.
    pub fn handle_dns_unreachable(&mut self, id: ForwardId, now: BootTime) {
        self.names.handle_unreachable(id, now);
        self.finish(now);
    }

    /// The resolvers for other names are those of these that can be: not the client itself.
    pub fn set_dns_upstreams(&mut self, found: &[SocketAddr], now: BootTime) {
        if self.names.set_upstreams(found, now) {
            self.finish(now);
        }
    }

    /// Programs of this machine complete names with these domains.
    pub fn set_dns_search(&mut self, domains: &[DomainName]) {
        self.names.set_search(domains);
    }

    /// The resolvers for other names.
    #[must_use]
    pub fn dns_upstreams(&self) -> &[SocketAddr] {
        self.names.upstreams()
    }

    /// True where names in no domain of the account are asked of the servers that the system asked before: nobody else
    /// was named.
    #[must_use]
    pub fn asks_upstreams_of_system(&self) -> bool {
        let mut zones = self.names.rules().zones().keys();
        !zones.any(|zone| zone.domain().is_none())
    }

    /// The account's rules about names are these.
    pub(super) fn set_dns_rules(&mut self, told: &Dns, now: BootTime) {
        let not_understood = self.names.set_rules(told, now);
        if not_understood > 0 {
            let line = LogLine::warn(
                "some of the account's rules about names can't be read: update this machine",
            );
            self.outbox.log(line.with("not_understood", not_understood));
        }
        self.routes.set_stale();
    }

    /// Tells which names are asked here, where that has changed.
    pub(super) fn update_domains(&mut self) {
        if let Some((asked, search)) = self.names.update_domains(&self.directory) {
            self.outbox.push(Output::Domains { asked, search });
        }
    }

    /// Carries out what the stub wants, until it wants nothing more.
    pub(super) fn drain_stub(&mut self, now: BootTime) {
        while let Some(output) = self.names.poll_output() {
            match output {
                culvert_dns::Output::Answer {
                    bytes,
                    to,
                    transport,
                } => self.outbox.push(Output::Answer {
                    bytes,
                    to,
                    transport,
                }),
                culvert_dns::Output::Forward {
                    id,
                    query,
                    upstream,
                    transport,
                    via,
                } => self.outbox.push(Output::Forward {
                    id,
                    query,
                    upstream,
                    transport,
                    via,
                }),
                culvert_dns::Output::Wanted {
                    name,
                    resource,
                    addresses,
                } => self.want_name(&name, resource, addresses, now),
                culvert_dns::Output::CaseNotPreserved {
                    upstream,
                    answers_tcp,
                } => self.outbox.log(case_line(upstream, answers_tcp)),
                culvert_dns::Output::Released { name, .. } => {
                    if self.accesses.release_name(&name) {
                        self.routes.set_stale();
                    }
                }
            }
        }
    }

    fn want_name(
        &mut self,
        name: &DomainName,
        resource: ResourceId,
        addresses: Addresses,
        now: BootTime,
    ) {
        let found = self.directory.get(resource);
        // Access that ended has numbers in the place of ids.
        let has_name = |it: &&Resource| it.target.pattern().is_some_and(|it| it.matches(name));
        let Some(found) = found.filter(has_name) else {
            let outcome = match self.directory.ended().for_name(name) {
                Some(_) => Outcome::Denied {
                    brief: ACCESS_ENDED.to_owned(),
                },
                None => Outcome::Unreachable,
            };
            return self.names.handle_resolved(name, outcome, now);
        };
        if found.filters.is_empty() && self.directory.for_service(found, None).is_none() {
            let brief = "nothing of this resource may be used".to_owned();
            return self
                .names
                .handle_resolved(name, Outcome::Denied { brief }, now);
        }
        let same_target = self.directory.with_same_target(found);
        let granted = same_target.iter().find_map(|id| {
            let grant = self.accesses.grant(*id)?;
            grant.names.get(name).copied()
        });
        if let Some(granted) = granted
            && granted.addresses == addresses
            && !granted.is_lost
            && !now.has_passed(granted.asked, FRESH)
        {
            return self
                .names
                .handle_resolved(name, Outcome::Families(granted.families), now);
        }
        self.want(resource, Some((name, addresses)), now);
        let awaited = |id: &ResourceId| self.accesses.get(*id).is_some_and(|it| it.awaits(name));
        if !same_target.iter().any(awaited) {
            let outcome = self.why_not(&same_target, now);
            self.names.handle_resolved(name, outcome, now);
        }
    }

    /// Tells the stub whom to ask of the names of a resource, and of those with its target, whose access is the same:
    /// the gateway of a grant.
    pub(super) fn tell_site(&mut self, id: ResourceId, now: BootTime) {
        let Some(resource) = self.directory.get(id) else {
            return;
        };
        if resource.target.pattern().is_none() {
            return;
        }
        let same_target = self.directory.with_same_target(resource);
        let server = same_target.iter().find_map(|id| {
            let grant = self.accesses.grant(*id)?;
            grant.gateway.site_dns()
        });
        self.names.set_site(same_target, server, now);
    }

    /// The reason for which none of these resources is even asked for.
    fn why_not(&self, resources: &[ResourceId], now: BootTime) -> Outcome {
        let denials = resources.iter().filter_map(|id| {
            let access = self.accesses.get(*id)?;
            access.current_denial(now)
        });
        let mut prohibiting =
            denials.filter(|denial| refusal(denial.reason.code) == PacketRefusal::Prohibited);
        match prohibiting.next() {
            Some(denial) => Outcome::Denied {
                brief: denial.reason.text.clone(),
            },
            None => Outcome::Unreachable,
        }
    }

    /// A gateway translates a name.
    pub(super) fn name_granted(
        &mut self,
        name: &DomainName,
        addresses: Addresses,
        families: Families,
        now: BootTime,
    ) {
        if self.names.has(name, addresses) {
            self.names
                .handle_resolved(name, Outcome::Families(families), now);
        }
    }

    /// A name was not granted by one resource; unless another with the same target may yet grant it,
    /// whoever waits hears it.
    pub(super) fn name_failed(&mut self, name: &DomainName, outcome: &Outcome, now: BootTime) {
        let same_target = match self.directory.for_name(name) {
            Some(resource) => self.directory.with_same_target(resource),
            None => Vec::new(),
        };
        let has_hope = |id: &ResourceId| {
            let access = self.accesses.get(*id);
            access.is_some_and(|access| {
                let grant = access.grant.as_ref();
                let granted = grant.and_then(|grant| grant.names.get(name));
                access.awaits(name) || granted.is_some_and(|granted| !granted.is_lost)
            })
        };
        if !same_target.iter().any(has_hope) {
            self.names.handle_resolved(name, outcome.clone(), now);
        }
    }

    /// Keeps the names of gateways in use from being given up.
    pub(super) fn keep_names_in_use(&mut self, now: BootTime) {
        if !self.names.begin_keeping(now) {
            return;
        }
        for (_, grant) in self.accesses.granted() {
            if !grant.names.is_empty() && self.gateways.is_in_use(grant, KEEP_NAMES_EVERY, now) {
                for granted in grant.names.values() {
                    self.names.handle_used(granted.addresses, now);
                }
            }
        }
    }
}
