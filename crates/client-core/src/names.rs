//! The names of this machine: the stub that answers queries, and the rules by which it does.

use super::directory::Directory;
use super::domains::Domains;
use super::network::Network;
use culvert_base::BootTime;
use culvert_dns::{Addresses, Config, DropReason, Error, ForwardId, Outcome, Stub, Transport};
use culvert_ids::ResourceId;
use culvert_policy::{DnsRules, DomainName, NamePattern};
use culvert_wire::model::Dns;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The port of DNS (RFC 1035, section 4.2).
pub const DNS_PORT: u16 = 53;

/// The interval at which names whose gateway is in use are kept from being given up.
pub(super) const KEEP_NAMES_EVERY: Duration = Duration::from_secs(60);

/// The configuration of the stub, from the client's options.
#[derive(Clone, Debug)]
pub(super) struct NameOptions {
    /// Addresses at which queries come in, besides the tunnel's own.
    pub(super) listens_on: Vec<SocketAddr>,
    /// Resolvers for names that are no resource.
    pub(super) upstreams: Vec<SocketAddr>,
    /// True if the system is to ask here for every name.
    pub(super) asks_all: bool,
    /// The portal's name.
    pub(super) portals: Vec<DomainName>,
}

/// The domains that the system asks here, and those that complete short names.
pub(super) type Told = (Domains, Vec<DomainName>);

/// The stub resolver and its rules. Without the portal's ranges there is no stub, and nothing is answered.
pub(super) struct Names {
    options: NameOptions,
    seed: [u8; 32],
    stub: Option<Stub>,
    /// The search domains of the machine.
    search: Vec<DomainName>,
    /// The account's rules about names.
    rules: DnsRules,
    /// The last that the system was told.
    told: Option<Told>,
    /// The time at which names in use were last kept.
    stored_until: BootTime,
}

impl Names {
    pub(super) fn new(options: NameOptions, seed: [u8; 32], now: BootTime) -> Self {
        Self {
            options,
            seed,
            stub: None,
            search: Vec::new(),
            rules: DnsRules::default(),
            told: None,
            stored_until: now,
        }
    }

    /// A stub for the ranges of a network. `random` gives it another stream of ids than the one before.
    pub(super) fn make_stub(&self, network: &Network, random: u64) -> Result<Stub, Error> {
        let mut listens_on = self.options.listens_on.clone();
        let interface = network.interface;
        listens_on.push((interface.ipv4, DNS_PORT).into());
        listens_on.push((interface.ipv6, DNS_PORT).into());
        let mut seed = self.seed;
        for (byte, random) in seed.iter_mut().zip(random.to_le_bytes()) {
            *byte ^= random;
        }
        let config = Config {
            ranges: network.names,
            listens_on,
            upstreams: self.options.upstreams.clone(),
            fixed: self.options.portals.clone(),
        };
        let mut stub = Stub::new(config, seed)?;
        stub.set_search(&self.search);
        Ok(stub)
    }

    /// Answers with this stub from now on.
    pub(super) fn set_stub(&mut self, stub: Stub) {
        self.stub = Some(stub);
    }

    pub(super) const fn has_stub(&self) -> bool {
        self.stub.is_some()
    }

    /// A DNS query came in.
    pub(super) fn handle_query(
        &mut self,
        query: &[u8],
        transport: Transport,
        from: SocketAddr,
        directory: &Directory,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let resource_of = |name: &DomainName| directory.answered(name);
        match &mut self.stub {
            Some(stub) => stub.handle_query(query, transport, from, now, resource_of),
            None => Ok(()),
        }
    }

    /// An upstream resolver answered.
    pub(super) fn handle_answer(
        &mut self,
        answer: &[u8],
        transport: Transport,
        from: SocketAddr,
        directory: &Directory,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let resource_of = |name: &DomainName| directory.answered(name);
        match &mut self.stub {
            Some(stub) => stub.handle_upstream_answer(answer, transport, from, now, resource_of),
            None => Ok(()),
        }
    }

