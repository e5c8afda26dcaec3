//! Packets of one receive that are written to the TUN as superframes, and superframes that it refuses.

use crate::packets::{HERE, HERE_V6, SEGMENT, number_of, numbered, packet_of, split, tcp};
use crate::remotes::{Remote, inner_v6, snapshot};
use crate::worker::{Setup, Worker};
use culvert_base::frames::QueueFault;
use culvert_datapath::{Dropped, Event, Lane};
use culvert_packet::ecn::Ecn;
use culvert_packet::{Accept, Cut, Gso};
use proptest::prelude::*;
use std::time::Duration;

fn segments(remote: &Remote, first: u32, count: u32) -> Vec<Vec<u8>> {
    let segment = |number| {
        let sequence = number * SEGMENT as u32;
        tcp(remote.inner(), HERE, sequence, &[number as u8; SEGMENT])
    };
    (first..first + count).map(segment).collect()
}

fn arrive(worker: &mut Worker, remote: &Remote, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    worker.arrive(Lane::V4, remote.seals(packets));
    worker.run();
    worker.written()
}

fn refuse(worker: &mut Worker, faults: &[QueueFault]) {
    worker.device().tun.write_faults.borrow_mut().extend(faults);
}

fn with(accept: Accept) -> Setup {
    Setup {
        accept,
        ..Setup::default()
    }
}

/// The packets of a frame, as the kernel cuts it.
fn packets_of(frame: &[u8]) -> Vec<Vec<u8>> {
    let (vnet, packet) = split(frame);
    let cut = Cut::plan(&vnet, packet).unwrap();
    let segments = (0..cut.segments()).map(|index| {
        let mut segment = vec![0; cut.segment_len(index)];
        cut.write_segment(packet, index, &mut segment);
        segment
    });
    segments.collect()
}

/// Packets from their transport headers on. The identification of a packet that may not be fragmented means nothing
/// (RFC 6864 section 4).
fn segments_in(packets: &[Vec<u8>]) -> Vec<&[u8]> {
    packets.iter().map(|packet| &packet[20..]).collect()
}

/// The same of frames that are no superframes.
fn segments_of(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    frames.iter().map(|frame| &packet_of(frame)[20..]).collect()
}

#[test]
fn segments_of_a_connection_arrive_as_one_superframe_that_falls_into_the_same_segments() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let sent = segments(&remote, 0, 20);
    let written = arrive(&mut worker, &remote, &sent);
    assert_eq!(written.len(), 1);
    assert_eq!(split(&written[0]).0.gso, Gso::Tcp4);
    let cut = packets_of(&written[0]);
    assert_eq!(segments_in(&cut), segments_in(&sent));
    assert_eq!(worker.counters.coalesced.packets.read(), 20);
    assert_eq!(worker.counters.tun_frames_sent.read(), 1);
}

#[test]
fn a_tun_that_takes_no_superframes_gets_each_packet_by_itself() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(with(Accept::NONE), snapshot(&[&remote]));
    let sent = segments(&remote, 0, 5);
    let written = arrive(&mut worker, &remote, &sent);
    let packets: Vec<&[u8]> = written.iter().map(|it| packet_of(it)).collect();
    assert_eq!(packets, sent);
}

#[test]
fn only_kinds_that_the_tun_takes_are_made() {
    let udp_alone = Accept {
        udp4: true,
        ..Accept::NONE
    };
    let remote = Remote::new(1);
    let mut worker = Worker::with(with(udp_alone), snapshot(&[&remote]));
    assert_eq!(
        arrive(&mut worker, &remote, &segments(&remote, 0, 3)).len(),
        3
    );
    let datagrams: Vec<_> = (0..3)
        .map(|number| numbered(remote.inner(), HERE, number, 100, Ecn::NotEct))
        .collect();
    let written = arrive(&mut worker, &remote, &datagrams);
    assert_eq!(written.len(), 1);
    assert_eq!(split(&written[0]).0.gso, Gso::Udp);
    let over_v6: Vec<_> = (0..3)
        .map(|number| numbered(inner_v6(1), HERE_V6, number, 100, Ecn::NotEct))
        .collect();
    assert_eq!(arrive(&mut worker, &remote, &over_v6).len(), 3);
}

#[test]
fn packets_of_two_peers_in_two_runs_are_never_one_frame() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut worker = Worker::new(snapshot(&[&remotes[0], &remotes[1]]));
    for remote in &remotes {
        let packets = segments(remote, 0, 3);
        worker.arrive(Lane::V4, remote.seals(&packets));
    }
    worker.run();
    assert_eq!(worker.written().len(), 2);
}

