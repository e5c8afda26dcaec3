//! Busy polling for the answer to a priority packet.

use crate::packets::{HERE, echo, frame};
use crate::remotes::{Remote, inner, snapshot};
use crate::worker::{Setup, Worker};
use culvert_base::frames::PRIORITY_QUEUE;
use culvert_datapath::{Lane, Mechanism, Mechanisms, Rest};
use std::time::Duration;

const POLL_FOR: Duration = Duration::from_micros(150);

fn ask(worker: &mut Worker, remote: &Remote) {
    worker.queue(PRIORITY_QUEUE, frame(&echo(HERE, remote.inner())));
    worker.run();
}

fn answer(worker: &mut Worker, remote: &Remote) {
    let run = remote.seals(&[echo(remote.inner(), HERE)]);
    worker.arrive(Lane::PriorityV4, run);
    worker.run();
}

#[test]
fn a_worker_polls_for_the_answer_from_outside_until_it_comes() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    ask(&mut worker, &remote);
    assert_eq!(worker.path.rest(), Rest::Poll);
    assert_eq!(worker.counters.busy_polls.read(), 1);
    worker.advance(Duration::from_micros(100));
    answer(&mut worker, &remote);
    assert_eq!(worker.counters.busy_polls_answered.read(), 1);
    assert_eq!(worker.path.rest(), Rest::Sleep(None));
}

#[test]
fn a_worker_polls_for_the_answer_from_inside_as_well() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    answer(&mut worker, &remote);
    assert_eq!(worker.path.rest(), Rest::Poll);
    ask(&mut worker, &remote);
    assert_eq!(worker.counters.busy_polls_answered.read(), 1);
}

#[test]
fn a_worker_sleeps_once_the_answer_is_late() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    ask(&mut worker, &remote);
    worker.advance(POLL_FOR);
    worker.turn();
    assert_eq!(worker.path.rest(), Rest::Sleep(None));
}

#[test]
fn a_packet_that_a_busy_worker_takes_late_is_no_answer() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    ask(&mut worker, &remote);
    // It has not rested since.
    worker.advance(POLL_FOR);
    answer(&mut worker, &remote);
    assert_eq!(worker.counters.busy_polls_answered.read(), 0);
}

#[test]
fn a_worker_does_not_poll_for_a_packet_that_goes_nowhere() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.queue(PRIORITY_QUEUE, frame(&echo(HERE, inner(9))));
    worker.run();
    assert_eq!(worker.path.rest(), Rest::Sleep(None));
    assert_eq!(worker.counters.busy_polls.read(), 0);
}

#[test]
fn without_the_mechanism_a_worker_never_polls() {
    let remote = Remote::new(1);
    let setup = Setup {
        mechanisms: Mechanisms::ALL.without(Mechanism::Priority),
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    ask(&mut worker, &remote);
    answer(&mut worker, &remote);
    assert_eq!(worker.path.rest(), Rest::Sleep(None));
}

#[test]
fn a_stream_of_questions_polls_for_a_tenth_of_the_time_at_most() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let mut polled = Duration::ZERO;
    const STEP: Duration = Duration::from_micros(50);
    for step in 0..20_000 {
        if step % 3 == 0 {
            ask(&mut worker, &remote);
        }
        worker.turn();
        if worker.path.rest() == Rest::Poll {
            polled += STEP;
        }
        worker.advance(STEP);
    }
    assert!(polled > Duration::ZERO);
    // A second has passed, and nobody has answered: the polls became rare.
    assert!(polled < Duration::from_millis(3), "{polled:?}");
}
