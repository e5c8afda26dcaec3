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
    /// Plain WireGuard devices.
    plain: BTreeSet<ClientId>,
    /// The same, by each gateway in their file.
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
        self.plain.iter().copied()
    }

    pub(super) fn insert(&mut self, client: Client) -> MachineChange {
        let change = match self.rows.get(&client.id) {
            Some(old) if is_another_machine(old, &client) => MachineChange::Identity,
            Some(_) | None => MachineChange::Rights,
        };
        self.remove(client.id);
        self.of_actor.insert((client.actor, client.id));
        if client.is_plain() {
            self.plain.insert(client.id);
        }
        let gateways = client.gateways.iter();
        self.of_gateway
            .extend(gateways.map(|gateway| (*gateway, client.id)));
        self.rows.insert(client.id, client);
        change
    }

    /// False where there is none.
    pub(super) fn remove(&mut self, id: ClientId) -> bool {
        let Some(old) = self.rows.remove(&id) else {
            return false;
        };
        self.of_actor.remove(&(old.actor, id));
        self.plain.remove(&id);
        for gateway in old.gateways {
            self.of_gateway.remove(&(gateway, id));
        }
        true
    }
}

/// True if grants of the one are nothing to the other.
fn is_another_machine(old: &Client, new: &Client) -> bool {
    let is_same = old.public_key == new.public_key
        && (old.ipv4, old.ipv6) == (new.ipv4, new.ipv6)
        && old.actor == new.actor
        && old.gateways == new.gateways;
    !is_same
}
