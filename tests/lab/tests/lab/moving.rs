//! Addresses, links and MTUs that change while the tunnel is in use.

use std::net::SocketAddr;

use culvert_lab::{
    Family, Implementation, Link, LinkShape, Process, Subnet, Tunnel, TunnelPlan,
    in_one_of_some_attempts, wait_until,
};

use crate::support::{
    PacketCounter, SOON, apply_rule, culvert_plan, culvert_tunnel, passes_traffic,
};

/// Both ends Culvert, and beside other implementations either that can follow the other one.
fn pairs() -> [(Implementation, Implementation); 4] {
    [
        (Implementation::culvert(), Implementation::culvert()),
        (Implementation::culvert(), Implementation::WireguardGo),
        (Implementation::WireguardGo, Implementation::culvert()),
        (Implementation::culvert(), Implementation::Boringtun),
    ]
}

fn up(left: &Implementation, right: &Implementation) -> Tunnel {
    let tunnel = TunnelPlan::between(left, right).build().unwrap();
    tunnel.wait_until_up().unwrap();
    tunnel
}

/// An address of the same host beside the one it has, with its prefix length.
fn second_address(tunnel: &Tunnel, host: u8) -> String {
    format!("{}/24", tunnel.link.subnet.host(Family::V4, host))
}

#[test]
fn a_tunnel_follows_an_end_that_changes_its_address_while_traffic_flows() {
    for (left, right) in pairs() {
        let tunnel = up(&left, &right);
        let ping = format!(
            "ping -q -i 0.05 -c 400 {}",
            tunnel.right_address(Family::V4)
        );
        let traffic = tunnel.left.namespace.spawn(&ping).unwrap();
        let link = &tunnel.link;
        let interface = &link.interface;
        let old = second_address(&tunnel, 1);
        let new = second_address(&tunnel, 11);
        // The address that is promoted when the first one goes.
        tunnel
            .left
            .namespace
            .run("sysctl -qw net.ipv4.conf.all.promote_secondaries=1")
            .unwrap();
        link.add_address(&tunnel.left.namespace, &new).unwrap();
        tunnel
            .left
            .namespace
            .run(&format!("ip address del {old} dev {interface}"))
            .unwrap();

        let moved = SocketAddr::new(link.subnet.host(Family::V4, 11), tunnel.left_port());
        wait_until("the right end to follow", SOON, || {
            tunnel
                .right
                .show("endpoints")
                .unwrap()
                .contains(&moved.to_string())
        })
        .unwrap();
        drop(traffic);
        tunnel.wait_until_up().unwrap();
        passes_traffic(&tunnel).unwrap();
    }
}

#[test]
fn an_end_answers_from_the_address_it_was_called_at_until_that_is_removed() {
    let culvert = Implementation::culvert();
    for left in [culvert.clone(), Implementation::WireguardGo] {
        let tunnel = up(&left, &culvert);
        let second = second_address(&tunnel, 22);
        tunnel
            .link
            .add_address(&tunnel.right.namespace, &second)
            .unwrap();
        let called = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 22), tunnel.right_port());
        let first = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 2), tunnel.right_port());
        let endpoint = || tunnel.left.show("endpoints").unwrap();

        let peer = &tunnel.right.keys.public_key;
        tunnel
            .left
            .set(&format!("peer {peer} endpoint {called}"))
            .unwrap();
        tunnel.wait_until_up().unwrap();
        // Had it answered from its first address, the left end would have followed there.
        assert!(endpoint().contains(&called.to_string()), "{}", endpoint());

        let rule = format!("udp sport {} ip saddr {}", tunnel.right_port(), called.ip());
        let removed = PacketCounter::new(&tunnel.right.namespace, "output", &rule).unwrap();
        let interface = &tunnel.link.interface;
        tunnel
            .right
            .namespace
            .run(&format!("ip address del {second} dev {interface}"))
            .unwrap();
        let used = removed.packets().unwrap();
        tunnel
            .wait_until_reachable(&tunnel.right.namespace, tunnel.left_address(Family::V4))
            .unwrap();
        assert_eq!(
            removed.packets().unwrap(),
            used,
            "the removed address was used again"
        );
        assert!(endpoint().contains(&first.to_string()), "{}", endpoint());
        passes_traffic(&tunnel).unwrap();
    }
}

