//! Clients as peers of the data plane: each has a key, addresses, and a number at the gate.

use culvert_ids::ClientId;
use culvert_policy::gate::PeerKey;
use culvert_wire::messages::AdmittedDevice;
use culvert_wire::{Cipher, GrantClaims, PresharedKey, PublicKey};
use std::collections::{BTreeMap, BTreeSet};
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
        /// The plain WireGuard device that it is. Its moves and handshakes are news.
        device: Option<ClientId>,
    },
    /// There is no such peer any more.
    Remove(PublicKey),
}

/// The claims about a client that make it a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    client: ClientId,
    pub(super) key: PublicKey,
    pub(super) ipv4: Ipv4Addr,
    pub(super) ipv6: Ipv6Addr,
    pub(super) cipher: Cipher,
    is_plain: bool,
}

impl From<&GrantClaims> for Identity {
    fn from(claims: &GrantClaims) -> Self {
        Self {
            client: claims.client,
            key: claims.client_key,
            ipv4: claims.client_ipv4,
            ipv6: claims.client_ipv6,
            cipher: claims.cipher,
            is_plain: claims.plain,
        }
    }
}

impl From<&AdmittedDevice> for Identity {
    fn from(device: &AdmittedDevice) -> Self {
        Self {
            client: device.client,
            key: device.client_key,
            ipv4: device.client_ipv4,
            ipv6: device.client_ipv6,
            // WireGuard has this one alone.
            cipher: Cipher::ChaCha20Poly1305,
            is_plain: true,
        }
    }
}

/// A client that holds a grant, or is admitted without one.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) identity: Identity,
    preshared_key: PresharedKey,
    gate_key: PeerKey,
}

/// Keys and addresses of clients. No two clients have one of them.
#[derive(Debug, Default)]
struct Taken {
    keys: BTreeMap<PublicKey, ClientId>,
    ipv4: BTreeMap<Ipv4Addr, ClientId>,
    ipv6: BTreeMap<Ipv6Addr, ClientId>,
}

impl Taken {
    fn enter(&mut self, identity: &Identity) {
        self.keys.insert(identity.key, identity.client);
        self.ipv4.insert(identity.ipv4, identity.client);
        self.ipv6.insert(identity.ipv6, identity.client);
    }

    fn remove(&mut self, identity: &Identity) {
        self.keys.remove(&identity.key);
        self.ipv4.remove(&identity.ipv4);
        self.ipv6.remove(&identity.ipv6);
    }

    /// True if another client has the key or an address of this one.
    fn by_another(&self, identity: &Identity) -> bool {
        let holders = [
            self.keys.get(&identity.key),
            self.ipv4.get(&identity.ipv4),
            self.ipv6.get(&identity.ipv6),
        ];
        let mut holders = holders.into_iter().flatten();
        holders.any(|holder| *holder != identity.client)
    }
}

/// All clients that hold a grant or are admitted.
#[derive(Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
    /// Those of them that hold no grant.
    without_grant: BTreeSet<ClientId>,
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
    /// The number of clients that hold a grant.
    pub(super) fn with_grants(&self) -> usize {
        self.clients.len() - self.without_grant.len()
    }

    /// The client holds a grant.
    pub(super) fn note_grant(&mut self, id: ClientId) {
        self.without_grant.remove(&id);
    }

    /// The client holds none.
    pub(super) fn note_no_grant(&mut self, id: ClientId) {
        self.without_grant.insert(id);
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
    pub(super) fn conflict_with(&self, identity: &Identity) -> bool {
        self.taken.by_another(identity)
    }

    /// The client is like this. A new key is a new peer with a new number: what the old one began is not its flows.
    pub(super) fn set(&mut self, identity: &Identity, preshared_key: &PresharedKey) -> PeerKey {
        let id = identity.client;
        if let Some(client) = self.clients.get(&id) {
            if client.identity == *identity && client.preshared_key == *preshared_key {
                return client.gate_key;
            }
            if client.identity.key != identity.key {
                self.remove(id);
            }
        }
        let gate_key = self.clients.get(&id).map_or_else(
            || {
                self.numbers = self.numbers.wrapping_add(1);
                PeerKey(self.numbers)
            },
            |client| client.gate_key,
        );
        let client = Client {
            identity: *identity,
            preshared_key: preshared_key.clone(),
            gate_key,
        };
        self.updates.push(PeerUpdate::Set {
            key: identity.key,
            preshared_key: preshared_key.clone(),
            cipher: identity.cipher,
            gate_key,
            ipv4: identity.ipv4,
            ipv6: identity.ipv6,
            device: identity.is_plain.then_some(id),
        });
        if let Some(before) = self.clients.get(&id) {
            self.taken.remove(&before.identity);
        }
        self.taken.enter(identity);
        self.clients.insert(id, client);
        self.name(gate_key, id);
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

    /// The client is no peer any more. Returns its number.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<PeerKey> {
        self.without_grant.remove(&id);
        let client = self.clients.remove(&id)?;
        self.taken.remove(&client.identity);
        self.updates.push(PeerUpdate::Remove(client.identity.key));
        Some(client.gate_key)
    }
}
