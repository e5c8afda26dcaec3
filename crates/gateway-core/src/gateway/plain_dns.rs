//! DNS queries of plain WireGuard devices, from the query to the answer (ADR 0056).
//!
//! A device has no stub resolver for names of resources, so the gateway answers in its place. A name of a resource gets its
//! addresses here, and joins the device's grant as a client's name does. All other names are those of the system's resolver.

use super::Gateway;
use crate::grants::{Given, Grants, Visible};
use crate::names::{Lead, MAX_NAMES_PER_CLIENT};
use crate::other_sites::OtherSites;
use crate::output::Output;
use crate::plain_dns::{RESOLVER, Wanted};
use culvert_base::BootTime;
use culvert_dns::{Addresses, Families, ForwardId, Outcome, Transport};
use culvert_ids::{ClientId, GrantId, ResourceId};
use culvert_policy::{DomainName, NamePattern};
use culvert_wire::messages::Existence;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

impl Gateway {
    /// The plain WireGuard device that has the address in the tunnel, and a grant or an admission to ask for names.
    #[must_use]
    pub fn plain_client_at(&self, address: IpAddr) -> Option<ClientId> {
        let owner = self.data_plane.table().owner(address)?;
        let client = self.data_plane.clients().of_gate_key(owner.peer())?;
        let admitted = self.admissions.get(client);
        let may_ask = admitted.is_some_and(|device| device.dns);
        let mut held = self.grants.of_client(client);
        (may_ask || held.any(|held| held.claims.plain)).then_some(client)
    }

    /// A device sent a DNS query. It gets its answer by [`Output::AnswerPlain`], now or later, or none where it is no query.
    pub fn handle_plain_query(
        &mut self,
        client: ClientId,
        query: &[u8],
        (from, transport): (SocketAddr, Transport),
        now: BootTime,
    ) {
        if !self.dns.plain.knows(client) && !self.make_stub(client, now) {
            return;
        }
        let grants = &self.grants;
        let other_sites = self.dns.site_names.other_sites(client);
        let Some(stub) = self.dns.plain.stub_for_query(client) else {
            return;
        };
        let resource_of = |name: &DomainName| resource_of(grants, other_sites, client, name, now);
        let _no_query = stub.handle_query(query, transport, from, now, resource_of);
        self.drain_stub(client, now);
        self.finish(now);
    }

    /// The system's resolver has answered [`Output::LookUp`], or has not.
    pub fn handle_plain_looked_up(
        &mut self,
        client: ClientId,
        (id, transport): (ForwardId, Transport),
        answer: Option<&[u8]>,
        now: BootTime,
    ) {
        self.dns.plain.end_lookup(client, id);
        let grants = &self.grants;
        let other_sites = self.dns.site_names.other_sites(client);
        if let Some(stub) = self.dns.plain.stub(client) {
            let resource_of =
                |name: &DomainName| resource_of(grants, other_sites, client, name, now);
            // An answer that is not believed is as good as none: the query is sent again in its time.
            match answer {
                Some(bytes) => {
                    let from = RESOLVER;
                    let _late =
                        stub.handle_upstream_answer(bytes, transport, from, now, resource_of);
                }
                None => stub.handle_upstream_unreachable(id, now),
            }
        }
        self.drain_stub(client, now);
        self.finish(now);
    }

    /// Queries of devices have waited for long enough.
    pub(super) fn plain_queries_due(&mut self, now: BootTime) {
        for client in self.dns.plain.due(now) {
            if let Some(stub) = self.dns.plain.stub(client) {
                stub.handle_timeout(now);
            }
            self.drain_stub(client, now);
        }
    }

    /// The DNS has answered for a name, or has not: devices may wait for it.
    pub(super) fn plain_name_resolved(&mut self, name: &DomainName, now: BootTime) {
        for (client, wanted) in self.dns.plain.waiters(name) {
            if self.dns.plain.knows(client) {
                self.want_name(client, name, wanted, now);
                self.drain_stub(client, now);
            }
        }
    }

    fn make_stub(&mut self, client: ClientId, now: BootTime) -> bool {
        let Some(network) = &self.network else {
            return false;
        };
        let held = self.grants.of_client(client);
        let names = held.flat_map(|held| {
            let resource = held.claims.resource;
            held.names.iter().map(move |(name, visible)| {
                let addresses = Addresses {
                    v4: visible.ipv4,
                    v6: visible.ipv6,
                };
                let wanted = Wanted {
                    resource,
                    addresses,
                };
                (name.clone(), wanted)
            })
        });
        let none = OtherSites::default();
        let other_sites = self.dns.site_names.other_sites(client).unwrap_or(&none);
        let dns = &mut self.dns.plain;
        dns.make(client, network.names, other_sites, names, now)
    }

