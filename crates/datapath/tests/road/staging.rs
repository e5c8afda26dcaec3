//! Frames that wait for a handshake.

use crate::packets::{HERE, frame, number_of, numbered, superframe};
use crate::remotes::{Remote, snapshot, snapshot_without_keys};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{Command, Dropped, Event, Snapshot};
use culvert_packet::ecn::Ecn;
use proptest::prelude::*;
use std::time::Duration;

/// Frames of one peer that wait.
const MOST_FRAMES: u32 = 128;

fn packet(remote: &Remote, number: u32) -> Vec<u8> {
    frame(&numbered(HERE, remote.inner(), number, 100, Ecn::NotEct))
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().map(|packet| number_of(packet)).collect()
}

fn wanted(events: &[Event], remote: &Remote) -> usize {
    let of = |event: &&Event| matches!(event, Event::HandshakeWanted(id) if *id == remote.id());
    events.iter().filter(of).count()
}

#[test]
fn a_packet_without_a_key_asks_for_a_handshake_once_and_leaves_after_it_in_its_order() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    for number in 0..5 {
        worker.queue(BULK, packet(&remote, number));
        worker.run();
    }
    assert_eq!(wanted(&worker.events(), &remote), 1);
    assert_eq!(worker.sent(), []);
    worker.publish(snapshot(&[&remote]));
    worker.queue(BULK, packet(&remote, 5));
    worker.run();
    assert_eq!(numbers(&remote.opens(&worker.sent())), [0, 1, 2, 3, 4, 5]);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_control_thread_that_is_busy_is_asked_again_by_the_next_packet() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    worker.device().control.is_full.set(true);
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    worker.device().control.is_full.set(false);
    worker.queue(BULK, packet(&remote, 1));
    worker.run();
    assert_eq!(wanted(&worker.events(), &remote), 1);
}

#[test]
fn the_oldest_frames_of_a_peer_give_way_and_are_counted() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    for number in 0..MOST_FRAMES + 10 {
        worker.queue(BULK, packet(&remote, number));
    }
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::StageFull, 10)]);
    worker.publish(snapshot(&[&remote]));
    worker.run();
    let left: Vec<u32> = (10..MOST_FRAMES + 10).collect();
    assert_eq!(numbers(&remote.opens(&worker.sent())), left);
}

#[test]
fn each_packet_of_a_superframe_that_gives_way_is_counted() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    // Four of 64 KB fill the share of a peer.
    for _ in 0..6 {
        worker.queue(BULK, superframe(HERE, remote.inner(), 45));
    }
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::StageFull, 2 * 45)]);
    worker.publish(snapshot(&[&remote]));
    worker.run();
    assert_eq!(remote.opens(&worker.sent()).len(), 4 * 45);
}

#[test]
fn a_peer_that_floods_takes_nothing_of_what_another_one_stages() {
    let (flooding, quiet) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot_without_keys(&[&flooding, &quiet]));
    worker.queue(BULK, packet(&quiet, 0));
    worker.run();
    for number in 0..10 * MOST_FRAMES {
        worker.queue(BULK, packet(&flooding, number));
    }
    worker.queue(BULK, packet(&quiet, 1));
    worker.run();
    worker.publish(snapshot(&[&flooding, &quiet]));
    worker.run();
    let sent = worker.sent();
    let (to_quiet, to_flooding): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .partition(|sent| sent.to.address == crate::remotes::endpoint(2));
    assert_eq!(numbers(&quiet.opens(&to_quiet)), [0, 1]);
    assert_eq!(flooding.opens(&to_flooding).len(), MOST_FRAMES as usize);
}

#[test]
fn frames_of_a_peer_whose_handshake_fails_are_dropped_and_no_others() {
    let (silent, other) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot_without_keys(&[&silent, &other]));
    for number in 0..3 {
        worker.queue(BULK, packet(&silent, number));
    }
    worker.queue(BULK, packet(&other, 0));
    worker.run();
    worker.command(Command::DropStaged(silent.id()));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::HandshakeFailed, 3)]);
    worker.publish(snapshot(&[&silent, &other]));
    worker.run();
    assert_eq!(numbers(&other.opens(&worker.sent())), [0]);
}

#[test]
fn frames_of_a_peer_that_is_removed_are_dropped() {
    let (gone, other) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot_without_keys(&[&gone, &other]));
    worker.queue(BULK, superframe(HERE, gone.inner(), 3));
    worker.queue(BULK, packet(&other, 0));
    worker.run();
    worker.publish(snapshot_without_keys(&[&other]));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::PeerGone, 3)]);
}

#[test]
fn a_link_that_goes_down_keeps_no_frames() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    let down = Snapshot {
        port: 0,
        ..snapshot_without_keys(&[&remote])
    };
    worker.publish(down);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::PeerGone, 1)]);
}

#[test]
fn a_key_that_has_expired_has_packets_wait_for_the_next_one() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.advance(culvert_session::REJECT_AFTER_TIME);
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    assert_eq!(worker.sent(), []);
    assert_eq!(wanted(&worker.events(), &remote), 1);
    assert_eq!(worker.drops(), [], "it waits");
    worker.command(Command::DropStaged(remote.id()));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::HandshakeFailed, 1)]);
}

#[test]
fn a_key_that_grows_old_asks_for_the_next_one_while_it_still_carries() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.advance(culvert_session::REKEY_AFTER_TIME - Duration::from_secs(1));
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    assert_eq!(wanted(&worker.events(), &remote), 0);
    worker.advance(Duration::from_secs(1));
    worker.queue(BULK, packet(&remote, 1));
    worker.run();
    assert_eq!(wanted(&worker.events(), &remote), 1);
    assert_eq!(numbers(&remote.opens(&worker.sent())), [0, 1]);
}

#[test]
fn a_keepalive_for_a_peer_without_a_key_asks_for_a_handshake() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot_without_keys(&[&remote]));
    worker.command(Command::Keepalive(remote.id()));
    worker.run();
    assert_eq!(wanted(&worker.events(), &remote), 1);
    assert_eq!(worker.sent(), []);
    assert_eq!(worker.drops(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_frame_that_is_staged_leaves_in_its_order_or_is_counted(
        steps in prop::collection::vec((0..3_usize, 1..60_u32), 1..30),
    ) {
        let remotes = [Remote::new(1), Remote::new(2), Remote::new(3)];
        let all: Vec<&Remote> = remotes.iter().collect();
        let setup = Setup::default();
        let mut worker = Worker::with(setup, snapshot_without_keys(&all));
        let mut queued = [0_u32; 3];
        for (to, count) in steps {
            for _ in 0..count {
                worker.queue(BULK, packet(&remotes[to], queued[to]));
                queued[to] += 1;
            }
            worker.run();
        }
        worker.publish(snapshot(&all));
        worker.run();
        let mut given_way = 0;
        let sent = worker.sent();
        for (remote, queued) in remotes.iter().zip(queued) {
            let own = sent.iter().filter(|it| it.to == remote.peer.endpoint().unwrap());
            let own: Vec<_> = own.cloned().collect();
            let staged = queued.min(MOST_FRAMES);
            let expected: Vec<u32> = (queued - staged..queued).collect();
            prop_assert_eq!(numbers(&remote.opens(&own)), expected);
            given_way += u64::from(queued - staged);
        }
        prop_assert_eq!(worker.counters.dropped(Dropped::StageFull), given_way);
    }
}
