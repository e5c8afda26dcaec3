//! A machine that may be a copy of another one seals nothing under keys that both have.

use crate::packets::{HERE, frame, numbered, superframe};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Worker};
use culvert_base::BootTime;
use culvert_datapath::{Dropped, Event, Lane, SendFault};
use culvert_packet::ecn::Ecn;
use culvert_session::{ClockOffset, GenerationChange};
use std::time::Duration;

fn packet(remote: &Remote, number: u32) -> Vec<u8> {
    frame(&numbered(HERE, remote.inner(), number, 100, Ecn::NotEct))
}

fn told(worker: &mut Worker) -> Vec<(u64, GenerationChange)> {
    let events = worker.events().into_iter();
    let told = events.filter_map(|event| match event {
        Event::PerhapsCopied { generation, change } => Some((generation, change)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_wall_clock_that_was_set_ends_the_keys_of_the_snapshot_before_the_next_packet() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker
        .device()
        .clock
        .wall_ahead
        .set(Duration::from_secs(60));
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    assert_eq!(worker.sent(), []);
    assert_eq!(told(&mut worker), [(1, GenerationChange::ClockSet)]);
    assert!(remote.receiving.reserve(1, crate::device::START).is_none());
}

#[test]
fn keys_for_receiving_are_ended_as_well() {
    let remote = Remote::that_began(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker
        .device()
        .clock
        .wall_ahead
        .set(Duration::from_secs(60));
    worker.turn();
    assert!(remote.receiving.reserve(1, crate::device::START).is_none());
}

#[test]
fn a_clock_that_is_corrected_by_two_seconds_changes_nothing() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker
        .device()
        .clock
        .wall_ahead
        .set(culvert_session::CLOCK_JUMP);
    worker.queue(BULK, packet(&remote, 0));
    worker.run();
    assert_eq!(worker.sent().len(), 1);
    assert_eq!(told(&mut worker), []);
}

#[test]
fn a_batch_that_was_sealed_on_the_machine_before_does_not_leave_from_its_copy() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let faults = &worker.device().sockets.send_faults;
    faults.borrow_mut().push_back(Some(SendFault::WouldBlock));
    worker.queue(BULK, superframe(HERE, remote.inner(), 3));
    worker.run();
    worker
        .device()
        .clock
        .wall_ahead
        .set(Duration::from_secs(60));
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.sent(), []);
    assert_eq!(worker.drops(), [(Dropped::SendFailed, 3)]);
}

#[test]
fn a_control_thread_that_is_busy_is_told_at_the_next_turn() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.device().control.is_full.set(true);
    worker
        .device()
        .clock
        .wall_ahead
        .set(Duration::from_secs(60));
    worker.turn();
    worker.device().control.is_full.set(false);
    worker.turn();
    worker.turn();
    assert_eq!(told(&mut worker).len(), 1, "once");
}

#[test]
fn keys_of_a_snapshot_that_is_made_after_the_jump_are_used() {
    let (old, new) = (Remote::new(1), Remote::that_began(1).confirmed());
    let mut worker = Worker::new(snapshot(&[&old]));
    let ahead = Duration::from_secs(60);
    worker.device().clock.wall_ahead.set(ahead);
    worker.turn();
    let mut renewed = snapshot(&[&new]);
    let wall = Duration::from_secs(1_800_000_000) + ahead;
    renewed.wall_offset = ClockOffset::between(BootTime::ZERO, wall);
    worker.publish(renewed);
    worker.queue(BULK, packet(&new, 0));
    worker.run();
    assert_eq!(new.opens(&worker.sent()).len(), 1);
    assert_eq!(told(&mut worker).len(), 1);
}
