//! Flows of protocols without ports, where resources see one address for all clients.
//!
//! Answers to two clients that speak such a protocol (GRE, ESP, any but TCP, UDP and ICMP) with one address could not be told
//! apart behind a gateway that masquerades. So an address has such flows with one client at a time, and that one keeps it for as
//! long as the kernel remembers its flow.

use super::flow::{FlowKey, OTHER_IDLE};
use super::holders::{Room, Shared, room};
use super::{DropReason, PeerKey};
use culvert_base::BootTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses of which one is known to be in use, each with a protocol: one tunnel each of 10,000 clients, and room. Some 200 bytes
/// each: 3 MB once all are in use.
const MAX_ADDRESSES: usize = 1 << 14;
/// Of those one client's: one part in 32. Nor may a client have more than there are free places. Beyond either bound its
/// next one takes the place of its own oldest.
const MAX_PER_CLIENT: usize = MAX_ADDRESSES / 32;

/// The clients that have an address to themselves, shared by all gates of a device. It is asked when a flow begins and when flows are swept,
/// never for a packet.
#[derive(Clone, Debug, Default)]
pub struct Portless(Arc<Mutex<Addresses>>);

/// Protocol, version and the resource's address.
type Ends = (u64, u128);

#[derive(Clone, Copy, Debug)]
struct Holder {
    peer: PeerKey,
    until: BootTime,
}

#[derive(Debug, Default)]
struct Addresses {
    holders: BTreeMap<Ends, Holder>,
    /// Of each client that has any, those first that it has for the shortest time.
    of_client: BTreeMap<PeerKey, BTreeSet<(BootTime, Ends)>>,
    /// The same of all clients.
    due: BTreeSet<(BootTime, Ends)>,
    /// Those that made room for others of their client before their time.
    evicted: u64,
}

impl Portless {
    /// Takes the address of a flow for its client.
    pub(super) fn take(
        &self,
        peer: PeerKey,
        far: &FlowKey,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let mut addresses = self.lock();
        let ends = ends(far);
        let known = addresses.holders.get(&ends).copied();
        match known {
            Some(holder) if holder.peer != peer && now < holder.until => {
                return Err(DropReason::AddressTaken);
            }
            Some(_) => addresses.remove(ends),
            None => addresses.make_room(peer, now)?,
        }
        let until = now.saturating_add(OTHER_IDLE);
        addresses.insert(ends, Holder { peer, until });
        Ok(())
    }

    /// A flow has carried something at `last`: its client keeps the address from there on.
    pub(super) fn renew(&self, peer: PeerKey, far: &FlowKey, last: BootTime) {
        let mut addresses = self.lock();
        let ends = ends(far);
        let until = last.saturating_add(OTHER_IDLE);
        let known = addresses.holders.get(&ends);
        if known.is_some_and(|holder| holder.peer == peer && holder.until < until) {
            addresses.remove(ends);
            addresses.insert(ends, Holder { peer, until });
        }
    }

    /// Addresses that were given up before their time, for others of the same client.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.lock().evicted
    }

    fn lock(&self) -> MutexGuard<'_, Addresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Addresses {
    fn insert(&mut self, ends: Ends, holder: Holder) {
        self.holders.insert(ends, holder);
        let entry = (holder.until, ends);
        self.of_client.entry(holder.peer).or_default().insert(entry);
        self.due.insert(entry);
    }

    fn remove(&mut self, ends: Ends) {
        let Some(Holder { peer, until }) = self.holders.remove(&ends) else {
            return;
        };
        let entry = (until, ends);
        self.due.remove(&entry);
        if let Some(own) = self.of_client.get_mut(&peer) {
            own.remove(&entry);
            if own.is_empty() {
                self.of_client.remove(&peer);
            }
        }
    }

    /// Makes room for one more address of a client, at the cost of nobody else.
    fn make_room(&mut self, peer: PeerKey, now: BootTime) -> Result<(), DropReason> {
        while let Some(&(until, ends)) = self.due.first()
            && until <= now
        {
            self.remove(ends);
        }
        let own = self.of_client.get(&peer);
        let table = Shared {
            free: MAX_ADDRESSES - self.holders.len(),
            share: MAX_PER_CLIENT,
            // An address that another one uses is not given away: the answers to both would get mixed up.
            equal_part: 0,
        };
        let given_up = match room(own.map_or(0, BTreeSet::len), table) {
            Room::Free => 0,
            Room::OwnShare => 1,
            Room::Crowded(count) => count,
            Room::OfLargest | Room::Full => return Err(DropReason::PortlessFull),
        };
        for _ in 0..given_up {
            let own = self.of_client.get(&peer);
            if let Some(&(_, oldest)) = own.and_then(BTreeSet::first) {
                self.remove(oldest);
                self.evicted += 1;
            }
        }
        Ok(())
    }
}

fn ends(far: &FlowKey) -> Ends {
    (far.word(), far.remote)
}
