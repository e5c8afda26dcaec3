//! State that is kept over a restart, and how little of it is believed.

use crate::play::{
    GATEWAY, HOUR_MS, Play, START_UNIX_MS, Signer, candidates, claims, filters, found, grant_id,
    name_claims, options, resource_id, wanted,
};
use culvert_base::UnixTime;
use culvert_gateway_core::{Gateway, Output, PersistedGrants};
use culvert_policy::gate::DropReason;
use culvert_wire::Timestamp;
use culvert_wire::messages::{FromGateway, ToGateway};

/// Another run, `later_ms` after the last one, with what that has written.
pub(crate) fn restart(before: &Play, later_ms: u64) -> Play {
    let before_end = before.grants_file.as_ref().unwrap();
    let written = serde_json::to_string(before_end).unwrap();
    let void = before_end.void.clone();
    let grants_file = serde_json::from_str(&written).unwrap();
    restart_with(
        before,
        &PersistedGrants {
            void,
            ..grants_file
        },
        later_ms,
    )
}

fn restart_with(before: &Play, grants_file: &PersistedGrants, later_ms: u64) -> Play {
    let mut play = Play::begin();
    play.now_ms = before.now_ms + later_ms;
    play.gateway = Gateway::new(options(), candidates(), [8; 32], play.now());
    let unix_ms = play.unix_ms();
    play.gateway.handle_persisted(
        grants_file.clone(),
        UnixTime::from_millis(unix_ms),
        play.now(),
    );
    play.execute();
    play
}

#[test]
fn a_restart_goes_on_with_what_stood_while_the_portal_is_away() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 6, 9));
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    play.revoke(2);
    play.pass(1_000);
    let mut play = restart(&play, 60_000);
    assert_eq!(play.interfaces.len(), 1);
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.send(5, "10.0.9.1:80"), Err(DropReason::Port));
    assert_eq!(play.peers.len(), 1, "what was revoked stays so");
    assert_eq!(play.said, []);
    play.connect();
    let hello = play.said.first();
    let Some(FromGateway::Hello { grants, .. }) = hello else {
        panic!("{hello:?}");
    };
    assert_eq!(grants, &[grant_id(1)]);
    play.welcome(&[]);
    play.assert_reaches_nothing();
}

#[test]
fn what_ended_for_clients_does_not_come_back_when_the_gateway_is_killed_at_once() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 6, 9));
    play.pass(1_000);
    play.revoke(2);
    // Killed here, before the grants are kept again.
    let mut next = restart(&play, 0);
    next.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(next.peers.len(), 1);
    // And once more, with what the second run has kept.
    next.pass(1_000);
    assert!(next.grants_file.as_ref().unwrap().void.is_empty());
    assert_eq!(restart(&next, 0).peers.len(), 1);
}

#[test]
fn a_grant_that_was_replaced_does_not_come_back_when_the_gateway_is_killed_at_once() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    // The access ends earlier than before.
    let mut shorter = claims(2, 5, 9);
    shorter.exp = Timestamp::from_unix_ms(START_UNIX_MS + 60_000);
    play.grant_with(&shorter, Some(grant_id(1)), &[]);
    play.assert_reaches(5, "10.0.9.1:53");
    restart(&play, 0).assert_reaches_nothing();
    play.pass(1_000);
    let mut next = restart(&play, 0);
    next.assert_reaches(5, "10.0.9.1:53");
    next.pass(60_000);
    next.assert_reaches_nothing();
}

#[test]
fn the_log_of_changes_holds_what_the_gateway_does() {
    let mut play = Play::open();
    let names = name_claims(1, 5, 9, "*.corp.example");
    play.grant_with(&names, None, &[wanted("db.corp.example", 1)]);
    play.resolved("db.corp.example", found(&["10.7.0.1"]));
    for number in 2..=40 {
        play.grant(&claims(number, number, 8));
        play.pass(70);
    }
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(8),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    for number in 10..=20 {
        play.revoke(number);
    }
    // Another name stands for the address now.
    let again = name_claims(50, 5, 9, "*.corp.example");
    play.grant_with(&again, Some(grant_id(1)), &[wanted("web.corp.example", 1)]);
    play.resolved("web.corp.example", found(&["10.7.0.2"]));
    play.pass(1_000);
    let written = serde_json::to_value(play.grants_file.as_ref().unwrap()).unwrap();
    let held = serde_json::to_value(play.gateway.persisted().unwrap()).unwrap();
    assert_eq!(written, held);
    assert_eq!(held["grants"].as_array().unwrap().len(), 29);
}

#[test]
fn a_log_that_is_lost_is_told_anew_as_a_whole() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 6, 9));
    play.pass(1_000);
    play.gateway.persist_anew();
    play.revoke(2);
    play.pass(1_000);
    let changes = play.gateway.take_changes().unwrap();
    assert!(changes.grants.is_empty(), "nothing has changed since");
    assert_eq!(play.grants_file.as_ref().unwrap().grants.len(), 1);
    play.gateway.persist_anew();
    let changes = play.gateway.take_changes().unwrap();
    assert!(changes.is_whole && changes.network.is_some());
    assert_eq!(changes.grants.len(), 1);
}

