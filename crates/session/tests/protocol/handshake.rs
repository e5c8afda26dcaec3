//! The ways in which sessions are made (§5.4), and the faults that prevent them.

use crate::common::*;
use crate::cookies::use_up_cookieless;
use culvert_base::UnixTime;
use culvert_session::{
    Clock, Destination, DropReason, Handshaker, Output, PeerId, Role, Suite, Tai64n,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn one_round_trip_gives_both_ends_keys_in_the_order_in_which_they_may_be_used() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    assert_eq!(initiation.len(), 148);

    assert_eq!(b.receives(&initiation, a.address, clock), Ok(b.peer));
    let outputs = b.drain();
    let [
        keys_changed,
        Output::Send {
            peer,
            datagram: response,
            to,
        },
    ] = outputs[..]
    else {
        panic!("{outputs:?}");
    };
    assert_eq!(keys_changed, Output::KeysChanged { peer: b.peer });
    assert_eq!((peer, to), (b.peer, Destination::Reply(a.address)));
    assert_eq!(response.len(), 92);

    assert_eq!(a.receives(&response, b.address, clock), Ok(a.peer));
    assert_eq!(
        a.drain(),
        [
            Output::Roamed {
                peer: a.peer,
                to: b.address
            },
            Output::KeysChanged { peer: a.peer },
            Output::HandshakeCompleted {
                peer: a.peer,
                role: Role::Initiator,
                round_trip: Duration::ZERO,
            },
            Output::SendKeepalive { peer: a.peer },
        ]
    );
    assert_eq!(a.shaker.last_handshake(a.peer), Some(clock.wall));
}

/// §5.4.6: the responder "must wait to use the new session until it has received one encapsulated
/// packet from the initiator".
#[test]
fn the_responder_sends_nothing_before_the_initiator_has_confirmed() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    assert!(b.sending().is_none());
    assert_eq!(b.receiving().len(), 1);
    assert_eq!(b.shaker.last_handshake(b.peer), None);
    let response = b.datagram();
    a.receives(&response, b.address, clock).unwrap();
    assert!(keepalive(&a, &mut b, clock));
    assert_eq!(
        b.drain(),
        [
            Output::KeysChanged { peer: b.peer },
            Output::HandshakeCompleted {
                peer: b.peer,
                role: Role::Responder,
                round_trip: Duration::ZERO,
            },
        ]
    );
    assert!(share_keys(&a, &b));
    assert!(keepalive(&b, &mut a, clock));
}

#[test]
fn each_end_learns_the_round_trip_of_the_path() {
    const ONE_WAY: Duration = Duration::from_millis(20);
    let (mut a, mut b) = pair();
    let at = |hops: u32| clock_at(hops * ONE_WAY);
    let learned = |outputs: Vec<Output>| {
        outputs.into_iter().find_map(|output| match output {
            Output::HandshakeCompleted { round_trip, .. } => Some(round_trip),
            _ => None,
        })
    };
    a.wants(at(0));
    let initiation = a.datagram();
    b.receives(&initiation, a.address, at(1)).unwrap();
    let response = b.datagram();
    a.receives(&response, b.address, at(2)).unwrap();
    assert_eq!(learned(a.drain()), Some(2 * ONE_WAY));
    assert!(keepalive(&a, &mut b, at(3)));
    assert_eq!(learned(b.drain()), Some(2 * ONE_WAY));
}

#[test]
fn both_suites_and_preshared_keys_work_where_the_ends_agree() {
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        let (mut a, mut b) = pair();
        for end in [&mut a, &mut b] {
            end.set_suite(suite);
            end.set_preshared_key([9; 32]);
        }
        shake(&mut a, &mut b, clock_at(Duration::ZERO));
        assert!(share_keys(&a, &b));
        assert_eq!(a.sending().unwrap().suite(), suite);
        assert!(keepalive(&b, &mut a, clock_at(Duration::ZERO)));
    }
}

#[test]
fn ends_that_disagree_on_the_suite_never_complete() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.set_suite(Suite::Aes256Gcm);
    a.wants(clock);
    let from_a = a.datagram();
    assert_eq!(
        b.receives(&from_a, a.address, clock),
        Err(DropReason::NotAuthentic)
    );
    // Even where the responder speaks the suite, with somebody else.
    let other = b.shaker.add_peer(public_key(3)).unwrap();
    b.shaker.set_suite(other, Suite::Aes256Gcm);
    assert_eq!(
        b.receives(&from_a, a.address, clock),
        Err(DropReason::WrongSuite)
    );
    b.wants(clock);
    let from_b = b.datagram();
    assert_eq!(
        a.receives(&from_b, b.address, clock),
        Err(DropReason::NotAuthentic)
    );
    assert!(a.receiving().is_empty() && b.receiving().is_empty());
}

