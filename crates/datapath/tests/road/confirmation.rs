//! A key that this end made as responder, and that the first data of the peer confirms.

use crate::packets::{HERE, frame, numbered};
use crate::remotes::{Remote, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_datapath::{Event, Lane, Receiving, Snapshot};
use culvert_packet::ecn::Ecn;
use std::sync::Arc;

/// The key of before, and one that a handshake of the same peer has brought since.
fn old_and_new() -> (Remote, Remote) {
    let (old, new) = (Remote::new(1), Remote::that_began(1));
    // They are of one peer.
    let new = Remote {
        peer: Arc::clone(&old.peer),
        ..new
    };
    (old, new)
}

/// A snapshot whose peer is sealed to under the key before, until its new one is confirmed.
fn unconfirmed(old: &Remote, new: &Remote) -> Snapshot {
    let snapshot = snapshot(&[old]);
    snapshot.keys.insert(Receiving {
        transport: Arc::clone(&new.receiving),
        peer: Arc::clone(&new.peer),
    });
    let (current, awaited) = (Arc::clone(&old.receiving), Arc::clone(&new.receiving));
    old.peer.set_keys(Some(current), Some(awaited));
    snapshot
}

fn question(remote: &Remote) -> Vec<u8> {
    numbered(remote.inner(), HERE, 0, 100, Ecn::NotEct)
}

fn answer(remote: &Remote) -> Vec<u8> {
    numbered(HERE, remote.inner(), 1, 100, Ecn::NotEct)
}

#[test]
fn the_answer_to_the_first_packet_goes_under_the_key_that_the_packet_confirmed() {
    let (old, new) = old_and_new();
    let mut worker = Worker::new(unconfirmed(&old, &new));
    worker.queue(BULK, frame(&answer(&old)));
    worker.run();
    assert_eq!(old.opens(&worker.sent()), [answer(&old)]);
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    worker.queue(BULK, frame(&answer(&new)));
    worker.run();
    assert_eq!(new.opens(&worker.sent()), [answer(&new)]);
}

#[test]
fn a_control_thread_that_hears_later_changes_nothing_of_it() {
    let (old, new) = old_and_new();
    let mut worker = Worker::new(unconfirmed(&old, &new));
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    worker.run();
    let sending = new.sending();
    // As it knew them before the news.
    let (current, awaited) = (Arc::clone(&old.receiving), Arc::clone(&new.receiving));
    assert!(!new.peer.set_keys(Some(current), Some(awaited)));
    // And after it.
    assert!(!new.peer.set_keys(Some(Arc::clone(&new.receiving)), None));
    assert!(
        Arc::ptr_eq(&new.sending(), &sending),
        "it keeps whose turn it is"
    );
}

#[test]
fn data_under_a_key_that_nobody_awaits_any_more_leaves_the_other_one_in_use() {
    let (old, new) = old_and_new();
    let mut worker = Worker::new(unconfirmed(&old, &new));
    new.peer.set_keys(Some(Arc::clone(&old.receiving)), None);
    worker.arrive(Lane::V4, new.seals(&[question(&new)]));
    worker.queue(BULK, frame(&answer(&new)));
    worker.run();
    assert_eq!(old.opens(&worker.sent()), [answer(&new)]);
    let events = worker.events().into_iter();
    let is_told = |event: Event| matches!(event, Event::Confirmed(..));
    assert_eq!(events.map(is_told).filter(|told| *told).count(), 1);
}

#[test]
fn a_worker_with_frames_that_wait_is_woken_by_the_one_that_finds_the_key_confirmed() {
    let remote = Remote::that_began(1);
    let shared = Arc::new(snapshot(&[&remote]));
    let setup = |worker| Setup {
        worker,
        ..Setup::default()
    };
    let mut waiting = Worker::with(setup(3), Arc::clone(&shared));
    let mut finder = Worker::with(setup(0), shared);
    waiting.queue(BULK, frame(&answer(&remote)));
    waiting.run();
    assert_eq!(waiting.sent(), []);
    finder.arrive(Lane::V4, remote.seals(&[question(&remote)]));
    finder.run();
    assert_eq!(finder.device().control.woken.get(), 1 << 3);
    waiting.run();
    assert_eq!(remote.opens(&waiting.sent()), [answer(&remote)]);
}

#[test]
fn a_key_of_a_peer_whose_number_is_another_peers_in_this_snapshot_opens_nothing() {
    let (before, after) = (Remote::new(1), Remote::that_began(1).confirmed());
    let of_before = snapshot(&[&before]);
    of_before.keys.insert(Receiving {
        transport: Arc::clone(&after.receiving),
        peer: Arc::clone(&after.peer),
    });
    let mut worker = Worker::new(of_before);
    worker.arrive(Lane::V4, after.seals(&[question(&after)]));
    worker.run();
    assert_eq!(
        worker.drops(),
        [(culvert_datapath::Dropped::UnknownIndex, 1)]
    );
}
