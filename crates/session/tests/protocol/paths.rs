//! Several paths between two ends, some of which lead one way only.

use crate::common::*;
use culvert_session::{
    ANSWER_COPIES_FOR, ANSWERED_SOURCES_MAX, Clock, Destination, DropReason, HandshakeDatagram,
    Output,
};
use std::net::SocketAddr;
use std::time::Duration;

/// The end's answer to `initiation` from `source`: the datagram, and where it goes.
fn answer(
    end: &mut End,
    initiation: &HandshakeDatagram,
    source: SocketAddr,
    clock: Clock,
) -> Result<(HandshakeDatagram, Destination), DropReason> {
    end.receives(initiation, source, clock)?;
    let mut sent = end.drain().into_iter().filter_map(|output| match output {
        Output::Send { datagram, to, .. } => Some((datagram, to)),
        _ => None,
    });
    Ok(sent
        .next()
        .expect("an initiation that is taken is answered"))
}

fn initiation(a: &mut End, clock: Clock) -> HandshakeDatagram {
    a.wants(clock);
    a.datagram()
}

/// The path over which the initiation comes first leads to the responder and not back.
#[test]
fn a_path_that_leads_one_way_costs_neither_the_handshake_nor_what_is_sent_meanwhile() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let (dead, alive) = (address(11), address(12));
    let initiation = initiation(&mut a, clock);

    assert_eq!(b.receives(&initiation, dead, clock), Ok(b.peer));
    let outputs = b.drain();
    let moves = |output: &&Output| matches!(output, Output::Roamed { .. });
    // Data of b under the keys of before goes on to where a was heard.
    assert_eq!(outputs.iter().find(moves), None);

    let later = clock_at(Duration::from_millis(80));
    let (response, to) = answer(&mut b, &initiation, alive, later).unwrap();
    assert_eq!(to, Destination::Reply(alive));
    assert_eq!(a.receives(&response, b.address, later), Ok(a.peer));
    assert!(a.drain().contains(&Output::SendKeepalive { peer: a.peer }));
    assert!(keepalive(&a, &mut b, later));
    assert!(share_keys(&a, &b));
}

#[test]
fn copies_of_one_initiation_have_the_same_response_and_make_no_other_keys() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let initiation = initiation(&mut a, clock);
    let (first, _) = answer(&mut b, &initiation, address(11), clock).unwrap();
    let keys = b.receiving();
    let (second, _) = answer(&mut b, &initiation, address(12), clock).unwrap();
    assert_eq!(first.as_bytes(), second.as_bytes());
    assert_eq!(b.receiving(), keys);
    // The second response is one too many for the initiator, and changes nothing.
    a.receives(&first, address(21), clock).unwrap();
    a.drain();
    let late = a.receives(&second, address(22), clock);
    assert_eq!(late, Err(DropReason::DuplicateResponse));
    assert_eq!(a.drain(), []);
}

#[test]
fn each_source_is_answered_once_and_eight_of_them_at_most() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let initiation = initiation(&mut a, clock);
    let sources = (1..=20).map(address).flat_map(|source| [source, source]);
    let answered = sources.filter(|source| answer(&mut b, &initiation, *source, clock).is_ok());
    let answered: Vec<SocketAddr> = answered.collect();
    let first: Vec<SocketAddr> = (1..=8).map(address).collect();
    assert_eq!(answered, first);
    assert_eq!(first.len(), ANSWERED_SOURCES_MAX);
}

#[test]
fn a_copy_that_comes_late_is_a_replay() {
    let (mut a, mut b) = pair();
    let initiation = initiation(&mut a, clock_at(Duration::ZERO));
    let first = answer(&mut b, &initiation, address(11), clock_at(Duration::ZERO));
    assert!(first.is_ok());
    let just_early = ANSWER_COPIES_FOR - Duration::from_nanos(1);
    assert!(answer(&mut b, &initiation, address(12), clock_at(just_early)).is_ok());
    let late = answer(
        &mut b,
        &initiation,
        address(13),
        clock_at(ANSWER_COPIES_FOR),
    );
    assert_eq!(late, Err(DropReason::ReplayedInitiation));
    // Memory is freed when the time is over, whatever comes.
    b.run_timers(seconds(30));
    let late = answer(&mut b, &initiation, address(14), clock_at(seconds(30)));
    assert_eq!(late, Err(DropReason::ReplayedInitiation));
}

#[test]
fn an_initiation_may_be_sent_to_an_address_that_is_found_while_it_waits() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let now = |clock: Clock| clock.now;
    assert_eq!(a.shaker.waiting_initiation(a.peer, now(clock)), None);
    let initiation = initiation(&mut a, clock);
    let later = clock_at(seconds(1));
    let copy = a.shaker.waiting_initiation(a.peer, now(later));
    assert_eq!(copy, Some(initiation));
    // Nobody answers it any more.
    let late = clock_at(ANSWER_COPIES_FOR);
    assert_eq!(a.shaker.waiting_initiation(a.peer, now(late)), None);

    let (response, _) = answer(&mut b, &initiation, address(11), later).unwrap();
    a.receives(&response, b.address, later).unwrap();
    assert_eq!(a.shaker.waiting_initiation(a.peer, now(later)), None);
}

#[test]
fn only_the_last_initiation_is_answered_again() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let older = initiation(&mut a, clock);
    answer(&mut b, &older, address(11), clock).unwrap();
    let later = clock_at(seconds(1));
    a.shaker.handle_recheck(a.peer, later);
    let newer = a.datagram();
    answer(&mut b, &newer, address(11), later).unwrap();
    let copy = answer(&mut b, &older, address(12), later);
    assert_eq!(copy, Err(DropReason::ReplayedInitiation));
    assert!(answer(&mut b, &newer, address(12), later).is_ok());
}
