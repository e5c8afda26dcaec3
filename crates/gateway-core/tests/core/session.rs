//! The session with the portal: how it begins, what breaks it, and how it is begun again.

use crate::play::{GATEWAY, HOUR_MS, Play, START_MS, candidates, claims, grant_id};
use culvert_base::UnixTime;
use culvert_gateway_core::Ending;
use culvert_wire::messages::{FromGateway, GatewayLoad, Reason, ReasonCode, Sequenced, ToGateway};
use culvert_wire::{PROTOCOL, encode};

fn refused(code: ReasonCode, retry_after_s: Option<u32>) -> ToGateway {
    let text = "so it is".to_owned();
    let reason = Reason { code, text };
    ToGateway::Refused {
        reason,
        retry_after_s,
    }
}

#[test]
fn hello_says_who_the_gateway_is_and_what_it_holds() {
    let mut play = Play::begin();
    assert_eq!(play.connects, 1, "at once");
    play.connect();
    let [
        FromGateway::Hello {
            protocols,
            machine,
            candidates: told,
            draining,
            grants,
            ..
        },
    ] = &play.said[..]
    else {
        panic!("{:?}", play.said);
    };
    assert_eq!(protocols, &[PROTOCOL]);
    assert_eq!((machine.as_str(), *draining), ("a-machine", false));
    assert_eq!((told, grants.len()), (&candidates(), 0));
    play.welcome(&[]);
    assert!(play.gateway.is_connected());
    assert_eq!(play.gateway.id(), Some(GATEWAY));
    assert_eq!(play.interfaces.len(), 1);
}

#[test]
fn grants_outlive_the_connection_and_end_where_welcome_does_not_name_them() {
    let mut play = Play::open();
    for number in 1..=3 {
        play.grant(&claims(number, 4 + number, 9));
    }
    play.disconnect();
    play.assert_reaches(5, "10.0.9.1:53");
    play.said.clear();
    play.reconnect(&[grant_id(2)]);
    let Some(FromGateway::Hello { grants, .. }) = play.said.first() else {
        panic!("{:?}", play.said);
    };
    assert_eq!(grants, &[grant_id(1), grant_id(2), grant_id(3)]);
    assert!(play.send(5, "10.0.9.1:53").is_err());
    play.assert_reaches(6, "10.0.9.1:53");
    assert!(play.send(7, "10.0.9.1:53").is_err());
    assert_eq!(play.interfaces.len(), 1, "nothing has moved");
}

#[test]
fn without_a_portal_grants_end_by_themselves() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.disconnect();
    play.pass(HOUR_MS - 1);
    play.assert_reaches(5, "10.0.9.1:53");
    play.pass(1);
    play.assert_reaches_nothing();
}

