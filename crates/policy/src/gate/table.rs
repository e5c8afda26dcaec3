//! The grants of each client: made by the control thread, read by every worker, never changed
//! once it is shared.

use super::DropReason;
use super::grants::ClientGrants;
use super::heading::{Heading, address};
use super::peer_key::PeerKey;
use super::shard_map::ShardMap;
use crate::GrantError;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Clients of one gateway: each is a peer of the tunnel, and engines are built for thousands.
pub const MAX_CLIENTS: usize = 1 << 16;

/// The grants of every client of a gateway.
///
/// The control thread keeps one table, changes it, and publishes a clone of it after each change. The
/// clients that did not change are shared, so that a change costs what the client has, and a clone
/// costs nothing. `epoch` grows with every change, which is how gates
/// know that what they remember has to be looked at again. All tables that one gate sees must be
/// clones of the same one.
#[derive(Clone, Debug, Default)]
pub struct GateTable {
    epoch: u64,
    clients: ShardMap<PeerKey, ClientGrants>,
    owners: ShardMap<IpAddr, ClientGrants>,
    host: HostAddresses,
}

/// Addresses of the gateway's machine, where no grant leads to.
#[derive(Clone, Debug, Default)]
struct HostAddresses {
    addresses: Arc<BTreeSet<IpAddr>>,
    /// The epoch since which they are these.
    since: u64,
}

impl GateTable {
    /// A table without clients, which admits nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of its changes.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sets the addresses of the gateway's machine to which no grant leads.
    pub fn set_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        if *self.host.addresses != addresses {
            self.epoch += 1;
            self.host = HostAddresses {
                addresses: Arc::new(addresses),
                since: self.epoch,
            };
        }
    }

    /// The addresses of the gateway's machine to which no grant leads.
    #[must_use]
    pub fn host_addresses(&self) -> &BTreeSet<IpAddr> {
        &self.host.addresses
    }

    /// True if an address is one of these.
    #[must_use]
    pub fn is_host_address(&self, address: IpAddr) -> bool {
        self.host.addresses.contains(&address)
    }

    /// Gives a client these grants, and no others.
    ///
    /// # Errors
    /// [`GrantError::AddressTaken`] and [`GrantError::TooManyClients`]. The client is left without
    /// any grant then: what it had is no longer what it should have.
    pub fn set_client(&mut self, client: ClientGrants) -> Result<(), GrantError> {
        let peer = client.peer;
        let fits = self.check_fits(&client);
        match fits {
            Ok(()) => self.enter(client),
            Err(_) => self.remove_client(peer),
        }
        fits
    }

    fn check_fits(&self, client: &ClientGrants) -> Result<(), GrantError> {
        let is_taken = |address: &&IpAddr| {
            let owner = self.owners.get(**address);
            owner.is_some_and(|owner| owner.peer != client.peer)
        };
        if let Some(address) = client.addresses.iter().find(is_taken) {
            return Err(GrantError::AddressTaken(*address));
        }
        if self.clients.len() >= MAX_CLIENTS && self.clients.get(client.peer).is_none() {
            return Err(GrantError::TooManyClients);
        }
        Ok(())
    }

    fn enter(&mut self, mut client: ClientGrants) {
        self.epoch += 1;
        client.since = self.epoch;
        let client = Arc::new(client);
        for address in &client.addresses {
            self.owners.insert(*address, Arc::clone(&client));
        }
        let before = self.clients.insert(client.peer, Arc::clone(&client));
        for address in before.iter().flat_map(|before| &before.addresses) {
            if !client.addresses.contains(address) {
                self.owners.remove(*address);
            }
        }
    }

    /// Takes a client's grants and addresses away.
    pub fn remove_client(&mut self, peer: PeerKey) {
        self.epoch += 1;
        if let Some(client) = self.clients.remove(peer) {
            for address in &client.addresses {
                self.owners.remove(*address);
            }
        }
    }

    /// A table that admits nothing, to be published in place of this one. The next table to be
    /// published, closed or not, is newer.
    #[must_use]
    pub fn closed(&mut self) -> Self {
        self.epoch += 1;
        Self {
            epoch: self.epoch,
            ..Self::default()
        }
    }

    /// The client behind a peer.
    #[must_use]
    pub fn client(&self, peer: PeerKey) -> Option<&ClientGrants> {
        self.clients.get(peer)
    }

    /// The number of clients.
    #[must_use]
    pub const fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Every client, by the number of its peer.
    pub fn clients(&self) -> impl Iterator<Item = &ClientGrants> {
        let mut clients: Vec<&ClientGrants> = self.clients.values().collect();
        clients.sort_unstable_by_key(|client| client.peer);
        clients.into_iter()
    }

    /// The client that has the tunnel address.
    #[must_use]
    #[inline]
    pub fn owner(&self, address: IpAddr) -> Option<&ClientGrants> {
        self.owners.get(address)
    }

    /// True if the table of an epoch judged the packets of a client as this one does, as long as no grant has expired
    /// meanwhile. False for the table of a later epoch, which may know more than this one.
    pub(super) fn is_unchanged_since(&self, client: &ClientGrants, epoch: u64) -> bool {
        (client.since.max(self.host.since)..=self.epoch).contains(&epoch)
    }
}

/// The client whose tunnel address the packet comes from, if it is that of the peer.
pub(super) fn owner<'a>(
    table: &'a GateTable,
    peer: PeerKey,
    heading: &Heading,
) -> Result<&'a ClientGrants, DropReason> {
    let source = address(heading.version, heading.source);
    let client = table.owner(source).filter(|client| client.peer() == peer);
    client.ok_or(DropReason::ForgedSource)
}
