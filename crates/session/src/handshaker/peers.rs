//! The table of peers, and the receiver indices by which messages find them.

use super::peer::Peer;
use crate::constants::MAX_PEERS;
use crate::error::Error;
use crate::ids::{Index, PeerId};
use crate::random::Random;
use culvert_aead::Suite;
use culvert_base::{BootTime, PublicKey};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Peers {
    slots: Vec<Option<Peer>>,
    free: Vec<PeerId>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// Every receiver index in use: handshakes that wait for a response, and transports.
    by_index: BTreeMap<Index, PeerId>,
    /// Peers by their next deadline; at most one entry each.
    schedule: BTreeSet<(BootTime, PeerId)>,
    /// Peers with keys that are not idle.
    watched: BTreeSet<PeerId>,
    /// The number of peers of each suite: ChaCha20-Poly1305, AES-256-GCM.
    per_suite: [usize; 2],
}

impl Peers {
    pub(super) fn insert(&mut self, peer: Peer) -> Result<PeerId, Error> {
        if let Some(&existing) = self.by_key.get(&peer.public_key) {
            return Err(Error::PeerExists(existing));
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let slot = self.slots.len();
                let id = u32::try_from(slot).map_err(|_| Error::TooManyPeers)?;
                if slot >= MAX_PEERS {
                    return Err(Error::TooManyPeers);
                }
                self.slots.push(None);
                PeerId(id)
            }
        };
        self.by_key.insert(peer.public_key, id);
        self.per_suite[suite_position(peer.suite)] += 1;
        self.slots[id.slot()] = Some(peer);
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: PeerId) {
        let Some(peer) = self.slots.get_mut(id.slot()).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(&peer.public_key);
        for index in peer.indices() {
            self.by_index.remove(&index);
        }
        if let Some(at) = peer.scheduled_at {
            self.schedule.remove(&(at, id));
        }
        self.watched.remove(&id);
        self.per_suite[suite_position(peer.suite)] -= 1;
        self.free.push(id);
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.slots.get(id.slot())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.slots.get_mut(id.slot())?.as_mut()
    }

    pub(super) fn by_key(&self, key: &PublicKey) -> Option<PeerId> {
        self.by_key.get(key).copied()
    }

    pub(super) fn by_index(&self, index: Index) -> Option<PeerId> {
        self.by_index.get(&index).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn ids(&self) -> Vec<PeerId> {
        self.by_key.values().copied().collect()
    }

    /// The suites that any peer uses.
    pub(super) fn suites(&self) -> impl Iterator<Item = Suite> {
        [Suite::ChaCha20Poly1305, Suite::Aes256Gcm]
            .into_iter()
            .filter(|suite| self.per_suite[suite_position(*suite)] > 0)
    }

    pub(super) fn set_suite(&mut self, id: PeerId, suite: Suite) {
        let Some(peer) = self.slots.get_mut(id.slot()).and_then(Option::as_mut) else {
            return;
        };
        self.per_suite[suite_position(peer.suite)] -= 1;
        self.per_suite[suite_position(suite)] += 1;
        peer.suite = suite;
    }

    /// A random index that nobody uses, from here on `id`'s.
    pub(super) fn take_index(&mut self, id: PeerId, random: &mut Random) -> Index {
        loop {
            let index = Index(random.u32());
            if let std::collections::btree_map::Entry::Vacant(entry) = self.by_index.entry(index) {
                entry.insert(id);
                return index;
            }
        }
    }

    pub(super) fn free_index(&mut self, index: Index) {
        self.by_index.remove(&index);
    }

    /// The number of receiver indices in use.
    pub(super) fn indices(&self) -> usize {
        self.by_index.len()
    }

    /// Puts the peer where its deadline says; nowhere where `is_up` is false.
    pub(super) fn reschedule(&mut self, id: PeerId, is_up: bool, now: BootTime) {
        let Some(peer) = self.slots.get_mut(id.slot()).and_then(Option::as_mut) else {
            return;
        };
        match peer.is_watched() {
            true => self.watched.insert(id),
            false => self.watched.remove(&id),
        };
        let deadline = peer.deadline(now).filter(|_| is_up);
        if deadline == peer.scheduled_at {
            return;
        }
        if let Some(at) = peer.scheduled_at {
            self.schedule.remove(&(at, id));
        }
        if let Some(at) = deadline {
            self.schedule.insert((at, id));
        }
        peer.scheduled_at = deadline;
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = PeerId> {
        self.watched.iter().copied()
    }

    pub(super) fn next_deadline(&self) -> Option<BootTime> {
        self.schedule.first().map(|&(at, _)| at)
    }

    /// The peers that are due at `now`.
    pub(super) fn due(&self, now: BootTime) -> Vec<PeerId> {
        let due = self.schedule.iter().take_while(|(at, _)| *at <= now);
        due.map(|&(_, id)| id).collect()
    }
}

fn suite_position(suite: Suite) -> usize {
    match suite {
        Suite::ChaCha20Poly1305 => 0,
        Suite::Aes256Gcm => 1,
    }
}
