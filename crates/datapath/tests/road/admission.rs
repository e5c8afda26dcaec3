//! Admission: datagrams by their kind, records by their key, packets by their source.

use crate::device::{Run, START};
use crate::packets::{HERE, HERE_V6, number_of, numbered, packet_of, syn, udp};
use crate::remotes::{Remote, endpoint, inner, inner_v6, snapshot};
use crate::worker::{Setup, Worker};
use culvert_datapath::{Dropped, Event, Lane, MAX_PATH_MESSAGE_LEN, PATH_MESSAGE_PREFIX};
use culvert_packet::Accept;
use culvert_packet::ecn::Ecn;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

fn packet(remote: &Remote, number: u32) -> Vec<u8> {
    numbered(remote.inner(), HERE, number, 100, Ecn::NotEct)
}

/// A worker that writes each packet to the TUN by itself.
fn plain_worker(remotes: &[&Remote]) -> Worker {
    let setup = Setup {
        accept: Accept::NONE,
        ..Setup::default()
    };
    Worker::with(setup, snapshot(remotes))
}

fn written(worker: &mut Worker) -> Vec<Vec<u8>> {
    let written = worker.written();
    written.iter().map(|it| packet_of(it).to_vec()).collect()
}

#[test]
fn packets_of_a_peer_arrive_inside_as_they_were_sent() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let packets = [
        udp(remote.inner(), HERE, b"over IPv4"),
        udp(inner_v6(1), HERE_V6, b"over IPv6"),
    ];
    for packet in &packets {
        worker.arrive(Lane::V4, remote.seals(std::slice::from_ref(packet)));
    }
    worker.run();
    assert_eq!(written(&mut worker), packets);
    assert_eq!(worker.counters.tun_frames_sent.read(), 2);
    assert_eq!(worker.counters.received.packets.read(), 2);
    assert_eq!(worker.drops(), []);
}

#[test]
fn datagrams_come_from_each_lane() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    for (number, lane) in (0..).zip(Lane::ALL) {
        worker.arrive(lane, remote.seals(&[packet(&remote, number)]));
    }
    worker.run();
    let arrived: Vec<u32> = written(&mut worker)
        .iter()
        .map(|it| number_of(it))
        .collect();
    assert_eq!(arrived, [0, 1, 2, 3]);
}

#[test]
fn an_address_of_another_peer_is_no_source() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut worker = plain_worker(&[&remotes[0], &remotes[1]]);
    let forged = udp(inner(2), HERE, b"forged");
    let own = udp(inner(1), HERE, b"own");
    let mut packets = vec![own.clone(), forged, own.clone()];
    for packet in &mut packets {
        packet.resize(48, 0);
    }
    worker.arrive(Lane::V4, remotes[0].seals(&packets));
    worker.run();
    assert_eq!(written(&mut worker), [own.clone(), own]);
    assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, 1)]);
}

#[test]
fn a_source_is_judged_by_the_longest_range_around_it() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut snapshot = snapshot(&[&remotes[0], &remotes[1]]);
    let range = |len| culvert_base::Prefix::around(inner(1), len).unwrap();
    let ranges = [
        (range(8), remotes[0].id().into()),
        (range(32), remotes[1].id().into()),
    ];
    snapshot.routes = culvert_datapath::AllowedIps::new(&ranges.into());
    let mut worker = Worker::new(snapshot);
    let packet = udp(inner(1), HERE, b"whose?");
    worker.arrive(Lane::V4, remotes[0].seals(std::slice::from_ref(&packet)));
    worker.arrive(Lane::V4, remotes[1].seals(std::slice::from_ref(&packet)));
    worker.run();
    assert_eq!(written(&mut worker), [packet]);
    assert_eq!(worker.drops(), [(Dropped::SourceNotAllowed, 1)]);
}

#[test]
fn a_record_that_comes_twice_arrives_once() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let run = remote.seals(&[packet(&remote, 0), packet(&remote, 1)]);
    worker.arrive(Lane::V4, run.clone());
    worker.arrive(Lane::V4, run);
    worker.run();
    assert_eq!(written(&mut worker).len(), 2);
    assert_eq!(worker.drops(), [(Dropped::Replayed, 2)]);
}

#[test]
fn a_record_that_was_changed_on_its_way_is_counted_and_its_neighbours_arrive() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let packets: Vec<_> = (0..3).map(|number| packet(&remote, number)).collect();
    let mut run = remote.seals(&packets);
    let middle = run.stride + run.stride / 2;
    run.bytes[middle] ^= 1;
    worker.arrive(Lane::V4, run);
    worker.run();
    let arrived: Vec<u32> = written(&mut worker)
        .iter()
        .map(|it| number_of(it))
        .collect();
    assert_eq!(arrived, [0, 2]);
    assert_eq!(worker.drops(), [(Dropped::NotAuthentic, 1)]);
}

