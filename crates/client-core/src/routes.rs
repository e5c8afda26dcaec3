//! The routes: what the data plane and the host were last told, and packets that go on with the next change.

use super::access::Held;
use super::counting::Counting;
use super::gateways::Gateways;
use super::output::{Peer, PeerUpdate};
use super::packet::PacketFacts;
use culvert_ids::{GatewayId, ResourceId};
use culvert_path::TARGETS_MAX;
use culvert_policy::gate::InboundRules;
use culvert_policy::{Prefix, RoutedServices};
use culvert_wire::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The peers and routes of the data plane, and the routes of the host.
#[derive(Debug)]
pub(super) struct Routes<P> {
    /// The peers of the data plane.
    peers: BTreeMap<PublicKey, Peer>,
    /// The meaning of each range in the data plane, from the allowed IPs of `peers`.
    routed: BTreeMap<Prefix, Routed>,
    /// The places where the bytes of resources are counted.
    counting: Counting,
    /// Of `routed`, the ranges whose route is for some services alone.
    services: BTreeMap<Prefix, RoutedServices>,
    /// The rights of resources at this host.
    inbound: InboundRules,
    /// The ranges that the host leads into the tunnel.
    host: BTreeSet<Prefix>,
    /// Packets that go on with the next change.
    resuming: Vec<Held<P>>,
    /// Access has changed since the data plane was told of it.
    is_stale: bool,
}

/// The meaning of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routed {
    pub(super) gateway: GatewayId,
    /// The resource that has it; none for addresses of the gateway itself.
    pub(super) resource: Option<ResourceId>,
}

impl<P> Default for Routes<P> {
    fn default() -> Self {
        Self {
            peers: BTreeMap::new(),
            routed: BTreeMap::new(),
            counting: Counting::default(),
            services: BTreeMap::new(),
            inbound: InboundRules::default(),
            host: BTreeSet::new(),
            resuming: Vec::new(),
            is_stale: false,
        }
    }
}

impl<P> Routes<P> {
    /// Access has changed: routes are made anew after this event.
    pub(super) const fn set_stale(&mut self) {
        self.is_stale = true;
    }

    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    pub(super) const fn take_stale(&mut self) -> bool {
        std::mem::replace(&mut self.is_stale, false)
    }

    /// True if the data plane sends a packet to a gateway.
    pub(super) fn has_route(&self, facts: &PacketFacts) -> bool {
        let lacks_route = |services: &RoutedServices| {
            let service = facts.service;
            service.is_some_and(|service| services.lacks_route(service))
        };
        longest(&self.routed, facts.destination).is_some()
            && !longest(&self.services, facts.destination).is_some_and(lacks_route)
    }

    /// The gateway of exactly this range.
    pub(super) fn gateway_of(&self, range: Prefix) -> Option<GatewayId> {
        self.routed.get(&range).map(|routed| routed.gateway)
    }

    /// True if the data plane has this peer.
    pub(super) fn has_peer(&self, key: PublicKey) -> bool {
        self.peers.contains_key(&key)
    }

    /// True if the host leads this range into the tunnel.
    pub(super) fn is_led(&self, range: Prefix) -> bool {
        self.host.contains(&range)
    }

    /// Routes each range to its gateway. Returns what the data plane has to be told of its peers.
    pub(super) fn update_peers(
        &mut self,
        routed: BTreeMap<Prefix, Routed>,
        gateways: &Gateways,
        opening: &BTreeSet<GatewayId>,
    ) -> Vec<PeerUpdate> {
        self.routed = routed;
        let mut wanted: BTreeMap<PublicKey, Peer> = BTreeMap::new();
        for (id, gateway) in gateways.iter() {
            let introduction = &gateway.introduction;
            let mut candidates = gateway.race.targets();
            candidates.truncate(TARGETS_MAX);
            let peer = Peer {
                gateway: id,
                key: introduction.key,
                preshared_key: introduction.preshared_key.clone(),
                cipher: introduction.cipher,
                candidates,
                is_kept_open: opening.contains(&id),
                allowed_ips: BTreeSet::new(),
                counted: BTreeMap::new(),
            };
            wanted.insert(introduction.key, peer);
        }
        for (range, to) in &self.routed {
            let key = gateways.get(to.gateway).map(|it| it.introduction.key);
            if let Some(peer) = key.and_then(|key| wanted.get_mut(&key)) {
                peer.allowed_ips.insert(*range);
                let slot = to.resource.and_then(|id| self.counting.slot_of(id));
                peer.counted.extend(slot.map(|slot| (*range, slot)));
            }
        }
        let routed: BTreeSet<ResourceId> =
            self.routed.values().filter_map(|to| to.resource).collect();
        self.counting.make_room(|id| routed.contains(&id));
        let gone = self.peers.keys().filter(|key| !wanted.contains_key(key));
        let mut updates: Vec<PeerUpdate> = gone.copied().map(PeerUpdate::Remove).collect();
        for (key, peer) in &wanted {
            if self.peers.get(key) != Some(peer) {
                updates.push(PeerUpdate::Set(Box::new(peer.clone())));
            }
        }
        self.peers = wanted;
        updates
    }

    pub(super) const fn counting(&self) -> &Counting {
        &self.counting
    }

    pub(super) const fn counting_mut(&mut self) -> &mut Counting {
        &mut self.counting
    }

    /// Returns the services without a route, if they are others than before.
    pub(super) fn update_services(
        &mut self,
        services: BTreeMap<Prefix, RoutedServices>,
    ) -> Option<BTreeMap<Prefix, RoutedServices>> {
        if services == self.services {
            return None;
        }
        self.services.clone_from(&services);
        Some(services)
    }

    /// Returns what resources may begin at this host, if that is something else than before.
    pub(super) fn update_inbound(&mut self, inbound: InboundRules) -> Option<InboundRules> {
        if inbound == self.inbound {
            return None;
        }
        self.inbound.clone_from(&inbound);
        Some(inbound)
    }

    /// Returns the ranges that the host is to lead into the tunnel, if they are others than before.
    pub(super) fn update_host(&mut self, routes: BTreeSet<Prefix>) -> Option<BTreeSet<Prefix>> {
        if routes == self.host {
            return None;
        }
        self.host.clone_from(&routes);
        Some(routes)
    }

    /// Packets go on with the next change.
    pub(super) fn resume(&mut self, held: impl IntoIterator<Item = Held<P>>) {
        self.resuming.extend(held);
    }

    /// Packets that go on now, and those that have no route all the same.
    pub(super) fn take_resuming(&mut self) -> (Vec<P>, Vec<P>) {
        let (mut routed, mut unroutable) = (Vec::new(), Vec::new());
        for held in std::mem::take(&mut self.resuming) {
            match self.has_route(&held.facts) {
                true => routed.push(held.packet),
                false => unroutable.push(held.packet),
            }
        }
        (routed, unroutable)
    }
}

/// The entry of the longest range that holds an address.
fn longest<T>(ranges: &BTreeMap<Prefix, T>, address: IpAddr) -> Option<&T> {
    let width = if address.is_ipv4() { 32 } else { 128 };
    let around = (0..=width).rev();
    let mut around = around.filter_map(|len| Prefix::around(address, len).ok());
    around.find_map(|range| ranges.get(&range))
}
