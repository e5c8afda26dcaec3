//! The wait for the control thread, which makes a confirmed key the one to send under.

use crate::packets::{HERE, frame, numbered};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Worker};
use culvert_datapath::{Lane, Snapshot};
use culvert_packet::ecn::Ecn;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait at once.
const BURST_MS: u64 = 10;

/// A snapshot whose peer is sealed to under the key before, until its new one is confirmed.
fn unconfirmed(old: &Remote, new: &Remote) -> Snapshot {
    let mut snapshot = snapshot(&[new]);
    snapshot.peers[1].as_mut().unwrap().sending = Some(Arc::clone(&old.sending));
    snapshot
}

fn confirmed(new: &Remote) -> Snapshot {
    let mut snapshot = snapshot(&[new]);
    let index = new.receiving.local_index();
    snapshot.receiving.get_mut(&index).unwrap().is_unconfirmed = false;
    snapshot
}

fn question(remote: &Remote) -> Vec<u8> {
    numbered(remote.inner(), HERE, 0, 100, Ecn::NotEct)
}

/// The milliseconds that a worker waits when the first data of a peer arrives under a new key.
fn waited_ms(worker: &mut Worker) -> u64 {
    let before = worker.device().clock.now.get();
    worker.turn();
    let after = worker.device().clock.now.get();
    after.saturating_since(before).as_millis() as u64
}

#[test]
fn the_answer_to_the_first_packet_goes_under_the_key_that_the_packet_confirmed() {
    let (old, new) = (Remote::new(1), Remote::that_began(1));
    let mut worker = Worker::new(unconfirmed(&old, &new));
    worker.device().control.at_yield = Some((3, Arc::new(confirmed(&new))));
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    let answer = numbered(HERE, new.inner(), 1, 100, Ecn::NotEct);
    worker.queue(BULK, frame(&answer));
    assert_eq!(
        waited_ms(&mut worker),
        3,
        "as long as the control thread takes"
    );
    assert_eq!(new.opens(&worker.sent()), [answer]);
}

#[test]
fn a_control_thread_that_does_not_come_is_waited_for_ten_milliseconds_and_the_answer_goes_under_the_key_before()
 {
    let (old, new) = (Remote::new(1), Remote::that_began(1));
    let mut worker = Worker::new(unconfirmed(&old, &new));
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    let answer = numbered(HERE, new.inner(), 1, 100, Ecn::NotEct);
    worker.queue(BULK, frame(&answer));
    assert_eq!(waited_ms(&mut worker), BURST_MS);
    assert_eq!(old.opens(&worker.sent()), [answer]);
}

#[test]
fn a_snapshot_that_says_nothing_of_the_key_does_not_end_the_wait() {
    let (old, new) = (Remote::new(1), Remote::that_began(1));
    let mut worker = Worker::new(unconfirmed(&old, &new));
    let another_change = unconfirmed(&old, &new);
    worker.device().control.at_yield = Some((2, Arc::new(another_change)));
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    assert_eq!(waited_ms(&mut worker), BURST_MS);
}

#[test]
fn a_key_that_is_removed_meanwhile_is_not_waited_for() {
    let (old, new) = (Remote::new(1), Remote::that_began(1));
    let mut worker = Worker::new(unconfirmed(&old, &new));
    let mut removed = snapshot(&[&new]);
    removed.receiving.clear();
    worker.device().control.at_yield = Some((4, Arc::new(removed)));
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    assert_eq!(waited_ms(&mut worker), 4);
}

#[test]
fn handshakes_that_follow_each_other_wait_for_a_hundredth_of_the_time() {
    let old = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&old]));
    let mut waited = 0;
    for step in 0..10 {
        let new = Remote::that_began(1);
        worker.publish(unconfirmed(&old, &new));
        worker.arrive(Lane::V4, new.seals(&[question(&new)]));
        let now = waited_ms(&mut worker);
        assert!(
            now <= if step == 0 { BURST_MS } else { 2 },
            "{step}: {now} ms"
        );
        waited += now;
        worker.advance(Duration::from_millis(100));
    }
    assert!(waited <= BURST_MS + 2 * 9, "{waited} ms in a second");
    assert!(waited > BURST_MS);
}

#[test]
fn a_key_of_an_initiator_waits_for_nobody() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.arrive(Lane::V4, remote.seals(&[question(&remote)]));
    assert_eq!(waited_ms(&mut worker), 0);
    assert_eq!(worker.device().clock.yields.get(), 0);
}
