//! Gateways that come, move and go.

use super::play::{
    Granting, HOUR_MS, Play, START_UNIX_MS, candidate, gateway_id, grant_id, interface, key,
    reason, resource, resource_id, to,
};
use culvert_base::{BootTime, UnixTime};
use culvert_client_core::PeerReport;
use culvert_wire::messages::{FromClient, ReasonCode, ToClient};

fn silent(play: &Play, gateway: u8, since_ms: u64) -> PeerReport {
    PeerReport {
        key: key(gateway),
        endpoint: Some(candidate(gateway)),
        handshake: Some(UnixTime::from_millis(START_UNIX_MS)),
        received: None,
        unanswered: Some(BootTime::from_millis(since_ms)),
        rx_bytes: 0,
        tx_bytes: play.now_ms,
        measured_mtu_bytes: None,
        heard_elsewhere: None,
    }
}

/// Lets the gateway be silent for `span_ms` while data is sent to it.
fn stay_silent(play: &mut Play, gateway: u8, span_ms: u64) {
    let since_ms = play.now_ms + 1;
    while play.now_ms < since_ms + span_ms && play.peers.contains_key(&key(gateway)) {
        play.pass(250);
        let report = silent(play, gateway, since_ms);
        play.report(report);
    }
}

#[test]
fn one_gateway_serves_several_resources_as_one_peer() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.gain("172.16.0.1", 2, Granting::through(1, 2));
    assert_eq!(play.peers.len(), 1);
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert_eq!(play.way_to("172.16.0.1"), Some(gateway_id(1)));
}

#[test]
fn the_gateways_own_addresses_may_speak() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    let own = interface(1).ipv4.to_string();
    assert_eq!(play.way_to(&own), Some(gateway_id(1)));
}

#[test]
fn a_lost_gateway_takes_every_grant_and_those_in_use_are_asked_for_again() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    assert!(play.peers.is_empty());
    let (request, asked, _, avoid) = play.take_request();
    assert_eq!(asked, resource_id(1));
    assert!(avoid.is_empty(), "the portal knows");
    play.packet(5, to("10.0.0.1", 80));
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
    assert_eq!(play.resumed, [5]);
}

#[test]
fn a_lost_gateway_out_of_use_is_not_replaced() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 2);
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    assert!(play.peers.is_empty());
    assert!(play.said.is_empty(), "{:?}", play.said);
}

#[test]
fn a_gateway_that_falls_silent_is_avoided_within_five_seconds() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.begun.clear();
    let began_ms = play.now_ms;
    stay_silent(&mut play, 1, 2_500);
    assert_eq!(play.begun, [key(1)], "in doubt, a handshake begins");
    stay_silent(&mut play, 1, 10_000);
    assert!(
        play.now_ms - began_ms <= 5_000,
        "{}",
        play.now_ms - began_ms
    );
    assert!(play.peers.is_empty());
    let (request, asked, _, avoid) = play.take_request();
    assert_eq!(asked, resource_id(1));
    assert_eq!(avoid, [gateway_id(1)]);
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
}

#[test]
fn without_a_portal_a_silent_gateway_keeps_its_grants_and_is_used_again_when_it_answers() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.disconnect();
    stay_silent(&mut play, 1, 60_000);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));

    play.report_alive(1, 20);
    play.connect();
    play.said.clear();
    play.welcome(vec![resource(1, "10.0.0.0/8")], vec![grant_id(1)]);
    play.pass(1_000);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    assert!(play.said.is_empty(), "{:?}", play.said);
}

#[test]
fn a_gateway_that_is_still_silent_when_the_portal_is_back_is_avoided_then() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.disconnect();
    let connects = play.connects;
    stay_silent(&mut play, 1, 60_000);
    // Somebody waits for another one, so the portal is tried again and again.
    assert!(play.connects > connects);

    play.connect();
    play.said.clear();
    play.welcome(vec![resource(1, "10.0.0.0/8")], vec![grant_id(1)]);
    assert!(play.peers.is_empty());
    let (request, asked, _, avoid) = play.take_request();
    assert_eq!((asked, &avoid[..]), (resource_id(1), &[gateway_id(1)][..]));
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
}

#[test]
fn data_sent_in_the_very_moment_in_which_the_last_was_received_is_unanswered_all_the_same() {
    // One look at the clock for both, or one for what was received that was later.
    for received_after_ms in [0, 3] {
        let mut play = Play::open(&[(1, "10.0.0.0/8")]);
        play.gain("10.0.0.1", 1, Granting::through(1, 1));
        play.report_alive(1, 10);
        let began_ms = play.now_ms;
        while play.peers.contains_key(&key(1)) {
            play.pass(250);
            let report = PeerReport {
                received: Some(BootTime::from_millis(began_ms + 1 + received_after_ms)),
                ..silent(&play, 1, began_ms + 1)
            };
            play.report(report);
            let passed_ms = play.now_ms - began_ms;
            assert!(passed_ms <= 5_000, "still alive after {passed_ms} ms");
        }
    }
}

