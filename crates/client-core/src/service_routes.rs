//! Services that the data plane has no route for although their address has one.
//!
//! Allowed IPs do not know ports. Several resources may have one target, and the grant for one of them gives the target
//! its route. The packets for the others would take that route and be dropped by the gateway. So the data plane is told
//! the services of the others, and a packet for one of them asks for access like one to an address without a route.

use super::client::Client;
use super::grant::Grant;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{Filters, Prefix, Resource, RoutedServices};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

impl<P> Client<P> {
    /// The services without a route, by the range of their address.
    pub(super) fn services_without_route(&self, now: BootTime) -> BTreeMap<Prefix, RoutedServices> {
        let mut services = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (id, grant) in self.accesses.granted() {
            let Some(resource) = self.directory.get(id) else {
                continue;
            };
            if grant.expires <= now || seen.contains(&id) {
                continue;
            }
            let same_target: Vec<&Resource> = self.directory.all_with_same_target(resource);
            if same_target.len() < 2 {
                continue;
            }
            match resource.target.prefix() {
                Some(range) => {
                    seen.extend(same_target.iter().map(|other| other.id));
                    self.note_range(range, &same_target, now, &mut services);
                }
                None => self.note_names(grant, &same_target, now, &mut services),
            }
        }
        services
    }

    /// Notes the services of the pieces of a range that lack a route.
    fn note_range(
        &self,
        range: Prefix,
        same_target: &[&Resource],
        now: BootTime,
        services: &mut BTreeMap<Prefix, RoutedServices>,
    ) {
        let Some(network) = &self.network else {
            return;
        };
        let pieces = self.pieces(range, network);
        let mut routed = pieces.into_iter().filter_map(|piece| {
            let gateway = self.routes.gateway_of(piece)?;
            Some((piece, gateway))
        });
        let Some((first, gateway)) = routed.next() else {
            return;
        };
        let is_granted = |grant: &Grant| grant.gateway.id == gateway;
        if let Some(of_target) = self.split(same_target, is_granted, now) {
            services.insert(first, of_target.clone());
            services.extend(routed.map(|(piece, _)| (piece, of_target.clone())));
        }
    }

    /// Notes the services of the addresses of a grant's names that lack a route.
    fn note_names(
        &self,
        grant: &Grant,
        same_target: &[&Resource],
        now: BootTime,
        services: &mut BTreeMap<Prefix, RoutedServices>,
    ) {
        for (name, granted) in &grant.names {
            let addresses: [IpAddr; 2] = [granted.addresses.v4.into(), granted.addresses.v6.into()];
            let [v4, v6] = addresses.map(Prefix::host);
            let of_v6 = || self.routes.gateway_of(v6);
            let Some(gateway) = self.routes.gateway_of(v4).or_else(of_v6) else {
                continue;
            };
            let is_granted = |other: &Grant| {
                let known = other.names.get(name);
                other.gateway.id == gateway
                    && known.is_some_and(|known| known.addresses == granted.addresses)
            };
            if services.contains_key(&v4) {
                continue;
            }
            if let Some(of_name) = self.split(same_target, is_granted, now) {
                services.insert(v4, of_name.clone());
                services.insert(v6, of_name);
            }
        }
    }

    /// The services of resources with one target, by whether there is a grant as it is wanted.
    fn split(
        &self,
        same_target: &[&Resource],
        is_granted: impl Fn(&Grant) -> bool,
        now: BootTime,
    ) -> Option<RoutedServices> {
        let has_route = |id: ResourceId| {
            let grant = self.accesses.grant(id);
            grant.is_some_and(|grant| grant.expires > now && is_granted(grant))
        };
        let (granted, others): (Vec<_>, Vec<_>) = same_target
            .iter()
            .partition(|resource| has_route(resource.id));
        let filters_of = |resource: &&Resource| resource.filters.clone();
        let granted: Vec<Filters> = granted.iter().map(filters_of).collect();
        let others: Vec<Filters> = others.iter().map(filters_of).collect();
        RoutedServices::new(&granted, &others)
    }
}
