//! The gate of a client: nothing comes in but answers to what left.

use crate::packets::{
    HERE, HERE_V6, echo, frame, host_unreachable, icmp_of, packet_of, superframe, tcp, udp_between,
};
use crate::remotes::{Remote, inner, inner_v6, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{Dropped, Inside, Lane, Snapshot};
use culvert_packet::Accept;
use culvert_packet::icmp::{self, Unreachable};
use culvert_policy::gate::{ClientGate, DropReason, Seed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Addresses of a router behind a gateway, which are in no range of a peer.
const ROUTERS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(172, 16, 9, 9)),
    IpAddr::V6(Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 9)),
];

fn at_client(remotes: &[&Remote]) -> Snapshot {
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (HERE, HERE_V6) else {
        panic!("{HERE} {HERE_V6}");
    };
    Snapshot {
        inside: Some(Inside { v4, v6 }),
        ..snapshot(remotes)
    }
}

fn worker(remotes: &[&Remote]) -> Worker {
    with_accept(Accept::NONE, remotes)
}

fn with_accept(accept: Accept, remotes: &[&Remote]) -> Worker {
    let gate = ClientGate::new(Seed::new([4; 32]));
    let setup = Setup {
        accept,
        client_gate: Some(Arc::new(gate)),
        ..Setup::default()
    };
    Worker::with(setup, at_client(remotes))
}

fn leave(worker: &mut Worker, packet: &[u8]) {
    worker.queue(BULK, frame(packet));
    worker.run();
    assert_eq!(worker.sent().len(), 1);
}

fn arrive(worker: &mut Worker, remote: &Remote, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    worker.arrive(Lane::V4, remote.seals(packets));
    worker.run();
    let written = worker.written();
    written.iter().map(|it| packet_of(it).to_vec()).collect()
}

#[test]
fn an_answer_comes_in_and_what_nobody_asked_for_does_not() {
    let gateway = Remote::new(1);
    let mut worker = worker(&[&gateway]);
    for (own, server) in [(HERE, inner(1)), (HERE_V6, inner_v6(1))] {
        leave(
            &mut worker,
            &udp_between((own, 40_000), (server, 53), b"question"),
        );
        let answer = udp_between((server, 53), (own, 40_000), b"answer");
        let unasked = udp_between((server, 53), (own, 40_001), b"answer");
        let arrived = arrive(&mut worker, &gateway, &[answer.clone(), unasked]);
        assert_eq!(arrived, [answer]);
    }
    assert_eq!(worker.gate_drops(), [(DropReason::NotAFlow, 2)]);
    assert_eq!(worker.drops(), []);
    // Nobody hears of what is dropped.
    assert!(worker.sent().is_empty());
}

#[test]
fn an_echo_request_is_not_answered() {
    let gateway = Remote::new(1);
    let mut worker = worker(&[&gateway]);
    let arrived = arrive(&mut worker, &gateway, &[echo(inner(1), HERE)]);
    assert!(arrived.is_empty());
    assert_eq!(worker.gate_drops(), [(DropReason::NotOpened, 1)]);
}

#[test]
fn an_answer_of_another_gateway_than_the_one_that_has_the_address_is_none() {
    let (gateway, other) = (Remote::new(1), Remote::new(2));
    let mut worker = worker(&[&gateway, &other]);
    leave(
        &mut worker,
        &udp_between((HERE, 40_000), (inner(1), 53), b"question"),
    );
    let answer = udp_between((inner(1), 53), (HERE, 40_000), b"answer");
    assert!(arrive(&mut worker, &other, std::slice::from_ref(&answer)).is_empty());
    assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, 1)]);
    assert_eq!(
        arrive(&mut worker, &gateway, std::slice::from_ref(&answer)),
        [answer]
    );
}

