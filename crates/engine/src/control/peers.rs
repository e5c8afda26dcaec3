//! The peers of the device, and the ranges that they have.

use super::peer_facts::PeerFacts;
use culvert_base::{AllowedIpChange, BootTime, Family, Prefix, TrafficSlot};
use culvert_datapath::{AllowedIps, KeyTable, Peer, PeerTable, Receiving, Route, ServiceRoutes};
use culvert_path::MtuSearch;
use culvert_session::{Handshaker, Index, PeerId, Suite};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Peers whose route is looked up, at some 10 µs each. A device with more does not bind its sockets: they would hardly
/// all be reached by one interface.
const MAX_LOOKED_UP: usize = 64;

/// A peer as the control thread knows it.
pub(super) struct PeerState {
    pub(super) shared: Arc<Peer>,
    /// Of the keys that workers open its records with: three at most.
    receiving: Vec<Index>,
    /// `None` follows the device.
    pub(super) suite: Option<Suite>,
    /// Addresses at which the peer may be besides its endpoint.
    pub(super) candidates: Vec<SocketAddr>,
    /// Its part of [`Peers::ranges`].
    pub(super) ranges: BTreeSet<Prefix>,
    pub(super) mtu_search: MtuSearch,
    /// The search's entry in [`Measurements`](super::paths::Measurements).
    pub(super) mtu_due: Option<BootTime>,
}

/// All peers, and the routes to them.
pub(super) struct Peers {
    /// By the number of [`PeerId`].
    slots: Vec<Option<PeerState>>,
    /// The number of those that are there.
    count: usize,
    /// The same peers as workers see them.
    table: PeerTable,
    keys: Arc<KeyTable>,
    ranges: BTreeMap<Prefix, PeerId>,
    /// The same ranges as workers see them.
    routes: AllowedIps<Route>,
    /// Routes that are for some services alone.
    service_routes: Option<Arc<ServiceRoutes>>,
    /// The facts of each peer, as the last report told them.
    facts: PeerTable<PeerFacts>,
    /// Peers that have changed since then: all of them at most.
    changed: BTreeSet<PeerId>,
}

impl Peers {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            count: 0,
            table: PeerTable::default(),
            keys: Arc::default(),
            ranges: BTreeMap::new(),
            routes: AllowedIps::default(),
            service_routes: None,
            facts: PeerTable::default(),
            changed: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&PeerState> {
        self.slots.get(id.slot())?.as_ref()
    }

    /// A peer to be changed, by the caller or in the handshaker: the next report tells of it anew.
    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut PeerState> {
        let state = self.slots.get_mut(id.slot())?.as_mut()?;
        self.changed.insert(id);
        Some(state)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.slots.iter().flatten()
    }

