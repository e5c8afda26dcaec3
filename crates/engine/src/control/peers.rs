//! The peers of the device, and the ranges that they have.

use culvert_base::{AllowedIpChange, BootTime, Family, Prefix};
use culvert_datapath::{AllowedIps, Peer, Receiving, ReceivingKeys, Road, Sending, ServiceRoutes};
use culvert_path::MtuSearch;
use culvert_session::{Handshaker, PeerId, Suite};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Peers whose route is looked up, at some 10 µs each. A device with more does not bind its sockets: they would hardly
/// all be reached by one interface.
const MAX_LOOKED_UP: usize = 64;

/// A peer as the control thread knows it.
pub(super) struct PeerState {
    pub(super) shared: Arc<Peer>,
    /// The sending key as workers have it: kept over snapshots, since it holds whose turn it is.
    pub(super) sending: Option<Arc<Sending>>,
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
    ranges: BTreeMap<Prefix, PeerId>,
    /// Made of `ranges` by [`Self::update_routes`].
    routes: Arc<AllowedIps<PeerId>>,
    /// Routes that are for some services alone.
    service_routes: Option<Arc<ServiceRoutes>>,
}

impl Peers {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            ranges: BTreeMap::new(),
            routes: Arc::new(AllowedIps::new(&BTreeMap::new())),
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

    pub(super) fn add(&mut self, peer: Peer) {
        let slot = peer.id.slot();
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(PeerState {
            shared: Arc::new(peer),
            sending: None,
            suite: None,
            candidates: Vec::new(),
            ranges: BTreeSet::new(),
            mtu_search: MtuSearch::default(),
            mtu_due: None,
        });
    }

    /// Removes a peer with its ranges.
    pub(super) fn remove(&mut self, id: PeerId) {
        let removed = self.slots.get_mut(id.slot()).and_then(Option::take);
        for range in removed.into_iter().flat_map(|state| state.ranges) {
            self.ranges.remove(&range);
        }
    }

    /// Gives ranges to a peer and takes them from it. They are routed after [`Self::update_routes`].
    pub(super) fn change_ranges(&mut self, id: PeerId, replace: bool, changes: &[AllowedIpChange]) {
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
        self.get_mut(id).map(|state| &mut state.ranges)
    }

    /// Routes the ranges as they are now.
    pub(super) fn update_routes(&mut self) {
        self.routes = Arc::new(AllowedIps::new(&self.ranges));
    }

    pub(super) fn routes(&self) -> Arc<AllowedIps<PeerId>> {
        Arc::clone(&self.routes)
    }

    pub(super) fn set_service_routes(&mut self, routes: ServiceRoutes) {
        self.service_routes = (!routes.is_empty()).then(|| Arc::new(routes));
    }

    pub(super) fn service_routes(&self) -> Option<Arc<ServiceRoutes>> {
        self.service_routes.clone()
    }

    /// The peers as workers see them, with the keys under which they receive.
    pub(super) fn roads(&self, handshaker: &Handshaker) -> (Vec<Option<Road>>, ReceivingKeys) {
        let mut receiving = ReceivingKeys::default();
        let roads = self.slots.iter().map(|state| {
            let state = state.as_ref()?;
            let unconfirmed = handshaker.unconfirmed(state.shared.id);
            for transport in handshaker.receiving(state.shared.id) {
                let index = transport.local_index();
                let keys = Receiving {
                    transport,
                    peer: Arc::clone(&state.shared),
                    is_unconfirmed: unconfirmed == Some(index),
                };
                receiving.insert(index, keys);
            }
            Some(Road {
                peer: Arc::clone(&state.shared),
                sending: state.sending.clone(),
            })
        });
        (roads.collect(), receiving)
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
