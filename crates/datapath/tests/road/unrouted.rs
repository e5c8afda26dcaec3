//! Packets without a route, for an owner who may find one, and those that a peer refuses.

use crate::packets::{HERE, HERE_V6, frame, icmp_of, packet_of, superframe, udp};
use crate::remotes::{Remote, inner, snapshot};
use crate::worker::{BULK, Worker};
use culvert_datapath::{Command, Dropped, Inside, Lane, RouteRefusal, Snapshot};
use culvert_packet::icmp::{self, Unreachable};
use std::net::IpAddr;

/// A worker whose packets without a route are taken, as long as there is room.
fn worker(snapshot: Snapshot, room: usize) -> Worker {
    let mut worker = Worker::new(snapshot);
    worker.device().control.unrouted_room.set(Some(room));
    worker
}

#[test]
fn a_packet_without_a_route_is_handed_to_its_owner_whole_and_not_answered() {
    let mut worker = worker(snapshot(&[&Remote::new(1)]), 10);
    let packet = udp(HERE, inner(9), b"somewhere");
    worker.queue(BULK, frame(&packet));
    worker.run();
    let taken = worker.device().control.unrouted.take();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].packet(), packet);
    assert_eq!(taken[0].destination(), Some(inner(9)));
    assert_eq!(taken[0].size_bytes(), packet.len() + 10);
    assert_eq!(taken[0].refused_by_peer(), None);
    assert_eq!(worker.drops(), []);
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
}

#[test]
fn packets_that_their_owner_has_no_room_for_are_counted() {
    let mut worker = worker(snapshot(&[&Remote::new(1)]), 1);
    worker.queue(BULK, frame(&udp(HERE, inner(9), b"")));
    worker.queue(BULK, superframe(HERE, inner(9), 20));
    worker.queue(BULK, frame(&udp(HERE, inner(9), b"")));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::UnroutedFull, 21)]);
}

#[test]
fn a_frame_that_got_a_route_leaves_under_the_snapshot_that_has_it_and_not_before() {
    let (known, found) = (Remote::new(1), Remote::new(9));
    let mut worker = worker(snapshot(&[&known]), 10);
    let packet = udp(HERE, inner(9), b"somewhere");
    worker.queue(BULK, frame(&packet));
    worker.run();
    let unrouted = worker.device().control.unrouted.take().remove(0);
    // The first snapshot was the worker's first.
    let (to, command) = unrouted.resume_at(2);
    assert_eq!(to, 0);
    worker.command(command);
    for _ in 0..3 {
        worker.turn();
    }
    assert_eq!(worker.sent(), []);
    worker.publish(snapshot(&[&known, &found]));
    worker.run();
    assert_eq!(found.opens(&worker.sent()), [packet]);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_frame_that_waits_for_its_route_leaves_ahead_of_what_is_read_then() {
    let found = Remote::new(9);
    let mut worker = worker(snapshot(&[&Remote::new(1)]), 10);
    let (first, second) = (
        udp(HERE, inner(9), b"first"),
        udp(HERE, inner(9), b"second"),
    );
    worker.queue(BULK, frame(&first));
    worker.run();
    let unrouted = worker.device().control.unrouted.take().remove(0);
    worker.command(unrouted.resume_at(2).1);
    worker.queue(BULK, frame(&second));
    worker.publish(snapshot(&[&found]));
    worker.run();
    assert_eq!(found.opens(&worker.sent()), [first, second]);
}

#[test]
fn more_frames_than_one_change_resumes_are_counted() {
    let found = Remote::new(9);
    let mut worker = worker(snapshot(&[&Remote::new(1)]), 10);
    for _ in 0..1024 {
        worker.command(Command::Resume {
            frame: frame(&udp(HERE, inner(9), b"")).into(),
            generation: 2,
        });
    }
    for segments in [1, 7] {
        worker.command(Command::Resume {
            frame: superframe(HERE, inner(9), segments).into(),
            generation: 2,
        });
    }
    worker.turn();
    assert_eq!(worker.drops(), [(Dropped::StageFull, 8)]);
    worker.publish(snapshot(&[&found]));
    worker.run();
    assert_eq!(found.opens(&worker.sent()).len(), 1024);
}

#[test]
fn a_frame_that_goes_nowhere_is_counted_and_its_sender_hears_why() {
    for (refusal, code) in [
        (RouteRefusal::Prohibited, 13),
        (RouteRefusal::Unreachable, 1),
    ] {
        let mut worker = worker(snapshot(&[&Remote::new(1)]), 10);
        let packet = udp(HERE, inner(9), b"somewhere");
        worker.queue(BULK, frame(&packet));
        worker.run();
        let unrouted = worker.device().control.unrouted.take().remove(0);
        worker.command(unrouted.refuse(refusal).1);
        worker.run();
        assert_eq!(worker.drops(), [(Dropped::NoPeer, 1)]);
        let written = worker.written();
        assert_eq!(icmp_of(packet_of(&written[0])), [3, code]);
        assert!(written[0].ends_with(&packet));
    }
}

#[test]
fn a_superframe_that_goes_nowhere_counts_each_of_its_packets() {
    let mut worker = worker(snapshot(&[&Remote::new(1)]), 10);
    worker.queue(BULK, superframe(HERE, inner(9), 12));
    worker.run();
    let unrouted = worker.device().control.unrouted.take().remove(0);
    worker.command(unrouted.refuse(RouteRefusal::Unreachable).1);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::NoPeer, 12)]);
}

