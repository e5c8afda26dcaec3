//! Applying a change of the configuration, and reporting what stands.

use super::thread::Control;
use crate::configuration::{Change, Configuration, MAX_CANDIDATES, PeerChange, PeerConfiguration};
use crate::error::EngineError;
use crate::sockets::WorkerSockets;
use culvert_datapath::{Peer, Unrouted};
use culvert_session::{Clock, MAX_PEERS, PeerId, PublicKey};
use std::collections::BTreeSet;
use std::net::SocketAddr;
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
            self.sockets.retire();
            self.sockets.set_open(sockets);
            for state in self.peers.iter() {
                // The kernel's WireGuard, too, lets the host choose anew after a change of the port.
                state.shared.forget_source();
            }
        }
        if let Some(port) = change.listen_port {
            self.sockets.set_listen_port(port);
        }
        if let Some(private_key) = change.private_key {
            self.handshakes.set_private_key(private_key, clock);
            self.drop_vanished_peers();
        }
        if let Some(suite) = change.suite {
            self.handshakes.set_suite(suite);
            self.follow_suite();
        }
        if change.replace_peers {
            let stored = BTreeSet::new();
            self.remove_peers_except(&stored);
        }
        let mut to_recheck = Vec::new();
        for peer in change.peers {
            let begins = peer.begin_handshake;
            let id = self.change_peer(peer, clock);
            to_recheck.extend(id.filter(|_| begins));
        }
        if let Some(epoch) = change.stamp_epoch {
            self.handshakes.handshaker.set_stamp_epoch(Some(epoch));
        }
        if let Some(routes) = change.service_routes {
            self.peers.set_service_routes(routes);
        }
        self.gating.change(change.gate, change.inside);
        if let Some(rules) = change.inbound {
            self.gating.set_inbound(rules);
        }
        // Last, with the suite and the secret that the whole change gives the peer.
        for id in to_recheck {
            self.handshakes.handshaker.handle_recheck(id, clock);
        }
        self.workers.set_dirty();
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
        let generation = self.workers.shared().published.next_generation();
        for frame in frames {
            let (worker, command) = frame.resume_at(generation);
            self.workers.command(worker, command);
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
            self.peers.count()
        };
        let added = named
            .into_iter()
            .filter(|key| {
                change.replace_peers || self.handshakes.handshaker.peer_by_key(key).is_none()
            })
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
        if self.link.is_up() && port == self.sockets.bound_port() {
            return Ok(None);
        }
        if self.link.is_up() || self.link.is_up_on_host() {
            return self.bind(port).map(Some);
        }
        // The sockets of the store, on that port too, are taken over when the link comes up.
        if port != 0 && self.sockets.store().is_none() {
            self.try_port(port)?;
        }
        Ok(None)
    }

    fn refuse_unreachable_family(
        &self,
        change: &Change,
        new: Option<&[WorkerSockets]>,
    ) -> Result<(), EngineError> {
        let Some(pair) = new.and_then(<[_]>::first).or(self.sockets.first()) else {
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
        self.sockets.set_mark(new, mark)?;
        for state in self.peers.iter() {
            // Another mark may mean another route.
            state.shared.forget_source();
            state.shared.forget_path();
        }
        Ok(())
    }

    /// Returns the peer, where it is there afterwards.
    fn change_peer(&mut self, change: PeerChange, clock: Clock) -> Option<PeerId> {
        let known = self.handshakes.handshaker.peer_by_key(&change.public_key);
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
        self.peers.change_ranges(
            id,
            change.replace_allowed_ips,
            &change.allowed_ips,
            &change.counted,
        );
        let state = self.peers.get_mut(id)?;
        if let Some(suite) = change.suite {
            state.suite = suite;
            let suite = suite.unwrap_or(self.handshakes.suite());
            self.handshakes.handshaker.set_suite(id, suite);
        }
        if let Some(endpoint) = change.endpoint {
            state.shared.set_endpoint(endpoint);
        }
        if let Some(key) = change.gate_key {
            state.shared.set_gate_key(key);
        }
        if change.watch {
            state.shared.watch_endpoint(&self.workers.shared().watch);
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
            self.handshakes.handshaker.set_preshared_key(id, key);
        }
        if let Some(keepalive) = change.keepalive {
            self.handshakes
                .handshaker
                .set_keepalive(id, keepalive, clock);
        }
        Some(id)
    }

    fn add_peer(&mut self, key: &PublicKey) -> Option<PeerId> {
        let id = self.handshakes.handshaker.add_peer(*key).ok()?;
        self.handshakes
            .handshaker
            .set_suite(id, self.handshakes.suite());
        let peer = Peer::new(id, *key, self.handshakes.handshaker.activity(id)?);
        self.peers.add(peer);
        Some(id)
    }

    fn remove_peer(&mut self, id: PeerId) {
        self.handshakes.handshaker.remove_peer(id);
        self.peers.remove(id);
    }

    fn remove_peers_except(&mut self, stored: &BTreeSet<PublicKey>) {
        let gone: Vec<PeerId> = self
            .peers
            .iter()
            .filter(|state| !stored.contains(&state.shared.public_key))
            .map(|state| state.shared.id)
            .collect();
        for id in gone {
            self.remove_peer(id);
        }
    }

    /// A new private key may make one of the peers ourselves: the handshaker has removed it then.
    fn drop_vanished_peers(&mut self) {
        let present: BTreeSet<PublicKey> = self
            .peers
            .iter()
            .map(|state| state.shared.public_key)
            .filter(|key| self.handshakes.handshaker.peer_by_key(key).is_some())
            .collect();
        self.remove_peers_except(&present);
    }

    /// Peers without a suite of their own use the device's.
    fn follow_suite(&mut self) {
        for state in self.peers.iter_mut() {
            let suite = state.suite.unwrap_or(self.handshakes.suite());
            self.handshakes.handshaker.set_suite(state.shared.id, suite);
        }
    }

    pub(super) fn configuration(&self) -> Configuration {
        let mut peers: Vec<PeerConfiguration> = self
            .peers
            .iter()
            .map(|state| PeerConfiguration {
                public_key: state.shared.public_key,
                preshared_key: self.handshakes.preshared_key(state.shared.id).cloned(),
                endpoint: state.shared.endpoint().map(|to| to.address),
                keepalive: self.handshakes.handshaker.keepalive(state.shared.id),
                suite: state.suite,
                last_handshake: self
                    .handshakes
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
            private_key: self.handshakes.private_key().cloned(),
            listen_port: self.sockets.bound_port(),
            mark: self.sockets.mark(),
            suite: self.handshakes.suite(),
            peers,
        }
    }
}

fn refuse_too_many_candidates(change: &Change) -> Result<(), EngineError> {
    let lists = change.peers.iter().filter_map(|p| p.candidates.as_ref());
    match lists.map(Vec::len).find(|&len| len > MAX_CANDIDATES) {
        Some(len) => Err(EngineError::TooManyCandidates(len)),
        None => Ok(()),
    }
}

/// The family of an address, for messages.
fn family(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
