//! The timers of §6, each with its sentence.

use crate::common::*;
use culvert_base::BootTime;
use culvert_session::{Activity, KEEPALIVE_TIMEOUT, Output, PROMPT_KEEPALIVE_TIMEOUT};
use proptest::prelude::*;
use std::time::Duration;

const JITTER_MAX: Duration = Duration::from_millis(334);

fn initiations(outputs: &[(Duration, Output)]) -> Vec<Duration> {
    let initiations = outputs.iter().filter(|(_, output)| is_initiation(output));
    initiations.map(|(at, _)| *at).collect()
}

/// §6.4: "if a handshake response message is not subsequently received after Rekey-Timeout
/// seconds, a new handshake initiation message is constructed (with new random ephemeral keys)".
#[test]
fn an_unanswered_initiation_is_made_anew_after_five_seconds_and_jitter() {
    let (mut a, _) = pair();
    a.wants(clock_at(Duration::ZERO));
    let first = a.datagram();
    let outputs = a.run_timers(seconds(6));
    let [(forget_at, forget), (send_at, send)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(*forget, Output::ForgetSource { peer: a.peer });
    assert!(is_initiation(send));
    assert_ne!(
        datagram(send).unwrap()[8..40],
        first[8..40],
        "a new ephemeral key"
    );
    assert!(forget_at == send_at && *send_at >= seconds(5) && *send_at < seconds(5) + JITTER_MAX);
}

/// §6.4: "these reinitiations are attempted for Rekey-Attempt-Time seconds before giving up".
#[test]
fn after_ninety_seconds_it_gives_up_and_what_waits_is_dropped() {
    let (mut a, _) = pair();
    a.wants(clock_at(Duration::ZERO));
    a.drain();
    let outputs = a.run_timers(seconds(600));
    let retries = initiations(&outputs);
    assert_eq!(retries.len(), 17, "one each 5 s and some jitter");
    assert!(retries.iter().all(|at| *at < seconds(90)));
    let dropped: Vec<_> = outputs
        .iter()
        .filter(|(_, output)| *output == Output::DropStaged { peer: a.peer })
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(dropped, [seconds(90)]);
    // Nothing is left of the exchange, and nothing to wake up for.
    a.run_timers(seconds(700));
    assert_eq!(a.shaker.indices_in_use(), 0);
    assert_eq!(a.shaker.next_timeout(), None);
}

/// §6.4: "though this counter is reset when a peer explicitly attempts to send a new transport data
/// message".
#[test]
fn the_ninety_seconds_count_from_the_last_wish() {
    let (mut a, _) = pair();
    a.wants(clock_at(Duration::ZERO));
    a.run_timers(seconds(60));
    a.wants(clock_at(seconds(60)));
    let outputs = a.run_timers(seconds(400));
    let given_up = outputs
        .iter()
        .find(|(_, output)| *output == Output::DropStaged { peer: a.peer });
    assert_eq!(given_up.map(|(at, _)| *at), Some(seconds(150)));
}

/// §6.4: "initiating a new handshake is rate-limited to once per Rekey-Timeout".
#[test]
fn however_often_a_handshake_is_wanted_one_leaves_per_five_seconds() {
    let (mut a, _) = pair();
    let mut sent = Vec::new();
    for millis in (0..20_000).step_by(10) {
        let now = Duration::from_millis(millis);
        a.wants(clock_at(now));
        sent.extend(a.drain().into_iter().map(|output| (now, output)));
        sent.extend(a.run_timers(now));
    }
    let times = initiations(&sent);
    assert_eq!(times.len(), 4);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= seconds(5)));
}

#[test]
fn a_wish_that_comes_too_early_is_met_when_its_time_comes() {
    let (mut a, mut b) = pair();
    let clock = clock_at(Duration::ZERO);
    // B has answered an initiation, and its answer is lost.
    a.wants(clock);
    b.receives(&a.datagram(), a.address, clock).unwrap();
    b.drain();
    b.wants(clock_at(seconds(1)));
    assert_eq!(b.drain(), []);
    let [at] = initiations(&b.run_timers(seconds(6)))[..] else {
        panic!("not exactly one initiation");
    };
    assert!(at >= seconds(5) && at < seconds(5) + JITTER_MAX);
}

