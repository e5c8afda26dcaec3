//! The data plane as it is to be: peers, and what each may reach.

use super::clients::{Clients, Identity, PeerUpdate};
use super::grants::{Grants, Held, Visible};
use super::inbound::InboundSources;
use super::names::{Lead, Names};
use super::network::Network;
use super::verify::GrantFault;
use culvert_ids::ClientId;
use culvert_policy::gate::{self, GateTable};
use culvert_policy::{GrantError, Prefix, Target};
use culvert_wire::PresharedKey;
use culvert_wire::messages::AdmittedDevice;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Clients as peers, and the table of the gates.
pub(super) struct DataPlane {
    clients: Clients,
    table: GateTable,
    /// True while the kernel's firewall table is in place.
    is_guarded: bool,
    /// True if the data plane has not been told of the table yet.
    is_new: bool,
    inbound: InboundSources,
}

impl DataPlane {
    pub(super) fn new() -> Self {
        Self {
            clients: Clients::default(),
            table: GateTable::new(),
            is_guarded: true,
            is_new: true,
            inbound: InboundSources::default(),
        }
    }

    pub(super) const fn clients(&self) -> &Clients {
        &self.clients
    }

    pub(super) const fn table(&self) -> &GateTable {
        &self.table
    }

    pub(super) const fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// The kernel's firewall table is gone, or is back. True if that is news.
    pub(super) fn handle_guard(&mut self, stands: bool) -> bool {
        let is_news = self.is_guarded != stands;
        self.is_guarded = stands;
        self.is_new |= is_news;
        is_news
    }

    /// The addresses of this machine where no client is served. True if they are others than before.
    pub(super) fn handle_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) -> bool {
        let is_news = self.table.host_addresses() != &addresses;
        if is_news {
            self.table.set_host_addresses(addresses);
            self.is_new = true;
        }
        is_news
    }

    /// The ranges that may begin flows at clients, where they are others than before.
    pub(super) fn poll_inbound(&mut self) -> Option<BTreeSet<Prefix>> {
        self.inbound.poll()
    }

    /// The changes that the data plane has not been told of.
    pub(super) fn poll_update(&mut self) -> Option<(Vec<PeerUpdate>, Arc<GateTable>)> {
        let peers = self.clients.take_updates();
        let is_new = std::mem::take(&mut self.is_new);
        (is_new || !peers.is_empty()).then(|| {
            let table = match self.is_guarded {
                true => self.table.clone(),
                false => self.table.closed(),
            };
            (peers, Arc::new(table))
        })
    }

    /// Makes peer and table entry of a client anew from its grants. Without a grant, one that is `admitted` is a peer that
    /// reaches no resource.
    pub(super) fn rebuild(
        &mut self,
        client: ClientId,
        (held, admitted): (&Grants, Option<&AdmittedDevice>),
        names: &Names,
        network: Option<&Network>,
    ) -> Result<(), GrantFault> {
        self.is_new = true;
        let opening = held.of_client(client);
        let opening = opening.filter(|held| !held.inbound.is_empty());
        let ranges = opening.filter_map(|held| held.target.prefix());
        self.inbound.set(client, &ranges.collect());
        let mut grants = Vec::new();
        let mut latest: Option<&Held> = None;
        let mut site_dns: Option<gate::SiteDns> = None;
        for held in held.of_client(client) {
            let reach = match &held.target {
                Target::Network(prefix) => gate::Reach::Addresses(*prefix),
                Target::Address(address) => gate::Reach::Addresses(Prefix::host(*address)),
                Target::Name(_) => gate::Reach::Names(mappings(held, names)),
            };
            if let Some(at) = dns_of(held, network)
                && site_dns.is_none_or(|dns| dns.expires < held.expires)
            {
                site_dns = Some(gate::SiteDns {
                    at,
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
                inbound: held.inbound.clone(),
                expires: held.expires,
            });
            if latest.is_none_or(|latest| latest.claims.iat <= held.claims.iat) {
                latest = Some(held);
            }
        }
        let Some(latest) = latest else {
            self.set_without_grant(client, admitted, network);
            return Ok(());
        };
        let claims = &latest.claims;
        let addresses: Vec<IpAddr> = vec![claims.client_ipv4.into(), claims.client_ipv6.into()];
        let before = self.clients.gate_key(client);
        let identity = Identity::from(claims);
        let key = self.clients.set(&identity, &latest.preshared_key);
        self.clients.note_grant(client);
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
}

impl DataPlane {
    /// A client without a grant stays a peer where it is admitted, and nobody else has its key or an address of it. In the
    /// table it has addresses and no grant, so that its packets are dropped for that reason. Only its DNS questions are not,
    /// where the admission allows them.
    fn set_without_grant(
        &mut self,
        client: ClientId,
        admitted: Option<&AdmittedDevice>,
        network: Option<&Network>,
    ) {
        let admitted = admitted.map(|device| (Identity::from(device), device.dns));
        let admitted = admitted.filter(|(identity, _)| !self.clients.conflict_with(identity));
        let Some((identity, dns)) = admitted else {
            self.remove(client);
            return;
        };
        let before = self.clients.gate_key(client);
        let key = self.clients.set(&identity, &PresharedKey::NONE);
        self.clients.note_no_grant(client);
        if let Some(before) = before.filter(|before| *before != key) {
            self.table.remove_client(before);
        }
        let addresses: Vec<IpAddr> = vec![identity.ipv4.into(), identity.ipv6.into()];
        let at = network.filter(|_| dns).map(Network::plain_dns);
        let entry = gate::ClientGrants::new(key, addresses, Vec::new());
        let entry = entry.map(|entry| match at {
            Some(at) => entry.with_site_dns(gate::SiteDns::without_grant(at)),
            None => entry,
        });
        let entered = entry.and_then(|entry| self.table.set_client(entry));
        if entered.is_err() {
            // The table has no room, so the device is no peer either.
            self.remove(client);
        }
    }

    fn remove(&mut self, client: ClientId) {
        if let Some(key) = self.clients.remove(client) {
            self.table.remove_client(key);
        }
    }
}

/// The address at which a client with this grant may ask for names: a plain device for all of them, and others for records of
/// names of their resources.
fn dns_of(held: &Held, network: Option<&Network>) -> Option<SocketAddr> {
    let network = network?;
    match (&held.target, held.claims.plain) {
        (_, true) => Some(network.plain_dns()),
        (Target::Name(_), false) => Some(network.site_dns()),
        (Target::Address(_) | Target::Network(_), false) => None,
    }
}

fn mappings(held: &Held, names: &Names) -> Vec<gate::Mapping> {
    let mut mappings = Vec::new();
    for (name, &Visible { ipv4, ipv6, .. }) in &held.names {
        let (v4, v6) = names.leads(name, held.within.as_ref());
        mappings.extend([mapping(ipv4, v4), mapping(ipv6, v6)].into_iter().flatten());
    }
    mappings
}

fn mapping<A: Into<IpAddr>>(visible: A, lead: Lead<A>) -> Option<gate::Mapping> {
    match lead {
        Lead::Nowhere => None,
        Lead::Lost => Some(gate::Mapping::lost(visible.into())),
        Lead::To(resolved) => gate::Mapping::new(visible.into(), resolved.into()).ok(),
        Lead::Outside(_) => Some(gate::Mapping::outside(visible.into())),
    }
}
