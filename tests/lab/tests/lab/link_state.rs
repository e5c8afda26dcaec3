//! Links that change state while the tunnel is in use.

use culvert_lab::measure::{IperfServer, TcpLoad};
use culvert_lab::{Family, Implementation, TunnelPlan, WireGuardEnd, wait_until};

use crate::support::{SOON, culvert_tunnel, joined_batches};

/// A link that loses its port in one of five rounds survives 30 of them once in 800 times.
const ROUNDS: usize = 30;

/// Longer than any test takes; the load is ended when its purpose is fulfilled.
const ENDLESS_S: u32 = 300;

/// Takes the link of an end down and up, without a moment in between.
fn down_and_up(end: &WireGuardEnd) {
    let interface = &end.interface;
    end.namespace
        .shell(&format!(
            "printf 'link set {interface} down\\nlink set {interface} up\\n' | ip -batch -"
        ))
        .unwrap();
}

#[test]
fn a_link_that_goes_down_and_up_at_once_keeps_its_port() {
    for workers in [1, 4] {
        let left = Implementation::culvert_with(&format!("--workers {workers}"));
        let tunnel = TunnelPlan::between(&left, &Implementation::culvert())
            .build()
            .unwrap();
        tunnel.wait_until_up().unwrap();
        for round in 0..ROUNDS {
            down_and_up(&tunnel.left);
            if round % 5 == 4 {
                tunnel.wait_until_up().unwrap();
            }
        }
        assert_eq!(
            tunnel.left.show("listen-port").unwrap().trim(),
            tunnel.left_port().to_string()
        );
        let said = tunnel.left.process.output();
        assert!(!said.contains("without sockets"), "{said}");
    }
}

#[test]
fn a_link_that_goes_down_under_load_goes_on_with_superframes_when_it_is_up_again() {
    let tunnel = culvert_tunnel().unwrap();
    let right = &tunnel.right;
    let address = tunnel.right_address(Family::V4);
    let server = IperfServer::start(&right.namespace, address).unwrap();
    let load = TcpLoad::forward(ENDLESS_S);
    let traffic = server.start_tcp(&tunnel.left.namespace, &load).unwrap();
    wait_until("a packet that meets a link that is down", SOON * 4, || {
        let superframes = || joined_batches(right, "coalesced").unwrap();
        let before = superframes();
        wait_until("superframes", SOON, || superframes() > before).unwrap();
        down_and_up(right);
        // The end that has forgotten its keys asks for others as soon as it has something to send.
        tunnel
            .wait_until_reachable(&right.namespace, tunnel.left_address(Family::V4))
            .unwrap();
        right.culvert_drops("tun_send", "failed").unwrap() > 0
    })
    .unwrap();
    drop(traffic);

    let status = right.culvert_json().unwrap();
    for worker in status["workers"].as_array().unwrap() {
        assert_eq!(worker["superframe_refused"], 0, "{worker}");
    }
}

#[test]
fn superframes_of_the_host_fit_one_send_and_those_that_it_forwards_are_not_cut() {
    let tunnel = culvert_tunnel().unwrap();
    let (namespace, interface) = (&tunnel.left.namespace, &tunnel.left.interface);
    for (forwarding, limit) in [(0, "gso_max_segs 45 "), (1, "gso_max_segs 65535 ")] {
        for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let line = format!("sysctl -q -w {setting}={forwarding}");
            namespace.run(&line).unwrap();
        }
        // Looked at whenever the link changes.
        down_and_up(&tunnel.left);
        wait_until(limit, SOON, || {
            let shown = namespace.run(&format!("ip -d link show {interface}"));
            shown.is_ok_and(|shown| shown.contains(limit))
        })
        .unwrap();
    }
}
