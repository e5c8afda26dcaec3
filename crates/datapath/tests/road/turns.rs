//! Turns: the budget of each direction, and packets with priority around the superframes.

use crate::packets::{HERE, frame, number_of, numbered, packet_of, superframe};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_base::frames::{ACKNOWLEDGEMENT_QUEUE, PRIORITY_QUEUE, QueueFault};
use culvert_datapath::{Dropped, Lane, Rest};
use culvert_packet::Accept;
use culvert_packet::ecn::Ecn;

/// Superframes of each direction in one turn.
const SUPERFRAMES: u64 = 4;

/// Small frames that one turn reads.
const FRAMES: u64 = 64;

fn small(remote: &Remote, number: u32) -> Vec<u8> {
    frame(&numbered(HERE, remote.inner(), number, 60, Ecn::NotEct))
}

#[test]
fn one_turn_reads_four_superframes_or_one_batch_of_small_frames() {
    let remote = Remote::new(1);
    for (is_large, budget) in [(true, SUPERFRAMES), (false, FRAMES)] {
        let mut worker = Worker::new(snapshot(&[&remote]));
        for number in 0..3 * budget as u32 {
            let frame = match is_large {
                true => superframe(HERE, remote.inner(), 40),
                false => small(&remote, number),
            };
            worker.queue(BULK, frame);
        }
        for turn in 1..=3 {
            worker.turn();
            let read = worker.counters.tun_frames_received.read();
            assert_eq!(read, turn * budget);
            assert_eq!(worker.path.rest(), Rest::None, "it may have more");
        }
        worker.turn();
        assert!(matches!(
            worker.path.rest(),
            Rest::Pause | Rest::Sleep(None)
        ));
    }
}

#[test]
fn one_turn_takes_four_runs_of_a_socket_and_leaves_the_rest_to_the_next() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..10 {
        let packet = numbered(remote.inner(), HERE, number, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
    }
    for (arrived, is_over) in [(4, false), (8, false), (10, true)] {
        worker.turn();
        assert_eq!(worker.written().len(), if arrived == 10 { 2 } else { 4 });
        let received = worker.counters.received.packets.read();
        assert_eq!(received, arrived);
        assert_eq!(worker.path.rest() != Rest::None, is_over);
    }
}

#[test]
fn neither_direction_waits_for_the_end_of_the_other() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..100 {
        worker.queue(BULK, superframe(HERE, remote.inner(), 40));
        let packet = numbered(remote.inner(), HERE, number, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
    }
    worker.turn();
    assert!(!worker.sent().is_empty());
    assert!(!worker.written().is_empty());
}

#[test]
fn a_priority_packet_waits_for_one_superframe_at_most() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..20 {
        worker.queue(BULK, superframe(HERE, remote.inner(), 45));
        worker.queue(PRIORITY_QUEUE, small(&remote, number));
    }
    worker.run();
    let sent = worker.sent();
    let classes: Vec<u8> = sent.iter().map(|sent| sent.class).collect();
    let last = classes.iter().rposition(|class| *class == PRIORITY_CLASS);
    let bulk_before = classes[..last.unwrap()].iter().filter(|class| **class == 0);
    assert_eq!(bulk_before.count(), 0, "{classes:?}");
    let opened = remote.opens(&sent);
    let priority = opened.iter().filter(|packet| packet.len() < 200);
    assert!(priority.map(|packet| number_of(packet)).eq(0..20));
}

