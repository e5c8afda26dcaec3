//! Batches: what leaves in one send, where they are cut, and what becomes of those that can't leave.

use crate::device::Sent;
use crate::packets::{HERE, HERE_V6, frame, number_of, numbered, superframe, udp};
use crate::remotes::{MTU, Remote, endpoint, inner_v6, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS, PRIORITY_CLASS};
use culvert_base::frames::PRIORITY_QUEUE;
use culvert_datapath::{Dropped, Event, Lane, Mechanism, Mechanisms, Peer, SendFault};
use culvert_packet::ecn::Ecn;
use culvert_packet::ip::IpView;
use proptest::prelude::*;
use std::sync::Arc;

/// Packets of full size that leave in one send.
const FULL: usize = MAX_GSO_BYTES / (MTU as usize + 32);

fn packet(remote: &Remote, number: u32, len: usize) -> Vec<u8> {
    numbered(HERE, remote.inner(), number, len, Ecn::NotEct)
}

fn without(mechanism: Mechanism) -> Setup {
    Setup {
        mechanisms: Mechanisms::ALL.without(mechanism),
        ..Setup::default()
    }
}

/// Records in each send.
fn records(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(|sent| sent.datagrams().count()).collect()
}

fn fail_sends(worker: &mut Worker, faults: &[Option<SendFault>]) {
    let queue = &worker.device().sockets.send_faults;
    queue.borrow_mut().extend(faults);
}

#[test]
fn packets_that_are_queued_behind_each_other_leave_in_one_send() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let packets: Vec<_> = (0..10).map(|number| packet(&remote, number, 500)).collect();
    for packet in &packets {
        worker.queue(BULK, frame(packet));
    }
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [10]);
    assert_eq!(remote.opens(&sent), packets);
    assert_eq!(worker.counters.frames_joined.read(), 9);
    assert_eq!(worker.counters.udp_sends.read(), 1);
    assert_eq!(worker.counters.sealed.packets.read(), 10);
}

#[test]
fn without_batching_each_frame_has_a_send_of_its_own() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(without(Mechanism::Batching), snapshot(&[&remote]));
    for number in 0..4 {
        worker.queue(BULK, frame(&packet(&remote, number, 500)));
    }
    worker.run();
    assert_eq!(records(&worker.sent()), [1; 4]);
    assert_eq!(worker.counters.frames_joined.read(), 0);
}

#[test]
fn without_segmentation_each_record_has_a_send_of_its_own() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(without(Mechanism::Segmentation), snapshot(&[&remote]));
    worker.queue(BULK, superframe(HERE, remote.inner(), 5));
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [1; 5]);
    assert_eq!(remote.opens(&sent).len(), 5);
    assert_eq!(
        worker.counters.sealed.packets.read(),
        5,
        "sealed as one batch"
    );
}

#[test]
fn a_superframe_of_more_than_one_send_carries_is_cut_between_two_records() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.queue(BULK, superframe(HERE, remote.inner(), FULL + 1));
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [FULL, 1]);
    assert!(sent[0].bytes.len() <= MAX_GSO_BYTES);
    let sequences = remote.opens(&sent);
    let sequences = sequences
        .iter()
        .map(|it| u32::from_be_bytes(it[24..28].try_into().unwrap()));
    let expected = (0..=FULL as u32).map(|at| 1 + at * 1380);
    assert!(sequences.eq(expected));
}

#[test]
fn a_batch_holds_as_many_small_records_as_the_kernel_cuts() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let many = 2 * MAX_SEGMENTS as u32 + 3;
    for number in 0..many {
        worker.queue(BULK, frame(&packet(&remote, number, 50)));
    }
    worker.run();
    let sent = worker.sent();
    let records = records(&sent);
    assert!(
        records.iter().all(|count| *count <= MAX_SEGMENTS),
        "{records:?}"
    );
    assert_eq!(records[0], MAX_SEGMENTS);
    let numbers: Vec<u32> = remote.opens(&sent).iter().map(|it| number_of(it)).collect();
    assert!(numbers.into_iter().eq(0..many));
}

