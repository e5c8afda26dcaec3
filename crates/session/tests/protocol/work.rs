//! Work that another thread does while the handshaker goes on.

use crate::common::*;
use culvert_session::{
    Clock, Destination, DropReason, HandshakeDatagram, Output, PeerId, Step, Suite, Work,
};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

/// The work of an initiation until a response is to be made, which is the last of it.
fn until_response(
    end: &mut End,
    initiation: &HandshakeDatagram,
    from: SocketAddr,
    clock: Clock,
) -> Work {
    let mut step = end.shaker.begin_datagram(initiation, from, false, clock);
    loop {
        let indices = end.shaker.indices_in_use();
        let Step::Work(work) = step else {
            panic!("{step:?}");
        };
        step = end.shaker.finish(work.run(), clock);
        if end.shaker.indices_in_use() > indices {
            // The response has its index.
            let Step::Work(work) = step else {
                panic!("{step:?}");
            };
            return work;
        }
    }
}

fn done(step: &Step) -> Result<PeerId, DropReason> {
    match step {
        Step::Done(handled) => *handled,
        Step::Work(_) => panic!("there is more work"),
    }
}

fn initiation(end: &mut End, clock: Clock) -> HandshakeDatagram {
    end.shaker.handle_recheck(end.peer, clock);
    end.datagram()
}

/// The sources that something is sent back to.
fn answered(end: &mut End) -> Vec<SocketAddr> {
    let outputs = end.drain().into_iter();
    let sources = outputs.filter_map(|output| match output {
        Output::Send {
            to: Destination::Reply(source),
            ..
        } => Some(source),
        _ => None,
    });
    sources.collect()
}

#[test]
fn copies_that_come_while_their_response_is_made_are_answered_by_it() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let initiation = initiation(&mut a, clock);
    let work = until_response(&mut b, &initiation, address(11), clock);
    assert_eq!(b.receives(&initiation, address(12), clock), Ok(b.peer));
    assert_eq!(answered(&mut b), []);
    assert_eq!(done(&b.shaker.finish(work.run(), clock)), Ok(b.peer));
    assert_eq!(answered(&mut b), [address(11), address(12)]);
    assert_eq!(b.receives(&initiation, address(13), clock), Ok(b.peer));
    assert_eq!(answered(&mut b), [address(13)]);
}

#[test]
fn of_two_initiations_whose_responses_are_made_at_once_the_later_one_counts() {
    let (mut a, mut b) = pair();
    let times = [Duration::ZERO, seconds(2)].map(clock_at);
    let works = times.map(|clock| {
        let initiation = initiation(&mut a, clock);
        until_response(&mut b, &initiation, a.address, clock)
    });
    let [earlier, later] = works;
    let clock = times[1];
    assert_eq!(done(&b.shaker.finish(later.run(), clock)), Ok(b.peer));
    let response = b.datagram();
    let late = done(&b.shaker.finish(earlier.run(), clock));
    assert_eq!(late, Err(DropReason::Superseded));
    assert_eq!(a.receives(&response, b.address, clock), Ok(a.peer));
    assert!(keepalive(&a, &mut b, clock) && share_keys(&a, &b));
    assert_eq!(b.shaker.indices_in_use(), 1, "its index is free");
}

#[test]
fn work_of_before_a_change_that_ends_sessions_makes_none() {
    type Change = fn(&mut End, Clock);
    let changes: [(&str, Change); 5] = [
        ("our key", |b, clock| {
            b.shaker.set_private_key(Some(private_key(9)), clock);
        }),
        ("the link", |b, clock| {
            b.shaker.set_up(false, clock);
            b.shaker.set_up(true, clock);
        }),
        ("the machine", |b, clock| {
            b.shaker.handle_new_generation(&[7; 32], clock);
        }),
        ("the peer", |b, _| {
            b.shaker.remove_peer(b.peer);
            b.peer = b.shaker.add_peer(public_key(8)).unwrap();
        }),
        ("the suite", |b, _| {
            b.shaker.set_suite(b.peer, Suite::Aes256Gcm);
        }),
    ];
    for (what, change) in changes {
        let (mut a, mut b) = pair();
        let clock = clock_at(Duration::ZERO);
        let initiation = initiation(&mut a, clock);
        let work = until_response(&mut b, &initiation, a.address, clock);
        change(&mut b, clock);
        b.drain();
        let late = done(&b.shaker.finish(work.run(), clock));
        assert_eq!(late, Err(DropReason::Superseded), "{what}");
        assert_eq!(b.drain(), [], "{what}");
        assert!(b.receiving().is_empty(), "{what}");
        assert_eq!(b.shaker.indices_in_use(), 0, "{what}");
    }
}

#[test]
fn of_two_responses_that_are_read_at_once_one_makes_keys() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    let initiation = initiation(&mut a, clock);
    b.receives(&initiation, address(11), clock).unwrap();
    let response = b.datagram();
    let works = [21, 22].map(|source| {
        let step = a
            .shaker
            .begin_datagram(&response, address(source), false, clock);
        match step {
            Step::Work(work) => work,
            Step::Done(handled) => panic!("{handled:?}"),
        }
    });
    let read = works.map(|work| done(&a.shaker.finish(work.run(), clock)));
    assert_eq!(read, [Ok(a.peer), Err(DropReason::DuplicateResponse)]);
    assert_eq!(a.receiving().len(), 1);
}

proptest! {
    /// No index is lost, and ends that go on share keys.
    #[test]
    fn no_order_of_work_loses_an_index_or_a_session(
        steps in prop::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..60),
    ) {
        let (mut a, mut b) = pair();
        let mut now = Duration::ZERO;
        let mut under_way: Vec<Work> = Vec::new();
        for (step, which) in steps {
            now += seconds(2);
            let clock = clock_at(now);
            match step {
                0 | 1 => {
                    let initiation = initiation(&mut a, clock);
                    if let Step::Work(work) = b.shaker.begin_datagram(&initiation, a.address, false, clock) {
                        under_way.push(work);
                    }
                }
                2 => {
                    b.shaker.remove_peer(b.peer);
                    b.peer = b.shaker.add_peer(public_key(1)).unwrap();
                }
                _ if under_way.is_empty() => {}
                _ => {
                    let work = under_way.swap_remove(which.index(under_way.len()));
                    if let Step::Work(work) = b.shaker.finish(work.run(), clock) {
                        under_way.push(work);
                    }
                }
            }
            b.drain();
        }
        let clock = clock_at(now + seconds(2));
        while let Some(work) = under_way.pop() {
            if let Step::Work(work) = b.shaker.finish(work.run(), clock) {
                under_way.push(work);
            }
        }
        b.drain();
        prop_assert!(b.shaker.indices_in_use() <= 1, "{}", b.shaker.indices_in_use());
        let clock = clock_at(now + seconds(12));
        let initiation = initiation(&mut a, clock);
        prop_assert_eq!(b.receives(&initiation, a.address, clock), Ok(b.peer));
        let response = b.datagram();
        prop_assert_eq!(a.receives(&response, b.address, clock), Ok(a.peer));
        prop_assert!(keepalive(&a, &mut b, clock) && share_keys(&a, &b));
    }
}
