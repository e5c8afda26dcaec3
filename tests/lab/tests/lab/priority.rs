//! Priority packets have a lane of their own.

use std::net::{SocketAddr, UdpSocket};

use culvert_lab::measure::{IperfServer, TcpLoad};
use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, WireGuardEnd, wait_until};

use crate::support::{FAMILIES, PacketCounter, SOON, apply_rule, culvert_plan, passes_traffic};

/// The port on which bulk data is received.
const BULK_PORT: u16 = 9000;

/// A flow on this port has priority.
const PRIORITY_PORT: u16 = 53;

/// Less than any queue on the way holds.
const BULK_DATAGRAMS: u64 = 200;

const BULK: &[u8] = &[1; 1200];
const PRIORITY: &[u8] = b"priority";

/// A tunnel between two ends with these arguments, its datagrams of one family.
fn tunnel(arguments: [&str; 2], outer: Family) -> Tunnel {
    let [left, right] = arguments.map(Implementation::culvert_with);
    let plan = TunnelPlan {
        outer,
        ..TunnelPlan::between(&left, &right)
    };
    let tunnel = plan.build().unwrap();
    tunnel.wait_until_up().unwrap();
    tunnel
}

/// Counts datagrams of the tunnel that arrive on the right and match `class`.
fn count_outside(tunnel: &Tunnel, class: &str) -> PacketCounter {
    let (link, port) = (&tunnel.link.interface, tunnel.right_port());
    let rule = format!("iifname {link} udp dport {port} {class}");
    PacketCounter::new(&tunnel.right.namespace, "prerouting", &rule).unwrap()
}

/// The packet that the receiver of the right end reads first, after bulk and a priority packet have arrived, in this order, while that
/// end stood still.
fn first_read(tunnel: &Tunnel) -> Vec<u8> {
    let rule = format!("udp dport {PRIORITY_PORT} udp dport set {BULK_PORT}");
    apply_rule(&tunnel.right.namespace, "prerouting", &rule).unwrap();
    let at = tunnel.right_address(Family::V4);
    let listen = || Ok(UdpSocket::bind((at, BULK_PORT))?);
    let receiver = tunnel.right.namespace.inside(listen).unwrap();
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let from = tunnel.left_address(Family::V4);
    let sender = || Ok(UdpSocket::bind((from, 0))?);
    let sender = tunnel.left.namespace.inside(sender).unwrap();

    let short = count_outside(tunnel, "udp length < 200");
    tunnel.right.process.pause().unwrap();
    let sent_bytes = || sent_bytes(tunnel);
    let before = sent_bytes();
    for _ in 0..BULK_DATAGRAMS {
        sender.send_to(BULK, (at, BULK_PORT)).unwrap();
    }
    wait_until("all bulk on its way", SOON, || {
        sent_bytes() - before >= BULK_DATAGRAMS * BULK.len() as u64
    })
    .unwrap();
    let before = short.packets().unwrap();
    sender.send_to(PRIORITY, (at, PRIORITY_PORT)).unwrap();
    wait_until("a priority packet behind it", SOON, || {
        short.packets().unwrap() > before
    })
    .unwrap();
    tunnel.right.process.resume().unwrap();
    let mut first = vec![0; BULK.len()];
    let (length, _) = receiver.recv_from(&mut first).unwrap();
    first.truncate(length);
    first
}

/// The bytes that the left end has sent to its peer.
fn sent_bytes(tunnel: &Tunnel) -> u64 {
    let transfer = tunnel.left.show("transfer").unwrap();
    let sent = transfer.split_ascii_whitespace().next_back().unwrap();
    sent.parse().unwrap()
}

/// The number of times that workers of the left end polled for an answer.
fn busy_polls(tunnel: &Tunnel) -> u64 {
    of_all_workers(&tunnel.left, "busy_polls")
}

/// A counter of an end's workers, all together.
fn of_all_workers(end: &WireGuardEnd, counter: &str) -> u64 {
    let status = end.culvert_json().unwrap();
    let workers = status["workers"].as_array().unwrap();
    let counters = workers.iter().map(|worker| worker[counter].as_u64());
    counters.map(Option::unwrap).sum()
}

#[test]
fn priority_packets_pass_the_bulk_that_waits_at_the_receiver() {
    for outer in FAMILIES {
        let tunnel = tunnel(["", ""], outer);
        assert_eq!(first_read(&tunnel), PRIORITY, "{outer:?}");
    }
}

