//! Handshakes of both ends at once: both complete, and the ends settle on one of the two sessions.

use crate::common::*;
use culvert_session::{Clock, Output, Role};
use std::time::Duration;

/// Both ends initiate at once, and both handshakes complete.
fn cross(a: &mut End, b: &mut End, clock: Clock) {
    a.wants(clock);
    b.wants(clock);
    exchange(a, b, clock);
}

/// The initiations of both ends cross, and then their responses.
fn exchange(a: &mut End, b: &mut End, clock: Clock) {
    for _ in 0..2 {
        let (from_a, from_b) = (a.datagram(), b.datagram());
        a.receives(&from_b, b.address, clock).unwrap();
        b.receives(&from_a, a.address, clock).unwrap();
    }
}

#[test]
fn handshakes_that_cross_tell_the_round_trip_all_the_same() {
    const ONE_WAY: Duration = Duration::from_millis(20);
    let (mut a, mut b) = pair();
    let at = |ms: u64| clock_at(Duration::from_millis(ms));
    a.wants(at(0));
    let of_a = a.datagram();
    b.wants(at(15));
    let of_b = b.datagram();
    b.receives(&of_a, a.address, at(20)).unwrap();
    a.receives(&of_b, b.address, at(35)).unwrap();
    let to_a = b.datagram();
    a.receives(&to_a, b.address, at(40)).unwrap();
    let learned = a.drain().into_iter().find_map(|output| match output {
        Output::HandshakeCompleted { round_trip, .. } => Some(round_trip),
        _ => None,
    });
    assert_eq!(learned, Some(2 * ONE_WAY));
}

#[test]
fn both_ends_may_initiate_at_once_and_settle_on_one_session_in_one_round_trip() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    cross(&mut a, &mut b, clock);
    // Each sends under its own session, and is understood.
    assert!(keepalive(&a, &mut b, clock) && keepalive(&b, &mut a, clock));
    assert!(keepalive(&a, &mut b, clock) && keepalive(&b, &mut a, clock));
    assert!(share_keys(&a, &b));
    let roles = [a.sending().unwrap().role(), b.sending().unwrap().role()];
    assert!(
        roles.contains(&Role::Initiator),
        "someone must renew the session"
    );
    assert!(roles.contains(&Role::Responder), "only one must");
    assert!(a.shaker.indices_in_use() <= 3 && b.shaker.indices_in_use() <= 3);
}

#[test]
fn crossing_handshakes_keep_the_old_session_until_the_peer_shows_a_new_one() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    let clock = clock_at(seconds(130));
    let old = (
        a.sending().unwrap().local_index(),
        b.sending().unwrap().local_index(),
    );
    a.wants(clock);
    // The responder has no reason by time; it missed answers, say.
    b.activity().data_sent(clock_at(seconds(110)).now);
    b.shaker.handle_timeout(clock);
    exchange(&mut a, &mut b, clock);
    assert!(a.receiving().contains(&old.0) && b.receiving().contains(&old.1));
    assert_eq!((a.receiving().len(), b.receiving().len()), (3, 3));
    assert!(keepalive(&a, &mut b, clock) && keepalive(&b, &mut a, clock));
    assert!(share_keys(&a, &b));
}

/// Two messages that cross on the wire: each was sealed before either end saw the other's.
#[test]
fn ends_whose_first_packets_cross_settle_on_one_session_as_well() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    cross(&mut a, &mut b, clock);
    let (record_a, record_b) = (sealed_keepalive(&a, clock), sealed_keepalive(&b, clock));
    assert!(opens_keepalive(&mut a, record_b, clock));
    assert!(opens_keepalive(&mut b, record_a, clock));
    assert!(share_keys(&a, &b));
}

#[test]
fn keys_of_handshakes_that_crossed_are_confirmed_whichever_are_settled_on() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    cross(&mut a, &mut b, clock);
    for end in [&mut a, &mut b] {
        let mut keys = end.shaker.receiving(end.peer);
        let theirs = keys.find(|keys| keys.role() == Role::Responder).unwrap();
        drop(keys);
        end.drain();
        let is_completed = |output: &Output| matches!(output, Output::HandshakeCompleted { .. });
        for times in [1, 0] {
            end.shaker
                .handle_confirmed(end.peer, theirs.local_index(), clock);
            assert_eq!(
                end.drain().iter().filter(|it| is_completed(it)).count(),
                times
            );
        }
        assert!(end.shaker.awaited(end.peer).is_none());
    }
}

/// Both ends, of whatever version, must choose the same one.
#[test]
fn of_handshakes_that_crossed_the_one_of_the_greater_public_key_is_settled_on() {
    for (number, other) in [(1, 2), (2, 1), (3, 4), (5, 9), (7, 6)] {
        let (mut a, mut b) = (End::new(number, other), End::new(other, number));
        let clock = clock_at(Duration::ZERO);
        cross(&mut a, &mut b, clock);
        assert!(keepalive(&a, &mut b, clock) && keepalive(&b, &mut a, clock));
        assert!(share_keys(&a, &b));
        let is_ours = a.sending().unwrap().role() == Role::Initiator;
        assert_eq!(is_ours, public_key(number) > public_key(other));
    }
}
