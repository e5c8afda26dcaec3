//! The rules of races and of silence, one by one.

use crate::common::{Clocked, HOME, OFFICE, RELAY, RELAYED, at, ms};
use culvert_path::{CandidateRefusal, Guard, Kind, Output, RelayPath};

#[test]
fn the_first_packet_begins_a_handshake_at_once_with_all_candidates() {
    let mut peer = Clocked::new(&[
        (OFFICE, Kind::Interface),
        (HOME, Kind::Public),
        (RELAY, RELAYED),
    ]);
    peer.sent();
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    assert_eq!(peer.race.targets(), [at(RELAY), at(HOME), at(OFFICE)]);
    peer.sent();
    assert_eq!(
        peer.outputs(),
        [],
        "the next packet waits for the same handshake"
    );
}

#[test]
fn relays_take_part_at_once_and_stay() {
    let mut peer = Clocked::new(&[(HOME, Kind::Public), (RELAY, RELAYED)]);
    peer.sent();
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    assert_eq!(peer.race.targets(), [at(RELAY), at(HOME)]);
    peer.confirm(RELAY);
    assert_eq!(peer.race.current(), Some((at(RELAY), RELAYED)));
    peer.confirm(HOME);
    assert_eq!(peer.race.targets(), [at(HOME), at(RELAY)]);
}

#[test]
fn a_new_relay_is_a_way_to_a_peer_that_was_dead() {
    let mut peer = Clocked::new(&[(HOME, Kind::Public)]);
    peer.sent();
    peer.pass(4_000);
    assert!(peer.race.is_dead());
    let relay = culvert_ids::RelayId::from_bytes([1; 16]);
    let path = |address, by_tls| RelayPath {
        relay,
        address,
        by_tls,
    };
    peer.race.replace_relays(&[path(at(RELAY), false)]);
    assert!(!peer.race.is_dead());
    assert_eq!(peer.race.targets(), [at(RELAY), at(HOME)]);
    peer.race.replace_relays(&[]);
    assert_eq!(peer.race.targets(), [at(HOME)]);

    // Through a TLS stream, for which an address of this host stands.
    let (bridge, now) = (at("127.0.0.1:50000"), ms(peer.now));
    let refused = Err(CandidateRefusal::Loopback);
    assert_eq!(peer.race.handle_confirmed(bridge, now), refused);
    peer.race.replace_relays(&[path(bridge, true)]);
    assert_eq!(peer.race.handle_confirmed(bridge, now), Ok(()));
    let expected = Some((bridge, Kind::RelayedTls(relay)));
    assert_eq!(peer.race.current(), expected);
}

#[test]
fn the_first_answer_decides_the_race() {
    let peer = Clocked::confirmed();
    assert_eq!(peer.race.current(), Some((at(HOME), Kind::Public)));
    assert_eq!(
        peer.race.targets(),
        [at(HOME), at(OFFICE)],
        "the next handshake races again"
    );
    assert_eq!(peer.race.poll_timeout(), None);
}

#[test]
fn a_peer_that_never_answers_is_dead_after_two_attempts_and_four_seconds() {
    let mut peer = Clocked::new(&[(HOME, Kind::Public)]);
    let start = peer.now;
    peer.sent();
    peer.pass(60_000);
    assert_eq!(peer.died_at(), Some(start + 4000));
    let outputs = peer.outputs();
    assert_eq!(
        outputs,
        [Output::BeginHandshake, Output::BeginHandshake, Output::Dead]
    );
    assert!(peer.race.is_dead());
    peer.sent();
    peer.pass(60_000);
    assert_eq!(peer.outputs(), [], "said once");
}

#[test]
fn a_peer_without_candidates_is_dead_at_once_until_it_has_one() {
    let mut peer = Clocked::new(&[]);
    peer.sent();
    assert_eq!(peer.outputs(), [Output::Dead]);
    peer.race.learn(at(HOME), Kind::Public).unwrap();
    peer.sent();
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
}

#[test]
fn two_seconds_of_silence_begin_a_handshake_and_two_more_are_the_end() {
    let mut peer = Clocked::confirmed();
    peer.pass(100_000);
    let start = peer.now;
    peer.sent();
    peer.pass(1999);
    assert_eq!(peer.outputs(), []);
    peer.pass(1);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.pass(1100);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.pass(899);
    assert_eq!(peer.outputs(), []);
    peer.pass(1);
    assert_eq!(peer.died_at(), Some(start + 4000));
}

#[test]
fn silence_counts_from_the_first_packet_that_was_not_answered() {
    let mut peer = Clocked::confirmed();
    for _ in 0..19 {
        peer.sent();
        peer.pass(100);
    }
    assert_eq!(peer.outputs(), []);
    peer.pass(100);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
}

#[test]
fn an_answer_in_the_last_moment_saves_the_peer() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    peer.pass(3999);
    peer.confirm(OFFICE);
    peer.pass(60_000);
    assert_eq!(peer.died_at(), None);
    assert_eq!(peer.race.current(), Some((at(OFFICE), Kind::Interface)));
}

#[test]
fn any_packet_of_the_peer_ends_the_race_that_silence_began() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    peer.pass(2500);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.received();
    peer.pass(60_000);
    assert_eq!(peer.outputs(), []);
}