    /// A query could not be sent to an upstream resolver.
    pub(super) fn handle_unreachable(&mut self, id: ForwardId, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_upstream_unreachable(id, now);
        }
    }

    /// The outcome of a question that the stub asked about a name.
    pub(super) fn handle_resolved(&mut self, name: &DomainName, outcome: Outcome, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_resolved(name, outcome, now);
        }
    }

    /// Access to a resource is over.
    pub(super) fn handle_access_ended(&mut self, resource: ResourceId, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_access_ended(resource, now);
        }
    }

    /// A name is in use.
    pub(super) fn handle_used(&mut self, addresses: Addresses, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_used(addresses.v4.into(), now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        if let Some(stub) = &mut self.stub {
            stub.handle_timeout(now);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        self.stub.as_ref().and_then(Stub::poll_timeout)
    }

    pub(super) fn poll_output(&mut self) -> Option<culvert_dns::Output> {
        self.stub.as_mut().and_then(Stub::poll_output)
    }

    /// The name that has this address, with all its addresses.
    pub(super) fn at(&self, address: IpAddr) -> Option<(DomainName, Addresses)> {
        let assigned = self.stub.as_ref()?.at(address)?;
        Some((assigned.name.clone(), assigned.addresses))
    }

    /// True if the name has these addresses. It may have lost them while a request was on its way.
    pub(super) fn has(&self, name: &DomainName, addresses: Addresses) -> bool {
        let stub = self.stub.as_ref();
        stub.is_some_and(|stub| stub.addresses_of(name) == Some(addresses))
    }

    /// True if names in use are to be kept now; the next time is [`KEEP_NAMES_EVERY`] later.
    pub(super) fn begin_keeping(&mut self, now: BootTime) -> bool {
        let is_due = now.has_passed(self.stored_until, KEEP_NAMES_EVERY);
        if is_due {
            self.stored_until = now;
        }
        is_due && self.stub.is_some()
    }

    /// The server that is asked about the names of these resources.
    pub(super) fn set_site(
        &mut self,
        resources: Vec<ResourceId>,
        server: Option<SocketAddr>,
        now: BootTime,
    ) {
        if let Some(stub) = &mut self.stub {
            for id in resources {
                stub.set_site(id, server, now);
            }
        }
    }

    /// Takes those resolvers for other names that can be: not the client itself. True if they are others than before.
    pub(super) fn set_upstreams(&mut self, found: &[SocketAddr], now: BootTime) -> bool {
        let Some(stub) = &mut self.stub else {
            return false;
        };
        let usable = stub.usable_upstreams(found);
        let is_new = usable != self.options.upstreams;
        if is_new {
            // They are usable: nothing is refused.
            let _set = stub.set_upstreams(usable.clone(), now);
            self.options.upstreams = usable;
        }
        is_new
    }

    pub(super) fn upstreams(&self) -> &[SocketAddr] {
        &self.options.upstreams
    }

    /// Programs of this machine complete names with these domains.
    pub(super) fn set_search(&mut self, domains: &[DomainName]) {
        self.search = domains.to_vec();
        if let Some(stub) = &mut self.stub {
            stub.set_search(domains);
        }
    }

    /// The account's rules about names are these. Returns the number of those that this version does not understand,
    /// if the rules are others than before.
    pub(super) fn set_rules(&mut self, told: &Dns, now: BootTime) -> usize {
        let (rules, not_understood) = told.understood();
        let is_new = rules != self.rules;
        self.rules = rules;
        if let Some(stub) = &mut self.stub {
            let zones = self.rules.zones().iter().map(|(zone, servers)| {
                let servers = servers.iter().map(|it| (it.address(), DNS_PORT).into());
                (zone.clone(), servers.collect())
            });
            stub.set_zones(zones.collect(), now);
        }
        if is_new { not_understood } else { 0 }
    }

    pub(super) const fn rules(&self) -> &DnsRules {
        &self.rules
    }

    /// The names that are asked here, if they are others than those that the system was told.
    pub(super) fn update_domains(&mut self, directory: &Directory) -> Option<Told> {
        let ended = directory.ended().iter();
        let resources = directory.iter().chain(ended);
        let patterns = resources.filter_map(|it| it.target.pattern());
        let patterns = patterns.map(NamePattern::domain);
        let zones = self.rules.zones().keys();
        let zones = zones.map(|zone| zone.domain().cloned());
        let asked = match self.options.asks_all {
            true => Domains::All,
            false => Domains::holding(patterns.chain(zones)),
        };
        let told = (asked, self.rules.search().to_vec());
        if self.told.as_ref() == Some(&told) {
            return None;
        }
        self.told = Some(told.clone());
        Some(told)
    }
}
