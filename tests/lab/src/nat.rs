//! Routers with NAT, of the kinds that RFC 4787 tells apart, and one that passes no UDP at all.
//!
//! A rule of masquerade alone is none of them. It makes an entry of an unsolicited datagram from outside, and
//! a later flow from inside to that sender then leaves from another port. Routers drop such datagrams, and so do these.

use anyhow::Result;

use crate::link::{Link, LinkShape, Subnet};
use crate::namespace::Namespace;
use culvert_base::Family;
use std::net::IpAddr;

/// The kind of a router between a machine and the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NatKind {
    /// Addresses as they are.
    None,
    /// Endpoint-independent mapping and filtering (RFC 4787 §4.1, §5).
    EndpointIndependent,
    /// Endpoint-independent mapping, address-dependent filtering.
    AddressDependent,
    /// Endpoint-independent mapping, address- and port-dependent filtering: what most homes have.
    PortDependent,
    /// Address- and port-dependent mapping and filtering.
    Symmetric,
    /// A port-dependent router behind another one.
    Double,
    /// A port-dependent router behind the endpoint-independent one of a carrier.
    CarrierGrade,
    /// A router that passes no UDP.
    UdpBlocked,
}

impl NatKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::EndpointIndependent,
        Self::AddressDependent,
        Self::PortDependent,
        Self::Symmetric,
        Self::Double,
        Self::CarrierGrade,
        Self::UdpBlocked,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::EndpointIndependent => "endpoint-independent",
            Self::AddressDependent => "address-dependent",
            Self::PortDependent => "port-dependent",
            Self::Symmetric => "symmetric",
            Self::Double => "double",
            Self::CarrierGrade => "carrier-grade",
            Self::UdpBlocked => "UDP blocked",
        }
    }

    const fn filter(self) -> Filter {
        match self {
            Self::None | Self::EndpointIndependent => Filter::Nothing,
            Self::AddressDependent => Filter::Addresses,
            Self::PortDependent
            | Self::Symmetric
            | Self::Double
            | Self::CarrierGrade
            | Self::UdpBlocked => Filter::Ports,
        }
    }

    /// True if machines behind the two can reach each other directly, once each has sent to the other.
    #[must_use]
    pub fn is_direct_with(self, other: Self) -> bool {
        if self == Self::UdpBlocked || other == Self::UdpBlocked {
            return false;
        }
        let passes = |symmetric: Self, to: Self| {
            symmetric != Self::Symmetric || (to != Self::Symmetric && to.filter() != Filter::Ports)
        };
        passes(self, other) && passes(other, self)
    }
}

/// The datagrams from outside that a router drops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    Nothing,
    /// Those from addresses to which nothing was sent.
    Addresses,
    /// Those from addresses and ports to which nothing was sent.
    Ports,
}

/// The host on the internet that a router is once it was renumbered.
const RENUMBERED: u8 = 3;

/// The networks around a machine behind a router: between the internet and the outer router, between two routers where
/// there are two, and between the inner one and the machine.
#[derive(Clone, Copy, Debug)]
pub struct RouterNets {
    /// On the internet.
    pub outside: Subnet,
    /// Between two routers.
    pub between: Subnet,
    /// The machine's own, where it is host 2.
    pub inside: Subnet,
}

/// The routers in front of a machine.
#[derive(Debug)]
pub struct Routers {
    /// The one that the machine is to be joined to, as host 2 of [`RouterNets::inside`].
    pub inner: Namespace,
    /// The one on the internet; the same if there is only one.
    pub outer: Namespace,
    /// The interface of the outer one on the internet.
    pub interface: String,
    outside: Subnet,
}

