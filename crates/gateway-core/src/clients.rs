//! Clients as peers of the data plane: each has a key, addresses, and a number at the gate.

use culvert_ids::ClientId;
use culvert_policy::gate::PeerKey;
use culvert_wire::{Cipher, GrantClaims, PresharedKey, PublicKey};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The change of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerUpdate {
    /// The peer is like this.
    Set {
        /// Its key.
        key: PublicKey,
        /// The secret of the pair.
        preshared_key: PresharedKey,
        /// The suite of the tunnel.
        cipher: Cipher,
        /// The number by which the gate knows it.
        gate_key: PeerKey,
        /// The only address that its packets may come from.
        ipv4: Ipv4Addr,
        /// The same of the other family.
        ipv6: Ipv6Addr,
    },
    /// There is no such peer any more.
    Remove(PublicKey),
}

/// A client that holds a grant.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) key: PublicKey,
    preshared_key: PresharedKey,
    pub(super) cipher: Cipher,
    gate_key: PeerKey,
    pub(super) ipv4: Ipv4Addr,
    pub(super) ipv6: Ipv6Addr,
}

/// Keys and addresses of clients. No two clients have one of them.
#[derive(Debug, Default)]
struct Taken {
    keys: BTreeMap<PublicKey, ClientId>,
    ipv4: BTreeMap<Ipv4Addr, ClientId>,
    ipv6: BTreeMap<Ipv6Addr, ClientId>,
}

impl Taken {
    fn enter(&mut self, id: ClientId, client: &Client) {
        self.keys.insert(client.key, id);
        self.ipv4.insert(client.ipv4, id);
        self.ipv6.insert(client.ipv6, id);
    }

    fn remove(&mut self, client: &Client) {
        self.keys.remove(&client.key);
        self.ipv4.remove(&client.ipv4);
        self.ipv6.remove(&client.ipv6);
    }

    /// True if another client has the key or an address of this one.
    fn by_another(&self, claims: &GrantClaims) -> bool {
        let holders = [
            self.keys.get(&claims.client_key),
            self.ipv4.get(&claims.client_ipv4),
            self.ipv6.get(&claims.client_ipv6),
        ];
        let mut holders = holders.into_iter().flatten();
        holders.any(|holder| *holder != claims.client)
    }
}

/// All clients that hold a grant.
#[derive(Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
    taken: Taken,
    /// Numbers given so far: none is given twice, since gates remember flows by them.
    numbers: u32,
    /// The client that has or had the number: flows may end after their client is gone.
    names: BTreeMap<PeerKey, ClientId>,
    updates: Vec<PeerUpdate>,
}

/// Numbers of clients that are gone and whose flows may still be reported. A sweep ends them within
/// 16 seconds; no portal makes and ends as many grants in that time.
const MAX_PAST_NUMBERS: usize = 1 << 15;

impl Clients {
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// In the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter().map(|(id, client)| (*id, client))
    }

    pub(super) fn take_updates(&mut self) -> Vec<PeerUpdate> {
        std::mem::take(&mut self.updates)
    }

    pub(super) fn gate_key(&self, id: ClientId) -> Option<PeerKey> {
        self.clients.get(&id).map(|client| client.gate_key)
    }

    /// The client whose flows have this number; of clients that are gone, those of long ago are forgotten.
    pub(super) fn of_gate_key(&self, key: PeerKey) -> Option<ClientId> {
        self.names.get(&key).copied()
    }

    /// True if another client has the key or an address of this one.
    pub(super) fn conflict_with(&self, claims: &GrantClaims) -> bool {
        self.taken.by_another(claims)
    }

    /// The client is as these claims say. A new key is a new peer with a new number: what the old one
    /// began is not its flows.
    pub(super) fn set(&mut self, claims: &GrantClaims, preshared_key: &PresharedKey) -> PeerKey {
        if let Some(client) = self.clients.get(&claims.client) {
            let is_same = client.key == claims.client_key
                && client.preshared_key == *preshared_key
                && client.cipher == claims.cipher
                && (client.ipv4, client.ipv6) == (claims.client_ipv4, claims.client_ipv6);
            if is_same {
                return client.gate_key;
            }
            if client.key != claims.client_key {
                self.remove(claims.client);
            }
        }
        let gate_key = self.clients.get(&claims.client).map_or_else(
            || {
                self.numbers = self.numbers.wrapping_add(1);
                PeerKey(self.numbers)
            },
            |client| client.gate_key,
        );
        let client = Client {
            key: claims.client_key,
            preshared_key: preshared_key.clone(),
            cipher: claims.cipher,
            gate_key,
            ipv4: claims.client_ipv4,
            ipv6: claims.client_ipv6,
        };
        self.updates.push(PeerUpdate::Set {
            key: client.key,
            preshared_key: client.preshared_key.clone(),
            cipher: client.cipher,
            gate_key,
            ipv4: client.ipv4,
            ipv6: client.ipv6,
        });
        if let Some(before) = self.clients.get(&claims.client) {
            self.taken.remove(before);
        }
        self.taken.enter(claims.client, &client);
        self.clients.insert(claims.client, client);
        self.name(gate_key, claims.client);
        gate_key
    }

    fn name(&mut self, key: PeerKey, client: ClientId) {
        self.names.insert(key, client);
        if self.names.len() > self.clients.len() + MAX_PAST_NUMBERS {
            let clients = &self.clients;
            self.names.retain(|key, client| {
                clients
                    .get(client)
                    .is_some_and(|known| known.gate_key == *key)
            });
        }
    }

    /// The client holds no grant any more. Returns its number.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<PeerKey> {
        let client = self.clients.remove(&id)?;
        self.taken.remove(&client);
        self.updates.push(PeerUpdate::Remove(client.key));
        Some(client.gate_key)
    }
}
