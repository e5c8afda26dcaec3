//! Queues that stand for too long: CoDel, and bounds that follow from the paths of their peers.

use crate::packets::{HERE, frame, number_of, numbered, superframe};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_base::frames::{MAX_BOUND_BYTES, MIN_BOUND_BYTES, PRIORITY_QUEUE};
use culvert_datapath::Dropped;
use culvert_packet::ecn::Ecn;
use std::time::Duration;

fn worker(remotes: &[&Remote]) -> Worker {
    let setup = Setup {
        are_counted: true,
        ..Setup::default()
    };
    Worker::with(setup, snapshot(remotes))
}

/// Reads a queue for so long, a turn in each millisecond, while `initially_queued` packets always wait there. Returns the number
/// of packets that were queued.
fn stand(
    worker: &mut Worker,
    remote: &Remote,
    queue: usize,
    initially_queued: usize,
    ecn: Ecn,
    ms: u32,
) -> u32 {
    let mut queued = 0;
    for _ in 0..ms {
        while worker.device().tun.queues[queue].len() < initially_queued {
            let packet = numbered(HERE, remote.inner(), queued, 1_200, ecn);
            worker.queue(queue, frame(&packet));
            queued += 1;
        }
        worker.turn();
        worker.advance(Duration::from_millis(1));
    }
    worker.run();
    queued
}

/// Packets whose wait is more than 5 ms where 64 are read in each.
const QUEUED: usize = 1_000;

#[test]
fn a_queue_that_stands_for_longer_than_its_interval_loses_packets_which_are_counted() {
    let remote = Remote::new(1);
    let mut worker = worker(&[&remote]);
    let queued = stand(&mut worker, &remote, BULK, QUEUED, Ecn::NotEct, 300);
    let lost = worker.counters.dropped(Dropped::Codel);
    assert!((2..20).contains(&lost), "{lost}");
    assert_eq!(worker.drops(), [(Dropped::Codel, lost)]);
    let opened = remote.opens(&worker.sent());
    assert_eq!(opened.len() as u64 + lost, u64::from(queued));
    assert!(opened.iter().map(|it| number_of(it)).is_sorted());
}

#[test]
fn a_sender_that_understands_marks_is_marked_and_loses_nothing() {
    let remote = Remote::new(1);
    let mut worker = worker(&[&remote]);
    let queued = stand(&mut worker, &remote, BULK, QUEUED, Ecn::Ect0, 300);
    let marked = worker.counters.queue_marked.read();
    assert!((2..20).contains(&marked), "{marked}");
    assert_eq!(worker.drops(), []);
    let opened = remote.opens(&worker.sent());
    assert_eq!(opened.len(), queued as usize);
    let is_marked = |packet: &&Vec<u8>| Ecn::from_bits(packet[1]) == Ecn::Ce;
    assert_eq!(opened.iter().filter(is_marked).count() as u64, marked);
}

#[test]
fn a_superframe_loses_its_first_packet_alone() {
    let remote = Remote::new(1);
    let mut worker = worker(&[&remote]);
    let mut queued = 0;
    for _ in 0..300 {
        while worker.device().tun.queues[BULK].len() < 60 {
            worker.queue(BULK, superframe(HERE, remote.inner(), 40));
            queued += 40;
        }
        worker.turn();
        worker.advance(Duration::from_millis(1));
    }
    worker.run();
    let lost = worker.counters.dropped(Dropped::Codel);
    assert!(lost > 0 && lost < 30, "{lost}");
    assert_eq!(remote.opens(&worker.sent()).len() as u64 + lost, queued);
}

#[test]
fn a_short_queue_a_short_time_and_a_priority_queue_tell_nobody() {
    for (queue, initially_queued, ms) in [
        (BULK, 60, 300),
        (BULK, QUEUED, 90),
        (PRIORITY_QUEUE, QUEUED, 300),
    ] {
        let remote = Remote::new(1);
        let mut worker = worker(&[&remote]);
        stand(
            &mut worker,
            &remote,
            queue,
            initially_queued,
            Ecn::NotEct,
            ms,
        );
        assert_eq!(
            worker.drops(),
            [],
            "{queue}, {initially_queued} frames, {ms} ms"
        );
    }
}

