//! Grants: those in force, those that wait for the DNS, and what ends or changes them.

use super::Gateway;
use super::log::AccessEvent;
use super::names::Lead;
use super::persisted::PersistedGrant;
use super::verify::{GrantFault, Verified};
use culvert_base::{BootTime, LogLine};
use culvert_ids::{ClientId, GrantId, ResourceId};
use culvert_policy::gate;
use culvert_policy::{DomainName, Filters, GrantError, Prefix, Target, Within};
use culvert_wire::messages::{GrantLabels, WantedName};
use culvert_wire::model::Understood;
use culvert_wire::{GrantClaims, PresharedKey, model};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The portal tells its clock in whole seconds, and a while after it looked at it: ends of grants that
/// move by less than this have not moved.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// What a client gave a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visible {
    pub(super) ipv4: Ipv4Addr,
    pub(super) ipv6: Ipv6Addr,
    /// The time at which a grant had it last.
    pub(super) told: BootTime,
}

impl Visible {
    pub(super) fn addresses(self) -> [IpAddr; 2] {
        [self.ipv4.into(), self.ipv6.into()]
    }
}

/// Which name each address stands for, by the newest word of a client. Addresses come round: a client
/// that has started again gives them out from the first on, while grants of its earlier life last. What
/// it said then must not lead what it sends now to another name's host.
pub(super) struct Given(BTreeMap<IpAddr, DomainName>);

impl Given {
    pub(super) fn new(names: &BTreeMap<DomainName, Visible>) -> Self {
        let by_address = names
            .iter()
            .flat_map(|(name, visible)| visible.addresses().map(|address| (address, name.clone())));
        Self(by_address.collect())
    }

    /// Whether an older word gives another name one of the addresses.
    pub(super) fn outdate(&self, name: &DomainName, visible: Visible) -> bool {
        visible
            .addresses()
            .iter()
            .any(|address| self.0.get(address).is_some_and(|new| new != name))
    }
}

/// A grant in force.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claims: GrantClaims,
    pub(super) target: Target,
    /// Where its names may lead.
    pub(super) within: Option<Within>,
    pub(super) filters: Filters,
    /// Filters that the portal has set since.
    pub(super) changed_filters: Option<Understood<model::Filter>>,
    pub(super) token: String,
    pub(super) preshared_key: PresharedKey,
    pub(super) names: BTreeMap<DomainName, Visible>,
    pub(super) expires: BootTime,
    pub(super) labels: GrantLabels,
}

/// A grant whose names are being resolved.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) verified: Verified,
    pub(super) token: String,
    pub(super) preshared_key: PresharedKey,
    pub(super) replaces: Option<GrantId>,
    pub(super) names: BTreeMap<DomainName, Visible>,
    /// Those of `names` that the DNS has not answered for yet.
    pub(super) waiting: BTreeSet<DomainName>,
    /// Names that the client wanted and the DNS did not answer for.
    pub(super) unanswered: BTreeSet<DomainName>,
    /// Names that the client is to ask for again, since the DNS has not answered for them yet.
    pub(super) deferred: BTreeSet<DomainName>,
    /// Filters that the portal has set meanwhile.
    pub(super) changed_filters: Option<Understood<model::Filter>>,
    /// The time at which names that the DNS has not answered for are given up.
    pub(super) time_out: BootTime,
    /// The time at which the grant comes into force without them, for the sake of the others.
    pub(super) defer: Option<BootTime>,
    pub(super) labels: GrantLabels,
}

impl Pending {
    /// The time at which it comes into force, whatever the DNS does.
    fn due(&self) -> BootTime {
        let defer = self.defer.unwrap_or(BootTime::MAX);
        self.time_out.min(defer)
    }

    /// It comes into force without the names that the DNS has not answered for yet, which the client asks for again.
    pub(super) fn defer_waiting(&mut self) {
        for name in std::mem::take(&mut self.waiting) {
            if let Some((name, _)) = self.names.remove_entry(&name) {
                self.deferred.insert(name);
            }
        }
    }

    /// The DNS has had its time.
    pub(super) fn time_out_names(&mut self) {
        for name in std::mem::take(&mut self.waiting) {
            self.leave_out(&name);
        }
    }