#[test]
fn a_gap_another_epoch_or_nonsense_breaks_the_session_off() {
    let revoke = |epoch, seq| {
        let grant = grant_id(9);
        encode(&Sequenced {
            epoch,
            seq,
            message: ToGateway::Revoke { grant },
        })
    };
    let (epoch, seq) = {
        let play = Play::open();
        (play.epoch, play.seq)
    };
    let texts = [
        revoke(epoch, seq + 2),
        revoke(epoch, seq),
        revoke(epoch + 1, seq + 1),
        "{".to_owned(),
        format!(r#"{{"epoch":{epoch},"seq":{},"type":"revoke"}}"#, seq + 1),
    ];
    for text in texts {
        let mut play = Play::open();
        play.gateway.handle_text(&text, play.now());
        play.execute();
        assert_eq!(play.disconnects, 1, "{text}");
        assert!(!play.gateway.is_connected());
        assert_eq!(play.gateway.counters().protocol_errors, 1);
    }
}

#[test]
fn a_message_of_a_later_version_is_answered_and_the_session_goes_on() {
    let mut play = Play::open();
    play.seq += 1;
    let (epoch, seq) = (play.epoch, play.seq);
    let text = format!(r#"{{"epoch":{epoch},"seq":{seq},"type":"sing","loud":true}}"#);
    play.gateway.handle_text(&text, play.now());
    play.execute();
    let kind = "sing".to_owned();
    assert_eq!(play.said, [FromGateway::Unsupported { kind }]);
    play.grant(&claims(1, 5, 9));
    play.assert_accepted(1);
}

#[test]
fn nothing_is_believed_before_welcome() {
    let mut play = Play::begin();
    play.connect();
    play.grant(&claims(1, 5, 9));
    assert_eq!(play.disconnects, 1);
    play.assert_reaches_nothing();
}

#[test]
fn a_second_welcome_breaks_the_session_off() {
    let mut play = Play::open();
    play.welcome(&[]);
    assert_eq!(play.disconnects, 1);
}

#[test]
fn a_welcome_that_cannot_be_changes_nothing() {
    for ranges in [
        ("100.64.0.0/33", "fd00::/64"),
        ("fd00::/64", "100.64.0.0/11"),
    ] {
        let mut play = Play::begin();
        play.connect();
        let mut welcome = play.welcome_message(&[]);
        if let ToGateway::Welcome { ranges: told, .. } = &mut welcome {
            (told.machines_ipv4, told.machines_ipv6) = (ranges.0.to_owned(), ranges.1.to_owned());
        }
        play.hear(welcome);
        assert_eq!((play.disconnects, play.interfaces.len()), (1, 0));
    }
}

#[test]
fn welcome_must_come_within_ten_seconds_of_hello() {
    let mut play = Play::begin();
    play.connect();
    play.pass(9_999);
    assert_eq!(play.disconnects, 0);
    play.pass(1);
    assert_eq!(play.disconnects, 1);
}

#[test]
fn a_lost_portal_is_tried_again_every_one_to_two_seconds() {
    let mut play = Play::begin();
    for _ in 0..8 {
        play.disconnect();
        let at_ms = play.gateway.poll_timeout().unwrap().as_millis();
        assert!((1_000..=2_000).contains(&(at_ms - play.now_ms)));
        play.now_ms = at_ms - 1;
        let connects = play.connects;
        play.time();
        assert_eq!(play.connects, connects, "not before its time");
        play.now_ms = at_ms;
        play.time();
        assert_eq!(play.connects, connects + 1);
    }
}

#[test]
fn retry_after_is_waited_for() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.pass(1_000);
    play.hear(refused(ReasonCode::TryLater, Some(20)));
    assert_eq!((play.disconnects, play.ended.is_none()), (1, true));
    play.assert_reaches(5, "10.0.9.1:53");
    let connects = play.connects;
    play.pass(19_999);
    assert_eq!(play.connects, connects);
    play.pass(31_000);
    assert!(play.connects > connects);
}

#[test]
fn a_refusal_for_good_ends_the_gateway_and_all_its_grants() {
    for (code, ending) in [
        (ReasonCode::BadToken, Ending::NotEnrolled("so it is".into())),
        (ReasonCode::Revoked, Ending::Revoked("so it is".into())),
        (ReasonCode::Replaced, Ending::Failed("so it is".into())),
        (ReasonCode::Protocol, Ending::Failed("so it is".into())),
        (ReasonCode::Other, Ending::Failed("so it is".into())),
    ] {
        let mut play = Play::open();
        play.grant(&claims(1, 5, 9));
        play.hear(refused(code, None));
        assert_eq!(play.ended, Some(ending));
        play.assert_reaches_nothing();
        let connects = play.connects;
        play.pass(HOUR_MS);
        assert_eq!(play.connects, connects, "it does not come back");
        assert_eq!(play.gateway.persisted().unwrap().grants.len(), 0);
    }
}

#[test]
fn a_token_that_is_refused_before_the_session_ends_the_gateway() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.break_off();
    play.gateway
        .handle_unauthorized("no such token".into(), play.now());
    play.execute();
    assert_eq!(
        play.ended,
        Some(Ending::NotEnrolled("no such token".into()))
    );
    play.assert_reaches_nothing();
}