    /// Carries out what the stub of a device wants.
    pub(super) fn drain_stub(&mut self, client: ClientId, now: BootTime) {
        while let Some(output) = self
            .dns
            .plain
            .stub(client)
            .and_then(culvert_dns::Stub::poll_output)
        {
            match output {
                culvert_dns::Output::Answer {
                    bytes,
                    to,
                    transport,
                } => self.outputs.push(Output::AnswerPlain {
                    answer: bytes,
                    to,
                    transport,
                }),
                culvert_dns::Output::Forward {
                    id,
                    query,
                    transport,
                    ..
                } => self.look_up(client, (id, transport), query, now),
                culvert_dns::Output::Wanted {
                    name,
                    resource,
                    addresses,
                } => {
                    let wanted = Wanted {
                        resource,
                        addresses,
                    };
                    self.want_name(client, &name, wanted, now);
                }
                culvert_dns::Output::Released { name, .. } => self.release_name(client, &name),
                // The system's resolver asks by its own rules.
                culvert_dns::Output::CaseNotPreserved { .. } => {}
            }
        }
        self.dns.plain.note(client);
    }

    /// A name of a resource is found here, or by the gateway of its site.
    fn want_name(&mut self, client: ClientId, name: &DomainName, wanted: Wanted, now: BootTime) {
        let resource = wanted.resource;
        let outcome = match self.dns.site_names.is_elsewhere(client, resource) {
            true => self.ask_elsewhere(client, name, wanted, now),
            false => {
                let outcome = self.grant_name(client, name, wanted, now);
                if outcome.is_none() {
                    self.dns.plain.wait(client, name.clone(), wanted);
                }
                outcome
            }
        };
        if let Some(outcome) = outcome {
            self.take_name_outcome(client, name, resource, outcome, now);
        }
    }

    fn look_up(
        &mut self,
        client: ClientId,
        (id, transport): (ForwardId, Transport),
        query: Vec<u8>,
        now: BootTime,
    ) {
        match self.dns.plain.begin_lookup(client, id) {
            Some(true) => self.outputs.push(Output::LookUp {
                client,
                id,
                query,
                transport,
            }),
            Some(false) => {}
            None => {
                self.journal.counters.questions_refused += 1;
                if let Some(stub) = self.dns.plain.stub(client) {
                    stub.handle_upstream_unreachable(id, now);
                }
            }
        }
    }

    pub(super) fn take_name_outcome(
        &mut self,
        client: ClientId,
        name: &DomainName,
        resource: ResourceId,
        outcome: Outcome,
        now: BootTime,
    ) {
        let exists = matches!(outcome, Outcome::Families(_) | Outcome::NoAddress);
        // Other records of another site's name are not known here.
        let has_site = exists && !self.dns.site_names.is_elsewhere(client, resource);
        if let Some(stub) = self.dns.plain.stub(client) {
            if has_site {
                stub.set_site(resource, Some(RESOLVER), now);
            }
            stub.handle_resolved(name, outcome, now);
        }
    }

    /// Adds a name to the grants of a device that it is of. None where the DNS is being asked first.
    pub(super) fn grant_name(
        &mut self,
        client: ClientId,
        name: &DomainName,
        wanted: Wanted,
        now: BootTime,
    ) -> Option<Outcome> {
        let grants = grants_of_name(&self.grants, client, name, wanted.resource, now);
        if grants.is_empty() {
            let brief = "no policy gives this device the name now".to_owned();
            return Some(Outcome::Denied { brief });
        }
        match self.dns.names.existence(name) {
            None if self.ask(client, name, now) => return None,
            None => return Some(Outcome::Unreachable),
            Some(Existence::Unanswered | Existence::Pending) => return Some(Outcome::Unanswered),
            Some(Existence::Missing) => return Some(Outcome::NxDomain),
            Some(Existence::Exists) => {}
        }
        let families = match self.leads_of(name, &grants) {
            Ok(families) => families,
            Err(outcome) => return Some(outcome),
        };
        let visible = Visible {
            ipv4: wanted.addresses.v4,
            ipv6: wanted.addresses.v6,
            told: now,
        };
        match self.enter_name(client, name, visible, &grants) {
            true => Some(Outcome::Families(families)),
            false => Some(Outcome::Unreachable),
        }
    }

    /// The families in which a name leads to where one of the grants allows it.
    fn leads_of(&self, name: &DomainName, grants: &BTreeSet<GrantId>) -> Result<Families, Outcome> {
        let mut families = Families::default();
        let mut outside = false;
        let mut reached = BTreeSet::new();
        for held in grants.iter().filter_map(|id| self.grants.held.get(*id)) {
            let (v4, v6) = self.dns.names.leads(name, held.within.as_ref());
            outside |= matches!(v4, Lead::Outside(_)) || matches!(v6, Lead::Outside(_));
            if let Lead::To(address) = v4 {
                families.v4 = true;
                reached.insert(IpAddr::from(address));
            }
            if let Lead::To(address) = v6 {
                families.v6 = true;
                reached.insert(IpAddr::from(address));
            }
        }
        let table = self.data_plane.table();
        let is_here = !reached.is_empty()
            && reached
                .iter()
                .all(|address| table.is_host_address(*address));
        let denied = |brief: &str| {
            let brief = brief.to_owned();
            Err(Outcome::Denied { brief })
        };
        match (families.v4 || families.v6, outside) {
            (true, _) if is_here => denied("the name leads to the gateway's own machine"),
            (true, _) => Ok(families),
            (false, true) => {
                denied("the name leads out of the networks that its resource allows (`within`)")
            }
            (false, false) => Err(Outcome::NoAddress),
        }
    }

