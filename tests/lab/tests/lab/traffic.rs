//! Ordinary traffic through a tunnel.

use culvert_lab::measure::{IperfServer, TcpLoad};
use culvert_lab::{Implementation, Namespace, TunnelPlan, culvert_program};

use crate::support::{FAMILIES, culvert_plan, culvert_tunnel, joined_batches, passes_traffic};

#[test]
fn files_pass_unharmed_over_ipv4_and_ipv6_inside_and_outside() {
    for outer in FAMILIES {
        let tunnel = TunnelPlan {
            outer,
            ..culvert_plan()
        }
        .build()
        .unwrap();
        tunnel.wait_until_up().unwrap();
        passes_traffic(&tunnel).unwrap();
    }
}

#[test]
fn files_pass_unharmed_whatever_is_switched_off() {
    for arguments in ["--no-offload", "--no-gso", "--no-offload --no-gso"] {
        let plain = Implementation::culvert_with(arguments);
        for (left, right) in [(&plain, &plain), (&plain, &Implementation::culvert())] {
            let tunnel = TunnelPlan::between(left, right).build().unwrap();
            tunnel.wait_until_up().unwrap();
            passes_traffic(&tunnel).unwrap();
        }
    }
}

#[test]
fn files_pass_unharmed_without_any_one_of_the_mechanisms_and_without_all_of_them() {
    let names = mechanisms();
    assert!(names.len() > 5, "{names:?}");
    let each = names.iter().map(|name| vec![name.clone()]);
    for left_out in each.chain([names.clone()]) {
        let arguments = format!("--without {}", left_out.join(","));
        let end = Implementation::culvert_with(&arguments);
        let tunnel = TunnelPlan::between(&end, &Implementation::culvert())
            .build()
            .unwrap();
        tunnel.wait_until_up().unwrap();
        passes_traffic(&tunnel).unwrap();
        let status = tunnel.left.culvert_json().unwrap();
        let is_told = |offload: &serde_json::Value| {
            let why = offload["off_because"].as_str();
            why.is_some_and(|why| why.ends_with("by configuration"))
        };
        let offloads = status["offloads"].as_array().unwrap();
        assert!(offloads.iter().any(is_told), "{arguments}: {status}");
    }
}

/// The mechanisms that `--without` knows, as it lists them to whoever names another.
fn mechanisms() -> Vec<String> {
    let line = format!(
        "{} wg --without none wg0",
        culvert_program().unwrap().display()
    );
    let refused = Namespace::new().unwrap().outcome(&line).unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let (_, listed) = said.split_once("[possible values: ").unwrap();
    let (listed, _) = listed.split_once(']').unwrap();
    listed.split(", ").map(str::to_owned).collect()
}

#[test]
fn without_segmentation_every_receive_holds_one_datagram() {
    let single = Implementation::culvert_with("--no-gso");
    // The sender's superframes would arrive whole.
    let tunnel = TunnelPlan::between(&Implementation::culvert(), &single)
        .build()
        .unwrap();
    tunnel.wait_until_up().unwrap();
    passes_traffic(&tunnel).unwrap();
    assert_eq!(joined_batches(&tunnel.right, "received").unwrap(), 0);
    // It is no fault of the other end's, nor of the link's.
    assert!(joined_batches(&tunnel.left, "sealed").unwrap() > 0);
}

#[test]
fn tcp_streams_run_both_ways_and_wg_shows_the_bytes() {
    let tunnel = culvert_tunnel().unwrap();
    for family in FAMILIES {
        let address = tunnel.right_address(family);
        let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
        for reverse in [false, true] {
            let load = TcpLoad {
                reverse,
                connections: 4,
                ..TcpLoad::forward(1)
            };
            let report = server.tcp(&tunnel.left.namespace, &load).unwrap();
            assert!(
                report.received_bytes > 0,
                "nothing arrived, reverse: {reverse}"
            );

            let shown = tunnel.left.show("transfer").unwrap();
            let bytes: Vec<u64> = shown
                .split_whitespace()
                .skip(1)
                .map(|word| word.parse().unwrap())
                .collect();
            let sent_bytes = if reverse { bytes[0] } else { bytes[1] };
            assert!(sent_bytes > report.received_bytes, "{shown} of {report:?}");
        }
    }
}

/// The number of attempts at a load that a busy machine may have spoilt.
const ATTEMPTS: usize = 3;

#[test]
fn udp_passes_without_loss_at_a_modest_rate() {
    let tunnel = culvert_tunnel().unwrap();
    for family in FAMILIES {
        let address = tunnel.right_address(family);
        let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
        for payload_bytes in [200, 1350] {
            let client = &tunnel.left.namespace;
            let load = || server.udp(client, 5_000_000, payload_bytes, 1).unwrap();
            // If the machine is busy, iperf3 may not empty its socket in time; that is not the tunnel's
            // loss, and does not happen each time.
            let mut reports = Vec::new();
            let arrived = (0..ATTEMPTS).any(|_| {
                reports.push(load());
                reports.iter().any(|report| report.lost_share < 0.01)
            });
            assert!(
                arrived,
                "{payload_bytes} bytes over {family:?}: {reports:?}"
            );
        }
    }
}
