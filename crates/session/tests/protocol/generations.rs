//! A machine that is copied while it runs: both copies go on with the same memory.
//!
//! An end is a function of its inputs, so two that were given the same are copies of each other.

use crate::common::{
    End, clock_at, datagram, is_initiation, keepalive, opens_keepalive, pair, sealed_keepalive,
    seconds, shake, share_keys,
};
use culvert_session::{DATA_OVERHEAD, DropReason, Entropy, Output};
use std::collections::BTreeSet;

const FRESH: [[u8; 32]; 2] = [[0xaa; 32], [0xbb; 32]];

/// An end that has a session and has sent under it, and the peer of it.
fn running() -> (End, End) {
    let (mut end, mut peer) = pair();
    shake(&mut end, &mut peer, clock_at(seconds(1)));
    for second in 2..5 {
        assert!(keepalive(&end, &mut peer, clock_at(seconds(second))));
    }
    (end, peer)
}

/// An end that waits for the response to its initiation, and the response.
fn shaking() -> (End, [u8; 92]) {
    let (mut end, mut peer) = pair();
    let clock = clock_at(seconds(1));
    end.wants(clock);
    let initiation = end.datagram();
    peer.receives(&initiation, end.address, clock).unwrap();
    let response = peer.datagram();
    (end, response.as_bytes().try_into().unwrap())
}

/// Records that workers seal while they still have the keys of the end before the change.
fn records(end: &End, count: u32) -> Vec<[u8; DATA_OVERHEAD]> {
    let clock = clock_at(seconds(6));
    let keys = end.sending().into_iter();
    keys.flat_map(|keys| {
        (0..count).filter_map(move |_| {
            let reservation = keys.reserve(1, clock.now)?;
            let mut record = [0; DATA_OVERHEAD];
            keys.seal_batch(reservation, &mut record, DATA_OVERHEAD);
            Some(record)
        })
    })
    .collect()
}

/// An empty record is nothing but a function of key and counter: two that are alike share both.
fn equal_records(a: &[[u8; DATA_OVERHEAD]], b: &[[u8; DATA_OVERHEAD]]) -> usize {
    let a: BTreeSet<_> = a.iter().collect();
    b.iter().filter(|record| a.contains(record)).count()
}

#[test]
fn copies_that_are_not_told_use_every_counter_twice() {
    let [(first, _), (second, _)] = [running(), running()];
    assert_eq!(equal_records(&records(&first, 8), &records(&second, 8)), 8);
}

#[test]
fn copies_that_are_told_share_no_key_and_counter() {
    let clock = clock_at(seconds(5));
    let [first, second] = FRESH.map(|fresh| {
        let (mut end, mut peer) = running();
        let workers_still_have = end.sending().unwrap();
        end.shaker.handle_new_generation(&fresh, clock);
        assert!(workers_still_have.reserve(1, clock.now).is_none());
        assert!(!workers_still_have.can_send(clock.now));
        assert!(end.sending().is_none() && end.receiving().is_empty());

        let initiation = end.datagram();
        peer.receives(&initiation, end.address, clock).unwrap();
        let response = peer.datagram();
        end.receives(&response, peer.address, clock).unwrap();
        records(&end, 8)
    });
    assert_eq!((first.len(), second.len()), (8, 8));
    assert_eq!(equal_records(&first, &second), 0);
}

#[test]
fn after_a_new_generation_both_ends_are_back_by_themselves() {
    let (mut end, mut peer) = running();
    let clock = clock_at(seconds(5));
    end.shaker.handle_new_generation(&FRESH[0], clock);
    let outputs = end.drain();
    assert_eq!(outputs[0], Output::KeysChanged { peer: end.peer });
    let initiation = datagram(&outputs[1]).unwrap();
    assert!(is_initiation(&outputs[1]));

    peer.receives(&initiation, end.address, clock).unwrap();
    let response = peer.datagram();
    end.receives(&response, peer.address, clock).unwrap();
    assert!(keepalive(&end, &mut peer, clock));
    peer.drain();
    assert!(share_keys(&end, &peer));
    assert!(keepalive(&peer, &mut end, clock));
}

#[test]
fn a_response_to_what_was_sent_before_the_copy_gives_neither_copy_keys() {
    let clock = clock_at(seconds(2));
    let [untold, told] = [None, Some(FRESH[0])].map(|fresh| {
        let (mut end, response) = shaking();
        if let Some(fresh) = fresh {
            end.shaker.handle_new_generation(&fresh, clock);
            end.drain();
        }
        let from = crate::common::address(2);
        (end.receives(&response, from, clock), end.sending())
    });
    assert!(untold.0.is_ok() && untold.1.is_some());
    assert_eq!(told.0, Err(DropReason::UnknownIndex));
    assert!(told.1.is_none());
}

#[test]
fn keys_that_wait_for_the_peers_first_data_are_not_used_by_a_copy() {
    let (mut end, mut peer) = pair();
    let clock = clock_at(seconds(1));
    peer.wants(clock);
    let initiation = peer.datagram();
    end.receives(&initiation, peer.address, clock).unwrap();
    let response = end.datagram();
    peer.receives(&response, end.address, clock).unwrap();
    let confirmation = sealed_keepalive(&peer, clock);

    end.shaker.handle_new_generation(&FRESH[0], clock);
    assert!(!opens_keepalive(&mut end, confirmation, clock));
    assert!(end.sending().is_none());
}

#[test]
fn a_peer_without_a_session_is_left_alone() {
    let mut end = End::new(1, 2);
    end.shaker
        .handle_new_generation(&FRESH[0], clock_at(seconds(1)));
    assert_eq!(end.drain(), []);
    assert_eq!(end.shaker.next_timeout(), None);
}

#[test]
fn an_interface_that_is_down_begins_no_handshake() {
    let (mut end, _) = running();
    let clock = clock_at(seconds(5));
    end.shaker.set_up(false, clock);
    end.drain();
    end.shaker.handle_new_generation(&FRESH[0], clock);
    assert_eq!(end.drain(), []);
}

/// Entropy that a test knows.
struct Known(u8);

impl Entropy for Known {
    fn fresh(&mut self) -> [u8; 32] {
        self.0 = self.0.wrapping_add(2);
        [self.0; 32]
    }
}

/// The unencrypted ephemeral key of an initiation and of a response.
fn ephemerals(entropy: u8) -> [[u8; 32]; 2] {
    let (mut end, mut peer) = pair();
    end.shaker.set_entropy(Box::new(Known(entropy)));
    peer.shaker.set_entropy(Box::new(Known(entropy)));
    let clock = clock_at(seconds(1));
    end.wants(clock);
    let initiation = end.datagram();
    peer.receives(&initiation, end.address, clock).unwrap();
    let response = peer.datagram();
    [
        initiation[8..40].try_into().unwrap(),
        response[12..44].try_into().unwrap(),
    ]
}

#[test]
fn fresh_entropy_is_in_every_ephemeral_key() {
    let [first, again, other] = [0, 0, 1].map(ephemerals);
    assert_eq!(first, again);
    assert_ne!(first[0], other[0], "the initiator's");
    assert_ne!(first[1], other[1], "the responder's");
}