    /// Enters a name with its addresses in these grants, and takes it out of others. False if it does not fit.
    fn enter_name(
        &mut self,
        client: ClientId,
        name: &DomainName,
        visible: Visible,
        grants: &BTreeSet<GrantId>,
    ) -> bool {
        let has_it = |id: &GrantId| {
            let held = self.grants.held.get(*id);
            let known = held.and_then(|held| held.names.get(name));
            known.is_some_and(|known| known.addresses() == visible.addresses())
        };
        let missing: Vec<GrantId> = grants.iter().filter(|id| !has_it(id)).copied().collect();
        if missing.is_empty() {
            return true;
        }
        if self.grants.names_of_client(client) + missing.len() > MAX_NAMES_PER_CLIENT {
            return false;
        }
        self.take_name_out(client, name, grants);
        let given = Given::new(&BTreeMap::from([(name.clone(), visible)]));
        let outdated = self.grants.take_names(client, &given);
        for id in &missing {
            self.grants.held.change(*id, |held| {
                held.names.insert(name.clone(), visible);
            });
        }
        self.persistence
            .change_all(outdated.into_iter().map(|(id, ..)| id));
        self.persistence.change_all(missing.iter().copied());
        // The stub knows of this change.
        let is_stale = self.dns.plain.is_stale(client);
        let fits = self.rebuild(client).is_ok();
        if !fits {
            let only = BTreeSet::from([name.clone()]);
            for id in missing {
                self.grants.take_names_of_grant(id, &only);
            }
            self.rebuild_or_deny(client);
        }
        self.dns.plain.set_stale(client, is_stale);
        fits
    }

    /// Takes a name out of the grants of a device but these.
    fn take_name_out(
        &mut self,
        client: ClientId,
        name: &DomainName,
        but: &BTreeSet<GrantId>,
    ) -> bool {
        let held = self.grants.of_client(client);
        let with_it = held.filter(|held| held.names.contains_key(name));
        let ids = with_it.map(|held| held.claims.grant);
        let ids: Vec<GrantId> = ids.filter(|id| !but.contains(id)).collect();
        let only = BTreeSet::from([name.clone()]);
        for id in &ids {
            self.grants.take_names_of_grant(*id, &only);
        }
        self.persistence.change_all(ids.iter().copied());
        !ids.is_empty()
    }

    /// The addresses of a name are another name's from now on.
    fn release_name(&mut self, client: ClientId, name: &DomainName) {
        if !self.take_name_out(client, name, &BTreeSet::new()) {
            return;
        }
        let is_stale = self.dns.plain.is_stale(client);
        self.rebuild_or_deny(client);
        self.dns.plain.set_stale(client, is_stale);
        if !self.grants.uses_name(name) {
            self.dns.names.forget(name);
        }
    }
}

/// The resource that a device means by a name, of those that it has a grant for here or at another site.
fn resource_of(
    grants: &Grants,
    other_sites: Option<&OtherSites>,
    client: ClientId,
    name: &DomainName,
    now: BootTime,
) -> Option<ResourceId> {
    let held = grants.of_client(client).filter(|held| now < held.expires);
    let here = held.filter_map(|held| Some((held.claims.resource, held.target.pattern()?)));
    let other_sites = other_sites.into_iter().flat_map(OtherSites::patterns);
    let mut best: Option<(&NamePattern, ResourceId)> = None;
    for (resource, pattern) in here.chain(other_sites) {
        let is_better = best.is_none_or(|(other, oldest)| {
            pattern.is_narrower_than(other)
                || (!other.is_narrower_than(pattern) && resource < oldest)
        });
        if is_better && pattern.matches(name) {
            best = Some((pattern, resource));
        }
    }
    best.map(|(_, resource)| resource)
}

/// The grants of a device by which it reaches a name of the resource: those of all resources with the same pattern, since each
/// may have other ports.
fn grants_of_name(
    grants: &Grants,
    client: ClientId,
    name: &DomainName,
    resource: ResourceId,
    now: BootTime,
) -> BTreeSet<GrantId> {
    let live = || grants.of_client(client).filter(|held| now < held.expires);
    let meant = live().find(|held| held.claims.resource == resource);
    let pattern = meant.and_then(|held| held.target.pattern());
    let Some(pattern) = pattern.filter(|pattern| pattern.matches(name)) else {
        return BTreeSet::new();
    };
    live()
        .filter(|held| held.target.pattern() == Some(pattern))
        .map(|held| held.claims.grant)
        .collect()
}
