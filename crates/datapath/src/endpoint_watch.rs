//! The watched peers that are somewhere else, or had a handshake, since the owner of the device last looked.

use culvert_session::PeerId;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared by the watched peers of a device. Each has one place, however often it changes: it is bounded with the peers.
#[derive(Debug, Default)]
pub struct EndpointWatch {
    changed: Mutex<BTreeSet<PeerId>>,
    /// True if the set is not empty, so that whoever looks often does not take the lock.
    any: AtomicBool,
}

impl EndpointWatch {
    /// The peer is somewhere else, or had a handshake.
    pub fn note(&self, peer: PeerId) {
        let mut changed = self.lock();
        changed.insert(peer);
        self.any.store(true, Ordering::Release);
    }

    /// True if there is nothing to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Those that have changed since the last call. A change that comes meanwhile is taken by the next one.
    #[must_use]
    pub fn take(&self) -> BTreeSet<PeerId> {
        let mut changed = self.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *changed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PeerId>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;
    use culvert_session::{Handshaker, PublicKey};
    use std::sync::Arc;

    /// Two peers, the second one not watched.
    fn peers(watch: &Arc<EndpointWatch>) -> [Peer; 2] {
        let mut handshaker = Handshaker::new([7; 32]);
        let peers = [1, 2].map(|number| {
            let key = PublicKey::from_bytes([number; 32]);
            let id = handshaker.add_peer(key).unwrap();
            Peer::new(id, key, handshaker.activity(id).unwrap())
        });
        peers[0].watch_endpoint(watch);
        peers
    }

    #[test]
    fn a_watched_peer_is_told_once_for_all_its_moves_and_no_other_one_is() {
        let watch = Arc::default();
        let peers = peers(&watch);
        assert!(watch.is_empty());
        let addresses = ["192.0.2.1:7", "192.0.2.2:7", "192.0.2.1:7"];
        for address in addresses.map(|address| address.parse().unwrap()) {
            peers[0].roam(address, None);
            peers[1].roam(address, None);
        }
        assert!(!watch.is_empty());
        assert_eq!(watch.take(), BTreeSet::from([peers[0].id]));
        assert!(watch.is_empty());
        // Records from where it is are no news, another port and a handshake are.
        peers[0].roam("192.0.2.1:7".parse().unwrap(), None);
        assert!(watch.is_empty());
        peers[0].roam("192.0.2.1:8".parse().unwrap(), None);
        assert_eq!(watch.take().len(), 1);
        peers[0].note_for_watch();
        peers[1].note_for_watch();
        assert_eq!(watch.take(), BTreeSet::from([peers[0].id]));
        peers[0].roam_by_handshake("192.0.2.9:7".parse().unwrap(), None);
        assert_eq!(watch.take().len(), 1);
    }

    #[test]
    fn the_place_of_a_peer_that_is_watched_from_now_on_is_news_once() {
        let watch = Arc::default();
        let peers = peers(&watch);
        peers[1].roam("192.0.2.1:7".parse().unwrap(), None);
        peers[1].watch_endpoint(&watch);
        assert_eq!(watch.take(), BTreeSet::from([peers[1].id]));
        peers[1].watch_endpoint(&watch);
        assert!(watch.is_empty());
    }
}
