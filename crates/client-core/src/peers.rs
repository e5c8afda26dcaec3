//! The data plane's peers and routes: which ranges lead to which gateway, derived from the live grants.

use super::client::Client;
use super::grant::Grant;
use super::network::Network;
use super::output::{Output, PeerUpdate};
use super::packet::PacketRefusal;
use super::routes::Routed;
use super::subtract::subtract_prefixes;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{Prefix, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Ranges in the data plane: two for each of 16,000 names, or the pieces of networks out of which
/// others are cut. Ranges beyond it have no route. The data plane keeps about 100 bytes of each.
pub const MAX_RANGES: usize = 32_768;

/// Pieces of one network: a quarter of all.
const MAX_PIECES: usize = MAX_RANGES / 4;

impl<P> Client<P> {
    /// Tells the data plane and the host what has changed, and lets packets go on.
    pub(super) fn apply(&mut self, now: BootTime) {
        let begin = self.update_gateways(now);
        let mut peers = Vec::new();
        if self.routes.is_stale() || self.guard.is_stale() {
            self.update_guard();
        }
        let (mut services, mut inbound) = (None, None);
        if self.routes.take_stale() {
            let directory = &self.directory;
            let is_shown = |id| directory.get(id).is_some();
            self.routes.counting_mut().retain(is_shown);
            peers = self.routes.update_peers(
                self.route_grants(now),
                &self.gateways,
                &self.opening_gateways(),
            );
            inbound = self.routes.update_inbound(self.inbound_rules(now));
            services = self
                .routes
                .update_services(self.services_without_route(now));
            self.update_host_routes();
            self.update_domains();
        }
        let known = begin.into_iter().filter(|key| self.routes.has_peer(*key));
        peers.extend(known.map(PeerUpdate::BeginHandshake));
        let (resume, unroutable) = self.routes.take_resuming();
        self.outbox.counters.packets_resumed += resume.len() as u64;
        let is_news = services.is_some() || inbound.is_some();
        if !peers.is_empty() || !resume.is_empty() || is_news {
            self.outbox.push(Output::Engine {
                peers,
                services,
                inbound: inbound.map(Box::new),
                resume,
            });
        }
        self.outbox.refuse(unroutable, PacketRefusal::Unreachable);
    }

    /// The gateway and the resource of each range. If several resources have a range, the oldest has it.
    fn route_grants(&self, now: BootTime) -> BTreeMap<Prefix, Routed> {
        let mut routed = BTreeMap::new();
        let Some(network) = &self.network else {
            return routed;
        };
        let live: Vec<(ResourceId, &Target, &Grant)> = self
            .accesses
            .granted()
            .filter_map(|(id, grant)| {
                let target = &self.directory.get(id)?.target;
                (grant.expires > now).then_some((id, target, grant))
            })
            .collect();
        for (id, target, grant) in &live {
            let to = Routed {
                gateway: grant.gateway.id,
                resource: Some(*id),
            };
            let pieces = match target.prefix() {
                Some(range) if self.application_rule(*id).is_passable() => {
                    self.pieces(range, network)
                }
                Some(_) => BTreeSet::new(),
                None => self.name_ranges(*id, grant),
            };
            for piece in pieces {
                if routed.len() >= MAX_RANGES {
                    return routed;
                }
                routed.entry(piece).or_insert(to);
            }
        }
        for (id, gateway) in self.gateways.iter() {
            // Its ICMP messages about packets come from its own address.
            let interface = gateway.introduction.interface;
            for address in [IpAddr::V4(interface.ipv4), IpAddr::V6(interface.ipv6)] {
                if network.is_machine(address) {
                    routed.entry(Prefix::host(address)).or_insert(Routed {
                        gateway: id,
                        resource: None,
                    });
                }
            }
        }
        routed
    }

    /// A range without those inside it that are the tunnel's own or other resources, granted or not. The pieces of a
    /// granted one may be as small as those around it, and then no longest match would tell the two apart.
    pub(super) fn pieces(&self, range: Prefix, network: &Network) -> BTreeSet<Prefix> {
        let mut pieces = BTreeSet::new();
        if network.has(range) {
            return pieces;
        }
        let mut holes = self.directory.inside(range);
        let own = network.own.iter();
        holes.extend(own.filter(|own| range.contains(own.address())));
        subtract_prefixes(range, &holes, MAX_PIECES, &mut pieces);
        pieces
    }

    fn name_ranges(&self, id: ResourceId, grant: &Grant) -> BTreeSet<Prefix> {
        let passable = grant.names.values().filter(|granted| {
            let one = std::iter::once(granted.addresses);
            let application_rule = self.guard.application_rule(&self.directory, id, one);
            application_rule.is_passable()
        });
        let addresses = passable.flat_map(|granted| {
            let (v4, v6) = (granted.addresses.v4, granted.addresses.v6);
            [IpAddr::V4(v4), IpAddr::V6(v6)]
        });
        addresses.map(Prefix::host).collect()
    }

    fn update_host_routes(&mut self) {
        let Some(network) = &self.network else {
            return;
        };
        let resources = self.directory.ranges();
        // Nothing leads to a new one before the host sees to which programs may go there.
        let is_led = |range: Prefix| self.routes.is_led(range) || !self.guard.is_awaited(range);
        let resources = resources.filter(|range| !network.has(*range) && is_led(*range));
        // They lead into the tunnel, where they are refused.
        let ended = self.directory.ended().ranges();
        let ended = ended.filter(|range| !network.has(*range));
        // Hosts with a strict rp_filter drop replies from an address that no route leads back to.
        let resolvers = self.gateways.iter().filter_map(|(_, gateway)| {
            let at = Prefix::host(gateway.introduction.site_dns()?.ip());
            self.routes.gateway_of(at).is_some().then_some(at)
        });
        let routes: BTreeSet<Prefix> = resources
            .chain(ended)
            .chain(network.name_ranges())
            .chain(resolvers)
            .collect();
        if let Some(routes) = self.routes.update_host(routes) {
            self.outbox.push(Output::Routes(routes));
        }
    }
}
