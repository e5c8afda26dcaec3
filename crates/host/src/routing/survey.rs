//! The configuration of the host, whoever set it up.

use std::net::IpAddr;

use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::route::address::AddressMessage;
use culvert_netlink::route::link::LinkMessage;
use culvert_netlink::route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use culvert_netlink::route::rule::RuleMessage;
use rustix::io::Errno;

use super::message::{address_family, host_length};
use super::{Mark, Network, has_ipv6, is};
use crate::{Family, HostError};

/// The kernel's errors for a destination that no packet can be sent to: no route, one that refuses,
/// one whose interface is down, and a family that it does not have.
const NO_WAY: [Errno; 7] = [
    Errno::NETUNREACH,
    Errno::HOSTUNREACH,
    Errno::ACCESS,
    Errno::INVAL,
    Errno::NETDOWN,
    Errno::AFNOSUPPORT,
    Errno::OPNOTSUPP,
];

/// The way of packets to a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The index of the interface that they leave by.
    pub(crate) interface_index: u32,
    /// The next hop, if it is not the destination itself.
    pub(crate) gateway: Option<IpAddr>,
    /// The source address that they get.
    pub(crate) source: Option<IpAddr>,
}

impl Path {
    /// The kernel's answer; `None` if packets go nowhere.
    fn read(message: &RouteMessage) -> Option<Self> {
        if !matches!(message.header.kind, RouteType::Unicast | RouteType::Local) {
            return None;
        }
        let mut path = Self {
            interface_index: 0,
            gateway: None,
            source: None,
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => path.interface_index = *index,
                RouteAttribute::Gateway(address) => path.gateway = read_address(address),
                RouteAttribute::Via(RouteVia::Inet(address)) => {
                    path.gateway = Some(IpAddr::V4(*address));
                }
                RouteAttribute::Via(RouteVia::Inet6(address)) => {
                    path.gateway = Some(IpAddr::V6(*address));
                }
                RouteAttribute::PrefSource(address) => path.source = read_address(address),
                _ => {}
            }
        }
        Some(path)
    }
}

fn read_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

impl Network {
    /// The way of marked packets to a destination; `None` where there is none.
    pub(crate) async fn path(
        &mut self,
        destination: IpAddr,
        mark: Mark,
    ) -> Result<Option<Path>, HostError> {
        let mut request = RouteMessage::default();
        request.header.address_family = address_family(Family::of(destination));
        request.header.destination_prefix_length = host_length(destination);
        request.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(destination)),
            RouteAttribute::Mark(mark.get()),
        ];
        match self
            .netlink
            .get(RouteNetlinkMessage::GetRoute(request))
            .await
        {
            Ok(RouteNetlinkMessage::NewRoute(route)) => Ok(Path::read(&route)),
            Ok(_) => Ok(None),
            Err(error) if NO_WAY.into_iter().any(|errno| is(&error, errno)) => Ok(None),
            Err(error) => Err(HostError::system("look up a route", error)),
        }
    }

    /// All links.
    pub(crate) async fn links(&mut self) -> Result<Vec<LinkMessage>, HostError> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let entries = self.netlink.dump(request).await;
        let entries = entries.map_err(|error| HostError::system("list the interfaces", error))?;
        let links = entries.into_iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        Ok(links.collect())
    }

    /// The addresses of all interfaces.
    pub(crate) async fn all_addresses(&mut self) -> Result<Vec<AddressMessage>, HostError> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let entries = self.netlink.dump(request).await;
        let entries = entries.map_err(|error| HostError::system("list the addresses", error))?;
        let addresses = entries.into_iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        });
        Ok(addresses.collect())
    }

    /// The rules of all families that the host has.
    pub(crate) async fn all_rules(&mut self) -> Result<Vec<RuleMessage>, HostError> {
        let mut rules = self.rules(Family::V4).await?;
        if has_ipv6() {
            rules.extend(self.rules(Family::V6).await?);
        }
        Ok(rules)
    }
}