#[test]
fn a_wish_is_met_at_once_from_five_seconds_after_our_last_message_on() {
    let just_early = seconds(5) - Duration::from_nanos(1);
    for (wished_at, initiations) in [(just_early, 0), (seconds(5), 1)] {
        let (mut a, mut b) = pair();
        let clock = clock_at(Duration::ZERO);
        a.wants(clock);
        b.receives(&a.datagram(), a.address, clock).unwrap();
        b.drain();
        b.wants(clock_at(wished_at));
        assert_eq!(b.datagrams().len(), initiations, "{wished_at:?}");
    }
}

#[test]
fn a_wish_that_is_stale_does_nothing() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.wants(clock_at(seconds(60)));
    assert_eq!(a.drain(), []);
    a.wants(clock_at(seconds(120)));
    assert_eq!(a.datagrams().len(), 1);
}

/// §6.5: "if a peer has received a validly-authenticated transport data message, but does not have
/// any packets itself to send back for Keepalive-Timeout seconds, it sends a keepalive message".
#[test]
fn data_that_nothing_answers_is_answered_by_a_keepalive_after_ten_seconds() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    b.activity().data_received(clock_at(seconds(3)).now);
    b.activity().data_received(clock_at(seconds(8)).now);
    assert_eq!(b.run_timers(Duration::from_millis(12_999)), []);
    let expected = Output::SendKeepalive { peer: b.peer };
    assert_eq!(b.run_timers(seconds(13)), [(seconds(13), expected)]);
    b.activity().keepalive_sent(clock_at(seconds(13)).now);
    assert_eq!(b.run_timers(seconds(60)), []);
}

#[test]
fn a_prompt_end_answers_one_way_data_for_as_long_as_it_comes() {
    let mut a = End::new(1, 2);
    let mut b = End::prompt(2, 1);
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    let mut answered = Vec::new();
    for millis in (3_000..13_000).step_by(20) {
        let now = Duration::from_millis(millis);
        b.activity().data_received(clock_at(now).now);
        for (at, output) in b.run_timers(now) {
            assert_eq!(output, Output::SendKeepalive { peer: b.peer });
            b.activity().keepalive_sent(clock_at(now).now);
            answered.push(at);
        }
    }
    assert_eq!(answered[0], seconds(3) + PROMPT_KEEPALIVE_TIMEOUT);
    assert_eq!(answered.len(), 12, "{answered:?}");
    // Once the last of it is answered, nothing more is said.
    b.activity().keepalive_sent(clock_at(seconds(13)).now);
    assert_eq!(b.run_timers(seconds(60)), []);
}

#[test]
fn data_sent_back_saves_the_keepalive_and_a_keepalive_is_not_answered() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    b.activity().data_received(clock_at(seconds(3)).now);
    b.activity().data_sent(clock_at(seconds(4)).now);
    b.activity().keepalive_received(clock_at(seconds(5)).now);
    assert_eq!(b.run_timers(seconds(60)), []);
}

/// §6.4: "if no packets … have been received from a given peer for Keepalive-Timeout +
/// Rekey-Timeout seconds after sending a transport data message to it, a new handshake".
#[test]
fn data_unanswered_for_fifteen_seconds_starts_a_handshake() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.activity().data_sent(clock_at(seconds(3)).now);
    a.activity().data_sent(clock_at(seconds(10)).now);
    assert_eq!(a.run_timers(Duration::from_millis(17_999)), []);
    let outputs = a.run_timers(seconds(19));
    assert_eq!(outputs[0].1, Output::ForgetSource { peer: a.peer });
    assert!(is_initiation(&outputs[1].1) && outputs[1].0 <= seconds(18) + JITTER_MAX);
}