#[test]
fn an_interface_that_goes_down_and_up_again_carries_traffic_again() {
    let tunnel = culvert_tunnel().unwrap();
    let (left, right) = (&tunnel.left, &tunnel.right);
    for end in [left, right] {
        end.namespace
            .run(&format!("ip link set {} down", end.interface))
            .unwrap();
        let ping = format!("ping -c 1 -W 0.5 {}", tunnel.right_address(Family::V4));
        assert!(left.namespace.run(&ping).is_err());
        end.namespace
            .run(&format!("ip link set {} up", end.interface))
            .unwrap();
        // The kernel has removed the IPv6 address with the link.
        let host = if std::ptr::eq(end, left) { 1 } else { 2 };
        let address = Subnet(100).host(Family::V6, host);
        let line = format!(
            "ip address replace {address}/64 dev {} nodad",
            end.interface
        );
        end.namespace.run(&line).unwrap();
        tunnel.wait_until_up().unwrap();
    }
    passes_traffic(&tunnel).unwrap();
}

#[test]
fn the_link_underneath_may_go_down_and_up_again() {
    let tunnel = culvert_tunnel().unwrap();
    let interface = &tunnel.link.interface;
    tunnel
        .link
        .left
        .run(&format!("ip link set {interface} down"))
        .unwrap();
    let ping = format!("ping -c 1 -W 0.5 {}", tunnel.right_address(Family::V4));
    assert!(tunnel.left.namespace.run(&ping).is_err());
    tunnel
        .link
        .left
        .run(&format!("ip link set {interface} up"))
        .unwrap();
    tunnel.wait_until_up().unwrap();
    passes_traffic(&tunnel).unwrap();
}

#[test]
fn the_mtu_may_change_while_the_interface_runs() {
    let tunnel = culvert_tunnel().unwrap();
    tunnel
        .link
        .shape(LinkShape {
            mtu_bytes: Some(9000),
            ..LinkShape::default()
        })
        .unwrap();
    for mtu_bytes in [1280, 1420, 8920, 1400] {
        for end in [&tunnel.left, &tunnel.right] {
            let line = format!("ip link set {} mtu {mtu_bytes}", end.interface);
            end.namespace.run(&line).unwrap();
        }
        passes_traffic(&tunnel).unwrap();
        // A packet of exactly that size passes whole.
        let payload_bytes = mtu_bytes - 28;
        let address = tunnel.right_address(Family::V4);
        let ping = format!("ping -M do -c 1 -W 10 -s {payload_bytes} {address}");
        tunnel.left.namespace.run(&ping).unwrap();
    }
}

#[test]
fn a_routing_rule_that_leads_to_the_peer_by_another_uplink_is_followed_with_the_next_packet() {
    in_one_of_some_attempts(follows_a_rule).unwrap();
}

fn follows_a_rule() -> Result<(), String> {
    for (family, version) in [(Family::V4, "-4"), (Family::V6, "-6")] {
        let tunnel = TunnelPlan {
            outer: family,
            ..culvert_plan()
        }
        .build()
        .unwrap();
        tunnel.wait_until_up().unwrap();
        let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
        let other = Link::new(left, right, Subnet(2), LinkShape::default()).unwrap();
        // A provider carries its own addresses alone.
        let (ip, own) = match family {
            Family::V4 => ("ip", "10.200.2.0/24"),
            Family::V6 => ("ip6", "fd00:200:2::/64"),
        };
        let foreign = format!("iifname veth2 meta l4proto udp {ip} saddr != {own} drop");
        apply_rule(right, "prerouting", &foreign).unwrap();
        let router = other.subnet.host(family, 2);
        left.run(&format!(
            "ip {version} route add default via {router} table 200"
        ))
        .unwrap();

        let line = format!("ping -i 0.05 -c 80 {}", tunnel.right_address(Family::V4));
        let mut ping = left.spawn(&line).unwrap();
        ping.wait_for_output("icmp_seq=20 ", SOON).unwrap();
        let peer = tunnel.link.subnet.host(family, 2);
        left.run(&format!("ip {version} rule add to {peer} lookup 200"))
            .unwrap();
        // One may leave before the rule is heard of.
        all_but(1, ping)?;
    }
    Ok(())
}