#[test]
fn a_gateway_says_nothing_of_flows_through_another() {
    let ends = [
        (HERE, [inner(1), inner(2)], ROUTERS[0]),
        (HERE_V6, [inner_v6(1), inner_v6(2)], ROUTERS[1]),
    ];
    for (own, [server, of_other], router) in ends {
        let (gateway, other) = (Remote::new(1), Remote::new(2));
        let mut worker = worker(&[&gateway, &other]);
        let question = udp_between((own, 40_000), (server, 53), b"question");
        leave(&mut worker, &question);
        let error_from = |source| host_unreachable(source, own, &question);
        // From an address of its own, such an error gets as far as the gate.
        let of_its_own = error_from(of_other);
        assert!(arrive(&mut worker, &other, &[of_its_own]).is_empty());
        assert_eq!(worker.gate_drops(), [(DropReason::OtherGateway, 1)]);
        assert_eq!(worker.drops(), []);
        // From any other one it does not, and neither does an answer.
        let answer = udp_between((server, 53), (own, 40_000), b"answer");
        for (count, forged) in (1..).zip([error_from(server), error_from(router), answer]) {
            assert!(arrive(&mut worker, &other, std::slice::from_ref(&forged)).is_empty());
            assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, count)]);
            let arrived = arrive(&mut worker, &gateway, std::slice::from_ref(&forged));
            assert_eq!(arrived, [forged], "from the flow's own gateway");
        }
        assert_eq!(worker.gate_drops(), [(DropReason::OtherGateway, 1)]);
    }
}

/// A segment of the server to a client whose connection the packets of [`tcp`] are of.
fn answer(sequence: u32) -> Vec<u8> {
    let mut segment = tcp(inner(1), HERE, sequence, &[7; 100]);
    // Exchanged ports have the same sum.
    let [from, to] = [[segment[20], segment[21]], [segment[22], segment[23]]];
    segment[20..22].copy_from_slice(&to);
    segment[22..24].copy_from_slice(&from);
    segment
}

#[test]
fn packets_that_are_joined_are_judged_together() {
    let gateway = Remote::new(1);
    let mut worker = with_accept(Accept::ALL, &[&gateway]);
    let segments: Vec<_> = (0..4).map(|number| answer(1 + number * 100)).collect();
    assert!(arrive(&mut worker, &gateway, &segments).is_empty());
    assert_eq!(worker.gate_drops(), [(DropReason::NotAFlow, 4)]);
    // A superframe of the host is remembered as one packet is.
    worker.queue(BULK, superframe(HERE, inner(1), 3));
    worker.run();
    assert!(!worker.sent().is_empty());
    worker.arrive(Lane::V4, gateway.seals(&segments));
    worker.run();
    assert_eq!(worker.written().len(), 1, "one superframe");
    assert_eq!(worker.gate_drops(), [(DropReason::NotAFlow, 4)]);
}

#[test]
fn what_a_router_behind_the_gateway_says_of_an_own_packet_comes_in() {
    let gateway = Remote::new(1);
    let mut worker = worker(&[&gateway]);
    let question = udp_between((HERE, 40_000), (inner(1), 53), b"question");
    let lie = host_unreachable(ROUTERS[0], HERE, &question);
    assert!(arrive(&mut worker, &gateway, std::slice::from_ref(&lie)).is_empty());
    assert_eq!(worker.gate_drops(), [(DropReason::NotAFlow, 1)]);
    leave(&mut worker, &question);
    let arrived = arrive(&mut worker, &gateway, &[lie]);
    assert_eq!(arrived.len(), 1);
    assert_eq!(icmp_of(&arrived[0]), [3, 1]);
}

#[test]
fn a_refusal_of_a_packet_that_never_left_is_not_heard() {
    let gateway = Remote::new(1);
    let mut worker = worker(&[&gateway]);
    worker.device().control.unrouted_room.set(Some(1));
    let question = udp_between((HERE, 40_000), (inner(1), 53), b"question");
    let mut refusal = [0; 1280];
    let len = icmp::refusal(&question, Unreachable::Prohibited, &mut refusal).unwrap();
    let refusal = refusal[..len].to_vec();
    assert!(arrive(&mut worker, &gateway, std::slice::from_ref(&refusal)).is_empty());
    assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, 1)]);
    assert!(worker.device().control.unrouted.take().is_empty());
    leave(&mut worker, &question);
    assert!(arrive(&mut worker, &gateway, &[refusal]).is_empty());
    assert_eq!(worker.device().control.unrouted.take().len(), 1);
}
