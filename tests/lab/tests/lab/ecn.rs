//! Congestion marks pass through the tunnel, as RFC 6040 says.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, wait_until};
use rustix::net::sockopt;

use crate::support::{FAMILIES, PacketCounter, SOON, apply_rule, culvert_tunnel};

/// RFC 3168, §5: the last two bits of the traffic class.
pub(crate) const NOT_ECT: u8 = 0b00;
pub(crate) const ECT_0: u8 = 0b10;

/// The port to which datagrams are sent; nobody listens, which does not matter for counting
/// packets.
pub(crate) const DISCARD_PORT: u16 = 9;

const DATAGRAMS: usize = 50;

/// Sends datagrams with this ECN field from the left end to the right one.
fn send(tunnel: &Tunnel, family: Family, ecn: u8) {
    let target = SocketAddr::new(tunnel.right_address(family), DISCARD_PORT);
    let from = SocketAddr::new(tunnel.left_address(family), 0);
    let socket = tunnel
        .left
        .namespace
        .inside(|| Ok(UdpSocket::bind(from)?))
        .unwrap();
    match target.ip() {
        IpAddr::V4(_) => sockopt::set_ip_tos(&socket, ecn).unwrap(),
        IpAddr::V6(_) => sockopt::set_ipv6_tclass(&socket, ecn.into()).unwrap(),
    }
    for _ in 0..DATAGRAMS {
        socket.send_to(&[0; 1200], target).unwrap();
    }
}

/// Counts what comes out of the tunnel on the right with this ECN field.
pub(crate) fn count_inside(tunnel: &Tunnel, family: Family, ecn: &str) -> PacketCounter {
    let header = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let interface = &tunnel.right.interface;
    let rule = format!("iifname {interface} udp dport {DISCARD_PORT} {header} ecn {ecn}");
    PacketCounter::new(&tunnel.right.namespace, "prerouting", &rule).unwrap()
}

#[test]
fn an_inner_ecn_field_is_copied_to_the_outside() {
    let tunnel = culvert_tunnel().unwrap();
    let link = &tunnel.link.interface;
    let rule = format!(
        "iifname {link} udp dport {} ip ecn ect0",
        tunnel.right_port()
    );
    let outside = PacketCounter::new(&tunnel.right.namespace, "prerouting", &rule).unwrap();
    for family in FAMILIES {
        let before = outside.packets().unwrap();
        let inside = count_inside(&tunnel, family, "ect0");
        send(&tunnel, family, ECT_0);
        wait_until("all datagrams inside", SOON, || {
            inside.packets().unwrap() >= 1
        })
        .unwrap();
        assert!(outside.packets().unwrap() > before, "{family:?}");
    }
}

#[test]
fn congestion_marked_on_the_path_arrives_inside() {
    for arguments in ["", "--no-offload --no-gso"] {
        let culvert = Implementation::culvert_with(arguments);
        let tunnel = TunnelPlan::between(&culvert, &culvert).build().unwrap();
        tunnel.wait_until_up().unwrap();
        apply_rule(
            &tunnel.right.namespace,
            "prerouting",
            &format!(
                "iifname {} ip ecn ect0 ip ecn set ce",
                tunnel.link.interface
            ),
        )
        .unwrap();
        for family in FAMILIES {
            let marked = count_inside(&tunnel, family, "ce");
            let unmarked = count_inside(&tunnel, family, "ect0");
            send(&tunnel, family, ECT_0);
            wait_until("marked datagrams inside", SOON, || {
                marked.packets().unwrap() >= 1
            })
            .unwrap();
            assert_eq!(unmarked.packets().unwrap(), 0, "{family:?} {arguments}");
        }
    }
}

#[test]
fn congestion_marked_on_a_packet_that_cannot_react_drops_it() {
    let tunnel = culvert_tunnel().unwrap();
    let dropped = || {
        tunnel
            .right
            .culvert_drops("inner", "ce_over_not_ect")
            .unwrap()
    };
    let before = dropped();
    apply_rule(
        &tunnel.right.namespace,
        "prerouting",
        &format!("iifname {} ip ecn set ce", tunnel.link.interface),
    )
    .unwrap();
    let inside = count_inside(&tunnel, Family::V4, "not-ect");
    send(&tunnel, Family::V4, NOT_ECT);
    // RFC 6040, §4.2: an outer CE over an inner Not-ECT is dropped. (The number of packets of a
    // burst that fit the interface's queue is another matter.)
    wait_until("the drops to be counted", SOON, || dropped() > before).unwrap();
    assert_eq!(inside.packets().unwrap(), 0);
}