#[test]
fn a_suite_is_tried_for_as_long_as_a_peer_has_it() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.set_suite(Suite::Aes256Gcm);
    a.wants(clock);
    let initiation = a.datagram();
    for _ in 0..2 {
        let refused = b.receives(&initiation, a.address, clock);
        assert_eq!(refused, Err(DropReason::NotAuthentic));
        let other = b.shaker.add_peer(public_key(3)).unwrap();
        b.shaker.set_suite(other, Suite::Aes256Gcm);
        let refused = b.receives(&initiation, a.address, clock);
        assert_eq!(refused, Err(DropReason::WrongSuite));
        b.shaker.remove_peer(other);
    }
    let refused = b.receives(&initiation, a.address, clock);
    assert_eq!(refused, Err(DropReason::NotAuthentic));
}

#[test]
fn ends_that_disagree_on_the_preshared_key_never_complete() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.set_preshared_key([9; 32]);
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    let response = b.datagram();
    assert_eq!(
        a.receives(&response, b.address, clock),
        Err(DropReason::NotAuthentic)
    );
    assert!(a.sending().is_none() && b.sending().is_none());
}

/// §5.1: "the responder … discards packets containing timestamps less than or equal to it".
#[test]
fn a_replayed_initiation_is_refused_even_after_the_keys_were_cleared() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let first = a.datagram();
    assert!(b.receives(&first, a.address, clock).is_ok());
    let later = clock_at(seconds(1));
    assert_eq!(
        b.receives(&first, a.address, later),
        Err(DropReason::ReplayedInitiation)
    );
    b.shaker.set_up(false, later);
    b.shaker.set_up(true, later);
    assert!(b.receiving().is_empty());
    assert_eq!(
        b.receives(&first, a.address, later),
        Err(DropReason::ReplayedInitiation)
    );
}

#[test]
fn an_initiator_whose_clock_is_set_back_is_still_answered() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(seconds(1000)));
    let mut clock = clock_at(seconds(1200));
    clock.wall = clock_at(Duration::ZERO).wall;
    shake(&mut a, &mut b, clock);
    assert!(share_keys(&a, &b));
}

#[test]
fn a_clock_that_was_ahead_and_is_put_right_shuts_out_who_restarts_unless_another_clock_stamps() {
    let (mut a, mut b) = pair();
    let ahead = |since: u64| Clock {
        now: clock_at(seconds(since)).now,
        wall: clock_at(seconds(since + 7_200)).wall,
    };
    let epoch = UnixTime::after_epoch(seconds(START_WALL) - START.since_start());
    let start = |is_stamped: bool| {
        let mut end = End::new(1, 2);
        end.shaker.set_stamp_epoch(is_stamped.then_some(epoch));
        end
    };
    shake(&mut a, &mut b, ahead(10));
    // As WireGuard has it: refused for two hours.
    let mut restarted = start(false);
    restarted.wants(clock_at(seconds(20)));
    let refused = b.receives(&restarted.datagram(), a.address, clock_at(seconds(20)));
    assert_eq!(refused, Err(DropReason::ReplayedInitiation));
    b.shaker.remove_peer(b.peer);

    // By a clock that goes on, whatever the wall clock shows.
    let mut b = End::new(2, 1);
    for (since, clock) in [(30, ahead(30)), (40, clock_at(seconds(40)))] {
        let mut stamped = start(true);
        shake(&mut stamped, &mut b, clock);
        assert!(share_keys(&stamped, &b), "{since}");
    }
    let mut without_clock = clock_at(seconds(50));
    without_clock.wall = Tai64n::from_unix(0, 0);
    shake(&mut start(true), &mut b, without_clock);
}

#[test]
fn an_initiation_that_was_recorded_is_refused_after_its_peer_was_removed_and_added() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let recorded = a.datagram();
    assert!(b.receives(&recorded, a.address, clock).is_ok());
    b.drain();

    b.shaker.remove_peer(b.peer);
    b.peer = b.shaker.add_peer(public_key(1)).unwrap();
    let later = clock_at(seconds(3600));
    assert_eq!(
        b.receives(&recorded, address(9), later),
        Err(DropReason::ReplayedInitiation)
    );
    // The endpoint stays where it is.
    assert_eq!(b.drain(), []);
    let mut restarted = End::new(1, 2);
    shake(&mut restarted, &mut b, later);
    assert!(share_keys(&restarted, &b));
}