    /// The DNS does not answer for this name: the grant comes into force without it.
    pub(super) fn leave_out(&mut self, name: &DomainName) {
        if let Some((name, _)) = self.names.remove_entry(name) {
            self.unanswered.insert(name);
        }
    }
}

/// All grants.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub(super) held: BTreeMap<GrantId, Held>,
    pub(super) pending: BTreeMap<GrantId, Pending>,
    of_client: BTreeMap<ClientId, BTreeSet<GrantId>>,
}

impl Grants {
    pub(super) fn ids(&self) -> impl Iterator<Item = GrantId> {
        self.held.keys().copied()
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    pub(super) fn next_expiry(&self) -> Option<BootTime> {
        self.held.values().map(|held| held.expires).min()
    }

    /// The time at which the next one that waits for the DNS comes into force or is given up.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        self.pending.values().map(Pending::due).min()
    }

    /// Those that wait for the DNS and are due.
    pub(super) fn due(&self, now: BootTime) -> Vec<GrantId> {
        let due = self.pending.iter();
        due.filter(|(_, pending)| pending.due() <= now)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The clients whose grants have a name.
    pub(super) fn clients_of_name(&self, name: &DomainName) -> BTreeSet<ClientId> {
        let held = self.held.values();
        held.filter(|held| held.names.contains_key(name))
            .map(|held| held.claims.client)
            .collect()
    }

    /// Names that a grant has, in force or not.
    pub(super) fn uses_name(&self, name: &DomainName) -> bool {
        self.held.values().any(|held| held.names.contains_key(name))
            || self.pending.values().any(|p| p.names.contains_key(name))
    }

    pub(super) fn insert(&mut self, held: Held) {
        let (client, id) = (held.claims.client, held.claims.grant);
        self.of_client.entry(client).or_default().insert(id);
        self.held.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        let client = held.claims.client;
        if let Some(ids) = self.of_client.get_mut(&client) {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_client.remove(&client);
            }
        }
        Some(held)
    }

    /// Takes the names of a client whose addresses stand for other names now; returns them.
    pub(super) fn take_names(
        &mut self,
        client: ClientId,
        given: &Given,
    ) -> Vec<(GrantId, DomainName, Visible)> {
        let mut taken = Vec::new();
        for id in self.of_client.get(&client).into_iter().flatten() {
            let Some(held) = self.held.get_mut(id) else {
                continue;
            };
            held.names.retain(|name, visible| {
                let is_outdated = given.outdate(name, *visible);
                if is_outdated {
                    taken.push((*id, name.clone(), *visible));
                }
                !is_outdated
            });
        }
        taken
    }

    pub(super) fn give_names_back(&mut self, taken: Vec<(GrantId, DomainName, Visible)>) {
        for (id, name, visible) in taken {
            if let Some(held) = self.held.get_mut(&id) {
                held.names.insert(name, visible);
            }
        }
    }

    pub(super) fn take_name(&mut self, grant: GrantId, name: &DomainName) {
        if let Some(held) = self.held.get_mut(&grant) {
            held.names.remove(name);
        }
    }

    /// How many names a client's grants have, in force or not.
    pub(super) fn names_of_client(&self, client: ClientId) -> usize {
        let held = self.of_client(client).map(|held| held.names.len());
        let pending = self.pending.values();
        let pending = pending.filter(|pending| pending.verified.claims.client == client);
        held.chain(pending.map(|pending| pending.names.len())).sum()
    }

    pub(super) fn of_client(&self, client: ClientId) -> impl Iterator<Item = &Held> {
        let ids = self.of_client.get(&client).into_iter().flatten();
        ids.filter_map(|id| self.held.get(id))
    }
}

impl Held {
    pub(super) fn set_filters(&mut self, written: &Understood<model::Filter>) {
        // Filters that can't be allow nothing.
        self.filters = model::filters(written).unwrap_or_else(|_| Filters::none());
        self.changed_filters = Some(written.clone());
    }

