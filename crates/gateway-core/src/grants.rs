//! Grants: those in force, those that wait for the DNS, and what ends or changes them.

use super::backlog::Backlog;
use super::host_addresses::RefusedAtHost;
use super::persisted::PersistedGrant;
use super::verify::Verified;
use culvert_base::BootTime;
use culvert_ids::{ClientId, GrantId};
use culvert_policy::{DomainName, Filters, Target, Within};
use culvert_wire::messages::{GrantLabels, WantedName};
use culvert_wire::model::Understood;
use culvert_wire::{GrantClaims, PresharedKey, model};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that a client gave a name.
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

/// The name that each address stands for, by the newest word of a client. A client reuses addresses: after a
/// restart it gives them out from the first on, while grants from before its restart last. Old assignments must
/// not lead its new packets to another name's host.
pub(super) struct Given(BTreeMap<IpAddr, DomainName>);

impl Given {
    pub(super) fn new(names: &BTreeMap<DomainName, Visible>) -> Self {
        let by_address = names
            .iter()
            .flat_map(|(name, visible)| visible.addresses().map(|address| (address, name.clone())));
        Self(by_address.collect())
    }

    /// True if an older word gives another name one of the addresses.
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
    /// The ranges into which its names may lead.
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
    pub(super) backlog: Backlog,
    of_client: BTreeMap<ClientId, BTreeSet<GrantId>>,
    /// Those in force that have the name.
    of_name: BTreeMap<DomainName, BTreeSet<GrantId>>,
    /// Resources on this machine whose grants were refused.
    pub(super) refused_at_host: RefusedAtHost,
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

    /// The grants in force that have a name.
    pub(super) fn of_name(&self, name: &DomainName) -> impl Iterator<Item = &Held> {
        let ids = self.of_name.get(name).into_iter().flatten();
        ids.filter_map(|id| self.held.get(id))
    }

    /// The clients whose grants have a name.
    pub(super) fn clients_of_name(&self, name: &DomainName) -> BTreeSet<ClientId> {
        self.of_name(name).map(|held| held.claims.client).collect()
    }

    /// Names that a grant has, in force or not.
    pub(super) fn uses_name(&self, name: &DomainName) -> bool {
        self.of_name.contains_key(name) || self.pending.values().any(|p| p.names.contains_key(name))
    }

    fn enter_name(&mut self, grant: GrantId, name: &DomainName) {
        self.of_name.entry(name.clone()).or_default().insert(grant);
    }

    fn leave_name(&mut self, grant: GrantId, name: &DomainName) {
        if let Some(grants) = self.of_name.get_mut(name) {
            grants.remove(&grant);
            if grants.is_empty() {
                self.of_name.remove(name);
            }
        }
    }

    pub(super) fn insert(&mut self, held: Held) {
        let (client, id) = (held.claims.client, held.claims.grant);
        self.of_client.entry(client).or_default().insert(id);
        for name in held.names.keys() {
            self.enter_name(id, name);
        }
        self.held.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        for name in held.names.keys() {
            self.leave_name(id, name);
        }
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
        for (id, name, _) in &taken {
            self.leave_name(*id, name);
        }
        taken
    }

    pub(super) fn give_names_back(&mut self, taken: Vec<(GrantId, DomainName, Visible)>) {
        for (id, name, visible) in taken {
            if self.held.contains_key(&id) {
                self.enter_name(id, &name);
            }
            if let Some(held) = self.held.get_mut(&id) {
                held.names.insert(name, visible);
            }
        }
    }

    pub(super) fn take_name(&mut self, grant: GrantId, name: &DomainName) {
        self.leave_name(grant, name);
        if let Some(held) = self.held.get_mut(&grant) {
            held.names.remove(name);
        }
    }

    /// The number of names that a client's grants have, in force or not.
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

    /// The number of its filters that this version does not understand.
    pub(super) fn not_understood(&self) -> usize {
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