#[test]
fn a_peer_whose_clock_ran_ahead_is_heard_twelve_hours_after_it_was_removed() {
    let (mut a, mut b) = pair();
    let mut ahead = clock_at(Duration::ZERO);
    ahead.wall = clock_at(seconds(1_000_000)).wall;
    shake(&mut a, &mut b, ahead);
    b.shaker.remove_peer(b.peer);
    b.peer = b.shaker.add_peer(public_key(1)).unwrap();
    for (hours, answer) in [(11, Err(DropReason::ReplayedInitiation)), (12, Ok(b.peer))] {
        let clock = clock_at(seconds(hours * 3600));
        let mut restarted = End::new(1, 2);
        restarted.wants(clock);
        let initiation = restarted.datagram();
        assert_eq!(b.receives(&initiation, a.address, clock), answer);
    }
}

/// The answer of `b` at `at` to a fresh end with the same key as all before and the stamp number `stamp`:
/// an ill-behaved peer could be such ends.
fn answer_to_restarted(b: &mut End, at: Duration, stamp: u64) -> Result<PeerId, DropReason> {
    let clock = clock_at(at);
    let mut a = End::new(1, 2);
    a.wants(Clock {
        wall: clock_at(seconds(stamp)).wall,
        ..clock
    });
    b.receives(&a.datagram(), a.address, clock)
}

#[test]
fn a_peer_is_answered_twenty_times_in_a_row_and_then_once_a_second() {
    let (_, mut b) = pair();
    let mut answered = 0;
    for millis in (0..20_000).step_by(10) {
        match answer_to_restarted(&mut b, Duration::from_millis(millis), millis) {
            Ok(_) => answered += 1,
            Err(reason) => assert_eq!(reason, DropReason::InitiationFlood),
        }
    }
    assert_eq!(answered, 20 + 19);
}

#[test]
fn twenty_initiations_of_one_instant_are_answered_and_the_next_a_second_later() {
    let (_, mut b) = pair();
    let just_early = seconds(1) - Duration::from_nanos(1);
    for stamp in 1..=20 {
        assert_eq!(
            answer_to_restarted(&mut b, Duration::ZERO, stamp),
            Ok(b.peer)
        );
    }
    for too_early in [Duration::ZERO, just_early] {
        let refused = answer_to_restarted(&mut b, too_early, 21);
        assert_eq!(refused, Err(DropReason::InitiationFlood));
    }
    assert_eq!(answer_to_restarted(&mut b, seconds(1), 21), Ok(b.peer));
}

#[test]
fn every_refusal_has_its_reason() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    let initiation = a.datagram();
    let mut stranger = End::new(3, 2);
    stranger.wants(clock);
    let unknown = stranger.datagram();
    assert_eq!(
        b.receives(&unknown, a.address, clock),
        Err(DropReason::UnknownPeer)
    );
    assert_eq!(
        a.receives(&initiation, b.address, clock),
        Err(DropReason::InvalidMac1)
    );
    assert_eq!(
        b.receives(&initiation[..147], a.address, clock),
        Err(DropReason::Malformed)
    );
    assert_eq!(
        b.receives(&[4; 148], a.address, clock),
        Err(DropReason::Malformed)
    );

    b.receives(&initiation, a.address, clock).unwrap();
    let response = b.datagram();
    a.receives(&response, b.address, clock).unwrap();
    assert_eq!(
        a.receives(&response, b.address, clock),
        Err(DropReason::DuplicateResponse)
    );

    let mut keyless = Handshaker::new([4; 32]);
    let refused = keyless.handle_datagram(&initiation, a.address, false, clock);
    assert_eq!(refused, Err(DropReason::Down));
    keyless.set_up(true, clock);
    let refused = keyless.handle_datagram(&initiation, a.address, false, clock);
    assert_eq!(refused, Err(DropReason::NoPrivateKey));
}

#[test]
fn during_a_rekey_packets_under_the_old_keys_still_arrive() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    let clock = clock_at(seconds(121));
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    let response = b.datagram();
    assert!(keepalive(&a, &mut b, clock) && keepalive(&b, &mut a, clock));
    let old = a.sending().unwrap();
    a.receives(&response, b.address, clock).unwrap();
    assert!(
        keepalive(&b, &mut a, clock),
        "the responder still sends under the old keys"
    );
    assert!(keepalive(&a, &mut b, clock));
    assert!(b.receiving().contains(&old.remote_index()));
    assert!(share_keys(&a, &b));
}

#[test]
fn answering_an_initiation_costs_no_keys_that_still_receive() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    shake(&mut a, &mut b, clock_at(seconds(121)));
    let before = b.receiving();
    assert_eq!(before.len(), 2);
    a.activity().data_sent(clock_at(seconds(121)).now);
    let clock = clock_at(seconds(137));
    a.shaker.handle_timeout(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    let after = b.receiving();
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|index| after.contains(index)));
}

