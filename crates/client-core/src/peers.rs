//! What the data plane is told: which ranges lead to which gateway, derived from the live grants.

use super::access::Grant;
use super::output::{Output, Peer, PeerUpdate};
use super::subtract::subtract_prefixes;
use super::{Client, PacketFacts, PacketRefusal};
use culvert_base::BootTime;
use culvert_ids::{GatewayId, ResourceId};
use culvert_path::CANDIDATES_MAX;
use culvert_policy::{Prefix, RoutedServices, Target};
use culvert_wire::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Ranges in the data plane: two for each of 16,000 names, or the pieces of networks out of which
/// others are cut. What exceeds it has no route. The data plane keeps about 100 bytes of each.
pub const MAX_RANGES: usize = 32_768;

/// Pieces of one network: a quarter of all.
const MAX_PIECES: usize = MAX_RANGES / 4;

impl<P> Client<P> {
    /// Tells the data plane and the host what has changed, and lets packets go on.
    pub(super) fn apply(&mut self, now: BootTime) {
        let begin = self.update_gateways(now);
        let mut peers = Vec::new();
        if self.is_stale || self.guard.is_stale {
            self.update_guard();
        }
        let mut services = None;
        if std::mem::take(&mut self.is_stale) {
            peers = self.update_peers(now);
            services = self.update_services(now);
            self.update_routes();
            self.update_domains();
        }
        let known = begin
            .into_iter()
            .filter(|key| self.applied.contains_key(key));
        peers.extend(known.map(PeerUpdate::BeginHandshake));
        let (routed, unroutable): (Vec<_>, Vec<_>) = std::mem::take(&mut self.resuming)
            .into_iter()
            .partition(|held| self.has_route(&held.facts));
        let resume: Vec<P> = routed.into_iter().map(|held| held.packet).collect();
        self.counters.packets_resumed += resume.len() as u64;
        if !peers.is_empty() || !resume.is_empty() || services.is_some() {
            self.outputs.push_back(Output::Engine {
                peers,
                services,
                resume,
            });
        }
        let refused = unroutable.into_iter().map(|held| held.packet).collect();
        self.refuse_packets(refused, PacketRefusal::Unreachable);
    }

    /// Whether the data plane sends a packet to a gateway.
    pub(super) fn has_route(&self, facts: &PacketFacts) -> bool {
        let lacks_route = |services: &RoutedServices| {
            let service = facts.service;
            service.is_some_and(|service| services.lacks_route(service))
        };
        longest(&self.routed, facts.destination).is_some()
            && !longest(&self.services, facts.destination).is_some_and(lacks_route)
    }

    /// Makes known whoever a grant leads through, loses whoever does not answer, and forgets the
    /// others. Returns who shall begin a handshake.
    fn update_gateways(&mut self, now: BootTime) -> BTreeSet<PublicKey> {
        let mut begin = BTreeSet::new();
        loop {
            let before = self.counters.gateways_lost;
            let grants = self.accesses.values().filter_map(|it| it.grant.as_ref());
            let unknown: Vec<_> = grants
                .filter(|grant| !self.gateways.contains_key(&grant.gateway.id))
                .map(|grant| (grant.gateway.id, grant.gateway.clone()))
                .collect();
            let unknown: BTreeMap<GatewayId, _> = unknown.into_iter().collect();
            for introduction in unknown.values() {
                self.meet_gateway(introduction, now);
            }
            begin.append(&mut self.drain_races(now));
            // Each round that loses a gateway has fewer grants than the one before.
            if unknown.is_empty() && self.counters.gateways_lost == before {
                break;
            }
        }
        if self.is_stale {
            let live: BTreeSet<GatewayId> = self
                .accesses
                .values()
                .filter_map(|access| access.grant.as_ref())
                .map(|grant| grant.gateway.id)
                .collect();
            self.gateways.retain(|id, _| live.contains(id));
        }
        begin
    }

    fn update_peers(&mut self, now: BootTime) -> Vec<PeerUpdate> {
        self.routed = self.route_grants(now);
        let mut wanted: BTreeMap<PublicKey, Peer> = BTreeMap::new();
        for (id, gateway) in &self.gateways {
            let introduction = &gateway.introduction;
            let mut candidates = gateway.race.targets();
            candidates.truncate(CANDIDATES_MAX);
            let peer = Peer {
                gateway: *id,
                key: introduction.key,
                preshared_key: introduction.preshared_key.clone(),
                cipher: introduction.cipher,
                candidates,
                allowed_ips: BTreeSet::new(),
            };
            wanted.insert(introduction.key, peer);
        }
        for (range, id) in &self.routed {
            let key = self.gateways.get(id).map(|it| it.introduction.key);
            if let Some(peer) = key.and_then(|key| wanted.get_mut(&key)) {
                peer.allowed_ips.insert(*range);
            }
        }
        let gone = self.applied.keys().filter(|key| !wanted.contains_key(key));
        let mut updates: Vec<PeerUpdate> = gone.copied().map(PeerUpdate::Remove).collect();
        for (key, peer) in &wanted {
            if self.applied.get(key) != Some(peer) {
                updates.push(PeerUpdate::Set(Box::new(peer.clone())));
            }
        }
        self.applied = wanted;
        updates
    }

