//! Grants: those in force, those that wait for the DNS, and what ends or changes them.

use super::backlog::WaitingGrants;
use super::grant_table::{GrantFacts, GrantTable};
use super::host_addresses::RefusedAtHost;
use super::persisted::PersistedGrant;
use super::services::ChangedServices;
use super::verify::{Verified, inbound};
use culvert_base::BootTime;
use culvert_ids::{ClientId, GrantId, ResourceId};
use culvert_policy::{DomainName, Filters, Target, Within};
use culvert_wire::messages::{GrantLabels, WantedName};
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
    /// The services of the client's host that the resource may use.
    pub(super) inbound: Filters,
    /// Services that the portal has set since.
    pub(super) changed: Option<ChangedServices>,
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
    /// Services that the portal has set meanwhile.
    pub(super) changed: Option<ChangedServices>,
    /// The time at which names that the DNS has not answered for are given up.
    pub(super) time_out: BootTime,
    /// The time at which the grant comes into force without them, for the sake of the others.
    pub(super) defer: Option<BootTime>,
    pub(super) labels: GrantLabels,
}

impl Pending {
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
    pub(super) held: GrantTable<Held>,
    pub(super) pending: GrantTable<Pending>,
    pub(super) backlog: WaitingGrants,
    /// Resources on this machine whose grants were refused.
    pub(super) refused_at_host: RefusedAtHost,
}

impl GrantFacts for Held {
    fn client(&self) -> ClientId {
        self.claims.client
    }

    fn resource(&self) -> ResourceId {
        self.claims.resource
    }

    fn names(&self) -> impl Iterator<Item = &DomainName> {
        self.names.keys()
    }

    fn due(&self) -> BootTime {
        self.expires
    }
}

impl GrantFacts for Pending {
    fn client(&self) -> ClientId {
        self.verified.claims.client
    }

    fn resource(&self) -> ResourceId {
        self.verified.claims.resource
    }

    fn names(&self) -> impl Iterator<Item = &DomainName> {
        self.names.keys()
    }

    /// The time at which it comes into force, whatever the DNS does.
    fn due(&self) -> BootTime {
        let defer = self.defer.unwrap_or(BootTime::MAX);
        self.time_out.min(defer)
    }
}

impl Grants {
    pub(super) fn ids(&self) -> impl Iterator<Item = GrantId> {
        self.held.iter().map(|(id, _)| id)
    }

    /// The clients whose grants have a name.
    pub(super) fn clients_of_name(&self, name: &DomainName) -> BTreeSet<ClientId> {
        let held = self.held.of_name(name);
        held.map(|(_, held)| held.claims.client).collect()
    }

    /// Names that a grant has, in force or not.
    pub(super) fn uses_name(&self, name: &DomainName) -> bool {
        self.held.has_name(name) || self.pending.has_name(name)
    }

    pub(super) fn insert(&mut self, held: Held) {
        self.held.insert(held.claims.grant, held);
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Held> {
        self.held.remove(id)
    }

    /// Takes the names of a client whose addresses stand for other names now; returns them.
    pub(super) fn take_names(
        &mut self,
        client: ClientId,
        given: &Given,
    ) -> Vec<(GrantId, DomainName, Visible)> {
        let mut taken = Vec::new();
        let of_client = self.held.of_client(client);
        let with_outdated = of_client.filter(|(_, held)| {
            let mut names = held.names.iter();
            names.any(|(name, visible)| given.outdate(name, *visible))
        });
        let with_outdated: Vec<GrantId> = with_outdated.map(|(id, _)| id).collect();
        for id in with_outdated {
            self.held.change(id, |held| {
                let outdated = held
                    .names
                    .extract_if(.., |name, visible| given.outdate(name, *visible));
                taken.extend(outdated.map(|(name, visible)| (id, name, visible)));
            });
        }
        taken
    }

    pub(super) fn give_names_back(&mut self, taken: Vec<(GrantId, DomainName, Visible)>) {
        let mut by_grant: BTreeMap<GrantId, Vec<(DomainName, Visible)>> = BTreeMap::new();
        for (id, name, visible) in taken {
            by_grant.entry(id).or_default().push((name, visible));
        }
        for (id, names) in by_grant {
            self.held.change(id, |held| held.names.extend(names));
        }
    }

    /// Takes these names of a grant, all at once: each change of a grant costs as much as it has names.
    pub(super) fn take_names_of_grant(&mut self, grant: GrantId, names: &BTreeSet<DomainName>) {
        self.held.change(grant, |held| {
            held.names.retain(|name, _| !names.contains(name));
        });
    }

    /// The number of names that a client's grants have, in force or not.
    pub(super) fn names_of_client(&self, client: ClientId) -> usize {
        self.held.names_of_client(client) + self.pending.names_of_client(client)
    }

    pub(super) fn of_client(&self, client: ClientId) -> impl Iterator<Item = &Held> {
        self.held.of_client(client).map(|(_, held)| held)
    }
}

impl Held {
    pub(super) fn set_services(&mut self, written: &ChangedServices) {
        // Filters that can't be allow nothing.
        self.filters = model::filters(&written.filters).unwrap_or_else(|_| Filters::none());
        self.inbound = inbound(&self.target, &written.inbound);
        self.changed = Some(written.clone());
    }

    /// The number of its filters that this version does not understand.
    pub(super) fn not_understood(&self) -> usize {
        let changed = self.changed.as_ref().map(|changed| &changed.filters);
        changed.unwrap_or(&self.claims.filters).others()
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
            filters: self.changed.as_ref().map(|it| it.filters.clone()),
            inbound: self.changed.as_ref().map(|it| it.inbound.clone()),
        }
    }
}
