//! What an end does under load (§5.3).

use crate::common::*;
use culvert_session::{DropReason, Output, RATE_BURST, RATE_PER_SECOND};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// An initiation of `a`, made with the cookie that `b` demanded for the one before.
fn initiation_with_cookie(a: &mut End, b: &mut End) -> (Vec<u8>, Duration) {
    let clock = clock_at(Duration::ZERO);
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
fn under_load_an_initiation_costs_a_cookie_and_no_state() {
    let (mut a, mut b) = pair();
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
    let mut elsewhere = a.address;
    elsewhere.set_port(1);
    let refused = b
        .shaker
        .handle_datagram(&initiation, elsewhere, true, clock_at(at));
    assert_eq!(refused, Err(DropReason::CookieRequired));
}

#[test]
fn a_cookie_reply_never_roams_and_never_triggers_a_message() {
    let (mut a, mut b) = pair();
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
    let refused = a.shaker.handle_datagram(&response, b.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let reply = a.datagram();
    assert_eq!(b.receives(&reply, a.address, clock), Ok(b.peer));
    assert!(a.sending().is_none());
}

#[test]
fn load_is_remembered_for_a_second() {
    let (mut a, mut b) = pair();
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

/// A host of a network of 64 bits, of a site of 48.
fn of_site(site: u16, network: u16) -> SocketAddr {
    let address = Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1);
    SocketAddr::new(address.into(), 51820)
}

/// The initiation of `end` with a cookie is answered while under load, and completes the handshake.
fn completes(end: &mut End, b: &mut End, peer: culvert_session::PeerId) {
    let (initiation, at) = initiation_with_cookie(end, b);
    let clock = clock_at(at);
    b.drain();
    let answered = b
        .shaker
        .handle_datagram(&initiation, end.address, true, clock);
    assert_eq!(answered, Ok(peer), "{}", end.address);
    let response = b.datagram();
    assert_eq!(end.receives(&response, b.address, clock), Ok(end.peer));
    assert!(end.sending().is_some());
}

/// Strangers from as many networks as it takes to fill any table of sources that this program had: each shows that
/// it owns its address. That all 65,536 /64s of a site have one rate is tested where rates are kept.
#[test]
fn a_site_of_thousands_of_networks_with_valid_cookies_keeps_no_other_source_from_a_handshake() {
    let (mut v4, mut b) = pair();
    let mut v6 = End::new(3, 2);
    v6.address = of_site(2, 1);
    let v6_peer = b.shaker.add_peer(public_key(3)).unwrap();
    let mut admitted = 0;
    for network in 0..8_192 {
        let mut stranger = End::new(9, 2);
        stranger.address = of_site(1, network);
        let (initiation, at) = initiation_with_cookie(&mut stranger, &mut b);
        let outcome = b
            .shaker
            .handle_datagram(&initiation, stranger.address, true, clock_at(at));
        match outcome {
            Err(DropReason::UnknownPeer) => admitted += 1,
            Err(DropReason::RateLimited) => {}
            other => panic!("{other:?}"),
        }
    }
    // They come within the third of a second by which retries are spread.
    let most = 4 * (RATE_BURST + RATE_PER_SECOND / 3 + 1);
    assert!((1..=most).contains(&admitted), "{admitted}");
    let b_peer = b.peer;
    completes(&mut v4, &mut b, b_peer);
    completes(&mut v6, &mut b, v6_peer);
}
