//! Flows of protocols without ports, where resources see one address for all clients.
//!
//! Answers to two clients that speak such a protocol (GRE, ESP, any but TCP, UDP and ICMP) with one address could not be told
//! apart behind a gateway that masquerades. So an address has such flows with one client at a time, and that one keeps it for as
//! long as the kernel remembers its flow.

use super::PeerKey;
use super::flow::{FlowKey, OTHER_IDLE};
use culvert_base::BootTime;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses of which one is known to be in use, each with a protocol: one tunnel each of a thousand clients, and room.
const MAX_HOLDERS: usize = 4096;
/// Of those one client's: an eighth. Its next one takes the place of its own oldest.
const MAX_PER_CLIENT: usize = MAX_HOLDERS / 8;

/// The clients that have an address to themselves, shared by all gates of a device. It is asked when a flow begins and when flows are swept,
/// never for a packet.
#[derive(Clone, Debug, Default)]
pub struct Portless(Arc<Mutex<BTreeMap<Ends, Holder>>>);

/// Protocol, version and the resource's address.
type Ends = (u64, u128);

#[derive(Clone, Copy, Debug)]
struct Holder {
    peer: PeerKey,
    until: BootTime,
}

impl Portless {
    /// Takes the address of a flow for its client. False where another client has it, or there are too many.
    pub(super) fn take(&self, peer: PeerKey, far: &FlowKey, now: BootTime) -> bool {
        let mut holders = self.lock();
        let ends = ends(far);
        let known = holders.get(&ends).copied();
        if known.is_some_and(|holder| holder.peer != peer && now < holder.until) {
            return false;
        }
        if known.is_none() && !make_room(&mut holders, peer, now) {
            return false;
        }
        let until = now.saturating_add(OTHER_IDLE);
        holders.insert(ends, Holder { peer, until });
        true
    }

    /// A flow has carried something at `last`: its client keeps the address from there on.
    pub(super) fn renew(&self, peer: PeerKey, far: &FlowKey, last: BootTime) {
        let mut holders = self.lock();
        if let Some(holder) = holders.get_mut(&ends(far)).filter(|it| it.peer == peer) {
            let until = last.saturating_add(OTHER_IDLE);
            holder.until = holder.until.max(until);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Ends, Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ends(far: &FlowKey) -> Ends {
    (far.word(), far.remote)
}

/// Makes room for one more of a client; false where others have all there is.
fn make_room(holders: &mut BTreeMap<Ends, Holder>, peer: PeerKey, now: BootTime) -> bool {
    let is_full = |holders: &BTreeMap<Ends, Holder>| {
        let own = holders.values().filter(|holder| holder.peer == peer);
        (holders.len() >= MAX_HOLDERS, own.count() >= MAX_PER_CLIENT)
    };
    if is_full(holders) == (false, false) {
        return true;
    }
    holders.retain(|_, holder| now < holder.until);
    let (is_full, has_share) = is_full(holders);
    if has_share {
        let own = holders.iter().filter(|(_, holder)| holder.peer == peer);
        let oldest = own.min_by_key(|(_, holder)| holder.until);
        if let Some(ends) = oldest.map(|(ends, _)| *ends) {
            holders.remove(&ends);
        }
    }
    has_share || !is_full
}