#[test]
fn a_peer_to_which_nothing_is_sent_is_never_dead() {
    let mut peer = Clocked::confirmed();
    peer.pass(3_600_000);
    peer.received();
    peer.pass(3_600_000);
    assert_eq!(peer.outputs(), []);
    peer.network_changed();
    peer.pass(3_600_000);
    assert_eq!(
        peer.outputs(),
        [Output::BeginHandshake, Output::BeginHandshake]
    );
}

#[test]
fn a_changed_network_races_at_once_and_silence_counts_from_there() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    peer.pass(3000);
    peer.outputs();
    let changed_at = peer.now;
    peer.network_changed();
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.pass(60_000);
    assert_eq!(peer.died_at(), Some(changed_at + 4000));
}

#[test]
fn a_changed_network_gives_a_dead_peer_another_chance() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    peer.pass(10_000);
    assert!(peer.died_at().is_some());
    peer.outputs();
    peer.network_changed();
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.confirm(HOME);
    peer.pass(60_000);
    assert_eq!(peer.outputs(), []);
    assert!(!peer.race.is_dead());
}

#[test]
fn what_still_arrives_after_a_change_of_networks_does_not_end_the_race() {
    let mut peer = Clocked::confirmed();
    peer.network_changed();
    peer.outputs();
    peer.received();
    peer.pass(1100);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
}

#[test]
fn a_changed_network_means_nothing_to_a_peer_that_was_never_wanted() {
    let mut peer = Clocked::new(&[(HOME, Kind::Public)]);
    peer.network_changed();
    peer.pass(60_000);
    assert_eq!(peer.outputs(), []);
}

#[test]
fn a_peer_that_roams_is_followed_and_remembered() {
    let mut peer = Clocked::confirmed();
    peer.race
        .handle_roamed(at("198.51.100.7:999"), ms(peer.now))
        .unwrap();
    assert_eq!(
        peer.race.current(),
        Some((at("198.51.100.7:999"), Kind::Observed))
    );
    assert_eq!(
        peer.race.targets(),
        [at("198.51.100.7:999"), at(HOME), at(OFFICE)]
    );
}

#[test]
fn an_answer_out_of_the_tunnel_is_no_path() {
    let mut peer = Clocked::confirmed();
    let inside = at("100.64.0.1:51820");
    assert_eq!(
        peer.race.handle_confirmed(inside, ms(peer.now)),
        Err(CandidateRefusal::InsideTunnel)
    );
    assert_eq!(
        peer.race.handle_roamed(inside, ms(peer.now)),
        Err(CandidateRefusal::InsideTunnel)
    );
    assert_eq!(peer.race.current(), Some((at(HOME), Kind::Public)));
}

#[test]
fn a_path_that_the_tunnel_takes_for_itself_is_given_up() {
    let mut peer = Clocked::confirmed();
    let range = "192.0.2.0/24".parse().unwrap();
    peer.race.set_guard(Guard::new([range]).unwrap());
    assert_eq!(peer.race.current(), None);
    assert_eq!(peer.race.targets(), [at(OFFICE)]);
    assert_eq!(peer.race.poll_output(), Some(Output::TargetsChanged));
}

#[test]
fn a_full_list_makes_room_for_the_path_in_use() {
    let mut peer = Clocked::confirmed();
    let many = (0..16).map(|host| ([198, 51, 100, host], 1).into());
    peer.race.replace(Kind::Public, many);
    let targets = peer.race.targets();
    assert_eq!((targets.len(), targets[0]), (17, at(HOME)));
}

#[test]
fn a_path_in_use_outlives_its_announcement() {
    let mut peer = Clocked::confirmed();
    peer.race.replace(Kind::Public, []);
    assert_eq!(peer.race.targets(), [at(HOME), at(OFFICE)]);
}

#[test]
fn a_machine_that_slept_asks_before_it_buries() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    peer.pass(100);
    peer.sleep(3_600_000);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
    peer.sleep(3_600_000);
    assert_eq!(
        peer.died_at(),
        None,
        "slept again while it waited for the answer"
    );
    assert!(peer.outputs().contains(&Output::BeginHandshake));
    peer.pass(2000);
    assert!(peer.died_at().is_some(), "but not for ever");
}

#[test]
fn a_clock_that_stands_still_or_goes_back_kills_nobody() {
    let mut peer = Clocked::confirmed();
    peer.sent();
    for back in [0, 1, 500_000] {
        peer.race.handle_timeout(ms(peer.now - back));
    }
    assert_eq!(peer.outputs(), []);
    peer.pass(2000);
    assert_eq!(peer.outputs(), [Output::BeginHandshake]);
}

#[test]
fn marks_of_traffic_may_come_in_any_order() {
    let mut peer = Clocked::confirmed();
    let start = peer.now;
    peer.pass(300);
    peer.race.handle_sent(ms(start + 100));
    peer.race.handle_sent(ms(start + 300));
    peer.race.handle_received(ms(start + 200));
    assert_eq!(
        peer.race.silent_since(),
        Some(ms(start + 300)),
        "sent after what arrived"
    );
    peer.race.handle_received(ms(start + 300));
    peer.race.handle_sent(ms(start + 250));
    assert_eq!(peer.race.silent_since(), None, "sent before what arrived");
}
