//! The grants that are out, indexed by client, resource and gateway.

use culvert_ids::{ClientId, GatewayId, GrantId, ID_LEN, ResourceId};
use culvert_wire::messages::{MAX_NAMES, WantedName};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A grant that a gateway may hold.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) row: culvert_store::Grant,
    pub(super) stage: Stage,
    /// The id by which the client knows it; none until it was told.
    pub(super) known_as: Option<GrantId>,
    /// It is from before the portal's start, and the configuration behind it may have changed meanwhile.
    pub(super) needs_recheck: bool,
    /// The last [`MAX_NAMES`] names that the gateway was told to resolve, so that another one can be told
    /// the same.
    pub(super) names: Vec<WantedName>,
}

/// The state of a grant that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The gateway has not answered yet.
    Offered,
    /// The gateway enforces it, and the client uses it.
    Current,
    /// Another one has taken its place, through another gateway; it runs out.
    Leftover,
}

impl Grant {
    /// Remembers names, the newest last.
    pub(super) fn remember(&mut self, names: impl IntoIterator<Item = WantedName>) {
        for name in names {
            self.names.retain(|known| known.name != name.name);
            self.names.push(name);
        }
        let beyond = self.names.len().saturating_sub(MAX_NAMES);
        self.names.drain(..beyond);
    }
}

/// The name that each address stands for, by the newest word of a client. A client reuses addresses: after a
/// restart it gives them out from the first on.
pub(super) struct NewNames<'names>(BTreeMap<IpAddr, &'names str>);

impl<'names> NewNames<'names> {
    pub(super) fn new(names: impl IntoIterator<Item = &'names WantedName>) -> Self {
        let by_address = names.into_iter().flat_map(|wanted| {
            [wanted.ipv4.into(), wanted.ipv6.into()].map(|address| (address, &*wanted.name))
        });
        Self(by_address.collect())
    }

    /// True if an older word gives another name one of the addresses.
    pub(super) fn outdate(&self, old: &WantedName) -> bool {
        [old.ipv4.into(), old.ipv6.into()]
            .iter()
            .any(|address| self.0.get(address).is_some_and(|name| *name != old.name))
    }
}

/// All of them, by id and by whom they concern.
#[derive(Debug, Default)]
pub(super) struct Grants {
    all: BTreeMap<GrantId, Grant>,
    by_client: BTreeSet<(ClientId, ResourceId, GrantId)>,
    by_resource: BTreeSet<(ResourceId, GrantId)>,
    by_gateway: BTreeSet<(GatewayId, ClientId, GrantId)>,
    counts: BTreeMap<GatewayId, Count>,
}

/// Numbers of grants, clients and offers of one gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) grants: usize,
    pub(super) clients: usize,
    pub(super) offers: usize,
}

const MIN: [u8; ID_LEN] = [0; ID_LEN];
const MAX: [u8; ID_LEN] = [u8::MAX; ID_LEN];

