//! Sites and the gateways in them.

use super::bounds::{MAX, MIN};
use super::effect::MachineChange;
use culvert_ids::{GatewayId, RelayId, SiteId};
use culvert_store::Gateway;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Sites {
    names: BTreeMap<SiteId, String>,
    /// The only relays of a site; sites without an entry use all.
    relays: BTreeMap<SiteId, Vec<RelayId>>,
    gateways: BTreeMap<GatewayId, Gateway>,
    gateways_of: BTreeSet<(SiteId, GatewayId)>,
}

impl Sites {
    pub(super) fn name(&self, id: SiteId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    pub(super) fn set_name(&mut self, id: SiteId, name: String) {
        self.names.insert(id, name);
    }

    /// The only relays of the site; none where it uses all.
    pub(super) fn relays(&self, id: SiteId) -> Option<&[RelayId]> {
        self.relays.get(&id).map(Vec::as_slice)
    }

    /// True if that changes anything.
    pub(super) fn set_relays(&mut self, id: SiteId, relays: Option<Vec<RelayId>>) -> bool {
        match relays {
            Some(relays) => self.relays.insert(id, relays.clone()) != Some(relays),
            None => self.relays.remove(&id).is_some(),
        }
    }

    pub(super) fn remove(&mut self, id: SiteId) {
        self.relays.remove(&id);
        self.names.remove(&id);
    }

    pub(super) fn gateway(&self, id: GatewayId) -> Option<&Gateway> {
        self.gateways.get(&id)
    }

    pub(super) fn gateways(&self) -> impl Iterator<Item = &Gateway> {
        self.gateways.values()
    }

    pub(super) fn gateways_of(&self, site: SiteId) -> impl Iterator<Item = GatewayId> {
        let first = (site, GatewayId::from_bytes(MIN));
        let last = (site, GatewayId::from_bytes(MAX));
        self.gateways_of
            .range(first..=last)
            .map(|(_, gateway)| *gateway)
    }

    pub(super) fn insert_gateway(&mut self, gateway: Gateway) -> MachineChange {
        let id = gateway.id;
        let change = match self.gateways.get(&id) {
            Some(old)
                if (old.public_key, old.ipv4, old.ipv6, old.site)
                    != (gateway.public_key, gateway.ipv4, gateway.ipv6, gateway.site) =>
            {
                self.gateways_of.remove(&(old.site, id));
                MachineChange::Identity
            }
            Some(_) | None => MachineChange::Rights,
        };
        self.gateways_of.insert((gateway.site, id));
        self.gateways.insert(id, gateway);
        change
    }

    /// False where there is none.
    pub(super) fn remove_gateway(&mut self, id: GatewayId) -> bool {
        let old = self.gateways.remove(&id);
        if let Some(old) = &old {
            self.gateways_of.remove(&(old.site, id));
        }
        old.is_some()
    }
}
