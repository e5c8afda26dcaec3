//! The networks of the product, and how namespaces are joined to them.

use anyhow::Result;

use crate::link::{Link, LinkShape, Subnet};
use crate::namespace::Namespace;
use culvert_base::Family;

pub(super) const PORTAL_NET: Subnet = Subnet(10);

pub(super) const NAT_NET: Subnet = Subnet(13);

pub(super) const CLIENT_NET: Subnet = Subnet(14);

pub(super) const OTHER_CLIENT_NET: Subnet = Subnet(16);

/// Gateway `n`, from 0, is on the internet by network 20 + n, and before the private one by 30 + n.
pub(super) const GATEWAY_NETS: u8 = 20;

pub(super) const PRIVATE_NETS: u8 = 30;

/// The address in the private network, which is reached through gateways alone.
pub const PRIVATE_V4: &str = "10.50.0.10";

/// The same of the other family.
pub const PRIVATE_V6: &str = "fd50::10";

/// The network that contains both of the private network's IPv4 addresses.
pub const PRIVATE_NET: &str = "10.50.0.0/24";

/// A second address, for a resource that nobody may use.
pub const PRIVATE_OTHER_V4: &str = "10.50.0.11";

/// The name of the web server, which the gateways' DNS alone knows.
pub const PRIVATE_NAME: &str = "web.corp.example";

/// The address of the private network's DNS.
pub(super) const PRIVATE_DNS_V4: &str = "10.50.0.53";

/// Two namespaces with a link: host 1 on the left.
pub(super) fn join(left: &Namespace, right: &Namespace, net: Subnet) -> Result<()> {
    Link::new(left, right, net, LinkShape::default()).map(drop)
}

/// The way to everywhere is host 1 of `net`.
pub(super) fn default_route(namespace: &Namespace, net: Subnet) -> Result<()> {
    for family in [Family::V4, Family::V6] {
        namespace.run(&format!("ip route add default via {}", net.host(family, 1)))?;
    }
    Ok(())
}

pub(super) fn forward(namespace: &Namespace) -> Result<()> {
    for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        namespace.run(&format!("sysctl -q -w {setting}=1"))?;
    }
    Ok(())
}