impl Grants {
    pub(super) fn insert(&mut self, grant: Grant) {
        let row = &grant.row;
        let is_first = !self.serves(row.gateway, row.client);
        let count = self.counts.entry(row.gateway).or_default();
        count.grants += 1;
        count.clients += usize::from(is_first);
        count.offers += usize::from(grant.stage == Stage::Offered);
        self.by_client.insert((row.client, row.resource, row.id));
        self.by_resource.insert((row.resource, row.id));
        self.by_gateway.insert((row.gateway, row.client, row.id));
        self.all.insert(row.id, grant);
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Grant> {
        let grant = self.all.remove(&id)?;
        let row = &grant.row;
        self.by_client.remove(&(row.client, row.resource, row.id));
        self.by_resource.remove(&(row.resource, row.id));
        self.by_gateway.remove(&(row.gateway, row.client, row.id));
        let was_last = !self.serves(row.gateway, row.client);
        if let Some(count) = self.counts.get_mut(&row.gateway) {
            count.grants -= 1;
            count.clients -= usize::from(was_last);
            count.offers -= usize::from(grant.stage == Stage::Offered);
            if count.grants == 0 {
                self.counts.remove(&row.gateway);
            }
        }
        Some(grant)
    }

    /// Forgets the names of a client whose addresses stand for other names now.
    pub(super) fn forget_names(&mut self, client: ClientId, new: &NewNames<'_>) {
        let ids: Vec<GrantId> = self.of_client(client).map(|grant| grant.row.id).collect();
        for id in ids {
            if let Some(grant) = self.all.get_mut(&id) {
                grant.names.retain(|old| !new.outdate(old));
            }
        }
    }

    pub(super) fn get(&self, id: GrantId) -> Option<&Grant> {
        self.all.get(&id)
    }

    /// The grant, to be told by another name or to remember more; its row and stage stay.
    pub(super) fn get_mut(&mut self, id: GrantId) -> Option<&mut Grant> {
        self.all.get_mut(&id)
    }

    pub(super) fn set_stage(&mut self, id: GrantId, stage: Stage) {
        let Some(grant) = self.all.get_mut(&id) else {
            return;
        };
        if grant.stage == Stage::Offered
            && stage != Stage::Offered
            && let Some(count) = self.counts.get_mut(&grant.row.gateway)
        {
            count.offers -= 1;
        }
        grant.stage = stage;
    }

    /// The grant that the client uses for the resource.
    pub(super) fn current(&self, client: ClientId, resource: ResourceId) -> Option<&Grant> {
        self.of_pair(client, resource)
            .filter_map(|id| self.all.get(&id))
            .find(|grant| grant.stage == Stage::Current)
    }

    pub(super) fn of_pair(
        &self,
        client: ClientId,
        resource: ResourceId,
    ) -> impl Iterator<Item = GrantId> {
        let first = (client, resource, GrantId::from_bytes(MIN));
        let last = (client, resource, GrantId::from_bytes(MAX));
        self.by_client.range(first..=last).map(|(_, _, id)| *id)
    }

    pub(super) fn of_client(&self, client: ClientId) -> impl Iterator<Item = &Grant> {
        let first = (
            client,
            ResourceId::from_bytes(MIN),
            GrantId::from_bytes(MIN),
        );
        let last = (
            client,
            ResourceId::from_bytes(MAX),
            GrantId::from_bytes(MAX),
        );
        let ids = self.by_client.range(first..=last);
        ids.filter_map(|(_, _, id)| self.all.get(id))
    }

    pub(super) fn of_resource(&self, resource: ResourceId) -> impl Iterator<Item = &Grant> {
        let first = (resource, GrantId::from_bytes(MIN));
        let last = (resource, GrantId::from_bytes(MAX));
        let ids = self.by_resource.range(first..=last);
        ids.filter_map(|(_, id)| self.all.get(id))
    }

    pub(super) fn of_gateway(&self, gateway: GatewayId) -> impl Iterator<Item = &Grant> {
        let first = (gateway, ClientId::from_bytes(MIN), GrantId::from_bytes(MIN));
        let last = (gateway, ClientId::from_bytes(MAX), GrantId::from_bytes(MAX));
        let ids = self.by_gateway.range(first..=last);
        ids.filter_map(|(_, _, id)| self.all.get(id))
    }

    /// True if the gateway has a grant of the client.
    pub(super) fn serves(&self, gateway: GatewayId, client: ClientId) -> bool {
        let first = (gateway, client, GrantId::from_bytes(MIN));
        let last = (gateway, client, GrantId::from_bytes(MAX));
        self.by_gateway.range(first..=last).next().is_some()
    }

    pub(super) fn count(&self, gateway: GatewayId) -> Count {
        self.counts.get(&gateway).copied().unwrap_or_default()
    }

    /// Gateways that have grants.
    pub(super) fn gateways(&self) -> impl Iterator<Item = GatewayId> {
        self.counts.keys().copied()
    }

    /// Every client and resource that there is a grant for.
    pub(super) fn pairs(&self) -> Vec<(ClientId, ResourceId)> {
        let mut pairs: Vec<_> = self
            .by_client
            .iter()
            .map(|(client, resource, _)| (*client, *resource))
            .collect();
        pairs.dedup();
        pairs
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
