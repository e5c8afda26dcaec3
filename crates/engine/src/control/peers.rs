//! The peers of the device, and the ranges that they have.

use culvert_base::{AllowedIpChange, BootTime, Family, Prefix};
use culvert_datapath::{AllowedIps, KeyTable, Peer, PeerTable, Receiving, ServiceRoutes};
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
    routes: AllowedIps<PeerId>,
    /// Routes that are for some services alone.
    service_routes: Option<Arc<ServiceRoutes>>,
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
        }
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&PeerState> {
        self.slots.get(id.slot())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut PeerState> {
        self.slots.get_mut(id.slot())?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PeerState> {
        self.slots.iter_mut().flatten()
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a peer whose number nobody has.
    pub(super) fn add(&mut self, peer: Peer) {
        let slot = peer.id.slot();
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let shared = Arc::new(peer);
        self.table.insert(Arc::clone(&shared));
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
    pub(super) fn change_ranges(&mut self, id: PeerId, replace: bool, changes: &[AllowedIpChange]) {
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
                    self.routes.insert(&range, id);
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
    pub(super) fn routes(&self) -> AllowedIps<PeerId> {
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