#[test]
fn records_for_no_key_or_an_old_one_are_counted() {
    let (known, unknown) = (Remote::new(1), Remote::new(2));
    let mut worker = plain_worker(&[&known]);
    let packets = [packet(&unknown, 0), packet(&unknown, 1)];
    worker.arrive(Lane::V4, unknown.seals(&packets));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::UnknownIndex, 2)]);
    worker.advance(culvert_session::REJECT_AFTER_TIME);
    worker.arrive(Lane::V4, known.seals(&[packet(&known, 0)]));
    worker.run();
    assert_eq!(worker.counters.dropped(Dropped::KeyExpired), 1);
    assert_eq!(written(&mut worker), Vec::<Vec<u8>>::new());
}

#[test]
fn a_key_that_is_younger_than_the_turn_opens_its_first_record() {
    let (known, new) = (Remote::new(1), Remote::new(2));
    let mut worker = plain_worker(&[&known]);
    worker.arrive(Lane::V4, new.seals(&[packet(&new, 0)]));
    let ready = worker.device().ready();
    worker.path.take_ready(&ready).unwrap();
    worker.publish(snapshot(&[&known, &new]));
    worker.path.turn().unwrap();
    worker.run();
    assert_eq!(written(&mut worker).len(), 1);
}

#[test]
fn a_record_that_holds_no_packet_is_counted() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let record = |first: u8| {
        let mut record = vec![0; 32 + 32];
        record[16] = first;
        record
    };
    for first in [0x00, 0x45, 0x60, 0xff] {
        worker.arrive(Lane::V4, remote.seals_records(&[record(first)]));
    }
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::InnerMalformed, 4)]);
}

#[test]
fn an_empty_record_says_that_the_peer_lives_and_nothing_more() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    worker.arrive(Lane::V4, remote.seals_records(&[vec![0; 32]]));
    worker.run();
    assert_eq!(written(&mut worker), Vec::<Vec<u8>>::new());
    assert_eq!(remote.peer.activity.last_received(), Some(START));
    assert_eq!(remote.peer.activity.unacknowledged_since(), None);
    assert_eq!(worker.drops(), []);
    worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
    worker.run();
    assert_eq!(remote.peer.activity.unacknowledged_since(), Some(START));
    assert_eq!(
        remote.peer.rx_bytes.load(Ordering::Relaxed),
        32 + 32 + 144 - 16
    );
}

#[test]
fn the_endpoint_is_where_the_last_authentic_record_came_from() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let other = "198.51.100.1:9".parse().unwrap();
    let forged = Run {
        source: other,
        bytes: {
            let mut bytes = remote.seals(&[packet(&remote, 0)]).bytes;
            bytes[40] ^= 1;
            bytes
        },
        ..remote.seals(&[packet(&remote, 0)])
    };
    worker.arrive(Lane::V4, forged);
    worker.run();
    assert_eq!(remote.peer.endpoint().unwrap().address, endpoint(1));
    let run = Run {
        source: other,
        ..remote.seals(&[packet(&remote, 1)])
    };
    worker.arrive(Lane::V4, run);
    worker.run();
    assert_eq!(remote.peer.endpoint().unwrap().address, other);
}

#[test]
fn datagrams_of_no_kind_truncated_ones_and_empty_ones_are_counted() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let run = remote.seals(&[packet(&remote, 0)]);
    let unknown = Run {
        bytes: vec![9; 60],
        stride: 20,
        ..run.clone()
    };
    let truncated = Run {
        is_truncated: true,
        ..run.clone()
    };
    let empty = Run {
        bytes: Vec::new(),
        stride: 0,
        ..run
    };
    for run in [unknown, truncated, empty] {
        worker.arrive(Lane::V4, run);
    }
    worker.run();
    assert_eq!(
        worker.drops(),
        [
            (Dropped::DatagramTruncated, 1),
            (Dropped::DatagramUnknown, 3 + 1)
        ]
    );
}

#[test]
fn handshake_messages_go_to_the_control_thread_and_are_counted_where_it_has_no_room() {
    let mut worker = plain_worker(&[&Remote::new(1)]);
    let mut initiation = vec![0; culvert_session::parse::INITIATION_LEN];
    initiation[0] = 1;
    let run = Run {
        bytes: initiation.clone(),
        stride: initiation.len(),
        is_truncated: false,
        source: endpoint(7),
        ecn: Ecn::NotEct,
    };
    worker.arrive(Lane::PriorityV4, run.clone());
    worker.run();
    let handshakes = worker.device().control.handshakes.take();
    assert_eq!(handshakes.len(), 1);
    assert_eq!(handshakes[0].datagram(), initiation);
    assert_eq!(handshakes[0].source, endpoint(7));
    worker.device().control.is_full.set(true);
    worker.arrive(Lane::PriorityV4, run);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::HandshakeQueueFull, 1)]);
}