#[test]
fn a_shorter_record_ends_a_batch_and_a_longer_one_begins_another() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for (number, len) in [500, 500, 100, 500, 900, 900].into_iter().enumerate() {
        worker.queue(BULK, frame(&packet(&remote, number as u32, len)));
    }
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [3, 1, 2]);
    let numbers: Vec<u32> = remote.opens(&sent).iter().map(|it| number_of(it)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn packets_of_another_peer_or_another_congestion_mark_have_a_batch_of_their_own() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut worker = Worker::new(snapshot(&[&remotes[0], &remotes[1]]));
    let marked = |bits| frame(&numbered(HERE, remotes[0].inner(), 0, 100, bits));
    worker.queue(BULK, frame(&packet(&remotes[0], 0, 100)));
    worker.queue(BULK, frame(&packet(&remotes[1], 0, 100)));
    worker.queue(BULK, frame(&packet(&remotes[0], 0, 100)));
    worker.queue(BULK, marked(Ecn::Ect0));
    worker.queue(BULK, marked(Ecn::Ect0));
    worker.queue(BULK, marked(Ecn::Ce));
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [1, 1, 1, 2, 1]);
    let classes: Vec<u8> = sent.iter().map(|sent| sent.class).collect();
    assert_eq!(
        classes,
        [0, 0, 0, 2, 3],
        "RFC 6040: the outer header repeats the mark"
    );
    assert_eq!(sent[1].to.address, endpoint(2));
}

#[test]
fn priority_packets_are_marked_and_leave_before_what_waits() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.queue(BULK, superframe(HERE, remote.inner(), FULL));
    worker.queue(PRIORITY_QUEUE, frame(&packet(&remote, 7, 50)));
    worker.run();
    let sent = worker.sent();
    assert_eq!(sent[0].class, PRIORITY_CLASS);
    assert_eq!(number_of(&remote.opens(&sent[..1])[0]), 7);
    assert_eq!(sent[1].class, 0);
}

#[test]
fn without_the_mechanism_priority_packets_are_not_marked() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(without(Mechanism::Priority), snapshot(&[&remote]));
    worker.queue(PRIORITY_QUEUE, frame(&packet(&remote, 7, 50)));
    worker.run();
    assert_eq!(worker.sent()[0].class, 0);
}

#[test]
fn a_new_key_begins_a_new_batch() {
    let (old, new) = (Remote::new(1), Remote::that_began(1).confirmed());
    let mut worker = Worker::new(snapshot(&[&old]));
    worker.queue(BULK, frame(&packet(&old, 0, 100)));
    worker.run();
    worker.publish(snapshot(&[&new]));
    worker.queue(BULK, frame(&packet(&new, 1, 100)));
    worker.run();
    let sent = worker.sent();
    assert_eq!(number_of(&old.opens(&sent[..1])[0]), 0);
    assert_eq!(number_of(&new.opens(&sent[1..])[0]), 1);
}

#[test]
fn padding_hides_the_length_of_a_packet_up_to_sixteen_bytes() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for len in [0, 1, 15, 16] {
        worker.queue(BULK, frame(&udp(HERE, remote.inner(), &vec![0xff; len])));
        worker.run();
        let sent = worker.sent();
        assert_eq!(sent[0].bytes.len() % 16, 0, "{len}");
        let opened = remote.opens(&sent);
        assert_eq!(IpView::parse(&opened[0]).unwrap().total_len(), 28 + len);
    }
}