#[test]
fn keys_of_a_responder_are_awaited_until_data_arrives_under_them() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    let awaited = b.shaker.awaited(b.peer).unwrap();
    assert!(b.shaker.sending(b.peer).is_none());
    b.shaker
        .handle_confirmed(b.peer, awaited.local_index(), clock);
    assert!(b.shaker.awaited(b.peer).is_none());
    assert!(Arc::ptr_eq(&b.shaker.sending(b.peer).unwrap(), &awaited));
}

#[test]
fn a_peer_with_a_key_of_low_order_is_never_talked_to() {
    let mut a = End::new(1, 2);
    let low = a.shaker.add_peer([0; 32].into()).unwrap();
    a.shaker.handle_wanted(low, clock_at(Duration::ZERO));
    assert_eq!(a.drain(), []);
    assert_eq!(a.shaker.next_timeout(), None);
}

/// One message of each kind that an end with a live session would take.
fn messages_for_a_live_end() -> (End, Vec<Vec<u8>>) {
    let (mut a, mut b) = pair();
    shake(&mut b, &mut a, clock_at(Duration::ZERO));
    let clock = clock_at(seconds(125));
    b.shaker.handle_timeout(clock);
    b.drain();
    b.wants(clock);
    let initiation = b.datagram();
    a.activity().data_sent(clock_at(seconds(105)).now);
    a.shaker.handle_timeout(clock);
    let own = a.datagram();
    b.receives(&own, a.address, clock).unwrap();
    let response = b.datagram();
    use_up_cookieless(&mut b, a.address, seconds(125));
    let refused = b.shaker.handle_datagram(&own, a.address, true, clock);
    assert_eq!(refused, Err(DropReason::CookieRequired));
    let reply = b.datagram();
    let messages = [initiation, response, reply];
    (a, messages.map(|message| message.to_vec()).into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_damaged_message_never_changes_a_live_session(
        kind in 0usize..3, bit in any::<proptest::sample::Index>(), len in 0usize..200,
        truncate in any::<bool>(),
    ) {
        let (mut a, messages) = messages_for_a_live_end();
        let mut message = messages[kind].clone();
        let whole = message.clone();
        if truncate {
            message.resize(len, 0);
        } else {
            let bit = bit.index(message.len() * 8);
            message[bit / 8] ^= 1 << (bit % 8);
        }
        // Nobody checks mac2 of an end that is not under load.
        let mac2_is_free = kind < 2 && message.len() == whole.len();
        let unchecked = if mac2_is_free { whole.len() - 16 } else { whole.len() };
        prop_assume!(message.len() != whole.len() || message[..unchecked] != whole[..unchecked]);
        let before = (a.receiving(), a.sending().map(|keys| keys.local_index()));
        let refused = a.receives(&message, address(7), clock_at(seconds(125)));
        prop_assert!(refused.is_err());
        prop_assert_eq!(a.drain(), []);
        prop_assert_eq!(before, (a.receiving(), a.sending().map(|keys| keys.local_index())));
        // And the genuine message is still taken.
        prop_assert!(a.receives(&whole, address(2), clock_at(seconds(125))).is_ok());
    }

    #[test]
    fn random_bytes_never_do_anything(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 1u8..=3,
    ) {
        let (mut a, _) = messages_for_a_live_end();
        for (byte, value) in bytes.iter_mut().zip([kind, 0, 0, 0]) {
            *byte = value;
        }
        prop_assert!(a.receives(&bytes, address(7), clock_at(seconds(125))).is_err());
        prop_assert_eq!(a.drain(), []);
    }

    #[test]
    fn no_two_key_pairs_or_handshakes_of_an_end_share_an_index(
        rounds in proptest::collection::vec((0usize..6, any::<bool>()), 1..40),
    ) {
        let mut hub = End::new(1, 2);
        let mut spokes: Vec<End> = (2..8).map(|number| End::new(number, 1)).collect();
        for spoke in &spokes[1..] {
            hub.shaker.add_peer(spoke.shaker.public_key().unwrap()).unwrap();
        }
        for (round, (spoke, completes)) in rounds.into_iter().enumerate() {
            let clock = clock_at(seconds(200 * round as u64));
            let spoke = &mut spokes[spoke];
            spoke.wants(clock);
            for initiation in spoke.datagrams() {
                hub.receives(&initiation, spoke.address, clock).unwrap();
            }
            for response in hub.datagrams() {
                if completes {
                    spoke.receives(&response, hub.address, clock).unwrap();
                    spoke.drain();
                }
            }
            let indices: Vec<_> = hub.shaker.live_transports().map(|keys| keys.local_index()).collect();
            let distinct: std::collections::BTreeSet<_> = indices.iter().collect();
            prop_assert_eq!(distinct.len(), indices.len());
            prop_assert_eq!(hub.shaker.indices_in_use(), indices.len());
            prop_assert!(indices.len() <= 3 * 6);
        }
    }
}