/// The jitter keeps two ends that miss each other's answers from initiating at the same time again.
#[test]
fn after_the_first_time_unanswered_data_waits_fifteen_seconds_and_some_jitter() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    let mut sent_at = seconds(1);
    let mut waited = Vec::new();
    for _ in 0..20 {
        a.activity().data_sent(clock_at(sent_at).now);
        let outputs = a.run_timers(sent_at + seconds(16));
        let [(missed_at, forget), (at, initiation)] = &outputs[..] else {
            panic!("{outputs:?}");
        };
        assert_eq!(*forget, Output::ForgetSource { peer: a.peer });
        assert!(is_initiation(initiation) && at == missed_at);
        waited.push(*at - sent_at);

        let clock = clock_at(*at);
        let initiation = datagram(initiation).unwrap();
        b.receives(&initiation, a.address, clock).unwrap();
        let response = b.datagram();
        a.receives(&response, b.address, clock).unwrap();
        a.drain();
        sent_at = *at + seconds(1);
    }
    let again = waited.split_off(1);
    assert_eq!(waited, [seconds(15)]);
    let expected = seconds(15)..seconds(15) + JITTER_MAX;
    assert!(
        again.iter().all(|wait| expected.contains(wait)),
        "{again:?}"
    );
    assert!(again.windows(2).all(|pair| pair[0] != pair[1]), "{again:?}");
}

#[test]
fn anything_authentic_counts_as_an_answer() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.activity().data_sent(clock_at(seconds(3)).now);
    assert!(keepalive(&b, &mut a, clock_at(seconds(12))));
    assert_eq!(a.run_timers(seconds(60)), []);
}

#[test]
fn an_authentic_initiation_counts_as_an_answer_and_its_response_as_an_acknowledgement() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    b.activity().data_sent(clock_at(seconds(120)).now);
    b.activity().data_received(clock_at(seconds(120)).now);
    a.wants(clock_at(seconds(121)));
    b.receives(&a.datagram(), a.address, clock_at(seconds(121)))
        .unwrap();
    b.drain();
    assert_eq!(b.run_timers(seconds(170)), []);
}

/// "A seconds interval … of how often to send an authenticated empty packet to the peer, for the
/// purpose of keeping a stateful firewall or NAT mapping valid".
#[test]
fn a_persistent_keepalive_leaves_one_interval_after_the_last_packet() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    let clock = clock_at(seconds(2));
    a.shaker.set_keepalive(a.peer, Some(seconds(25)), clock);
    let expected = Output::SendKeepalive { peer: a.peer };
    assert_eq!(a.drain(), [expected], "switching it on sends one at once");
    a.activity().keepalive_sent(clock.now);
    a.activity().keepalive_received(clock_at(seconds(10)).now);
    assert_eq!(
        a.run_timers(seconds(60)),
        [(seconds(35), expected), (seconds(60), expected)]
    );
    a.shaker.set_keepalive(a.peer, None, clock_at(seconds(60)));
    assert_eq!(a.run_timers(seconds(200)), []);
}

#[test]
fn a_persistent_keepalive_without_keys_starts_a_handshake_when_the_link_comes_up() {
    let (mut a, _) = pair();
    a.shaker.set_up(false, clock_at(Duration::ZERO));
    a.shaker
        .set_keepalive(a.peer, Some(seconds(25)), clock_at(Duration::ZERO));
    assert_eq!(a.drain(), []);
    assert_eq!(a.shaker.next_timeout(), None);
    a.shaker.set_up(true, clock_at(seconds(1)));
    assert!(is_initiation(&a.drain()[0]));
    let outputs = a.run_timers(seconds(600));
    let last = initiations(&outputs).pop();
    assert!(last > Some(seconds(550)), "it never gives up for good");
}

#[test]
fn a_persistent_keepalive_that_waited_for_our_key_starts_when_there_is_one() {
    let (mut a, _) = pair();
    let clock = clock_at(Duration::ZERO);
    a.shaker.set_private_key(None, clock);
    a.shaker.set_keepalive(a.peer, Some(seconds(25)), clock);
    assert_eq!(a.drain(), []);
    let clock = clock_at(seconds(10));
    a.shaker.set_private_key(Some(private_key(1)), clock);
    assert!(is_initiation(&a.drain()[0]));
}