#[test]
fn a_worker_in_the_middle_of_a_turn_carries_priority_packets_in() {
    let tunnel = tunnel(["", ""], Family::V4);
    let (left, right) = (&tunnel.left.namespace, tunnel.right_address(Family::V4));
    let server = IperfServer::start(&tunnel.right.namespace, right).unwrap();
    let load = TcpLoad::forward(2 * SOON.as_secs() as u32);
    let _bulk = server.start_tcp(left, &load).unwrap();
    wait_until("a priority datagram between two of bulk", SOON, || {
        let pings = format!("ping -q -c 50 -i 0.002 {right}");
        left.run(&pings).unwrap();
        of_all_workers(&tunnel.right, "mid_turn") > 0
    })
    .unwrap();
}

#[test]
fn without_priority_at_either_end_all_comes_in_the_order_in_which_it_was_sent() {
    for arguments in [["--without priority", ""], ["", "--without priority"]] {
        let tunnel = tunnel(arguments, Family::V4);
        assert_eq!(first_read(&tunnel), BULK, "{arguments:?}");
    }
}

#[test]
fn handshakes_and_pings_are_marked_and_bulk_is_not() {
    let tunnel = culvert_plan().build().unwrap();
    let handshakes = count_outside(&tunnel, "ip dscp af41 udp length 156");
    tunnel.wait_until_up().unwrap();
    assert!(handshakes.packets().unwrap() > 0);

    let marked = count_outside(&tunnel, "ip dscp af41");
    let others = count_outside(&tunnel, "ip dscp != af41");
    let (left, right) = (&tunnel.left.namespace, tunnel.right_address(Family::V4));
    left.run(&format!("ping -q -c 3 -i 0.1 {right}")).unwrap();
    assert!(marked.packets().unwrap() >= 3);
    assert_eq!(others.packets().unwrap(), 0, "nothing else was sent");

    let from = SocketAddr::new(tunnel.left_address(Family::V4), 0);
    let socket = left.inside(|| Ok(UdpSocket::bind(from)?)).unwrap();
    socket.send_to(BULK, (right, BULK_PORT)).unwrap();
    wait_until("bulk without a mark", SOON, || {
        others.packets().unwrap() > 0
    })
    .unwrap();
}

#[test]
fn a_worker_looks_for_the_answer_to_a_ping_and_to_nothing_else() {
    for (arguments, expected) in [(["", ""], true), (["--without priority", ""], false)] {
        let tunnel = tunnel(arguments, Family::V4);
        let before = busy_polls(&tunnel);
        let from = SocketAddr::new(tunnel.left_address(Family::V4), 0);
        let socket = || Ok(UdpSocket::bind(from)?);
        let socket = tunnel.left.namespace.inside(socket).unwrap();
        let right = tunnel.right_address(Family::V4);
        // If nobody listens, an ICMP message would come back.
        let listen = || Ok(UdpSocket::bind((right, BULK_PORT))?);
        let _listener = tunnel.right.namespace.inside(listen).unwrap();
        let sent = sent_bytes(&tunnel);
        socket.send_to(BULK, (right, BULK_PORT)).unwrap();
        wait_until("bulk on its way", SOON, || {
            sent_bytes(&tunnel) - sent >= BULK.len() as u64
        })
        .unwrap();
        assert_eq!(busy_polls(&tunnel), before);

        // Looks are rare where answers don't come in time, as on a crowded machine.
        let pings = format!("ping -q -c 15 -i 0.1 {right}");
        tunnel.left.namespace.run(&pings).unwrap();
        assert_eq!(busy_polls(&tunnel) > before, expected, "{arguments:?}");
    }
}

#[test]
fn without_the_right_to_load_programs_all_is_carried_and_the_status_says_what_is_missing() {
    let left = Implementation::culvert_without_programs();
    let plan = TunnelPlan::between(&left, &Implementation::culvert());
    let tunnel = plan.build().unwrap();
    tunnel.wait_until_up().unwrap();
    passes_traffic(&tunnel).unwrap();
    let status = tunnel.left.culvert_json().unwrap();
    let offloads = status["offloads"].as_array().unwrap();
    for name in ["steering", "queue_bound", "priority"] {
        let offload = offloads.iter().find(|offload| offload["name"] == name);
        let why = offload.and_then(|offload| offload["off_because"].as_str());
        let is_told = why.is_some_and(|why| why.ends_with("needs CAP_BPF"));
        assert!(is_told, "{name}: {status}");
    }
}

#[test]
fn ends_with_and_without_priority_understand_each_other() {
    let tunnel = tunnel(["--without priority", ""], Family::V4);
    passes_traffic(&tunnel).unwrap();
}