#[test]
fn a_gateway_that_never_answers_is_avoided_too() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    let began_ms = play.now_ms;
    while play.peers.contains_key(&key(1)) {
        play.pass(250);
        let mut report = silent(&play, 1, 0);
        (report.unanswered, report.handshake) = (None, None);
        play.report(report);
        assert!(play.now_ms - began_ms <= 5_000);
    }
    assert_eq!(play.take_request().3, [gateway_id(1)]);
}

#[test]
fn where_no_other_gateway_is_the_silent_one_is_asked_for_again() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    stay_silent(&mut play, 1, 10_000);
    let (request, ..) = play.take_request();
    play.deny(request, 1, ReasonCode::NoGateway);
    play.pass(2_000);
    play.packet(2, to("10.0.0.1", 80));
    assert!(play.take_request().3.is_empty());
}

#[test]
fn a_gateway_that_is_sent_nothing_is_never_dead() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    for _ in 0..200 {
        play.pass(10_000);
        let mut report = silent(&play, 1, 0);
        (report.unanswered, report.tx_bytes) = (None, 10);
        play.report(report);
    }
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn another_network_makes_every_path_race_again() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.begun.clear();
    play.client.handle_network_changed(play.now());
    play.poll();
    assert_eq!(play.begun, [key(1)]);
}

#[test]
fn a_gateway_that_moved_is_sought_where_it_is() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.begun.clear();
    play.hear(ToClient::GatewayMoved {
        gateway: gateway_id(1),
        candidates: vec![candidate(77)],
    });
    assert!(play.peers[&key(1)].candidates.contains(&candidate(77)));
    assert_eq!(play.begun, [key(1)]);
}

#[test]
fn candidates_inside_the_tunnel_are_not_sent_to() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    let inside = "100.64.0.1:51820".parse().unwrap();
    play.hear(ToClient::GatewayMoved {
        gateway: gateway_id(1),
        candidates: vec![inside, candidate(1)],
    });
    assert_eq!(play.peers[&key(1)].candidates, [candidate(1)]);
}

#[test]
fn a_gateway_with_another_key_is_another_gateway() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 2);
    let mut granting = Granting::through(1, 2);
    granting.key = 50;
    play.gain("172.16.0.1", 2, granting);
    assert_eq!(play.peers.keys().copied().collect::<Vec<_>>(), [key(50)]);
    assert_eq!(play.way_to("172.16.0.1"), Some(gateway_id(1)));
    assert_eq!(
        play.way_to("10.0.0.1"),
        None,
        "what the old key was granted is void"
    );
}

#[test]
fn flows_end_on_a_gateway_that_drains_before_the_next_one_takes_over() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 3 * 2 - 1);
    play.report_alive(1, 1_000);
    play.until_said();
    let (request, ..) = play.take_request();
    play.report_alive(1, 2_000);
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(
        play.way_to("10.0.0.1"),
        Some(gateway_id(1)),
        "it still carries flows"
    );
    play.pass(9_000);
    play.report_alive(1, 3_000);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.pass(11_000);
    play.report_alive(1, 3_000);
    assert_eq!(
        play.way_to("10.0.0.1"),
        Some(gateway_id(2)),
        "they have ended"
    );
    assert_eq!(play.peers.len(), 1);
    assert!(
        !play
            .said
            .iter()
            .any(|it| matches!(it, FromClient::RequestAccess { .. }))
    );
}

#[test]
fn a_gateway_that_drains_and_is_lost_gives_way_at_once() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 3 * 2 - 1);
    play.report_alive(1, 1_000);
    play.until_said();
    let (request, ..) = play.take_request();
    play.report_alive(1, 2_000);
    play.grant(request, 1, Granting::through(2, 2));
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
}

#[test]
fn grants_through_a_gateway_that_is_about_to_end_them_are_asked_for_while_they_carry() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.hear(ToClient::GatewayDraining {
        gateway: gateway_id(1),
    });
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(1));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)), "no gap");
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::NoGateway),
    });
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
    // Nothing is left for the end of the gateway's time.
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(2)));
    assert!(play.said.is_empty(), "{:?}", play.said);
}

#[test]
fn a_grant_out_of_use_is_not_moved_from_a_gateway_that_drains() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 2);
    play.hear(ToClient::GatewayDraining {
        gateway: gateway_id(1),
    });
    assert!(play.said.is_empty(), "{:?}", play.said);
}