#[test]
fn a_port_that_was_closed_is_not_open_again_when_the_gateway_is_killed_at_once() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    // The gateway knows no narrower grant than the one that was signed: it goes without.
    restart(&play, 0).assert_reaches_nothing();
    play.pass(1_000);
    let next = restart(&play, 0);
    next.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(next.send(5, "10.0.9.1:80"), Err(DropReason::Port));
}

#[test]
fn what_is_void_is_written_before_packets_are_refused() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    play.tell(ToGateway::Revoke { grant: grant_id(1) });
    let outputs = std::iter::from_fn(|| play.gateway.poll_output());
    let names = outputs.filter_map(|output| match output {
        Output::Void(grants) => Some(("void", grants.len())),
        Output::Engine { table, .. } => Some(("table", table.clients().count())),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), [("void", 1), ("table", 0)]);
}

#[test]
fn a_restored_grant_ends_at_its_time() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    let mut later = restart(&play, HOUR_MS - 2_000);
    later.assert_reaches(5, "10.0.9.1:53");
    later.pass(1_000);
    later.assert_reaches_nothing();
    restart(&play, HOUR_MS - 1_000).assert_reaches_nothing();
}

#[test]
fn the_portals_clock_corrects_the_machines() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    let grants_file = play.grants_file.clone().unwrap();
    let mut play = Play::begin();
    play.gateway = Gateway::new(options(), candidates(), [8; 32], play.now());
    // The machine woke up with a clock that is slow by a year.
    let slow_ms = START_UNIX_MS - 365 * 24 * HOUR_MS;
    play.gateway
        .handle_persisted(grants_file, UnixTime::from_millis(slow_ms), play.now());
    play.execute();
    play.connect();
    play.welcome(&[grant_id(1)]);
    play.pass(HOUR_MS);
    play.assert_reaches_nothing();
}

#[test]
fn names_are_asked_for_again_before_they_lead_anywhere() {
    let mut play = Play::open();
    let claims = name_claims(1, 5, 9, "*.corp.example");
    play.grant_with(&claims, None, &[wanted("db.corp.example", 1)]);
    play.resolved("db.corp.example", found(&["10.7.0.1"]));
    play.pass(1_000);
    let mut play = restart(&play, 0);
    assert_eq!(play.asked.len(), 1);
    assert!(play.send(5, "100.96.0.1:80").is_err());
    play.resolved("db.corp.example", found(&["10.7.0.2"]));
    let to = play.send(5, "100.96.0.1:80");
    assert_eq!(to, Ok("10.7.0.2:80".parse().unwrap()));
}

#[test]
fn nothing_is_believed_that_the_portal_has_not_signed() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    let grants_file = play.grants_file.clone().unwrap();

    let mut forged = grants_file.clone();
    let mut wider = claims(1, 5, 9);
    wider.target = crate::play::target("0.0.0.0/0").into();
    forged.grants[0].token = Signer::new(8).sign(&wider);
    restart_with(&play, &forged, 0).assert_reaches_nothing();

    let mut misaddressed = grants_file.clone();
    misaddressed.gateway = culvert_ids::GatewayId::from_bytes([9; 16]);
    assert_ne!(misaddressed.gateway, GATEWAY);
    restart_with(&play, &misaddressed, 0).assert_reaches_nothing();

    let mut unknown = grants_file.clone();
    unknown.grant_keys.clear();
    restart_with(&play, &unknown, 0).assert_reaches_nothing();

    let mut ranges = grants_file;
    ranges.ranges.machines_ipv4 = "nonsense".to_owned();
    let restarted = restart_with(&play, &ranges, 0);
    restarted.assert_reaches_nothing();
    assert_eq!(restarted.interfaces, []);
}

#[test]
fn a_burst_of_changes_is_written_once_and_soon() {
    let mut play = Play::open();
    play.pass(1_000);
    for number in 1..=50 {
        let mut one = claims(number, 5, 9);
        one.exp = Timestamp::from_unix_ms(START_UNIX_MS + HOUR_MS);
        play.grant(&one);
    }
    play.grants_file = None;
    for number in 1..=49 {
        play.revoke(number);
        assert!(play.grants_file.is_none(), "it waits for the burst to end");
    }
    play.pass(100);
    assert_eq!(play.grants_file.as_ref().unwrap().grants.len(), 1);
    assert_eq!(play.gateway.persisted().unwrap().grants.len(), 1);
}

#[test]
fn secrets_are_in_no_debug_text() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let grants_file = play.gateway.persisted().unwrap();
    let secret = serde_json::to_value(&grants_file.grants[0].preshared_key).unwrap();
    let text = format!("{grants_file:?}");
    assert!(!text.contains(secret.as_str().unwrap()), "{text}");
}