#[test]
fn a_full_socket_keeps_the_batch_in_its_place_until_it_has_room() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, frame(&packet(&remote, 0, 100)));
    worker.run();
    assert!(worker.device().sockets.watched[Lane::V4 as usize]);
    assert_eq!(worker.counters.udp_blocked.read(), 1);
    // Packets that come meanwhile wait in the TUN.
    worker.queue(BULK, frame(&packet(&remote, 1, 100)));
    worker.queue(PRIORITY_QUEUE, frame(&packet(&remote, 2, 100)));
    worker.run();
    assert_eq!(worker.sent(), []);
    assert_eq!(worker.counters.tun_frames_received.read(), 1);
    worker.has_room(Lane::V4);
    worker.run();
    assert!(!worker.device().sockets.watched[Lane::V4 as usize]);
    let opened = remote.opens(&worker.sent());
    let numbers: Vec<u32> = opened.iter().map(|it| number_of(it)).collect();
    assert_eq!(numbers, [0, 2, 1]);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_socket_of_ipv6_is_watched_for_a_peer_over_ipv6() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.set_endpoint("[2001:db8::1]:1".parse().unwrap());
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, frame(&packet(&remote, 0, 100)));
    worker.run();
    assert!(worker.device().sockets.watched[Lane::V6 as usize]);
    assert!(!worker.device().sockets.watched[Lane::V4 as usize]);
}

#[test]
fn a_batch_that_was_sent_in_part_goes_on_where_it_stopped() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(without(Mechanism::Segmentation), snapshot(&[&remote]));
    let faults = [None, None, Some(SendFault::WouldBlock)];
    fail_sends(&mut worker, &faults);
    worker.queue(BULK, superframe(HERE, remote.inner(), 5));
    worker.run();
    assert_eq!(worker.device().sockets.sent.borrow().len(), 2);
    worker.has_room(Lane::V4);
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [1; 5]);
    assert_eq!(remote.opens(&sent).len(), 5, "none twice");
}

#[test]
fn a_path_that_is_too_narrow_for_a_run_gets_its_records_one_by_one() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    fail_sends(&mut worker, &[Some(SendFault::TooBig)]);
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [1, 1, 1]);
    let told = worker.events().into_iter().find_map(|event| match event {
        Event::SegmentationRefused(id, len) => Some((id, len)),
        _ => None,
    });
    assert_eq!(told, Some((remote.id(), sent[0].stride)));
    assert_eq!(worker.counters.segmentation_refused.read(), 1);
    // The next run is not tried before the path is found wider.
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    worker.run();
    assert_eq!(records(&worker.sent()), [1, 1, 1]);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_host_that_refuses_to_cut_is_asked_again_until_it_has_refused_three_times() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let unsupported = Some(SendFault::SegmentationUnsupported);
    for (round, told) in [(1, 0), (2, 0), (3, 1)] {
        fail_sends(&mut worker, &[unsupported]);
        worker.queue(BULK, superframe(HERE, remote.inner(), 3));
        worker.run();
        assert_eq!(records(&worker.sent()), [1, 1, 1]);
        assert_eq!(worker.counters.segmentation_refused.read(), round);
        let is_told = |event: &Event| matches!(event, Event::SegmentationRefused(..));
        assert_eq!(worker.events().into_iter().filter(is_told).count(), told);
    }
    // Then it is left alone for ten milliseconds.
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    worker.run();
    assert_eq!(records(&worker.sent()), [1, 1, 1]);
    worker.advance(std::time::Duration::from_millis(10));
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    worker.run();
    assert_eq!(records(&worker.sent()), [3]);
}

#[test]
fn a_record_that_the_path_refuses_is_counted_and_the_others_leave() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(without(Mechanism::Segmentation), snapshot(&[&remote]));
    fail_sends(&mut worker, &[None, Some(SendFault::TooBig), None]);
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::SendTooBig, 1)]);
    assert_eq!(worker.sent().len(), 2);
}

#[test]
fn each_record_of_a_send_that_fails_for_good_is_counted() {
    for (fault, segments) in [(SendFault::Other, 5), (SendFault::NoSocket, 7)] {
        let remote = Remote::new(1);
        let mut worker = Worker::new(snapshot(&[&remote]));
        fail_sends(&mut worker, &[Some(fault)]);
        worker.queue(BULK, superframe(HERE, remote.inner(), segments));
        worker.run();
        assert_eq!(worker.drops(), [(Dropped::SendFailed, segments as u64)]);
        assert_eq!(worker.sent(), []);
    }
}

