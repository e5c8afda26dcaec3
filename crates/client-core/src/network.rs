//! The networks of the tunnel, as the portal's `welcome` tells of them.

use culvert_ids::ClientId;
use culvert_policy::Prefix;
use culvert_wire::messages::{Interface, Ranges};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;
use std::time::Duration;

/// The client's place in the tunnel.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) client: ClientId,
    pub(super) interface: Interface,
    /// Machines' and names' ranges: no resource is there.
    pub(super) own: Vec<Prefix>,
    pub(super) names: culvert_dns::Ranges,
    pub(super) grant_lifetime: Duration,
}

impl Network {
    /// Paths to gateways do not lead into the tunnel itself.
    pub(super) fn path_guard(&self) -> culvert_path::Guard {
        let own = self.own.iter();
        let own = own.filter_map(|range| IpNet::new(range.address(), range.len()).ok());
        // Four ranges are below the guard's bound.
        culvert_path::Guard::new(own).unwrap_or_default()
    }

    /// True if the range lies in one of the tunnel's own.
    pub(super) fn has(&self, range: Prefix) -> bool {
        let within = |own: &Prefix| own.len() <= range.len() && own.contains(range.address());
        self.own.iter().any(within)
    }

    /// True for the address of another machine in the tunnel.
    pub(super) fn is_machine(&self, address: IpAddr) -> bool {
        let is_own = self.own.iter().any(|range| range.contains(address));
        let is_ours = address == self.interface.ipv4 || address == self.interface.ipv6;
        is_own && !is_ours && !self.names.contains(address)
    }

    /// The ranges of the addresses that stand for names.
    pub(super) fn name_ranges(&self) -> impl Iterator<Item = Prefix> {
        let (v4, v6) = (self.names.v4(), self.names.v6());
        let ranges = [
            Prefix::new(v4.addr().into(), v4.prefix_len()),
            Prefix::new(v6.addr().into(), v6.prefix_len()),
        ];
        ranges.into_iter().flatten()
    }
}

/// All ranges of the tunnel, and those of names; `None` if they can't be read.
pub(super) fn parse_ranges(ranges: &Ranges) -> Option<(Vec<Prefix>, culvert_dns::Ranges)> {
    let own = [
        &ranges.machines_ipv4,
        &ranges.machines_ipv6,
        &ranges.names_ipv4,
        &ranges.names_ipv6,
    ];
    let own: Result<Vec<Prefix>, _> = own.into_iter().map(|text| text.parse()).collect();
    let v4: Ipv4Net = ranges.names_ipv4.parse().ok()?;
    let v6: Ipv6Net = ranges.names_ipv6.parse().ok()?;
    Some((own.ok()?, culvert_dns::Ranges::new(v4, v6).ok()?))
}