#[test]
fn a_persistent_keepalive_does_not_start_with_our_key_while_the_link_is_down() {
    let (mut a, _) = pair();
    let clock = clock_at(Duration::ZERO);
    a.shaker.set_up(false, clock);
    a.shaker.set_keepalive(a.peer, Some(seconds(25)), clock);
    a.shaker.set_private_key(Some(private_key(5)), clock);
    assert_eq!(a.drain(), []);
    assert_eq!(a.shaker.next_timeout(), None);
}

/// §6.3: "after Reject-After-Time × 3 … if no new keys have been exchanged, all are erased".
#[test]
fn keys_are_wiped_after_nine_minutes() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(seconds(1)));
    for end in [&mut a, &mut b] {
        assert_eq!(end.run_timers(Duration::from_millis(540_999)), []);
        assert!(!end.receiving().is_empty());
        let expected = Output::KeysChanged { peer: end.peer };
        assert_eq!(end.run_timers(seconds(541)), [(seconds(541), expected)]);
        assert!(end.receiving().is_empty());
        assert_eq!(end.shaker.indices_in_use(), 0);
        assert_eq!(end.shaker.next_timeout(), None);
    }
}

#[test]
fn link_down_clears_keys_and_stops_every_timer() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    a.shaker
        .set_keepalive(a.peer, Some(seconds(5)), clock_at(seconds(1)));
    a.activity().data_sent(clock_at(seconds(125)).now);
    a.wants(clock_at(seconds(125)));
    a.drain();
    a.shaker.set_up(false, clock_at(seconds(126)));
    assert_eq!(a.drain(), [Output::KeysChanged { peer: a.peer }]);
    assert!(a.receiving().is_empty());
    assert_eq!(a.shaker.next_timeout(), None);
    a.wants(clock_at(seconds(127)));
    assert_eq!(a.drain(), []);
}

#[test]
fn what_was_owed_when_the_link_went_down_is_owed_no_more() {
    let marks: [fn(&Activity, BootTime); 2] = [Activity::data_sent, Activity::data_received];
    for mark in marks {
        let (mut a, mut b) = pair();
        shake(&mut a, &mut b, clock_at(Duration::ZERO));
        mark(&a.activity(), clock_at(seconds(1)).now);
        a.shaker.set_up(false, clock_at(seconds(2)));
        a.shaker.set_up(true, clock_at(seconds(3)));
        assert_eq!(a.drain(), [Output::KeysChanged { peer: a.peer }]);
        assert_eq!(a.run_timers(seconds(60)), []);
    }
}

/// Thousands of peers that are idle cost a gateway nothing.
#[test]
fn an_end_whose_session_is_idle_is_looked_at_twice_and_then_when_its_keys_are_wiped() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    b.run_timers(seconds(60));
    let next = b.shaker.next_timeout();
    assert_eq!(
        next,
        Some(clock_at(seconds(540)).now),
        "when keys are wiped"
    );
}

#[test]
fn data_of_an_idle_end_is_noticed_once_it_is_told() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    assert!(!b.activity().wants_watch(), "the keys are new");
    b.run_timers(seconds(60));
    let clock = clock_at(seconds(60));
    b.activity().data_received(clock.now);
    assert!(b.activity().wants_watch());
    assert!(!b.activity().wants_watch(), "once");
    b.shaker.handle_active(b.peer, clock);
    let expected = Output::SendKeepalive { peer: b.peer };
    assert_eq!(b.run_timers(seconds(70)), [(seconds(70), expected)]);
}

#[test]
fn only_peers_with_keys_that_are_not_idle_are_watched() {
    let (mut a, mut b) = pair();
    let watched = |end: &End| end.shaker.watched().collect::<Vec<_>>();
    assert_eq!(watched(&b), [], "there are no keys");
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    assert_eq!(watched(&b), [b.peer]);
    b.run_timers(seconds(60));
    assert_eq!(watched(&b), [], "it is idle");
    let clock = clock_at(seconds(60));
    b.activity().data_sent(clock.now);
    assert!(b.activity().wants_watch());
    b.shaker.handle_active(b.peer, clock);
    assert_eq!(watched(&b), [b.peer], "it owes an answer");
    b.shaker.remove_peer(b.peer);
    assert_eq!(watched(&b), []);
}

