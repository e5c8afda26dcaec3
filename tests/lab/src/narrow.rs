//! Ways between two ends that lead through a router, and that come to lose long packets.

use crate::tunnel::{Tunnel, TunnelPlan};
use crate::{Family, Link, LinkShape, Namespace, Subnet};
use anyhow::Result;
use std::net::SocketAddr;

/// A tunnel whose ends have a router between them.
#[derive(Debug)]
pub struct RoutedTunnel {
    /// The router.
    pub router: Namespace,
    /// The ends. Their own link is that between the left end and the router.
    pub tunnel: Tunnel,
    /// The link beyond the router.
    pub far: Link,
}

impl RoutedTunnel {
    /// Builds it by a plan; the tunnel's own datagrams are of `outer`. Packets pass when it returns.
    ///
    /// # Errors
    /// When an end does not start, a tool refuses, or nothing passes.
    pub fn build(plan: &TunnelPlan, outer: Family) -> Result<Self> {
        let (left, router, right) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        let near = Link::new(&left, &router, Subnet(1), LinkShape::default())?;
        let far = Link::new(&router, &right, Subnet(2), LinkShape::default())?;
        router.run("sysctl -qw net.ipv4.ip_forward=1")?;
        router.run("sysctl -qw net.ipv6.conf.all.forwarding=1")?;
        let (to_right, to_left) = (Subnet(2).network(outer), Subnet(1).network(outer));
        let (via_left, via_right) = (Subnet(1).host(outer, 2), Subnet(2).host(outer, 1));
        left.run(&format!("ip route add {to_right} via {via_left}"))?;
        right.run(&format!("ip route add {to_left} via {via_right}"))?;
        let endpoint = SocketAddr::new(Subnet(2).host(outer, 2), plan.right_port());
        let tunnel = plan.build_between(&left, &right, near, endpoint)?;
        tunnel.wait_until_up()?;
        Ok(Self {
            router,
            tunnel,
            far,
        })
    }

    /// See [`narrow_in_silence`].
    ///
    /// # Errors
    /// When a tool refuses.
    pub fn narrow_in_silence(&self, mtu_bytes: u16) -> Result<()> {
        let (left, right) = (&self.tunnel.left.namespace, &self.tunnel.right.namespace);
        narrow_in_silence(&self.router, [left, right], mtu_bytes)
    }
}

/// From now on a router loses what exceeds `mtu_bytes`, in both directions and without a word. Fragments that reach the ends from
/// outside are lost too.
///
/// # Errors
/// When a tool refuses.
pub fn narrow_in_silence(router: &Namespace, ends: [&Namespace; 2], mtu_bytes: u16) -> Result<()> {
    router.shell(&format!(
        "for link in /sys/class/net/*; do
             link=${{link##*/}}
             [ $link = lo ] || ip link set dev $link mtu {mtu_bytes}
         done
         nft -f - <<'RULES'
         table inet narrow {{
             chain output {{
                 type filter hook output priority 0
                 icmp type destination-unreachable drop
                 icmpv6 type packet-too-big drop
             }}
         }}
RULES"
    ))?;
    for end in ends {
        // Before anything puts fragments together; those inside the tunnel are left alone.
        end.shell(
            "nft -f - <<'RULES'
             table inet narrow {
                 chain prerouting {
                     type filter hook prerouting priority -450
                     meta iiftype ether ip frag-off & 0x3fff != 0 drop
                     meta iiftype ether exthdr frag exists drop
                 }
             }
RULES",
        )?;
    }
    Ok(())
}
