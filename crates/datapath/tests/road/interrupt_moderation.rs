//! Pauses under a stream of single UDP packets, so that batches come together.

use crate::packets::{HERE, frame, numbered, tcp};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{Mechanism, Mechanisms, Rest};
use culvert_packet::ecn::Ecn;
use std::time::Duration;

/// The packets of a millisecond that make a stream.
const STREAM: u32 = 50;

/// The rest of a worker that carries so many UDP packets and TCP packets in each of several milliseconds.
fn rest_under(setup: Setup, udp: u32, others: u32) -> Rest {
    let remote = Remote::new(1);
    let mut worker = Worker::with(setup, snapshot(&[&remote]));
    let mut rest = Rest::None;
    for _ in 0..5 {
        for number in 0..udp {
            let packet = numbered(HERE, remote.inner(), number, 100, Ecn::NotEct);
            worker.queue(BULK, frame(&packet));
        }
        for number in 0..others {
            let packet = tcp(HERE, remote.inner(), number, b"a segment");
            worker.queue(BULK, frame(&packet));
        }
        worker.run();
        worker.advance(Duration::from_millis(1));
        worker.turn();
        rest = worker.path.rest();
    }
    let pauses = worker.counters.pauses.read();
    assert_eq!(pauses > 0, rest == Rest::Pause, "pauses are counted");
    rest
}

#[test]
fn a_worker_pauses_under_a_stream_of_single_udp_packets() {
    assert_eq!(rest_under(Setup::default(), STREAM, 0), Rest::Pause);
    assert_eq!(
        rest_under(Setup::default(), STREAM, STREAM / 8),
        Rest::Pause
    );
}

#[test]
fn a_worker_sleeps_after_few_packets_or_among_others() {
    let sleep = Rest::Sleep(None);
    assert_eq!(rest_under(Setup::default(), STREAM - 1, 0), sleep);
    assert_eq!(rest_under(Setup::default(), STREAM, STREAM / 8 + 1), sleep);
    assert_eq!(rest_under(Setup::default(), 0, STREAM), sleep);
    assert_eq!(rest_under(Setup::default(), 0, 0), sleep);
}

#[test]
fn without_the_mechanism_a_worker_never_pauses() {
    let setup = Setup {
        mechanisms: Mechanisms::ALL.without(Mechanism::InterruptModeration),
        ..Setup::default()
    };
    assert_eq!(rest_under(setup, 10 * STREAM, 0), Rest::Sleep(None));
}

#[test]
fn the_pauses_end_with_the_stream() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for number in 0..STREAM {
        let packet = numbered(HERE, remote.inner(), number, 100, Ecn::NotEct);
        worker.queue(BULK, frame(&packet));
    }
    // The first judgement is of all the time before.
    worker.turn();
    worker.path.rest();
    let mut rests = Vec::new();
    for _ in 0..3 {
        worker.advance(Duration::from_millis(1));
        worker.turn();
        rests.push(worker.path.rest());
    }
    assert_eq!(rests[2], Rest::Sleep(None), "{rests:?}");
}
