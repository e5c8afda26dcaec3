//! Clients, by id and by actor.

use super::bounds::{MAX, MIN};
use super::effect::MachineChange;
use culvert_ids::{ActorId, ClientId, GatewayId};
use culvert_store::Client;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Clients {
    rows: BTreeMap<ClientId, Client>,
    of_actor: BTreeSet<(ActorId, ClientId)>,
    /// Plain WireGuard devices, by the gateway in their file.
    of_gateway: BTreeSet<(GatewayId, ClientId)>,
}

impl Clients {
    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.rows.get(&id)
    }

    pub(super) fn of_actor(&self, actor: ActorId) -> impl Iterator<Item = ClientId> {
        let first = (actor, ClientId::from_bytes(MIN));
        let last = (actor, ClientId::from_bytes(MAX));
        let held = self.of_actor.range(first..=last);
        held.map(|(_, client)| *client)
    }

    /// Plain WireGuard devices whose file has the gateway's key.
    pub(super) fn of_gateway(&self, gateway: GatewayId) -> impl Iterator<Item = ClientId> {
        let first = (gateway, ClientId::from_bytes(MIN));
        let last = (gateway, ClientId::from_bytes(MAX));
        let held = self.of_gateway.range(first..=last);
        held.map(|(_, client)| *client)
    }

    /// All plain WireGuard devices.
    pub(super) fn plain(&self) -> impl Iterator<Item = ClientId> {
        self.of_gateway.iter().map(|(_, client)| *client)
    }

    pub(super) fn insert(&mut self, client: Client) -> MachineChange {
        let id = client.id;
        let change = match self.rows.get(&id) {
            Some(old)
                if (old.public_key, old.ipv4, old.ipv6, old.actor, old.gateway)
                    != (
                        client.public_key,
                        client.ipv4,
                        client.ipv6,
                        client.actor,
                        client.gateway,
                    ) =>
            {
                self.of_actor.remove(&(old.actor, id));
                if let Some(gateway) = old.gateway {
                    self.of_gateway.remove(&(gateway, id));
                }
                MachineChange::Identity
            }
            Some(_) | None => MachineChange::Rights,
        };
        self.of_actor.insert((client.actor, id));
        if let Some(gateway) = client.gateway {
            self.of_gateway.insert((gateway, id));
        }
        self.rows.insert(id, client);
        change
    }

    /// False where there is none.
    pub(super) fn remove(&mut self, id: ClientId) -> bool {
        let old = self.rows.remove(&id);
        if let Some(old) = &old {
            self.of_actor.remove(&(old.actor, id));
            if let Some(gateway) = old.gateway {
                self.of_gateway.remove(&(gateway, id));
            }
        }
        old.is_some()
    }
}