/// Waits for the end of a `ping`, of which at most so many may be lost.
fn all_but(lost_max: usize, mut ping: Process) -> Result<(), String> {
    let said = ping.succeed(SOON).unwrap();
    let received = said.lines().filter(|line| line.contains("icmp_seq="));
    match received.count() + lost_max >= count_of(&said) {
        true => Ok(()),
        false => Err(said),
    }
}

/// The pings that were sent.
fn count_of(said: &str) -> usize {
    let counts = said
        .lines()
        .find(|line| line.contains(" packets transmitted"));
    let sent = counts.and_then(|line| line.split(' ').next());
    sent.unwrap().parse().unwrap()
}

/// Rules and routes that lead to the peer, `PEER`, by the uplink of table 200, and what takes each back.
const DETOURS: [(&str, &str); 9] = [
    (
        "rule add to PEER/24 lookup 200",
        "rule del to PEER/24 lookup 200",
    ),
    (
        "rule add ipproto udp lookup 200",
        "rule del ipproto udp lookup 200",
    ),
    (
        "rule add ipproto udp dport PORT lookup 200",
        "rule del ipproto udp dport PORT lookup 200",
    ),
    (
        "rule add iif lo to PEER lookup 200 pref 10",
        "rule del pref 10",
    ),
    (
        "rule add fwmark 0/0xff to PEER lookup 200 pref 10",
        "rule del pref 10",
    ),
    (
        "rule add uidrange 0-0 to PEER lookup 200 pref 10",
        "rule del pref 10",
    ),
    (
        "route add PEER/32 via ROUTER",
        "route del PEER/32 via ROUTER",
    ),
    ("route add PEER/32 nexthop via ROUTER", "route del PEER/32"),
    (
        "route add PEER/32 via ROUTER table 201; ip rule add from all lookup 201 pref 5",
        "rule del pref 5; ip route flush table 201",
    ),
];

#[test]
fn whatever_leads_to_the_peer_by_another_uplink_is_followed_with_the_next_packet_and_back() {
    let tunnel = culvert_tunnel().unwrap();
    let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
    let other = Link::new(left, right, Subnet(2), LinkShape::default()).unwrap();
    // Each provider carries its own addresses alone.
    for (interface, own) in [("veth1", "10.200.1.0/24"), ("veth2", "10.200.2.0/24")] {
        let foreign = format!("iifname {interface} meta l4proto udp ip saddr != {own} drop");
        apply_rule(right, "prerouting", &foreign).unwrap();
    }
    let router = other.subnet.host(Family::V4, 2).to_string();
    left.run(&format!("ip route add default via {router} table 200"))
        .unwrap();
    let by_other =
        PacketCounter::new(right, "prerouting", "iifname veth2 meta l4proto udp").unwrap();
    let peer = tunnel.link.subnet.host(Family::V4, 2).to_string();
    let port = tunnel.right_port().to_string();
    let run = |command: &str| {
        let command = command.replace("PEER", &peer).replace("PORT", &port);
        left.shell(&format!("ip {}", command.replace("ROUTER", &router)))
            .unwrap();
    };
    // The router's address is the same machine's: the way is what differs.
    left.run(&format!("ip route add {router}/32 dev veth2"))
        .unwrap();
    let inner = tunnel.right_address(Family::V4);
    let follows = |detour: &str, back: &str| {
        // The interval leaves a busy machine the time to hear of the change.
        let line = format!("ping -i 0.1 -c 24 {inner}");
        let mut ping = left.spawn(&line).unwrap();
        ping.wait_for_output("icmp_seq=5 ", SOON).unwrap();
        let before = by_other.packets().unwrap();
        run(detour);
        ping.wait_for_output("icmp_seq=15 ", SOON)
            .unwrap_or_else(|error| panic!("{detour}: {error}"));
        let taken = by_other.packets().unwrap() - before;
        run(back);
        // One may leave before the change is heard of, each time.
        all_but(2, ping).map_err(|said| format!("{detour}: {said}"))?;
        match taken >= 6 {
            true => Ok(()),
            false => Err(format!("{detour}: {taken} by the other uplink")),
        }
    };
    for (detour, back) in DETOURS {
        in_one_of_some_attempts(|| follows(detour, back)).unwrap();
    }
}