impl Routers {
    /// Joins new routers to `internet`.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub fn new(internet: &Namespace, kind: NatKind, nets: RouterNets) -> Result<Self> {
        let outer = router(internet, nets.outside)?;
        let interface = format!("veth{}", nets.outside.0);
        let behind_two = |first: NatKind| -> Result<Namespace> {
            let inner = router(&outer, nets.between)?;
            translate(&outer, first, nets.outside, nets.between)?;
            translate(&inner, NatKind::PortDependent, nets.between, nets.inside)?;
            Ok(inner)
        };
        let inner = match kind {
            NatKind::Double => behind_two(NatKind::PortDependent)?,
            NatKind::CarrierGrade => behind_two(NatKind::EndpointIndependent)?,
            NatKind::None => {
                let inside = nets.inside.network(Family::V4);
                let via = nets.outside.host(Family::V4, 2);
                internet.run(&format!("ip route add {inside} via {via}"))?;
                outer.clone()
            }
            _ => {
                translate(&outer, kind, nets.outside, nets.inside)?;
                outer.clone()
            }
        };
        Ok(Self {
            inner,
            outer,
            interface,
            outside: nets.outside,
        })
    }

    /// The address of the outer one, once it was renumbered.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.outside.host(Family::V4, RENUMBERED)
    }

    /// The outer one gets another address, as from a provider: all its mappings are gone.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn renumber(&self) -> Result<()> {
        let host = |host| self.outside.host(Family::V4, host);
        let (interface, via) = (&self.interface, host(1));
        self.outer
            .shell(&format!(
                "ip address del {}/24 dev {interface} && ip address add {}/24 dev {interface} && \
                 ip route add default via {via}",
                host(2),
                host(RENUMBERED)
            ))
            .map(drop)
    }

    /// Passes no UDP from now on.
    ///
    /// # Errors
    /// When `nft` refuses.
    pub fn block_udp(&self) -> Result<()> {
        self.restrict("meta l4proto udp drop")
    }

    /// Passes nothing from now on but TCP to this address and port, and its answers.
    ///
    /// # Errors
    /// When `nft` refuses.
    pub fn allow_only(&self, to: std::net::SocketAddr) -> Result<()> {
        let (address, port) = (to.ip(), to.port());
        self.restrict(&format!(
            "ip daddr {address} tcp dport {port} accept; \
             add rule ip restriction forward ip saddr {address} tcp sport {port} accept; \
             add rule ip restriction forward drop"
        ))
    }

    fn restrict(&self, rules: &str) -> Result<()> {
        let script = format!(
            "nft 'add table ip restriction; \
             add chain ip restriction forward {{ type filter hook forward priority filter; }}; \
             add rule ip restriction forward {rules}'"
        );
        self.outer.shell(&script).map(drop)
    }

    /// Passes everything again.
    ///
    /// # Errors
    /// When nothing was restricted.
    pub fn lift_restrictions(&self) -> Result<()> {
        self.outer.run("nft delete table ip restriction").map(drop)
    }
}

/// A router behind `upstream`.
fn router(upstream: &Namespace, net: Subnet) -> Result<Namespace> {
    let router = Namespace::new()?;
    Link::new(upstream, &router, net, LinkShape::default())?;
    router.run("sysctl -q -w net.ipv4.ip_forward=1")?;
    let via = net.host(Family::V4, 1);
    router.run(&format!("ip route add default via {via}"))?;
    Ok(router)
}

/// Rules of a router between two networks.
fn translate(router: &Namespace, kind: NatKind, outside: Subnet, inside: Subnet) -> Result<()> {
    let interface = format!("veth{}", outside.0);
    let machine = inside.host(Family::V4, 2);
    let masquerade = match kind {
        NatKind::Symmetric => "masquerade fully-random",
        _ => "masquerade",
    };
    let admitted = match kind.filter() {
        Filter::Nothing => format!("meta l4proto udp dnat ip to {machine}"),
        Filter::Addresses => {
            format!("meta l4proto udp ip saddr @peers dnat ip to {machine}")
        }
        Filter::Ports => "counter".to_owned(),
    };
    let forwarded = match kind {
        NatKind::UdpBlocked => "meta l4proto udp drop".to_owned(),
        _ => format!("oifname {interface} meta l4proto udp update @peers {{ ip daddr }}"),
    };
    let rules = format!(
        "table ip nat {{
             set peers {{ type ipv4_addr; flags dynamic,timeout; timeout 60s; }}
             chain before {{
                 type nat hook prerouting priority dstnat;
                 iifname {interface} {admitted}
             }}
             chain after {{
                 type nat hook postrouting priority srcnat;
                 oifname {interface} {masquerade}
             }}
             chain forwarded {{
                 type filter hook forward priority filter;
                 {forwarded}
             }}
             chain input {{
                 type filter hook input priority filter;
                 iifname {interface} meta l4proto udp ct state new drop
             }}
         }}"
    );
    router
        .shell(&format!("nft -f - <<'END'\n{rules}\nEND"))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_routers_prevent_a_direct_path_where_one_is_symmetric_and_the_other_looks_at_ports() {
        let relayed: Vec<_> = NatKind::ALL
            .into_iter()
            .flat_map(|one| NatKind::ALL.map(|other| (one, other)))
            .filter(|(one, other)| !one.is_direct_with(*other))
            .collect();
        // Symmetric with itself, and with three others in both orders; all with the one that blocks UDP.
        assert_eq!(relayed.len(), 7 + 15);
        for (one, other) in relayed {
            assert!(other.is_direct_with(one) == one.is_direct_with(other));
            let causes = [NatKind::Symmetric, NatKind::UdpBlocked];
            assert!(causes.contains(&one) || causes.contains(&other));
        }
    }
}
