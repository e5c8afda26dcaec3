//! The behaviour of an end under load (§5.3).

use crate::common::*;
use culvert_session::{DropReason, Output, RATE_BURST};
use std::net::SocketAddr;
use std::time::Duration;

/// A stranger at `source` sends initiations until `end` demands a cookie; what it has to say is dropped.
pub(crate) fn use_up_cookieless(end: &mut End, source: SocketAddr, at: Duration) {
    let initiation = initiation_of_a_stranger(end, at);
    for _ in 0..=RATE_BURST {
        let refused = end
            .shaker
            .handle_datagram(&initiation, source, true, clock_at(at));
        if refused == Err(DropReason::CookieRequired) {
            end.drain();
            return;
        }
        assert_eq!(refused, Err(DropReason::UnknownPeer));
    }
    panic!("no cookie is demanded");
}

/// An initiation to `end` of a key that it does not know.
pub(crate) fn initiation_of_a_stranger(end: &End, at: Duration) -> Vec<u8> {
    let mut stranger = End::new(9, 8);
    let own_key = end.shaker.public_key().unwrap();
    stranger.peer = stranger.shaker.add_peer(own_key).unwrap();
    stranger.wants(clock_at(at));
    stranger.datagram().to_vec()
}

/// An initiation of `a`, made with the cookie that `b` demanded for the one before.
pub(crate) fn initiation_with_cookie(a: &mut End, b: &mut End) -> (Vec<u8>, Duration) {
    let clock = clock_at(Duration::ZERO);
    use_up_cookieless(b, a.address, Duration::ZERO);
    a.wants(clock);
    let refused = b
        .shaker
        .handle_datagram(&a.datagram(), a.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let reply = b.datagram();
    assert_eq!(a.receives(&reply, b.address, clock), Ok(a.peer));
    let retry_at = a.shaker.next_timeout().unwrap().saturating_since(START);
    a.shaker.handle_timeout(clock_at(retry_at));
    (a.datagram().to_vec(), retry_at)
}

#[test]
fn under_load_a_source_that_has_sent_little_needs_no_cookie() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    use_up_cookieless(&mut b, address(99), Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    let answered = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(answered, Ok(b.peer));
    let response = b.datagram();
    let received = a.shaker.handle_datagram(&response, b.address, true, clock);
    assert_eq!(received, Ok(a.peer));
    assert!(a.sending().is_some());
}

#[test]
fn without_a_cookie_a_wrong_mac1_is_not_processed_either() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram().to_vec();
    let mut junk = initiation.clone();
    junk[20] ^= 1;
    for _ in 0..2 * RATE_BURST {
        let refused = b.shaker.handle_datagram(&junk, a.address, true, clock);
        assert_eq!(refused, Err(DropReason::InvalidMac1));
    }
    // And it uses up nothing.
    let answered = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(answered, Ok(b.peer));
}

#[test]
fn under_load_an_initiation_costs_a_cookie_and_no_state() {
    let (mut a, mut b) = pair();
    use_up_cookieless(&mut b, a.address, Duration::ZERO);
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    let refused = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let outputs = b.drain();
    let [Output::SendCookieReply { datagram, to }] = outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(to, a.address);
    assert!(datagram.len() < initiation.len(), "no amplification");
    assert_eq!(b.shaker.indices_in_use(), 0);
    assert_eq!(b.shaker.next_timeout(), None);
}

#[test]
fn with_the_cookie_the_next_attempt_is_answered() {
    let (mut a, mut b) = pair();
    let (initiation, at) = initiation_with_cookie(&mut a, &mut b);
    let clock = clock_at(at);
    let answered = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(answered, Ok(b.peer));
}

#[test]
fn a_cookie_is_worth_nothing_from_another_port() {
    let (mut a, mut b) = pair();
    let (initiation, at) = initiation_with_cookie(&mut a, &mut b);
    use_up_cookieless(&mut b, a.address, at);
    let mut other = a.address;
    other.set_port(1);
    let refused = b
        .shaker
        .handle_datagram(&initiation, other, true, clock_at(at));
    assert_eq!(refused, Err(DropReason::CookieRequired));
}

#[test]
fn a_cookie_of_before_a_new_generation_is_worth_nothing() {
    let (mut a, mut b) = pair();
    let (initiation, at) = initiation_with_cookie(&mut a, &mut b);
    let clock = clock_at(at);
    b.shaker.handle_new_generation(&[0xaa; 32], clock);
    use_up_cookieless(&mut b, a.address, at);
    let refused = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
}

#[test]
fn a_cookie_reply_never_roams_and_never_triggers_a_message() {
    let (mut a, mut b) = pair();
    use_up_cookieless(&mut b, a.address, Duration::ZERO);
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    let refused = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let reply = b.datagram();
    assert_eq!(a.receives(&reply, address(99), clock), Ok(a.peer));
    assert_eq!(a.drain(), []);
    let refused = a.receives(&reply, address(99), clock);
    assert_eq!(refused, Err(DropReason::InvalidCookieReply));
}

#[test]
fn a_response_needs_a_cookie_as_well() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    let response = b.datagram();
    use_up_cookieless(&mut a, b.address, Duration::ZERO);
    let refused = a.shaker.handle_datagram(&response, b.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let reply = a.datagram();
    assert_eq!(b.receives(&reply, a.address, clock), Ok(b.peer));
    assert!(a.sending().is_none());
}

#[test]
fn load_is_remembered_for_a_second() {
    let (mut a, mut b) = pair();
    use_up_cookieless(&mut b, a.address, Duration::ZERO);
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    for (millis, under_load) in [(0, true), (999, false)] {
        let clock = clock_at(Duration::from_millis(millis));
        let refused = b
            .shaker
            .handle_datagram(&initiation, a.address, under_load, clock);
        assert_eq!(refused, Err(DropReason::CookieRequired));
    }
    assert_eq!(
        b.receives(&initiation, a.address, clock_at(seconds(1))),
        Ok(b.peer)
    );
}

#[test]
fn a_source_that_owns_its_address_is_limited_to_a_burst_of_five() {
    let (mut a, mut b) = pair();
    let (initiation, at) = initiation_with_cookie(&mut a, &mut b);
    let outcomes: Vec<_> = (0..8)
        .map(|_| {
            b.shaker
                .handle_datagram(&initiation, a.address, true, clock_at(at))
        })
        .collect();
    assert_eq!(outcomes[0], Ok(b.peer));
    assert!(
        outcomes[1..5]
            .iter()
            .all(|o| *o == Err(DropReason::ReplayedInitiation))
    );
    assert!(
        outcomes[5..]
            .iter()
            .all(|o| *o == Err(DropReason::RateLimited))
    );
}

#[test]
fn a_message_with_a_wrong_mac1_gets_no_cookie() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let mut initiation = a.datagram().to_vec();
    initiation[20] ^= 1;
    let refused = b
        .shaker
        .handle_datagram(&initiation, a.address, true, clock);
    assert_eq!(refused, Err(DropReason::InvalidMac1));
    assert_eq!(b.drain(), []);
}