#[test]
fn a_fault_that_passes_has_a_run_sent_apart_and_a_record_sent_twice_more() {
    let passing = Some(SendFault::Passing);
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    fail_sends(&mut worker, &[passing, passing, passing]);
    worker.queue(BULK, superframe(HERE, remote.inner(), 2));
    worker.run();
    assert_eq!(records(&worker.sent()), [1, 1]);
    assert_eq!(worker.drops(), []);
    fail_sends(&mut worker, &[passing; 4]);
    worker.queue(BULK, superframe(HERE, remote.inner(), 2));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::SendFailed, 1)]);
    assert_eq!(records(&worker.sent()), [1]);
}

#[test]
fn a_source_address_that_is_gone_is_forgotten_and_the_batch_sent_again() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let local = culvert_base::LocalAddress {
        ip: [198, 51, 100, 7].into(),
        interface: 3,
    };
    remote.peer.roam(endpoint(1), Some(local));
    fail_sends(&mut worker, &[Some(SendFault::SourceGone)]);
    worker.queue(BULK, superframe(HERE, remote.inner(), 2));
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [2]);
    assert_eq!(sent[0].to.source, None);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_peer_that_is_removed_behind_a_full_socket_has_the_rest_of_its_frame_counted() {
    let (gone, other) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot(&[&gone, &other]));
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, superframe(HERE, gone.inner(), FULL + 2));
    worker.run();
    worker.publish(snapshot(&[&other]));
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::PeerGone, 2)]);
    assert_eq!(
        records(&worker.sent()),
        [FULL],
        "what was sealed before leaves"
    );
}

#[test]
fn a_number_that_another_peer_has_by_now_gets_nothing_of_the_one_before() {
    let (gone, next) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot(&[&gone]));
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, superframe(HERE, gone.inner(), FULL + 2));
    worker.run();
    let mut reused = snapshot(&[&next]);
    let number = gone.id();
    let peer = Peer::new(number, next.peer.public_key, Arc::default());
    peer.set_keys(Some(Arc::clone(&next.receiving)), None);
    reused.peers.insert(peer.id, Arc::new(peer));
    reused.peers.remove(next.id());
    worker.publish(reused);
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::PeerGone, 2)]);
    assert_eq!(
        next.receiving
            .reserve(1, crate::device::START)
            .unwrap()
            .first(),
        0
    );
}

#[test]
fn a_key_that_is_retired_behind_a_full_socket_seals_nothing_more() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, superframe(HERE, remote.inner(), FULL + 2));
    worker.run();
    remote.sending().transport.retire();
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(records(&worker.sent()), [FULL]);
    assert_eq!(worker.drops(), [(Dropped::PeerGone, 2)]);
}

#[test]
fn batches_of_two_workers_leave_in_the_order_of_their_counters() {
    let remote = Remote::new(1);
    let [mut first, mut second] = [0, 1].map(|worker| {
        let setup = Setup {
            worker,
            ..Setup::default()
        };
        Worker::with(setup, snapshot(&[&remote]))
    });
    // The first seals and finds its socket full; the second seals behind it.
    fail_sends(&mut first, &[Some(SendFault::WouldBlock)]);
    first.queue(BULK, frame(&packet(&remote, 0, 100)));
    first.run();
    second.queue(BULK, frame(&packet(&remote, 1, 100)));
    second.run();
    assert_eq!(second.sent(), []);
    assert_eq!(second.counters.turn_waits.read(), 1);
    assert!(
        !second.device().sockets.watched[Lane::V4 as usize],
        "no socket is full"
    );
    first.has_room(Lane::V4);
    first.run();
    assert_eq!(first.device().control.woken.get(), 1 << 1);
    let woken = culvert_datapath::Ready {
        is_woken: true,
        ..culvert_datapath::Ready::default()
    };
    second.path.take_ready(&woken).unwrap();
    second.run();
    let sent = [first.sent(), second.sent()].concat();
    let numbers: Vec<u32> = remote.opens(&sent).iter().map(|it| number_of(it)).collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn a_link_that_goes_down_gives_up_what_can_not_leave_and_wakes_who_waits_for_it() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    fail_sends(&mut worker, &[Some(SendFault::WouldBlock)]);
    worker.queue(BULK, superframe(HERE, remote.inner(), FULL + 2));
    worker.run();
    // Another worker waits for this batch.
    assert!(!remote.sending().turns.is_turn_of(FULL as u64, 3));
    let mut down = snapshot(&[&remote]);
    down.port = 0;
    worker.device().sockets.are_closed = true;
    worker.device().publish(Arc::new(down), true);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::SendFailed, FULL as u64 + 2)]);
    assert_eq!(worker.device().control.woken.get(), 1 << 3);
    assert!(remote.sending().turns.is_turn_of(FULL as u64, 3));
}