/// The mark of a worker that has looked a moment before the timers stopped looking.
#[test]
fn a_mark_that_becomes_visible_after_the_last_but_one_look_is_noticed_untold() {
    let (mut a, mut b) = pair();
    shake(&mut a, &mut b, clock_at(Duration::ZERO));
    b.run_timers(seconds(15));
    b.activity().data_received(clock_at(seconds(15)).now);
    let expected = Output::SendKeepalive { peer: b.peer };
    assert_eq!(b.run_timers(seconds(26))[0].1, expected);
}

#[test]
fn an_idle_end_without_sessions_never_wakes_up() {
    let (a, _) = pair();
    assert_eq!(a.shaker.next_timeout(), None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Want,
    DataSent,
    DataReceived,
    KeepaliveSent,
    KeepaliveReceived,
    Timeout,
    Shake,
    Keepalive(u64),
    Link(bool),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        Just(Step::Want),
        Just(Step::DataSent),
        Just(Step::DataReceived),
        Just(Step::KeepaliveSent),
        Just(Step::KeepaliveReceived),
        Just(Step::Timeout),
        Just(Step::Shake),
        (0u64..30).prop_map(Step::Keepalive),
        any::<bool>().prop_map(Step::Link),
    ];
    (prop_oneof![0u64..2_000, 0u64..30_000, 0u64..600_000], step)
}

proptest! {
    #[test]
    fn no_sequence_of_events_leaves_a_timer_overdue(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut a, mut b) = pair();
        let (mut now, mut is_up) = (Duration::ZERO, true);
        for (millis, step) in steps {
            now += Duration::from_millis(millis);
            let clock = clock_at(now);
            match step {
                Step::Want => a.wants(clock),
                Step::DataSent => a.activity().data_sent(clock.now),
                Step::DataReceived => a.activity().data_received(clock.now),
                Step::KeepaliveSent => a.activity().keepalive_sent(clock.now),
                Step::KeepaliveReceived => a.activity().keepalive_received(clock.now),
                Step::Timeout => {}
                Step::Shake => {
                    b.wants(clock);
                    for initiation in b.datagrams() {
                        let _ = a.receives(&initiation, b.address, clock);
                    }
                }
                Step::Keepalive(interval) => {
                    a.shaker.set_keepalive(a.peer, Some(seconds(interval)), clock);
                }
                Step::Link(up) => {
                    is_up = up;
                    a.shaker.set_up(up, clock);
                }
            }
            if a.activity().wants_watch() {
                a.shaker.handle_active(a.peer, clock);
            }
            a.drain();
            a.shaker.handle_timeout(clock);
            prop_assert!(a.drain().len() <= 8, "a handful of outputs");
            if let Some(at) = a.shaker.next_timeout() {
                prop_assert!(at > clock.now, "{:?} is overdue at {:?}", at, clock.now);
            }
            let is_owed = a.activity().unacknowledged_since().is_some();
            let looked_at = a.shaker.next_timeout();
            if is_owed && is_up && !a.receiving().is_empty() {
                let within = clock.now.saturating_add(KEEPALIVE_TIMEOUT);
                prop_assert!(looked_at.is_some_and(|at| at <= within), "what is owed is forgotten");
            }
            prop_assert!(a.shaker.indices_in_use() <= 4);
        }
    }
}

#[test]
fn a_path_in_doubt_is_tried_at_once_but_not_more_than_once_a_second() {
    let (mut a, mut b) = pair();
    let start = Duration::from_secs(1);
    shake(&mut a, &mut b, clock_at(start));
    let rechecks = |end: &mut End, at: Duration| {
        let peer = end.peer;
        end.shaker.handle_recheck(peer, clock_at(at));
        end.drain().iter().filter(|o| is_initiation(o)).count()
    };
    assert_eq!(rechecks(&mut a, start + Duration::from_millis(999)), 0);
    assert_eq!(rechecks(&mut a, start + Duration::from_secs(1)), 1);
    assert_eq!(rechecks(&mut a, start + Duration::from_millis(1999)), 0);
    assert_eq!(rechecks(&mut a, start + Duration::from_secs(2)), 1);
    assert!(a.sending().is_some(), "the keys at hand go on");
    assert!(share_keys(&a, &b));
}