    /// How many of its filters this version does not understand.
    fn not_understood(&self) -> usize {
        let written = self.changed_filters.as_ref();
        written.unwrap_or(&self.claims.filters).others()
    }

    pub(super) fn persisted(&self) -> PersistedGrant {
        PersistedGrant {
            token: self.token.clone(),
            preshared_key: self.preshared_key.clone(),
            names: self
                .names
                .iter()
                .map(|(name, &Visible { ipv4, ipv6, .. })| WantedName {
                    name: name.as_str().to_owned(),
                    ipv4,
                    ipv6,
                })
                .collect(),
            filters: self.changed_filters.clone(),
        }
    }
}

impl Gateway {
    /// The portal takes a grant back.
    pub(super) fn revoke(&mut self, id: GrantId, now: BootTime) {
        self.grants.pending.remove(&id);
        if let Some(held) = self.grants.held.get(&id) {
            let pair = (held.claims.client, held.claims.resource);
            let labels = held.labels.clone();
            self.log_access(AccessEvent::Revoked, pair, &labels, id, now);
        }
        if self.end_grant(id) {
            self.counters.revoked += 1;
            self.void.push(id);
        }
    }

    /// Ends every grant that `stands` does not name.
    pub(super) fn retain_grants(&mut self, stands: &BTreeSet<GrantId>, now: BootTime) {
        let gone: Vec<_> = self
            .grants
            .ids()
            .filter(|id| !stands.contains(id))
            .collect();
        for id in gone {
            self.revoke(id, now);
        }
    }

    pub(super) fn drop_all_grants(&mut self, now: BootTime) {
        self.retain_grants(&BTreeSet::new(), now);
        self.forget_pending();
    }

    /// Grants that wait belong to a session that has ended: the portal asks again.
    pub(super) fn forget_pending(&mut self) {
        self.grants.pending.clear();
    }

    pub(super) fn expire_grants(&mut self, now: BootTime) {
        let held = self.grants.held.values();
        let over: Vec<GrantId> = held
            .filter(|held| held.expires <= now)
            .map(|held| held.claims.grant)
            .collect();
        for id in over {
            self.end_grant(id);
            self.counters.expired += 1;
        }
    }

    fn end_grant(&mut self, id: GrantId) -> bool {
        let Some(held) = self.grants.remove(id) else {
            return false;
        };
        self.is_kept_stale = true;
        self.rebuild_or_deny(held.claims.client);
        for name in held.names.keys() {
            if !self.grants.uses_name(name) {
                self.names.forget(name);
            }
        }
        true
    }

    /// The filters of a resource are others from here on, for grants that wait for the DNS too.
    pub(super) fn set_filters(
        &mut self,
        resource: ResourceId,
        written: &Understood<model::Filter>,
    ) {
        self.log_not_understood(resource, written.others());
        let ids: Vec<GrantId> = self
            .grants
            .held()
            .filter(|held| held.claims.resource == resource)
            .map(|held| held.claims.grant)
            .collect();
        for id in ids {
            self.set_filters_of(id, written);
        }
        for pending in self.grants.pending.values_mut() {
            if pending.verified.claims.resource == resource {
                pending.changed_filters = Some(written.clone());
            }
        }
    }

    fn set_filters_of(&mut self, id: GrantId, written: &Understood<model::Filter>) {
        // They may allow less than the ones that are kept.
        self.void.push(id);
        self.restore_filters(id, written);
    }

    pub(super) fn restore_filters(&mut self, id: GrantId, written: &Understood<model::Filter>) {
        let Some(held) = self.grants.held.get_mut(&id) else {
            return;
        };
        held.set_filters(written);
        self.is_kept_stale = true;
        let client = held.claims.client;
        self.rebuild_or_deny(client);
    }

    /// Filters of a later version allow nothing here. One line says so for each resource, as long as a
    /// grant of it is held.
    pub(super) fn log_not_understood(&mut self, resource: ResourceId, filters: usize) {
        let mut held = self.grants.held();
        let is_known = |held: &Held| held.claims.resource == resource && held.not_understood() > 0;
        if filters > 0 && !held.any(is_known) {
            let line = LogLine::warn(
                "filters of a resource are not understood and allow nothing: update this gateway",
            );
            self.log
                .push(line.with("resource", resource).with("filters", filters));
        }
    }