#[test]
fn a_superframe_over_ipv6_destinations_reaches_the_peer_that_owns_them() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let packets: Vec<_> = (0..3)
        .map(|number| numbered(HERE_V6, inner_v6(1), number, 900, Ecn::Ect0))
        .collect();
    for packet in &packets {
        worker.queue(BULK, frame(packet));
    }
    worker.run();
    let sent = worker.sent();
    assert_eq!(records(&sent), [3]);
    assert_eq!(sent[0].class, 2);
    assert_eq!(remote.opens(&sent), packets);
}

/// The next packet of a flow to one of two peers.
#[derive(Clone, Copy, Debug)]
struct Next {
    to: usize,
    len: usize,
    queue: usize,
    fault: Option<SendFault>,
}

fn next() -> impl Strategy<Value = Next> {
    let fault = prop_oneof![
        6 => Just(None),
        1 => Just(Some(SendFault::WouldBlock)),
        1 => Just(Some(SendFault::SegmentationUnsupported)),
        1 => Just(Some(SendFault::Other)),
    ];
    let len = prop_oneof![4_usize..64, 1_000_usize..1_392];
    (0..2_usize, len, 0..3_usize, fault).prop_map(|(to, len, queue, fault)| Next {
        to,
        len,
        queue: [PRIORITY_QUEUE, BULK, BULK + 1][queue],
        fault,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn packets_of_a_flow_leave_in_their_order_and_each_that_does_not_is_counted(
        nexts in prop::collection::vec(next(), 1..150),
    ) {
        let remotes = [Remote::new(1), Remote::new(2)];
        let mut worker = Worker::new(snapshot(&[&remotes[0], &remotes[1]]));
        let mut queued = 0_u32;
        for (at, next) in nexts.iter().enumerate() {
            // The number has its queue, since flows of two queues may overtake each other.
            let number = queued << 8 | next.queue as u32;
            worker.queue(next.queue, frame(&packet(&remotes[next.to], number, next.len)));
            queued += 1;
            if at % 5 == 4 {
                fail_sends(&mut worker, &[next.fault]);
                worker.run();
                worker.has_room(Lane::V4);
            }
        }
        fail_sends(&mut worker, &[]);
        for _ in 0..nexts.len() {
            worker.has_room(Lane::V4);
            worker.run();
        }
        let sent = worker.sent();
        let mut arrived = 0;
        for remote in &remotes {
            let own = sent.iter().filter(|it| it.to == remote.peer.endpoint().unwrap());
            let opened = remote.opens(&own.cloned().collect::<Vec<_>>());
            arrived += opened.len() as u64;
            for queue in [PRIORITY_QUEUE, BULK, BULK + 1] {
                let numbers = opened.iter().map(|it| number_of(it));
                let of_queue = numbers.filter(|it| it & 0xff == queue as u32);
                prop_assert!(of_queue.is_sorted());
            }
        }
        let lost: u64 = worker.drops().iter().map(|(_, count)| count).sum();
        prop_assert_eq!(arrived + lost, u64::from(queued));
    }
}