fn path_message(len: usize) -> Run {
    let mut bytes = vec![9; len];
    bytes[..3].copy_from_slice(&PATH_MESSAGE_PREFIX);
    Run {
        stride: bytes.len(),
        bytes,
        is_truncated: false,
        source: endpoint(7),
        ecn: Ecn::NotEct,
    }
}

#[test]
fn messages_about_paths_go_to_who_takes_them_and_what_finds_no_room_is_counted() {
    let mut worker = plain_worker(&[]);
    let control = &worker.device().control;
    *control.path_messages.borrow_mut() = Some(Vec::new());
    let two = Run {
        bytes: [path_message(36).bytes, path_message(36).bytes].concat(),
        ..path_message(36)
    };
    worker.arrive(Lane::V4, two);
    worker.run();
    let taken = worker
        .device()
        .control
        .path_messages
        .replace(Some(Vec::new()));
    let taken = taken.unwrap();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0].datagram(), path_message(36).bytes);
    assert_eq!(taken[0].source, endpoint(7));
    assert_eq!(worker.drops(), []);
    worker.device().control.is_full.set(true);
    worker.arrive(Lane::V4, path_message(36));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::PathQueueFull, 1)]);
}

#[test]
fn messages_about_paths_are_unknown_where_nobody_takes_them_or_where_they_are_too_long() {
    let mut worker = plain_worker(&[]);
    worker.arrive(Lane::V4, path_message(36));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::DatagramUnknown, 1)]);
    *worker.device().control.path_messages.borrow_mut() = Some(Vec::new());
    worker.arrive(Lane::V4, path_message(MAX_PATH_MESSAGE_LEN + 1));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::DatagramUnknown, 2)]);
    worker.arrive(Lane::V4, path_message(MAX_PATH_MESSAGE_LEN));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::DatagramUnknown, 2)]);
}

#[test]
fn handshakes_and_data_of_several_peers_in_one_run_are_told_apart() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut worker = plain_worker(&[&remotes[0], &remotes[1]]);
    // Records of 148 bytes, as long as an initiation.
    let record = |remote: &Remote| {
        let mut record = vec![0; 148];
        let packet = numbered(remote.inner(), HERE, remote.id().0, 80, Ecn::NotEct);
        record[16..16 + packet.len()].copy_from_slice(&packet);
        remote.seals_records(&[record]).bytes
    };
    let mut initiation = vec![0; 148];
    initiation[0] = 1;
    let bytes = [
        record(&remotes[0]),
        initiation,
        record(&remotes[1]),
        record(&remotes[0]),
    ]
    .concat();
    let run = Run {
        bytes,
        stride: 148,
        is_truncated: false,
        source: endpoint(1),
        ecn: Ecn::NotEct,
    };
    worker.arrive(Lane::V4, run);
    worker.run();
    assert_eq!(worker.device().control.handshakes.take().len(), 1);
    let arrived: Vec<u32> = written(&mut worker)
        .iter()
        .map(|it| number_of(it))
        .collect();
    assert_eq!(arrived, [1, 2, 1]);
    let inner = remotes
        .iter()
        .map(|remote| remote.peer.rx_bytes.load(Ordering::Relaxed));
    assert_eq!(inner.collect::<Vec<_>>(), [2 * 148, 148]);
}

#[test]
fn the_first_record_under_a_key_of_a_responder_confirms_it() {
    let remote = Remote::that_began(1);
    let mut worker = plain_worker(&[&remote]);
    let index = remote.receiving.local_index();
    for told in [1, 0] {
        worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
        worker.run();
        let confirmed = worker.events().into_iter().filter(
            |event| matches!(event, Event::Confirmed(id, at) if (*id, *at) == (remote.id(), index)),
        );
        assert_eq!(confirmed.count(), told);
    }
}

/// The number of times that the control thread hears of data that nobody looks for.
fn told_active(worker: &mut Worker, remote: &Remote) -> usize {
    let events = worker.events().into_iter();
    let is_active = |event: &Event| matches!(event, Event::Active(id) if *id == remote.id());
    events.filter(is_active).count()
}

#[test]
fn data_of_a_peer_whose_timers_nobody_looks_at_is_told_once() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    remote.peer.activity.unwatch();
    for told in [1, 0] {
        worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
        worker.run();
        assert_eq!(told_active(&mut worker, &remote), told);
    }
    remote.peer.activity.unwatch();
    for told in [1, 0] {
        worker.queue(
            crate::worker::BULK,
            crate::packets::frame(&udp(HERE, remote.inner(), b"")),
        );
        worker.run();
        assert_eq!(told_active(&mut worker, &remote), told);
    }
}