    /// The portal's clock is known, or has been set: grants end by it.
    pub(super) fn set_expiries(&mut self, now: BootTime) {
        let session = &self.session;
        let mut moved = BTreeSet::new();
        for held in self.grants.held.values_mut() {
            let expires = session.local_time(held.claims.exp, now);
            if expires.abs_diff(held.expires) > CLOCK_GRAIN {
                held.expires = expires;
                moved.insert(held.claims.client);
            }
        }
        for client in moved {
            self.rebuild_or_deny(client);
        }
    }

    /// Where a client's grants do not fit, it has none.
    pub(super) fn rebuild_or_deny(&mut self, client: ClientId) {
        if let Err(fault) = self.rebuild(client) {
            let line = LogLine::error("the client gets nowhere");
            self.log
                .push(line.with("client", client).with("fault", fault));
        }
    }

    /// Makes peer and table entry of a client anew from its grants.
    pub(super) fn rebuild(&mut self, client: ClientId) -> Result<(), GrantFault> {
        self.is_table_new = true;
        let mut grants = Vec::new();
        let mut latest: Option<&Held> = None;
        let mut site_dns: Option<gate::SiteDns> = None;
        for held in self.grants.of_client(client) {
            let reach = match &held.target {
                Target::Network(prefix) => gate::Reach::Addresses(*prefix),
                Target::Address(address) => gate::Reach::Addresses(Prefix::host(*address)),
                Target::Name(_) => gate::Reach::Names(self.mappings(held)),
            };
            if let (Target::Name(_), Some(network)) = (&held.target, &self.network)
                && site_dns.is_none_or(|dns| dns.expires < held.expires)
            {
                site_dns = Some(gate::SiteDns {
                    at: network.site_dns(),
                    grant: held.claims.grant,
                    resource: held.claims.resource,
                    expires: held.expires,
                });
            }
            grants.push(gate::Grant {
                id: held.claims.grant,
                resource: held.claims.resource,
                reach,
                filters: held.filters.clone(),
                expires: held.expires,
            });
            if latest.is_none_or(|latest| latest.claims.iat <= held.claims.iat) {
                latest = Some(held);
            }
        }
        let Some(latest) = latest else {
            if let Some(key) = self.clients.remove(client) {
                self.table.remove_client(key);
            }
            return Ok(());
        };
        let claims = &latest.claims;
        let addresses: Vec<IpAddr> = vec![claims.client_ipv4.into(), claims.client_ipv6.into()];
        let before = self.clients.gate_key(client);
        let key = self.clients.set(claims, &latest.preshared_key);
        if let Some(before) = before.filter(|before| *before != key) {
            self.table.remove_client(before);
        }
        gate::ClientGrants::new(key, addresses, grants)
            .map(|grants| match site_dns {
                Some(site_dns) => grants.with_site_dns(site_dns),
                None => grants,
            })
            .and_then(|grants| self.table.set_client(grants))
            .map_err(|error| {
                self.table.remove_client(key);
                match error {
                    GrantError::Ambiguous(_) => GrantFault::Name,
                    error => GrantFault::TooMany(error.to_string()),
                }
            })
    }

    fn mappings(&self, held: &Held) -> Vec<gate::Mapping> {
        let mut mappings = Vec::new();
        for (name, &Visible { ipv4, ipv6, .. }) in &held.names {
            let (v4, v6) = self.names.leads(name, held.within.as_ref());
            mappings.extend([mapping(ipv4, v4), mapping(ipv6, v6)].into_iter().flatten());
        }
        mappings
    }
}

fn mapping<A: Into<IpAddr>>(visible: A, lead: Lead<A>) -> Option<gate::Mapping> {
    match lead {
        Lead::Nowhere => None,
        Lead::Lost => Some(gate::Mapping::lost(visible.into())),
        Lead::To(resolved) => gate::Mapping::new(visible.into(), resolved.into()).ok(),
        Lead::Outside(_) => Some(gate::Mapping::outside(visible.into())),
    }
}