#[test]
fn candidates_and_load_are_told_when_they_change() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.said.clear();
    play.gateway.handle_candidates(candidates(), play.now());
    play.execute();
    assert_eq!(play.said, [], "they are the same");
    let candidates = vec!["203.0.113.9:51820".parse().unwrap()];
    play.gateway
        .handle_candidates(candidates.clone(), play.now());
    play.gateway.handle_load(GatewayLoad {
        clients: 0,
        flows: 3,
        rate_bytes_per_s: 4,
        processor_permille: 5,
    });
    play.execute();
    let load = GatewayLoad {
        clients: 1,
        flows: 3,
        rate_bytes_per_s: 4,
        processor_permille: 5,
    };
    let expected = [
        FromGateway::CandidatesChanged {
            candidates: candidates.clone(),
        },
        FromGateway::Load(load),
    ];
    assert_eq!(play.said, expected);
    // Without a session they wait for the next hello.
    play.disconnect();
    play.said.clear();
    play.gateway.handle_load(GatewayLoad::default());
    play.execute();
    assert_eq!(play.said, []);
    play.reconnect(&[grant_id(1)]);
    let Some(FromGateway::Hello {
        candidates: told, ..
    }) = play.said.first()
    else {
        panic!("{:?}", play.said);
    };
    assert_eq!(told, &candidates);
}

#[test]
fn the_portals_clock_counts_from_each_connection_on() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.disconnect();
    // The portal's clock was set back by half an hour: by it the grant lasts longer.
    let connects = play.connects;
    while play.connects == connects {
        play.now_ms = play.gateway.poll_timeout().unwrap().as_millis();
        play.time();
    }
    let unix_ms = play.unix_ms() - HOUR_MS / 2;
    play.epoch += 1;
    play.seq = 0;
    play.gateway
        .handle_connected(UnixTime::from_millis(unix_ms), play.now());
    play.execute();
    play.welcome(&[grant_id(1)]);
    play.pass(HOUR_MS + START_MS - play.now_ms);
    play.assert_reaches(5, "10.0.9.1:53");
    play.pass(HOUR_MS / 2);
    play.assert_reaches_nothing();
}

#[test]
fn grants_that_one_message_does_not_name_follow_in_pages() {
    let mut play = Play::open();
    for number in 1..=4 {
        play.grant(&claims(number, number, 9));
    }
    play.break_off();
    play.connect();
    let mut welcome = play.welcome_message(&[grant_id(1)]);
    if let ToGateway::Welcome { more_grants, .. } = &mut welcome {
        *more_grants = true;
    }
    play.hear(welcome);
    assert_eq!(
        play.gateway.grants().count(),
        4,
        "nothing ends before all are named"
    );
    play.assert_reaches(4, "10.0.9.1:53");
    let page = |grants: &[u8], more| ToGateway::GrantsRetained {
        grants: grants.iter().copied().map(grant_id).collect(),
        more,
    };
    play.hear(page(&[3], true));
    assert_eq!(play.gateway.grants().count(), 4);
    play.hear(page(&[7], false));
    let left: Vec<_> = play.gateway.grants().collect();
    assert_eq!(left, [grant_id(1), grant_id(3)]);
    // The session goes on.
    play.grant(&claims(5, 5, 9));
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.disconnects, 0);
    // A page that nobody announced is against the protocol.
    play.hear(page(&[1], false));
    assert_eq!(play.disconnects, 1);
}

#[test]
fn nothing_else_comes_before_the_last_page() {
    let mut play = Play::open();
    play.grant(&claims(1, 1, 9));
    play.break_off();
    play.connect();
    let mut welcome = play.welcome_message(&[]);
    if let ToGateway::Welcome { more_grants, .. } = &mut welcome {
        *more_grants = true;
    }
    play.hear(welcome);
    play.grant(&claims(2, 2, 9));
    assert_eq!(play.disconnects, 1);
    assert_eq!(
        play.gateway.grants().count(),
        1,
        "no grant was taken or ended"
    );
}
