//! The path MTU: probes and answers in records, and packets that a narrow path has no room for.

use crate::device::Run;
use crate::packets::{HERE, HERE_V6, frame, icmp_of, packet_of, udp, udp_that_may_be_fragmented};
use crate::remotes::{Remote, inner_v6, snapshot};
use crate::worker::{BULK, Worker};
use culvert_datapath::{Command, Dropped, Event, Lane};
use culvert_packet::ip::IpView;
use culvert_packet::{MtuMessage, MtuProbe};
use std::sync::atomic::Ordering;

/// A path that takes so many bytes.
const NARROW: u16 = 1300;

/// The longest inner packet that passes it: less the headers of IPv4, UDP and a record, in whole units of 16.
const FITS: usize = (NARROW as usize - 28 - 32) / 16 * 16;

fn message(remote: &Remote, message: MtuMessage) -> Run {
    let mut record = vec![0; 16 + message.packet_len() + 16];
    message.write(&mut record[16..][..message.packet_len()]);
    remote.seals_records(&[record])
}

fn probe(generation: u16) -> MtuProbe {
    MtuProbe {
        generation,
        len: 1400,
    }
}

/// The messages of the path MTU that a peer opens.
fn messages(remote: &Remote, worker: &mut Worker) -> Vec<MtuMessage> {
    let opened = remote.opens(&worker.sent());
    opened
        .iter()
        .filter_map(|it| MtuMessage::parse(it))
        .collect()
}

#[test]
fn a_probe_of_the_control_thread_leaves_at_its_full_length_in_a_send_of_its_own() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.command(Command::Mtu(remote.id(), MtuMessage::Probe(probe(1))));
    worker.command(Command::Keepalive(remote.id()));
    worker.run();
    let sent = worker.sent();
    let lens: Vec<usize> = sent.iter().map(|sent| sent.bytes.len()).collect();
    assert_eq!(lens, [1400 + 32, 32]);
    let opened = remote.opens(&sent);
    assert_eq!(
        MtuMessage::parse(&opened[0]),
        Some(MtuMessage::Probe(probe(1)))
    );
    assert_eq!(opened[1], [0; 0]);
}

#[test]
fn a_probe_of_a_peer_is_answered_and_is_no_data() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.arrive(Lane::V4, message(&remote, MtuMessage::Probe(probe(5))));
    worker.run();
    assert_eq!(
        messages(&remote, &mut worker),
        [MtuMessage::Answer(probe(5))]
    );
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
    assert_eq!(worker.drops(), []);
    assert_eq!(remote.peer.activity.unacknowledged_since(), None);
}

#[test]
fn a_peer_that_floods_with_probes_leaves_room_for_the_answers_to_others() {
    let (flooding, quiet) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot(&[&flooding, &quiet]));
    // One receive brings more probes than there is room for answers.
    for _ in 0..3 {
        let probes = (0..30).map(|generation| {
            let mut record = vec![0; 16 + 1_400 + 16];
            MtuMessage::Probe(probe(generation)).write(&mut record[16..1_416]);
            record
        });
        let run = flooding.seals_records(&probes.collect::<Vec<_>>());
        worker.arrive(Lane::V4, run);
    }
    worker.arrive(Lane::V4, message(&quiet, MtuMessage::Probe(probe(9))));
    worker.run();
    let answers: Vec<_> = worker.sent();
    let (to_quiet, to_flooding): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|sent| sent.to.address == crate::remotes::endpoint(2));
    assert_eq!(quiet.opens(&to_quiet).len(), 1);
    assert_eq!(flooding.opens(&to_flooding).len(), 16, "those of one round");
}

#[test]
fn as_many_answers_are_told_as_probes_have_left() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.expect_probe_answers(2);
    for generation in 0..5 {
        worker.arrive(
            Lane::V4,
            message(&remote, MtuMessage::Answer(probe(generation))),
        );
    }
    worker.run();
    let told = worker.events().into_iter().map(|event| match event {
        Event::MtuAnswered(id, probe) if id == remote.id() => probe.generation,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_sender_of_a_packet_that_a_narrow_path_has_no_room_for_hears_what_fits() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.path_mtu.store(NARROW, Ordering::Relaxed);
    for (payload, is_told) in [(FITS - 28, false), (FITS - 27, true)] {
        let packet = udp(HERE, remote.inner(), &vec![0; payload]);
        worker.queue(BULK, frame(&packet));
        worker.run();
        let written = worker.written();
        assert_eq!(written.len(), usize::from(is_told));
        if let [answer] = &written[..] {
            let answer = packet_of(answer);
            assert_eq!(icmp_of(answer), [3, 4]);
            let mtu = u16::from_be_bytes([answer[26], answer[27]]);
            assert_eq!(usize::from(mtu), FITS);
        }
        assert_eq!(
            remote.opens(&worker.sent()),
            [packet],
            "it leaves nevertheless"
        );
    }
}

#[test]
fn a_packet_that_may_be_fragmented_leaves_in_parts_that_fit_and_nobody_is_told() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.path_mtu.store(NARROW, Ordering::Relaxed);
    let payload: Vec<u8> = (0..1_390).map(|at| at as u8).collect();
    let packet = udp_that_may_be_fragmented(HERE, remote.inner(), &payload);
    worker.queue(BULK, frame(&packet));
    worker.run();
    let parts = remote.opens(&worker.sent());
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|part| part.len() <= FITS));
    let joined: Vec<u8> = parts.iter().flat_map(|part| &part[20..]).copied().collect();
    assert_eq!(joined, packet[20..]);
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_packet_of_ipv6_that_every_path_must_take_is_split_where_the_path_takes_less() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.path_mtu.store(1280, Ordering::Relaxed);
    let packet = udp(HERE_V6, inner_v6(1), &[7; 1280 - 48]);
    worker.queue(BULK, frame(&packet));
    worker.run();
    let parts = remote.opens(&worker.sent());
    assert_eq!(parts.len(), 2);
    let fragments = parts.iter().map(|part| IpView::parse(part).unwrap());
    assert!(fragments.clone().all(|part| part.is_fragment()));
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
    // A longer one is its sender's business.
    worker.queue(BULK, frame(&udp(HERE_V6, inner_v6(1), &[7; 1281 - 48])));
    worker.run();
    assert_eq!(icmp_of(packet_of(&worker.written()[0])), [2, 0]);
    assert_eq!(remote.opens(&worker.sent()).len(), 1);
}

#[test]
fn what_is_split_does_not_join_the_batch_before_it_nor_the_one_behind_it() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.path_mtu.store(NARROW, Ordering::Relaxed);
    let small = udp(HERE, remote.inner(), b"small");
    let large = udp_that_may_be_fragmented(HERE, remote.inner(), &[1; 1_390]);
    for packet in [&small, &large, &small] {
        worker.queue(BULK, frame(packet));
    }
    worker.run();
    let sent = worker.sent();
    let opened = remote.opens(&sent);
    assert_eq!(opened.len(), 4);
    assert_eq!((&opened[0], &opened[3]), (&small, &small));
    assert_eq!(sent[0].datagrams().count(), 1);
}

#[test]
fn a_run_longer_than_a_narrow_path_leaves_record_by_record() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    remote.peer.path_mtu.store(NARROW, Ordering::Relaxed);
    worker.queue(BULK, crate::packets::superframe(HERE, remote.inner(), 3));
    worker.run();
    let lens: Vec<usize> = worker
        .sent()
        .iter()
        .map(|it| it.datagrams().count())
        .collect();
    assert_eq!(lens, [1, 1, 1]);
    assert_eq!(worker.counters.dropped(Dropped::SendTooBig), 0);
}