    /// All of them, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PeerState> {
        let changed = &mut self.changed;
        let states = self.slots.iter_mut().flatten();
        states.inspect(|state| {
            changed.insert(state.shared.id);
        })
    }

    /// The facts of all peers for a report, those that have changed since the last one made anew by `facts_of`.
    pub(super) fn refreshed_facts(
        &mut self,
        facts_of: impl Fn(&PeerState) -> PeerFacts,
    ) -> PeerTable<PeerFacts> {
        for id in std::mem::take(&mut self.changed) {
            if let Some(state) = self.get(id) {
                let facts = Arc::new(facts_of(state));
                self.facts.insert(id, facts);
            }
        }
        self.facts.clone()
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a peer whose number nobody has.
    pub(super) fn add(&mut self, peer: Peer) {
        let (id, slot) = (peer.id, peer.id.slot());
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let shared = Arc::new(peer);
        self.table.insert(id, Arc::clone(&shared));
        self.changed.insert(id);
        self.count += 1;
        self.slots[slot] = Some(PeerState {
            shared,
            receiving: Vec::new(),
            suite: None,
            candidates: Vec::new(),
            ranges: BTreeSet::new(),
            mtu_search: MtuSearch::default(),
            mtu_due: None,
        });
    }

    /// Removes a peer with its keys and its ranges.
    pub(super) fn remove(&mut self, id: PeerId) {
        let Some(removed) = self.slots.get_mut(id.slot()).and_then(Option::take) else {
            return;
        };
        self.count -= 1;
        self.table.remove(id);
        self.facts.remove(id);
        self.changed.remove(&id);
        removed.shared.set_keys(None, None);
        for index in removed.receiving {
            self.keys.remove(index);
        }
        for range in removed.ranges {
            self.ranges.remove(&range);
            self.routes.remove(&range);
        }
    }

    /// Gives ranges to a peer and takes them from it.
    pub(super) fn change_ranges(
        &mut self,
        id: PeerId,
        replace: bool,
        changes: &[AllowedIpChange],
        counted: &BTreeMap<Prefix, TrafficSlot>,
    ) {
        if replace {
            let own = self.ranges_of(id).map(std::mem::take);
            for range in own.into_iter().flatten() {
                self.ranges.remove(&range);
                self.routes.remove(&range);
            }
        }
        for change in changes {
            match *change {
                AllowedIpChange::Add(range) => {
                    let before = self.ranges.insert(range, id);
                    let counted = counted.get(&range).copied();
                    self.routes.insert(&range, Route { peer: id, counted });
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
                        self.routes.remove(&range);
                    }
                }
            }
        }
    }

    fn ranges_of(&mut self, id: PeerId) -> Option<&mut BTreeSet<Prefix>> {
        self.get_mut(id).map(|state| &mut state.ranges)
    }

    /// The ranges as workers see them.
    pub(super) fn routes(&self) -> AllowedIps<Route> {
        self.routes.clone()
    }

    /// The peers as workers see them.
    pub(super) fn table(&self) -> PeerTable {
        self.table.clone()
    }

    pub(super) fn keys(&self) -> Arc<KeyTable> {
        Arc::clone(&self.keys)
    }

    /// Gives workers the keys that the handshaker has for a peer. Returns the workers that waited for one, a bit each.
    pub(super) fn take_keys(&mut self, id: PeerId, handshaker: &Handshaker) -> u64 {
        // The time of the last handshake may be another one.
        self.changed.insert(id);
        let Some(state) = self.slots.get_mut(id.slot()).and_then(Option::as_mut) else {
            return 0;
        };
        let mut receiving = Vec::new();
        for transport in handshaker.receiving(id) {
            let index = transport.local_index();
            receiving.push(index);
            if !state.receiving.contains(&index) {
                self.keys.insert(Receiving {
                    transport,
                    peer: Arc::clone(&state.shared),
                });
            }
        }
        for index in &state.receiving {
            if !receiving.contains(index) {
                self.keys.remove(*index);
            }
        }
        state.receiving = receiving;
        let (current, awaited) = (handshaker.sending(id), handshaker.awaited(id));
        if !state.shared.set_keys(current, awaited) {
            return 0;
        }
        self.keys.note_change();
        state.shared.take_waiting()
    }

    pub(super) fn set_service_routes(&mut self, routes: ServiceRoutes) {
        self.service_routes = (!routes.is_empty()).then(|| Arc::new(routes));
    }

    pub(super) fn service_routes(&self) -> Option<Arc<ServiceRoutes>> {
        self.service_routes.clone()
    }

    /// The interface by which all peers of a family are reached; `None` if there are several, or none but `own`.
    pub(super) fn interface_towards(&self, family: Family, mark: u32, own: u32) -> Option<u32> {
        let endpoints = self.iter().filter_map(|state| state.shared.endpoint());
        let mut endpoints =
            endpoints.filter(|to| Family::of(to.address.ip().to_canonical()) == family);
        let mut found = None;
        for to in endpoints.by_ref().take(MAX_LOOKED_UP) {
            let interface = culvert_udp::interface_towards(to.address, mark).ok()??;
            if interface == own || found.is_some_and(|found| found != interface) {
                return None;
            }
            found = Some(interface);
        }
        found.filter(|_| endpoints.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::PublicKey;
    use std::cell::Cell;

    const COUNT: u32 = 1_000;

    fn peers() -> Peers {
        let mut peers = Peers::new();
        for number in 0..COUNT {
            let mut key = [1; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            let key = PublicKey::from_bytes(key);
            peers.add(Peer::new(PeerId(number), key, Arc::default()));
            let own = AllowedIpChange::Add(range(number));
            peers.change_ranges(PeerId(number), false, &[own], &BTreeMap::new());
        }
        peers
    }

    fn range(number: u32) -> Prefix {
        let [_, a, b, c] = number.to_be_bytes();
        Prefix::new([10, a, b, c].into(), 32).unwrap()
    }

    fn facts(state: &PeerState) -> PeerFacts {
        PeerFacts {
            shared: Arc::clone(&state.shared),
            allowed_ips: state.ranges.iter().copied().collect(),
            suite: state.suite.unwrap_or(Suite::ChaCha20Poly1305),
            has_preshared_key: false,
            keepalive: None,
            last_handshake: None,
            measured_len: None,
        }
    }

    /// The facts for a report, and the number of peers that they were made anew for.
    fn report(peers: &mut Peers) -> (PeerTable<PeerFacts>, u32) {
        let made = Cell::new(0);
        let table = peers.refreshed_facts(|state| {
            made.set(made.get() + 1);
            facts(state)
        });
        (table, made.get())
    }

    #[test]
    fn a_report_costs_what_has_changed_since_the_last_one() {
        let mut peers = peers();
        assert_eq!(report(&mut peers).1, COUNT);
        assert_eq!(report(&mut peers).1, 0, "nothing has changed");

        // A range moves from one to another, a suite changes, a handshake completes, a peer goes and one comes.
        let added = [AllowedIpChange::Add(range(2))];
        peers.change_ranges(PeerId(1), false, &added, &BTreeMap::new());
        peers.get_mut(PeerId(500)).unwrap().suite = Some(Suite::Aes256Gcm);
        peers.take_keys(PeerId(700), &Handshaker::new([1; 32]));
        peers.remove(PeerId(800));
        peers.remove(PeerId(999));
        let came = PublicKey::from_bytes([9; 32]);
        peers.add(Peer::new(PeerId(999), came, Arc::default()));
        let (table, made) = report(&mut peers);
        assert_eq!(made, 5);

        assert_eq!(table.iter().count(), COUNT as usize - 1);
        for (told, state) in table.iter().zip(peers.iter()) {
            let expected = facts(state);
            assert!(Arc::ptr_eq(&told.shared, &expected.shared));
            assert_eq!(told.allowed_ips, expected.allowed_ips);
            assert_eq!(told.suite, expected.suite);
        }
        let told = |id| table.get(PeerId(id));
        assert_eq!(*told(1).unwrap().allowed_ips, [range(1), range(2)]);
        assert!(told(2).unwrap().allowed_ips.is_empty());
        assert!(told(800).is_none());
        assert_eq!(told(999).unwrap().shared.public_key, came);
    }

    #[test]
    fn a_change_of_all_tells_of_all_anew() {
        let mut peers = peers();
        report(&mut peers);
        assert_eq!(peers.iter_mut().count(), COUNT as usize);
        assert_eq!(report(&mut peers).1, COUNT);
    }
}