#[test]
fn priority_datagrams_are_carried_in_between_the_runs_of_a_socket() {
    let remote = Remote::new(1);
    let mut worker = Worker::with(
        Setup {
            accept: Accept::NONE,
            ..Setup::default()
        },
        snapshot(&[&remote]),
    );
    for number in 0..4 {
        let packet = numbered(remote.inner(), HERE, number, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
    }
    let ready = worker.device().ready();
    worker.path.take_ready(&ready).unwrap();
    // It arrives after the worker has looked: the poll in the middle of the turn finds it.
    let priority = numbered(remote.inner(), HERE, 99, 100, Ecn::NotEct);
    worker.arrive(Lane::PriorityV4, remote.seals(&[priority]));
    worker.path.turn().unwrap();
    let written = worker.written();
    let numbers: Vec<u32> = written.iter().map(|it| number_of(packet_of(it))).collect();
    assert_eq!(numbers, [99, 0, 1, 2, 3]);
    assert_eq!(worker.counters.mid_turn.read(), 1);
}

#[test]
fn a_counted_arrival_is_found_without_an_event() {
    let remote = Remote::new(1);
    let setup = Setup {
        are_counted: true,
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    for number in 0..2 {
        let packet = numbered(remote.inner(), HERE, number, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
    }
    let ready = worker.device().ready();
    worker.path.take_ready(&ready).unwrap();
    let priority = numbered(remote.inner(), HERE, 99, 100, Ecn::NotEct);
    worker.arrive(Lane::PriorityV6, remote.seals(&[priority]));
    worker.device().sockets.counted[Lane::PriorityV6 as usize] = Some(1);
    worker.path.turn().unwrap();
    assert_eq!(worker.counters.mid_turn.read(), 1);
}

#[test]
fn a_counted_priority_frame_is_found_without_an_event() {
    let remote = Remote::new(1);
    let setup = Setup {
        are_counted: true,
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    worker.queue(PRIORITY_QUEUE, small(&remote, 3));
    worker.path.turn().unwrap();
    assert_eq!(worker.sent().len(), 1);
}

#[test]
fn a_flood_of_datagrams_with_priority_does_not_stop_the_others() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..500 {
        let packet = numbered(remote.inner(), HERE, number, 100, Ecn::NotEct);
        worker.arrive(Lane::PriorityV4, remote.seals(&[packet]));
    }
    for number in 0..8 {
        let packet = numbered(remote.inner(), HERE, 1000 + number, 100, Ecn::NotEct);
        worker.arrive(Lane::V4, remote.seals(&[packet]));
    }
    worker.turn();
    worker.turn();
    let written = worker.written();
    let numbers = written.iter().map(|it| number_of(packet_of(it)));
    assert_eq!(numbers.filter(|number| *number >= 1000).count(), 8);
    let waiting = worker.device().sockets.arrived[Lane::PriorityV4 as usize].len();
    assert!(waiting > 300, "{waiting}");
}

#[test]
fn acknowledgements_do_not_wait_behind_superframes_and_have_no_mark() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for _ in 0..3 {
        worker.queue(BULK, superframe(HERE, remote.inner(), 45));
    }
    worker.queue(ACKNOWLEDGEMENT_QUEUE, small(&remote, 1));
    worker.run();
    let sent = worker.sent();
    assert_eq!(number_of(&remote.opens(&sent)[0]), 1);
    assert!(sent.iter().all(|sent| sent.class == 0));
}

#[test]
fn two_bulk_flows_share_the_tunnel_byte_by_byte() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..3_000 {
        let packet = numbered(HERE, remote.inner(), number, 1_000, Ecn::NotEct);
        worker.queue(BULK, frame(&packet));
    }
    for _ in 0..50 {
        worker.queue(BULK + 1, superframe(HERE, remote.inner(), 45));
    }
    while worker.device().tun.queues[BULK + 1].len() > 5 {
        worker.turn();
    }
    let opened = remote.opens(&worker.sent());
    let (single, large): (Vec<_>, Vec<_>) = opened.iter().partition(|it| it[9] == 17);
    let bytes = |packets: Vec<&Vec<u8>>| packets.iter().map(|it| it.len()).sum::<usize>();
    let (single, large) = (bytes(single), bytes(large));
    assert!(single.abs_diff(large) < 3 * 65_536, "{single} and {large}");
}

#[test]
fn a_queue_that_is_gone_ends_the_worker_and_a_failed_read_does_not() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let queue = &mut worker.device().tun.queues[BULK];
    queue.push_back(Err(QueueFault::Passing));
    worker.queue(BULK, small(&remote, 1));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::TunReadFailed, 1)]);
    assert_eq!(worker.sent().len(), 1);
    let queue = &mut worker.device().tun.queues[BULK];
    queue.push_back(Err(QueueFault::Gone));
    let ready = worker.device().ready();
    worker.path.take_ready(&ready).unwrap();
    assert!(worker.path.turn().is_err());
}
