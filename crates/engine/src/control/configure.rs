//! Applying a change of the configuration, and reporting what stands.

use super::{Control, PeerState, family};
use crate::configuration::{
    AllowedIpChange, Change, Configuration, MAX_CANDIDATES, PeerChange, PeerConfiguration,
};
use crate::error::EngineError;
use crate::sockets::WorkerSockets;
use culvert_base::Prefix;
use culvert_datapath::AllowedIps;
use culvert_datapath::Peer;
use culvert_datapath::Unrouted;
use culvert_path::MtuSearch;
use culvert_session::{Clock, MAX_PEERS, PeerId, PresharedKey, PublicKey};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Control {
    /// Applies `change` whole, or nothing of it.
    ///
    /// Everything that can fail comes first: sockets are opened and marked before the first peer is
    /// touched, and old ones stay open until then.
    pub(super) fn apply(&mut self, change: Change, clock: Clock) -> Result<(), EngineError> {
        self.refuse_too_many_peers(&change)?;
        refuse_too_many_candidates(&change)?;
        let sockets = self.change_sockets(&change)?;
        self.refuse_unreachable_family(&change, sockets.as_deref())?;
        if let Some(mark) = change.mark {
            self.mark_sockets(sockets.as_deref(), mark)?;
        }
        if let Some(sockets) = sockets {
            self.retire_sockets();
            self.sockets = Some(sockets);
            self.keep_sockets();
            for state in self.peers() {
                // The kernel's WireGuard, too, lets the host choose anew after a change of the port.
                state.shared.forget_source();
            }
        }
        if let Some(port) = change.listen_port {
            self.listen_port = port;
            self.listen_port = self.bound_port();
        }
        if let Some(private_key) = change.private_key {
            self.handshaker.set_private_key(private_key.clone(), clock);
            self.private_key = private_key;
            self.drop_vanished_peers();
        }
        if let Some(suite) = change.suite {
            self.suite = suite;
        }
        if change.replace_peers {
            let kept = BTreeSet::new();
            self.remove_peers_except(&kept);
        }
        let mut to_recheck = Vec::new();
        for peer in change.peers {
            let begins = peer.begin_handshake;
            let id = self.change_peer(peer, clock);
            to_recheck.extend(id.filter(|_| begins));
        }
        if let Some(epoch) = change.stamp_epoch {
            self.handshaker.set_stamp_epoch(Some(epoch));
        }
        if let Some(routes) = change.service_routes {
            self.service_routes = (!routes.is_empty()).then(|| Arc::new(routes));
        }
        if change.gate.is_some() {
            self.gate = change.gate;
        }
        self.inside = change.inside.or(self.inside);
        self.follow_suite();
        // Last, with the suite and the secret that the whole change gives the peer.
        for id in to_recheck {
            self.handshaker.handle_recheck(id, clock);
        }
        self.routes = Arc::new(AllowedIps::new(&self.ranges));
        self.is_dirty = true;
        self.retry_up();
        self.resume(change.resume);
        Ok(())
    }

    /// Hands frames to the workers that read them. They are in the mailboxes before the snapshot is
    /// published: a worker that sees it has them first.
    fn resume(&mut self, frames: Vec<Unrouted>) {
        if frames.is_empty() {
            return;
        }
        let generation = self.shared.published.next_generation();
        for frame in frames {
            let (worker, command) = frame.resume_at(generation);
            self.shared.command(worker, command);
        }
        self.publish();
    }

    fn refuse_too_many_peers(&self, change: &Change) -> Result<(), EngineError> {
        let named: BTreeSet<&PublicKey> = change
            .peers
            .iter()
            .filter(|peer| !peer.remove && !peer.update_only)
            .map(|peer| &peer.public_key)
            .collect();
        let present = if change.replace_peers {
            0
        } else {
            self.peers().count()
        };
        let added = named
            .into_iter()
            .filter(|key| change.replace_peers || self.handshaker.peer_by_key(key).is_none())
            .count();
        if present + added > MAX_PEERS {
            return Err(EngineError::TooManyPeers);
        }
        Ok(())
    }

    /// Opens sockets on another port where one is asked for and the link is up. While it is down the port is looked at:
    /// whoever asks for one that is taken hears it now, and not only the log when the link comes up.
    fn change_sockets(
        &mut self,
        change: &Change,
    ) -> Result<Option<Arc<[WorkerSockets]>>, EngineError> {
        let Some(port) = change.listen_port else {
            return Ok(None);
        };
        if self.is_up && port == self.bound_port() {
            return Ok(None);
        }
        if self.is_up || self.tun.is_up().unwrap_or(false) {
            return self.bind(port).map(Some);
        }
        // What the store keeps, on that port too, is taken over when the link comes up.
        if port != 0 && self.options.store.is_none() {
            self.try_port(port)?;
        }
        Ok(None)
    }

    fn refuse_unreachable_family(
        &self,
        change: &Change,
        new: Option<&[WorkerSockets]>,
    ) -> Result<(), EngineError> {
        let Some(pair) = new.or(self.sockets.as_deref()).map(|all| &all[0]) else {
            return Ok(());
        };
        for endpoint in change.peers.iter().filter_map(|peer| peer.endpoint) {
            if pair.towards(endpoint).is_none() {
                return Err(EngineError::NoFamily(family(endpoint)));
            }
        }
        Ok(())
    }

    fn mark_sockets(
        &mut self,
        new: Option<&[WorkerSockets]>,
        mark: u32,
    ) -> Result<(), EngineError> {
        for pair in new.or(self.sockets.as_deref()).unwrap_or_default() {
            for socket in [&pair.v4, &pair.v6].into_iter().flatten() {
                socket
                    .set_mark(mark)
                    .map_err(EngineError::system("set the firewall mark"))?;
            }
        }
        self.mark = mark;
        for state in self.peers() {
            // Another mark may mean another route.
            state.shared.forget_source();
            state.shared.forget_path();
        }
        Ok(())
    }

    /// Returns the peer, where it is there afterwards.
    fn change_peer(&mut self, change: PeerChange, clock: Clock) -> Option<PeerId> {
        let known = self.handshaker.peer_by_key(&change.public_key);
        if change.remove {
            if let Some(id) = known {
                self.remove_peer(id);
            }
            return None;
        }
        let id = match known {
            Some(id) => id,
            None if change.update_only => return None,
            // Refused is only a peer with our own key, which the kernel ignores as well.
            None => self.add_peer(&change.public_key)?,
        };
        self.change_ranges(id, change.replace_allowed_ips, &change.allowed_ips);
        let state = self.peers.get_mut(id.slot()).and_then(Option::as_mut)?;
        if let Some(suite) = change.suite {
            state.suite = suite;
        }
        if let Some(endpoint) = change.endpoint {
            state.shared.set_endpoint(endpoint);
        }
        if let Some(key) = change.gate_key {
            state.shared.set_gate_key(key);
        }
        if let Some(candidates) = change.candidates {
            if let Some(first) = candidates.first()
                && state.shared.endpoint().is_none()
            {
                state.shared.set_endpoint(*first);
            }
            state.candidates = candidates;
        }
        if let Some(key) = change.preshared_key {
            self.handshaker.set_preshared_key(id, key);
        }
        if let Some(keepalive) = change.keepalive {
            self.handshaker.set_keepalive(id, keepalive, clock);
        }
        Some(id)
    }

    fn add_peer(&mut self, key: &PublicKey) -> Option<PeerId> {
        let id = self.handshaker.add_peer(*key).ok()?;
        self.handshaker.set_suite(id, self.suite);
        let peer = Peer::new(id, *key, self.handshaker.activity(id)?);
        if self.peers.len() <= id.slot() {
            self.peers.resize_with(id.slot() + 1, || None);
        }
        self.peers[id.slot()] = Some(PeerState {
            shared: Arc::new(peer),
            sending: None,
            suite: None,
            candidates: Vec::new(),
            ranges: BTreeSet::new(),
            mtu_search: MtuSearch::default(),
            mtu_due: None,
        });
        Some(id)
    }

    fn remove_peer(&mut self, id: PeerId) {
        self.handshaker.remove_peer(id);
        for range in self.peers[id.slot()]
            .take()
            .into_iter()
            .flat_map(|state| state.ranges)
        {
            self.ranges.remove(&range);
        }
    }

    fn remove_peers_except(&mut self, kept: &BTreeSet<PublicKey>) {
        let gone: Vec<PeerId> = self
            .peers()
            .filter(|state| !kept.contains(&state.shared.public_key))
            .map(|state| state.shared.id)
            .collect();
        for id in gone {
            self.remove_peer(id);
        }
    }

    /// A new private key may make one of the peers ourselves: the handshaker has removed it then.
    fn drop_vanished_peers(&mut self) {
        let present: BTreeSet<PublicKey> = self
            .peers()
            .map(|state| state.shared.public_key)
            .filter(|key| self.handshaker.peer_by_key(key).is_some())
            .collect();
        self.remove_peers_except(&present);
    }

    /// Peers without a suite of their own use the device's.
    fn follow_suite(&mut self) {
        for state in self.peers.iter().flatten() {
            let suite = state.suite.unwrap_or(self.suite);
            self.handshaker.set_suite(state.shared.id, suite);
        }
    }

    fn change_ranges(&mut self, id: PeerId, replace: bool, changes: &[AllowedIpChange]) {
        if replace {
            let own = self.ranges_of(id).map(std::mem::take);
            for range in own.into_iter().flatten() {
                self.ranges.remove(&range);
            }
        }
        for change in changes {
            match *change {
                AllowedIpChange::Add(range) => {
                    let before = self.ranges.insert(range, id);
                    if let Some(of_owner) = before.and_then(|owner| self.ranges_of(owner)) {
                        of_owner.remove(&range);
                    }
                    if let Some(own) = self.ranges_of(id) {
                        own.insert(range);
                    }
                }
                AllowedIpChange::Remove(range) => {
                    if self.ranges_of(id).is_some_and(|own| own.remove(&range)) {
                        self.ranges.remove(&range);
                    }
                }
            }
        }
    }

    fn ranges_of(&mut self, id: PeerId) -> Option<&mut BTreeSet<Prefix>> {
        let state = self.peers.get_mut(id.slot())?.as_mut()?;
        Some(&mut state.ranges)
    }

    pub(super) fn configuration(&self) -> Configuration {
        let mut peers: Vec<PeerConfiguration> = self
            .peers()
            .map(|state| PeerConfiguration {
                public_key: state.shared.public_key,
                preshared_key: self.preshared_key(state.shared.id).cloned(),
                endpoint: state.shared.endpoint().map(|to| to.address),
                keepalive: self.handshaker.keepalive(state.shared.id),
                suite: state.suite,
                last_handshake: self
                    .handshaker
                    .last_handshake(state.shared.id)
                    .map(culvert_session::Tai64n::to_unix),
                rx_bytes: state.shared.rx_bytes.load(Ordering::Relaxed),
                tx_bytes: state.shared.tx_bytes.load(Ordering::Relaxed),
                allowed_ips: state.ranges.iter().copied().collect(),
            })
            .collect();
        peers.sort_by_key(|peer| peer.public_key);
        Configuration {
            private_key: self.private_key.clone(),
            listen_port: self.bound_port(),
            mark: self.mark,
            suite: self.suite,
            peers,
        }
    }

    /// `None` where there is none, which the protocol writes as zeros.
    pub(super) fn preshared_key(&self, id: PeerId) -> Option<&PresharedKey> {
        let key = self.handshaker.preshared_key(id);
        key.filter(|key| **key != PresharedKey::NONE)
    }
}

fn refuse_too_many_candidates(change: &Change) -> Result<(), EngineError> {
    let lists = change.peers.iter().filter_map(|p| p.candidates.as_ref());
    match lists.map(Vec::len).find(|&len| len > MAX_CANDIDATES) {
        Some(len) => Err(EngineError::TooManyCandidates(len)),
        None => Ok(()),
    }
}