/// The snapshot of an end that knows its own addresses.
fn snapshot_with_inside(remote: &Remote) -> Snapshot {
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (HERE, HERE_V6) else {
        panic!("one of each");
    };
    Snapshot {
        inside: Some(Inside { v4, v6 }),
        ..snapshot(&[remote])
    }
}

/// The answer of a peer to a packet of this end that it does not let pass.
fn refusal_of(packet: &[u8], kind: Unreachable) -> Vec<u8> {
    let mut refusal = [0; 1280];
    let len = icmp::refusal(packet, kind, &mut refusal).unwrap();
    refusal[..len].to_vec()
}

#[test]
fn the_owner_of_unrouted_packets_hears_which_packet_a_peer_refuses_and_why() {
    for (kind, refusal) in [
        (Unreachable::Prohibited, RouteRefusal::Prohibited),
        (Unreachable::Host, RouteRefusal::Unreachable),
    ] {
        let remote = Remote::new(1);
        let mut worker = worker(snapshot_with_inside(&remote), 10);
        let packet = udp(HERE, remote.inner(), b"not allowed");
        worker.arrive(Lane::V4, remote.seals(&[refusal_of(&packet, kind)]));
        worker.run();
        let taken = worker.device().control.unrouted.take();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].refused_by_peer(), Some(refusal));
        assert_eq!(taken[0].destination(), Some(remote.inner()));
        assert_eq!(worker.written(), Vec::<Vec<u8>>::new(), "the owner decides");
        assert_eq!(worker.drops(), []);
    }
}

#[test]
fn a_refusal_of_a_packet_to_somebody_else_is_no_word_of_the_peer() {
    let remote = Remote::new(1);
    let mut worker = worker(snapshot_with_inside(&remote), 10);
    let packet = udp(HERE, inner(2), b"to another peer");
    let refusal = refusal_of(&packet, Unreachable::Prohibited);
    worker.arrive(Lane::V4, remote.seals(&[refusal]));
    worker.run();
    assert_eq!(worker.device().control.unrouted.take().len(), 0);
    assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, 1)]);
}

#[test]
fn an_error_of_a_router_behind_the_peer_passes_from_whatever_address() {
    let remote = Remote::new(1);
    let mut worker = worker(snapshot_with_inside(&remote), 10);
    let packet = udp(HERE, remote.inner(), b"too far");
    let mut error = [0; 576];
    // As if a router with the address of the packet's destination had written it.
    let len = icmp::unreachable(&packet, Unreachable::Host, &mut error).unwrap();
    let mut error = error[..len].to_vec();
    let router = [203, 0, 113, 9];
    error[12..16].copy_from_slice(&router);
    fix_header_checksum(&mut error);
    worker.arrive(Lane::V4, remote.seals(&[error.clone()]));
    worker.run();
    let written = worker.written();
    assert_eq!(written.len(), 1);
    assert_eq!(packet_of(&written[0]), error);
    assert_eq!(worker.drops(), []);
}

pub(crate) fn fix_header_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}