#[test]
fn a_queue_that_stands_costs_another_one_nothing() {
    let remote = Remote::new(1);
    let mut worker = worker(&[&remote]);
    let other = BULK + 1;
    let mut numbers = 0..;
    for _ in 0..300 {
        while worker.device().tun.queues[BULK].len() < QUEUED {
            let packet = numbered(HERE, remote.inner(), 0, 1_200, Ecn::NotEct);
            worker.queue(BULK, frame(&packet));
        }
        let number = numbers.next().unwrap();
        let packet = numbered(HERE, remote.inner(), number, 300, Ecn::NotEct);
        worker.queue(other, frame(&packet));
        worker.turn();
        worker.advance(Duration::from_millis(1));
    }
    worker.run();
    assert!(worker.counters.dropped(Dropped::Codel) > 0);
    let opened = remote.opens(&worker.sent());
    let arrived = opened.iter().filter(|packet| packet.len() == 328);
    assert!(arrived.map(|packet| number_of(packet)).eq(0..300));
}

fn bound(worker: &mut Worker, queue: usize) -> u64 {
    worker.device().tun.counts[queue].bound.get()
}

fn forward(worker: &mut Worker, remote: &Remote, queue: usize) {
    let packet = numbered(HERE, remote.inner(), 0, 300, Ecn::NotEct);
    worker.queue(queue, frame(&packet));
    worker.advance(Duration::from_millis(1));
    worker.run();
}

#[test]
fn a_queue_to_a_peer_far_away_holds_what_fits_its_path() {
    let (near, far) = (Remote::new(1), Remote::new(2));
    let mut worker = worker(&[&near, &far]);
    near.peer.note_round_trip(Duration::from_micros(700));
    far.peer.note_round_trip(Duration::from_millis(6));
    forward(&mut worker, &near, BULK);
    assert_eq!(bound(&mut worker, BULK), MIN_BOUND_BYTES);
    forward(&mut worker, &far, BULK);
    // A millisecond at 10 Gbit/s for each of the path, of which the host has two.
    assert_eq!(bound(&mut worker, BULK), MIN_BOUND_BYTES + 4 * 1_250_000);
    assert_eq!(
        bound(&mut worker, BULK + 1),
        MIN_BOUND_BYTES,
        "of another queue"
    );
}

#[test]
fn a_bound_stays_for_a_second_after_the_last_frame_that_wanted_it() {
    let (near, far) = (Remote::new(1), Remote::new(2));
    let mut worker = worker(&[&near, &far]);
    near.peer.note_round_trip(Duration::from_micros(700));
    far.peer.note_round_trip(Duration::from_secs(2));
    forward(&mut worker, &far, BULK);
    assert_eq!(bound(&mut worker, BULK), MAX_BOUND_BYTES);
    worker.advance(Duration::from_millis(900));
    forward(&mut worker, &near, BULK);
    assert_eq!(bound(&mut worker, BULK), MAX_BOUND_BYTES);
    worker.advance(Duration::from_millis(100));
    forward(&mut worker, &near, BULK);
    assert_eq!(bound(&mut worker, BULK), MIN_BOUND_BYTES);
}

#[test]
fn a_reader_tells_what_it_has_taken_once_a_turn_at_least_and_when_a_queue_is_empty() {
    let remote = Remote::new(1);
    let mut worker = worker(&[&remote]);
    for number in 0..200 {
        let packet = numbered(HERE, remote.inner(), number, 1_200, Ecn::NotEct);
        worker.queue(BULK, frame(&packet));
    }
    worker.turn();
    let (queued, told) = {
        let count = &worker.device().tun.counts[BULK];
        (count.queued.get(), count.told.get())
    };
    assert!(told > 0 && told < queued, "{told} of {queued}");
    worker.advance(Duration::from_millis(1));
    worker.run();
    assert_eq!(worker.device().tun.counts[BULK].told.get(), queued);
}