    /// Which range leads to which gateway. Where several resources have a range, the oldest has it.
    fn route_grants(&self, now: BootTime) -> BTreeMap<Prefix, GatewayId> {
        let mut routed = BTreeMap::new();
        let Some(network) = &self.network else {
            return routed;
        };
        let live: Vec<(ResourceId, &Target, &Grant)> = self
            .accesses
            .iter()
            .filter_map(|(id, access)| {
                let grant = access.grant.as_ref()?;
                let target = &self.directory.get(*id)?.target;
                (grant.expires > now).then_some((*id, target, grant))
            })
            .collect();
        for (id, target, grant) in &live {
            let gateway = grant.gateway.id;
            let pieces = match target.prefix() {
                Some(range) if self.standing(*id).is_passable() => self.pieces(range, &network.own),
                Some(_) => BTreeSet::new(),
                None => self.name_ranges(*id, grant),
            };
            for piece in pieces {
                if routed.len() >= MAX_RANGES {
                    return routed;
                }
                routed.entry(piece).or_insert(gateway);
            }
        }
        for gateway in self.gateways.values() {
            // What it says of packets, it says from its own address.
            let interface = gateway.introduction.interface;
            for address in [IpAddr::V4(interface.ipv4), IpAddr::V6(interface.ipv6)] {
                let is_own = network.own.iter().any(|range| range.contains(address));
                let is_ours =
                    address == network.interface.ipv4 || address == network.interface.ipv6;
                if is_own && !is_ours && !network.names.contains(address) {
                    let id = gateway.introduction.id;
                    routed.entry(Prefix::host(address)).or_insert(id);
                }
            }
        }
        routed
    }

    /// A range without those inside it that are the tunnel's own or other resources, whether they
    /// are granted or not: the pieces of a granted one may be as small as those around it, and then
    /// no longest match would tell the two apart.
    pub(super) fn pieces(&self, range: Prefix, own: &[Prefix]) -> BTreeSet<Prefix> {
        let mut pieces = BTreeSet::new();
        if is_within(range, own) {
            return pieces;
        }
        let mut holes = self.directory.inside(range);
        holes.extend(own.iter().filter(|own| range.contains(own.address())));
        subtract_prefixes(range, &holes, MAX_PIECES, &mut pieces);
        pieces
    }

    fn name_ranges(&self, id: ResourceId, grant: &Grant) -> BTreeSet<Prefix> {
        let passable = grant.names.values().filter(|granted| {
            let one = std::iter::once(granted.addresses);
            self.standing_of(id, one).is_passable()
        });
        let addresses = passable.flat_map(|granted| {
            let (v4, v6) = (granted.addresses.v4, granted.addresses.v6);
            [IpAddr::V4(v4), IpAddr::V6(v6)]
        });
        addresses.map(Prefix::host).collect()
    }

    fn update_routes(&mut self) {
        let Some(network) = &self.network else {
            return;
        };
        let resources = self.directory.ranges();
        // Nothing leads to a new one before the host sees to which programs may go there.
        let is_led = |range: &Prefix| self.routes.contains(range) || !self.is_awaited(*range);
        let resources = resources.filter(|range| !is_within(*range, &network.own) && is_led(range));
        let names = [
            Prefix::new(
                network.names.v4().addr().into(),
                network.names.v4().prefix_len(),
            ),
            Prefix::new(
                network.names.v6().addr().into(),
                network.names.v6().prefix_len(),
            ),
        ];
        // Hosts with a strict rp_filter drop replies from an address that no route leads back to.
        let resolvers = self.gateways.values().filter_map(|gateway| {
            let at = Prefix::host(gateway.introduction.site_dns()?.ip());
            self.routed.contains_key(&at).then_some(at)
        });
        let routes: BTreeSet<Prefix> = resources
            .chain(names.into_iter().flatten())
            .chain(resolvers)
            .collect();
        if routes != self.routes {
            self.routes.clone_from(&routes);
            self.outputs.push_back(Output::Routes(routes));
        }
    }
}

/// The entry of the longest range that holds an address.
fn longest<T>(ranges: &BTreeMap<Prefix, T>, address: IpAddr) -> Option<&T> {
    let width = if address.is_ipv4() { 32 } else { 128 };
    let around = (0..=width).rev();
    let mut around = around.filter_map(|len| Prefix::around(address, len).ok());
    around.find_map(|range| ranges.get(&range))
}

fn is_within(range: Prefix, own: &[Prefix]) -> bool {
    let within = |own: &Prefix| own.len() <= range.len() && own.contains(range.address());
    own.iter().any(within)
}
