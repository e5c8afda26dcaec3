//! Names: queries go to the stub, and what it wants is asked for.

use super::Client;
use super::output::Output;
use culvert_base::BootTime;
use culvert_base::LogLine;
use culvert_dns::{Addresses, Families, ForwardId, Outcome, Transport};
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use std::net::SocketAddr;
use std::time::Duration;

/// The port of DNS (RFC 1035, section 4.2).
pub const DNS_PORT: u16 = 53;

/// An answer of the gateway for a name is good this long without asking again: the
/// stub asks again every minute, and two programs at the same moment get one answer.
const FRESH: Duration = Duration::from_secs(30);

/// The interval at which names whose gateway is in use are kept from being given up.
const KEEP_NAMES_EVERY: Duration = Duration::from_secs(60);

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
        self.counters.dns_queries += 1;
        let Some(stub) = &mut self.stub else {
            self.counters.dns_dropped += 1;
            return;
        };
        let directory = &self.directory;
        let resource_of = |name: &DomainName| directory.for_name(name).map(|found| found.id);
        if let Err(reason) = stub.handle_query(query, transport, from, now, resource_of) {
            let line = LogLine::trace("a DNS query is dropped");
            self.log
                .push(line.with("reason", format_args!("{reason:?}")));
            self.counters.dns_dropped += 1;
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
        let resource_of = |name: &DomainName| directory.for_name(name).map(|found| found.id);
        if let Some(stub) = &mut self.stub
            && let Err(reason) =
                stub.handle_upstream_answer(answer, transport, from, now, resource_of)
        {
            let line = LogLine::trace("an answer of a DNS upstream is dropped");
            self.log
                .push(line.with("reason", format_args!("{reason:?}")));
            self.counters.dns_dropped += 1;
        }
        self.finish(now);
    }

    /// A query could not be sent to an upstream resolver.
    pub fn handle_dns_unreachable(&mut self, id: ForwardId, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_upstream_unreachable(id, now);
        }
        self.finish(now);
    }

    /// The resolvers for other names are those of these that can be: not the client itself.
    pub fn set_dns_upstreams(&mut self, found: &[SocketAddr], now: BootTime) {
        let Some(stub) = &mut self.stub else {
            return;
        };
        let usable = stub.usable_upstreams(found);
        if usable != self.options.dns_upstreams {
            // They are usable: nothing is refused.
            let _set = stub.set_upstreams(usable.clone(), now);
            self.options.dns_upstreams = usable;
            self.finish(now);
        }
    }

    /// Programs of this machine complete names with these domains.
    pub fn set_dns_search(&mut self, domains: &[DomainName]) {
        self.dns_search = domains.to_vec();
        if let Some(stub) = &mut self.stub {
            stub.set_search(domains);
        }
    }

    /// The resolvers for other names.
    #[must_use]
    pub fn dns_upstreams(&self) -> &[SocketAddr] {
        &self.options.dns_upstreams
    }

    /// Carries out what the stub wants, until it wants nothing more.
    pub(super) fn drain_stub(&mut self, now: BootTime) {
        while let Some(output) = self.stub.as_mut().and_then(culvert_dns::Stub::poll_output) {
            match output {
                culvert_dns::Output::Answer {
                    bytes,
                    to,
                    transport,
                } => self.outputs.push_back(Output::Answer {
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
                } => self.outputs.push_back(Output::Forward {
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
                } => self.log.push(case_line(upstream, answers_tcp)),
                culvert_dns::Output::Released { name, .. } => self.release_name(&name),
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
        let Some(found) = self.directory.get(resource) else {
            return self.resolve(name, Outcome::Unreachable, now);
        };
        if found.filters.is_empty() && self.directory.for_service(found, None).is_none() {
            let brief = "nothing of this resource may be used".to_owned();
            return self.resolve(name, Outcome::Denied { brief }, now);
        }
        let same_target = self.directory.with_same_target(found);
        let granted = same_target.iter().find_map(|id| {
            let grant = self.accesses.get(id)?.grant.as_ref()?;
            grant.names.get(name).copied()
        });
        if let Some(granted) = granted
            && granted.addresses == addresses
            && !granted.is_lost
            && !now.has_passed(granted.asked, FRESH)
        {
            return self.resolve(name, Outcome::Families(granted.families), now);
        }
        self.want(resource, Some((name, addresses)), now);
        let awaited = |id: &ResourceId| self.accesses.get(id).is_some_and(|it| it.awaits(name));
        if !same_target.iter().any(awaited) {
            let outcome = self.why_not(&same_target, now);
            self.resolve(name, outcome, now);
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
            let grant = self.accesses.get(id)?.grant.as_ref()?;
            grant.gateway.site_dns()
        });
        if let Some(stub) = &mut self.stub {
            for id in same_target {
                stub.set_site(id, server, now);
            }
        }
    }

    /// Why none of these resources is even asked for.
    fn why_not(&self, resources: &[ResourceId], now: BootTime) -> Outcome {
        let denials = resources.iter().filter_map(|id| {
            let access = self.accesses.get(id)?;
            access.standing_denial(now)
        });
        let mut prohibiting = denials.filter(|denial| {
            super::access::refusal(denial.reason.code) == super::PacketRefusal::Prohibited
        });
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
        let has_still = self.stub.as_ref().is_some_and(|stub| {
            // The name may have lost them while the request was on its way.
            stub.addresses_of(name) == Some(addresses)
        });
        if has_still {
            self.resolve(name, Outcome::Families(families), now);
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
            let access = self.accesses.get(id);
            access.is_some_and(|access| {
                let grant = access.grant.as_ref();
                let granted = grant.and_then(|grant| grant.names.get(name));
                access.awaits(name) || granted.is_some_and(|granted| !granted.is_lost)
            })
        };
        if !same_target.iter().any(has_hope) {
            self.resolve(name, outcome.clone(), now);
        }
    }

    fn resolve(&mut self, name: &DomainName, outcome: Outcome, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_resolved(name, outcome, now);
        }
    }

    /// A name lost its addresses: they mean nothing any more.
    fn release_name(&mut self, name: &DomainName) {
        for access in self.accesses.values_mut() {
            access.wanted.remove(name);
            access.pending.remove(name);
            if let Some(ask) = &mut access.ask {
                ask.names.remove(name);
            }
            for grant in [&mut access.grant, &mut access.successor]
                .into_iter()
                .flatten()
            {
                self.is_stale |= grant.names.remove(name).is_some();
            }
        }
    }

    /// Keeps the names of gateways in use from being given up.
    pub(super) fn keep_names_in_use(&mut self, now: BootTime) {
        if !now.has_passed(self.names_kept, KEEP_NAMES_EVERY) {
            return;
        }
        self.names_kept = now;
        let Some(mut stub) = self.stub.take() else {
            return;
        };
        let grants = self.accesses.values().filter_map(|it| it.grant.as_ref());
        for grant in grants.filter(|grant| !grant.names.is_empty()) {
            if self.is_in_use(grant, KEEP_NAMES_EVERY, now) {
                for granted in grant.names.values() {
                    stub.handle_used(granted.addresses.v4.into(), now);
                }
            }
        }
        self.stub = Some(stub);
    }
}
