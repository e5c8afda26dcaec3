//! The dynamic limit on the send buffers of the sockets.

use crate::packets::{HERE, frame, numbered};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{Lane, Mechanism, Mechanisms, SendFault};
use culvert_packet::ecn::Ecn;
use std::sync::Arc;
use std::time::Duration;

const LOWEST: usize = 160 << 10;
const HIGHEST: usize = 2 << 20;

fn buffers(worker: &mut Worker) -> Vec<(Lane, usize)> {
    worker.device().sockets.buffers.take()
}

/// The socket is full, and has room again while so many bytes are on their way to the device.
fn fill(worker: &mut Worker, remote: &Remote, left_bytes: u32) {
    let faults = &worker.device().sockets.send_faults;
    faults.borrow_mut().push_back(Some(SendFault::WouldBlock));
    let packet = numbered(HERE, remote.inner(), 0, 100, Ecn::NotEct);
    worker.queue(BULK, frame(&packet));
    worker.run();
    worker.device().sockets.unsent_bytes.set(left_bytes);
    worker.advance(Duration::from_millis(1));
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.sent().len(), 1);
}

#[test]
fn new_sockets_have_the_lowest_limit() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let lowest = [(Lane::V4, LOWEST), (Lane::V6, LOWEST)];
    assert_eq!(buffers(&mut worker), lowest);
    fill(&mut worker, &remote, 0);
    assert_eq!(buffers(&mut worker), [(Lane::V4, LOWEST + LOWEST / 2)]);
    worker
        .device()
        .publish(Arc::new(snapshot(&[&remote])), true);
    worker.turn();
    assert_eq!(buffers(&mut worker), lowest, "others begin anew");
}

#[test]
fn a_snapshot_with_the_same_sockets_leaves_their_limits_alone() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    buffers(&mut worker);
    worker.publish(snapshot(&[&remote]));
    worker.turn();
    assert_eq!(buffers(&mut worker), []);
}

#[test]
fn the_limit_grows_while_the_device_runs_dry_up_to_the_highest_one() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    buffers(&mut worker);
    for _ in 0..20 {
        fill(&mut worker, &remote, 0);
    }
    let set: Vec<usize> = buffers(&mut worker)
        .iter()
        .map(|(_, bytes)| *bytes)
        .collect();
    assert!(set.is_sorted(), "{set:?}");
    assert_eq!(set.last(), Some(&HIGHEST));
    assert_eq!(set.iter().filter(|bytes| **bytes == HIGHEST).count(), 1);
}

#[test]
fn a_limit_that_was_never_needed_shrinks_and_that_of_the_other_socket_stays() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for _ in 0..20 {
        fill(&mut worker, &remote, 0);
    }
    buffers(&mut worker);
    for _ in 0..200 {
        fill(&mut worker, &remote, 1 << 20);
    }
    let set = buffers(&mut worker);
    assert!(set.iter().all(|(lane, _)| *lane == Lane::V4));
    assert_eq!(set.last(), Some(&(Lane::V4, LOWEST)));
}

#[test]
fn without_the_mechanism_buffers_are_the_kernels() {
    let remote = Remote::new(1);
    let setup = Setup {
        mechanisms: Mechanisms::ALL.without(Mechanism::SendLimit),
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    fill(&mut worker, &remote, 0);
    assert_eq!(buffers(&mut worker), []);
}
