//! Peers and keys as the configuration changes them.

use crate::common::*;
use culvert_session::{Error, Handshaker, Output, PresharedKey, Suite};
use std::time::Duration;

#[test]
fn the_suite_of_a_peer_is_the_one_that_was_set_last() {
    let (mut a, _) = pair();
    assert_eq!(a.shaker.suite(a.peer), Some(Suite::ChaCha20Poly1305));
    for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        a.set_suite(suite);
        assert_eq!(a.shaker.suite(a.peer), Some(suite));
    }
    a.shaker.remove_peer(a.peer);
    assert_eq!(a.shaker.suite(a.peer), None);
}

#[test]
fn a_peer_is_found_by_its_key_for_as_long_as_it_is_there() {
    let mut shaker = Handshaker::new([1; 32]);
    let peers = [2, 3].map(|number| shaker.add_peer(public_key(number)).unwrap());
    assert_eq!(shaker.peer_by_key(&public_key(2)), Some(peers[0]));
    assert_eq!(shaker.peer_by_key(&public_key(3)), Some(peers[1]));
    shaker.remove_peer(peers[0]);
    assert_eq!(shaker.peer_by_key(&public_key(2)), None);
    assert_eq!(shaker.peer_by_key(&public_key(3)), Some(peers[1]));
}

#[test]
fn the_preshared_key_of_a_peer_is_the_one_that_was_set_last() {
    let (mut a, _) = pair();
    let key = |a: &End| a.shaker.preshared_key(a.peer).cloned();
    assert_eq!(key(&a), Some(PresharedKey::NONE));
    for bytes in [[9; 32], [8; 32], [0; 32]] {
        a.set_preshared_key(bytes);
        assert_eq!(key(&a), Some(PresharedKey::from_bytes(bytes)));
    }
    a.shaker.remove_peer(a.peer);
    assert_eq!(key(&a), None);
}

#[test]
fn a_handshaker_shows_who_it_is_and_no_secret() {
    let (a, _) = pair();
    let shown = format!(
        "Handshaker {{ public_key: Some({:?}), peers: 1, is_up: true, .. }}",
        public_key(1)
    );
    assert_eq!(format!("{:?}", a.shaker), shown);
}

#[test]
fn our_own_key_is_no_peer() {
    let mut shaker = Handshaker::new([1; 32]);
    assert_eq!(
        shaker.set_private_key(Some(private_key(1)), clock_at(Duration::ZERO)),
        None
    );
    assert_eq!(shaker.add_peer(public_key(1)), Err(Error::OwnKey));
    let peer = shaker.add_peer(public_key(2)).unwrap();
    assert_eq!(shaker.add_peer(public_key(2)), Err(Error::PeerExists(peer)));
    assert_eq!(
        shaker.set_private_key(Some(private_key(2)), clock_at(Duration::ZERO)),
        Some(peer)
    );
    assert_eq!(shaker.peer_by_key(&public_key(2)), None);
    assert_eq!(
        shaker.add_peer(public_key(1)),
        Ok(peer),
        "the slot is free again"
    );
}

#[test]
fn another_private_key_ends_sessions_and_the_same_one_does_not() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.shaker
        .set_private_key(Some(private_key(1)), clock_at(Duration::ZERO));
    assert!(a.sending().is_some());
    a.shaker
        .set_private_key(Some(private_key(5)), clock_at(Duration::ZERO));
    assert!(a.receiving().is_empty());
    assert_eq!(a.drain(), [Output::KeysChanged { peer: a.peer }]);
    assert_eq!(a.shaker.indices_in_use(), 0);

    let again = b.shaker.add_peer(public_key(5)).unwrap();
    let clock = clock_at(seconds(10));
    a.wants(clock);
    assert_eq!(b.receives(&a.datagram(), a.address, clock), Ok(again));
}

#[test]
fn a_removed_peer_leaves_nothing_behind() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.wants(clock_at(seconds(130)));
    a.shaker.remove_peer(a.peer);
    assert_eq!(a.drain(), []);
    assert_eq!(a.shaker.indices_in_use(), 0);
    assert_eq!(a.shaker.next_timeout(), None);
    assert_eq!(a.shaker.live_transports().count(), 0);
    a.wants(clock_at(seconds(140)));
    assert_eq!(a.drain(), []);
}
