//! Snapshots: when a worker takes one over, and what changes with it.

use crate::device::Device;
use crate::packets::{HERE, frame, numbered, udp};
use crate::remotes::{MTU, Remote, snapshot, snapshot_without_keys};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{
    DataPath, Dropped, Lane, Mechanisms, Options, Ready, Rest, SendFault, Snapshot,
};
use culvert_packet::Accept;
use culvert_packet::ecn::Ecn;
use std::sync::Arc;

#[test]
fn the_first_packet_of_a_turn_has_the_newest_routes() {
    let (old, new) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot(&[&old]));
    let packet = udp(HERE, new.inner(), b"");
    worker.queue(BULK, frame(&packet));
    worker.publish(snapshot(&[&old, &new]));
    worker.turn();
    assert_eq!(new.opens(&worker.sent()), [packet]);
}

#[test]
fn a_snapshot_whose_sockets_can_not_be_used_ends_the_worker() {
    let mut worker = Worker::new(snapshot(&[&Remote::new(1)]));
    worker.device().publish_unusable();
    assert!(worker.path.turn().is_err());
}

#[test]
fn a_worker_without_a_snapshot_knows_nobody_and_counts_what_it_reads() {
    let mut device = Device::new(1);
    device.queue(0, frame(&udp(HERE, crate::remotes::inner(1), b"")));
    let counters = Arc::default();
    let options = Options {
        worker: 0,
        queues: 1,
        credits: Vec::new(),
        has_priority: false,
        accept: Accept::NONE,
        mechanisms: Mechanisms::ALL,
        counters: Arc::clone(&counters),
        gates: None,
        client_gate: None,
        identification: 0,
    };
    let Ok(mut path) = DataPath::new(device, options) else {
        panic!("it has not ended");
    };
    path.turn().unwrap();
    assert_eq!(counters.dropped(Dropped::NoPeer), 1);
    assert_eq!(path.rest(), Rest::Sleep(None));
}

#[test]
fn other_sockets_are_read_once_without_an_event_and_the_same_ones_are_not() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for (has_other_sockets, arrived) in [(false, 0), (true, 1)] {
        let packet = numbered(remote.inner(), HERE, 0, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
        let next = Arc::new(snapshot(&[&remote]));
        worker.device().publish(next, has_other_sockets);
        worker.path.turn().unwrap();
        assert_eq!(worker.counters.udp_receives.read(), arrived);
    }
}

#[test]
fn other_sockets_have_a_batch_tried_again_that_found_the_old_ones_full() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let faults = &worker.device().sockets.send_faults;
    faults.borrow_mut().push_back(Some(SendFault::WouldBlock));
    let packet = udp(HERE, remote.inner(), b"");
    worker.queue(BULK, frame(&packet));
    worker.run();
    assert_eq!(worker.sent(), []);
    worker
        .device()
        .publish(Arc::new(snapshot(&[&remote])), true);
    worker.run();
    assert_eq!(remote.opens(&worker.sent()), [packet]);
}

#[test]
fn a_wake_up_does_not_unblock_a_batch_that_waits_for_its_socket() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let faults = &worker.device().sockets.send_faults;
    faults.borrow_mut().push_back(Some(SendFault::WouldBlock));
    worker.queue(BULK, frame(&udp(HERE, remote.inner(), b"")));
    worker.run();
    let woken = Ready {
        is_woken: true,
        ..Ready::default()
    };
    worker.path.take_ready(&woken).unwrap();
    worker.run();
    assert_eq!(worker.sent(), []);
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.sent().len(), 1);
}

#[test]
fn a_key_that_comes_while_others_wait_carries_its_own_frames_alone() {
    let (waiting, served) = (Remote::new(1), Remote::new(2));
    let mut worker = Worker::new(snapshot_without_keys(&[&waiting, &served]));
    for remote in [&waiting, &served] {
        worker.queue(BULK, frame(&udp(HERE, remote.inner(), b"")));
    }
    worker.run();
    let partial = snapshot(&[&waiting, &served]);
    waiting.peer.set_keys(None, None);
    worker.publish(partial);
    worker.run();
    assert_eq!(served.opens(&worker.sent()).len(), 1);
    worker.publish(snapshot(&[&waiting, &served]));
    worker.run();
    assert_eq!(waiting.opens(&worker.sent()).len(), 1);
}

#[test]
fn records_are_padded_for_the_mtu_of_the_newest_snapshot() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let packet = udp(HERE, remote.inner(), &[0; 1201 - 28]);
    for (mtu, padded) in [(MTU, 1216), (1205, 1205)] {
        let next = Snapshot {
            mtu,
            ..snapshot(&[&remote])
        };
        worker.publish(next);
        worker.queue(BULK, frame(&packet));
        worker.run();
        assert_eq!(worker.sent()[0].bytes.len(), padded + 32);
    }
}

#[test]
fn a_worker_that_has_nothing_to_do_sleeps_and_counts_its_turns() {
    let mut worker = Worker::new(snapshot(&[&Remote::new(1)]));
    let turns = worker.counters.turns.read();
    worker.turn();
    assert_eq!(worker.path.rest(), Rest::Sleep(None));
    assert_eq!(worker.counters.turns.read(), turns + 1);
}

#[test]
fn a_worker_with_counted_queues_looks_for_itself_every_ten_seconds() {
    let setup = Setup {
        are_counted: true,
        ..Setup::default()
    };
    let remote = Remote::new(1);
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    let ten = std::time::Duration::from_secs(10);
    assert_eq!(worker.path.rest(), Rest::Sleep(Some(ten)));
    // A frame that no event has told of.
    worker.queue(BULK, frame(&udp(HERE, remote.inner(), b"")));
    worker.path.turn().unwrap();
    assert_eq!(worker.counters.tun_frames_received.read(), 0);
    worker.advance(ten);
    worker.path.turn().unwrap();
    assert_eq!(worker.counters.tun_frames_received.read(), 1);
}