#[test]
fn a_superframe_that_the_tun_refuses_is_written_packet_by_packet() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    refuse(&mut worker, &[QueueFault::Refused]);
    let sent = segments(&remote, 0, 6);
    let written = arrive(&mut worker, &remote, &sent);
    assert_eq!(segments_of(&written), segments_in(&sent));
    assert_eq!(worker.counters.superframe_refused.read(), 1);
    assert_eq!(worker.drops(), []);
    assert_eq!(worker.events().len(), 0, "once says nothing");
}

#[test]
fn a_kind_that_is_refused_three_times_is_left_alone_and_tried_again_after_ten_milliseconds() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for round in 0..3 {
        refuse(&mut worker, &[QueueFault::Refused]);
        arrive(&mut worker, &remote, &segments(&remote, 4 * round, 4));
    }
    let tcp4 = Accept {
        tcp4: true,
        ..Accept::NONE
    };
    let events = worker.events();
    assert!(matches!(events[..], [Event::SuperframesRefused(kinds)] if kinds == tcp4));
    assert_eq!(
        arrive(&mut worker, &remote, &segments(&remote, 12, 4)).len(),
        4
    );
    worker.advance(Duration::from_millis(10));
    assert_eq!(
        arrive(&mut worker, &remote, &segments(&remote, 16, 4)).len(),
        1
    );
    let events = worker.events();
    assert!(matches!(events[..], [Event::SuperframesTaken(kinds)] if kinds == tcp4));
}

#[test]
fn a_packet_that_can_not_be_written_is_tried_twice_and_counted() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let packets = segments(&remote, 0, 1);
    refuse(&mut worker, &[QueueFault::Passing]);
    assert_eq!(arrive(&mut worker, &remote, &packets).len(), 1);
    assert_eq!(worker.drops(), []);
    refuse(&mut worker, &[QueueFault::Passing; 2]);
    assert_eq!(arrive(&mut worker, &remote, &packets).len(), 0);
    assert_eq!(worker.drops(), [(Dropped::TunWriteFailed, 1)]);
}

#[test]
fn each_packet_of_a_superframe_is_counted_where_none_can_be_written() {
    for faults in [
        // The whole for good; the whole, then the first packet twice since the link is down.
        vec![QueueFault::Gone],
        vec![QueueFault::Refused, QueueFault::Down, QueueFault::Down],
    ] {
        let remote = Remote::new(1);
        let mut worker = Worker::new(snapshot(&[&remote]));
        refuse(&mut worker, &faults);
        let written = arrive(&mut worker, &remote, &segments(&remote, 0, 9));
        assert_eq!(written.len(), 0);
        assert_eq!(worker.drops(), [(Dropped::TunWriteFailed, 9)]);
    }
}

#[test]
fn one_packet_that_the_tun_loses_takes_no_other_with_it() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let passing = QueueFault::Passing;
    refuse(&mut worker, &[QueueFault::Refused, passing, passing]);
    let sent = segments(&remote, 0, 4);
    let written = arrive(&mut worker, &remote, &sent);
    assert_eq!(segments_of(&written), segments_in(&sent[1..]));
    assert_eq!(worker.drops(), [(Dropped::TunWriteFailed, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn datagrams_of_a_flow_arrive_in_their_order_whatever_is_coalesced_and_refused(
        runs in prop::collection::vec(1..30_u32, 1..8),
        refused in prop::collection::vec(any::<bool>(), 8),
        accept in any::<bool>(),
    ) {
        let remote = Remote::new(1);
        let kinds = if accept { Accept::ALL } else { Accept::NONE };
        let mut worker = Worker::with(with(kinds), snapshot(&[&remote]));
        let mut number = 0;
        let mut arrived = Vec::new();
        for (count, is_refused) in runs.into_iter().zip(refused) {
            let packets: Vec<_> = (number..number + count)
                .map(|number| numbered(remote.inner(), HERE, number, 100, Ecn::NotEct))
                .collect();
            number += count;
            if is_refused {
                refuse(&mut worker, &[QueueFault::Refused]);
            }
            let written = arrive(&mut worker, &remote, &packets);
            let packets = written.iter().flat_map(|it| packets_of(it));
            arrived.extend(packets.map(|packet| number_of(&packet)));
        }
        prop_assert!(arrived.into_iter().eq(0..number));
        prop_assert_eq!(worker.drops(), []);
    }
}
