//! The networks of the tunnel, as `welcome` told of them.

use super::verify::{CLOCK_SKEW, GrantFault, GrantKeys, Verified, inbound};
use culvert_base::UnixTime;
use culvert_ids::GatewayId;
use culvert_policy::Prefix;
use culvert_wire::messages::{Interface, PLAIN_DNS_PORT, Ranges, SITE_DNS_PORT};
use culvert_wire::model;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The networks of the tunnel, from `welcome`.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) gateway: GatewayId,
    pub(super) interface: Interface,
    /// As received, to be kept.
    pub(super) ranges: Ranges,
    /// Of clients and gateways.
    pub(super) machines: [Prefix; 2],
    /// Of names.
    pub(super) names: [Prefix; 2],
    pub(super) keys: GrantKeys,
}

impl Network {
    pub(super) fn site_dns(&self) -> SocketAddr {
        (self.interface.ipv4, SITE_DNS_PORT).into()
    }

    /// The address at which plain WireGuard devices ask for names.
    pub(super) fn plain_dns(&self) -> SocketAddr {
        (self.interface.ipv4, PLAIN_DNS_PORT).into()
    }

    /// True if the addresses are of the range from which clients give names theirs.
    pub(super) fn may_stand_for_names(&self, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> bool {
        let [range_v4, range_v6] = self.names;
        range_v4.contains(ipv4.into()) && range_v6.contains(ipv6.into())
    }

    /// All ranges of the tunnel.
    pub(super) fn prefixes(&self) -> [Prefix; 4] {
        let ([machines_v4, machines_v6], [names_v4, names_v6]) = (self.machines, self.names);
        [machines_v4, machines_v6, names_v4, names_v6]
    }

    /// Checks all that a grant says but what depends on other grants. `portal` is the
    /// portal's clock.
    pub(super) fn verify(&self, token: &str, portal: UnixTime) -> Result<Verified, GrantFault> {
        let claims = self.keys.open(token)?;
        if claims.gateway != self.gateway {
            return Err(GrantFault::OtherGateway);
        }
        let (made, ends) = (claims.iat.unix_time(), claims.exp.unix_time());
        if ends <= portal {
            let ago = portal.saturating_since(ends);
            return Err(GrantFault::Expired(ago.as_secs()));
        }
        if made > portal.saturating_add(CLOCK_SKEW) {
            let ahead = made.saturating_since(portal);
            return Err(GrantFault::NotYet(ahead.as_secs()));
        }
        let own: [IpAddr; 2] = [self.interface.ipv4.into(), self.interface.ipv6.into()];
        let addresses: [IpAddr; 2] = [claims.client_ipv4.into(), claims.client_ipv6.into()];
        for (range, address) in self.machines.iter().zip(addresses) {
            if !range.contains(address) || own.contains(&address) {
                return Err(GrantFault::Address);
            }
        }
        let (target, within) = claims
            .target
            .parse()
            .map_err(|error| GrantFault::Resource(error.to_string()))?;
        let filters = model::filters(&claims.filters)
            .map_err(|error| GrantFault::Resource(error.to_string()))?;
        let inbound = inbound(&target, &claims.inbound);
        Ok(Verified {
            inbound,
            claims,
            target,
            within,
            filters,
        })
    }
}