#[test]
fn data_that_could_not_be_told_of_is_told_with_the_next() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    remote.peer.activity.unwatch();
    for (is_full, told) in [(true, 0), (false, 1)] {
        worker.device().control.is_full.set(is_full);
        worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
        worker.run();
        assert_eq!(told_active(&mut worker, &remote), told);
    }
}

#[test]
fn an_end_that_only_receives_asks_for_a_new_key_in_time() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let limit = culvert_session::REJECT_AFTER_TIME
        - culvert_session::KEEPALIVE_TIMEOUT
        - culvert_session::REKEY_TIMEOUT;
    worker.advance(limit);
    worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
    worker.run();
    let events = worker.events();
    assert!(matches!(events[..], [Event::HandshakeWanted(id)] if id == remote.id()));
}

#[test]
fn a_congestion_mark_of_the_outer_header_is_taken_over_as_rfc_6040_says() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    // By row the mark of the packet, by column that of the datagram: figure 4 of RFC 6040.
    let table = [
        (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
        (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
        (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
        (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
    ];
    for (inner, row) in table {
        for (outer, expected) in [NotEct, Ect0, Ect1, Ce].into_iter().zip(row) {
            let remote = Remote::new(1);
            let mut worker = plain_worker(&[&remote]);
            let packet = numbered(remote.inner(), HERE, 0, 100, inner);
            let run = Run {
                ecn: outer,
                ..remote.seals(&[packet])
            };
            worker.arrive(Lane::V4, run);
            worker.run();
            let arrived = written(&mut worker);
            let mark = arrived.first().map(|packet| Ecn::from_bits(packet[1]));
            assert_eq!(mark, expected, "{inner:?} in {outer:?}");
            let lost = worker.counters.dropped(Dropped::CongestionOverNotEct);
            assert_eq!(lost, u64::from(expected.is_none()));
            let taken_over = worker.counters.congestion_marked.read();
            let is_other = expected.is_some_and(|it| it != inner);
            assert!(taken_over >= u64::from(is_other), "{inner:?} in {outer:?}");
        }
    }
}

#[test]
fn segments_that_a_narrow_path_has_no_room_for_are_not_asked_for() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    remote.peer.path_mtu.store(1280, Ordering::Relaxed);
    worker.arrive(Lane::V4, remote.seals(&[syn(remote.inner(), HERE, 1380)]));
    worker.run();
    let packet = written(&mut worker).remove(0);
    let option = packet[40..44].to_vec();
    let mss = u16::from_be_bytes([option[2], option[3]]);
    // The room for a segment: 1,280 bytes less the headers of IPv4, UDP and a record, in whole units of 16, less those
    // of TCP.
    assert_eq!((option[0], mss), (2, (1280 - 28 - 32) / 16 * 16 - 40));
}

#[test]
fn a_socket_that_keeps_failing_is_left_alone_until_something_arrives() {
    let remote = Remote::new(1);
    let mut worker = plain_worker(&[&remote]);
    let arrived = &mut worker.device().sockets.arrived[Lane::V4 as usize];
    arrived.extend([const { None }; 20]);
    let ready = worker.device().ready();
    worker.path.take_ready(&ready).unwrap();
    // Without another event.
    for _ in 0..20 {
        worker.path.turn().unwrap();
    }
    assert_eq!(worker.counters.udp_receive_failures.read(), 8);
    worker.device().sockets.arrived[Lane::V4 as usize].clear();
    worker.arrive(Lane::V4, remote.seals(&[packet(&remote, 0)]));
    worker.run();
    assert_eq!(written(&mut worker).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_arrives_is_delivered_in_its_order_or_counted(
        fates in prop::collection::vec(0..6_u8, 1..60),
    ) {
        let remote = Remote::new(1);
        let mut worker = plain_worker(&[&remote]);
        let mut expected = Vec::new();
        let mut lost = 0;
        for (number, fate) in (0..).zip(&fates) {
            let mut run = remote.seals(&[packet(&remote, number)]);
            match fate {
                // Changed on its way: its header, its key, its contents.
                0 => run.bytes[0] = 200,
                1 => run.bytes[5] ^= 0x55,
                2 => *run.bytes.last_mut().unwrap() ^= 0x80,
                3 => {
                    worker.arrive(Lane::V4, run.clone());
                    expected.push(number);
                }
                _ => expected.push(number),
            }
            lost += u64::from(*fate <= 3);
            worker.arrive(Lane::V4, run);
        }
        worker.run();
        let arrived: Vec<u32> = written(&mut worker).iter().map(|it| number_of(it)).collect();
        prop_assert_eq!(arrived, expected);
        let counted: u64 = worker.drops().iter().map(|(_, count)| count).sum();
        prop_assert_eq!(counted, lost);
    }
}
