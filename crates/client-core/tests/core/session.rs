//! The session with the portal.

use super::play::{
    Granting, HOUR_MS, Play, START_MS, gateway_id, grant_id, prefix, reason, resource, to,
};
use culvert_client_core::{Ending, HELLO_LIMIT_MS, PacketRefusal, parse_os_release};
use culvert_wire::messages::{FromClient, ReasonCode, ToClient};

#[test]
fn a_client_connects_at_once_and_says_hello() {
    let mut play = Play::new();
    assert_eq!(play.next_timeout_ms(), Some(START_MS));
    play.step();
    assert_eq!(play.connects, 1);
    play.connect();
    let FromClient::Hello {
        protocols, machine, ..
    } = &play.said[0]
    else {
        panic!("{:?}", play.said);
    };
    assert_eq!(
        (protocols.as_slice(), machine.as_str()),
        (&[1][..], "a machine")
    );
}

#[test]
fn hello_says_the_operating_system_that_was_read_last() {
    let mut play = Play::new();
    play.step();
    play.connect();
    let told = |play: &Play| match play.said.last() {
        Some(FromClient::Hello { os, .. }) => os.as_ref().map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&play), None);

    let mut play = Play::new();
    play.client
        .set_operating_system(parse_os_release("ID=debian\nVERSION_ID=12"));
    play.step();
    play.connect();
    assert_eq!(told(&play).as_deref(), Some("debian 12"));
}

#[test]
fn welcome_gives_addresses_and_routes_for_resources_and_names() {
    let play = Play::open(&[(1, "10.0.0.0/8"), (2, "fd00:9::1"), (3, "*.corp.example")]);
    assert_eq!(play.interfaces.len(), 1);
    let expected = [
        "10.0.0.0/8",
        "fd00:9::1/128",
        "100.96.0.0/11",
        "fd00:2021:1111:8000::/107",
    ];
    assert_eq!(play.routes, expected.map(prefix).into());
    assert!(play.peers.is_empty(), "nothing is granted yet");
}

#[test]
fn waits_grow_and_fall_back_only_after_welcome() {
    let mut play = Play::new();
    play.step();
    let mut longest_ms = 0;
    for _ in 0..8 {
        play.disconnect();
        let wait_ms = play.next_timeout_ms().unwrap() - play.now_ms;
        assert!((1_000..=31_000).contains(&wait_ms), "{wait_ms}");
        longest_ms = longest_ms.max(wait_ms);
        play.step();
        // A connection alone resets nothing.
        play.connect();
    }
    assert!(longest_ms > 5_000);
    play.welcome(Vec::new(), Vec::new());
    play.disconnect();
    assert!(play.next_timeout_ms().unwrap() - play.now_ms <= 2_000);
}

#[test]
fn a_portal_that_does_not_answer_hello_is_given_up() {
    let mut play = Play::new();
    play.step();
    play.connect();
    play.pass(HELLO_LIMIT_MS - 1);
    assert_eq!(play.disconnects, 0);
    play.pass(1);
    assert_eq!(play.disconnects, 1);
    assert!(play.client.poll_timeout().is_some());
}

#[test]
fn a_gap_in_the_numbers_ends_the_session() {
    let mut play = Play::open(&[]);
    play.hear_text(r#"{"type":"resource_removed","resource":"res_00000000000000000000000000","epoch":1,"seq":3}"#);
    assert_eq!(play.disconnects, 1);
    assert!(!play.client.is_connected());
}

#[test]
fn what_is_no_message_ends_the_session() {
    for text in ["", "{}", "[1]", r#"{"type":"welcome","epoch":1,"seq":2}"#] {
        let mut play = Play::open(&[]);
        play.hear_text(text);
        assert_eq!(play.disconnects, 1, "{text}");
    }
}

#[test]
fn an_unknown_kind_is_answered_and_the_session_goes_on() {
    let mut play = Play::open(&[]);
    play.hear_text(r#"{"type":"tomorrow","what":7,"epoch":1,"seq":2}"#);
    let kind = "tomorrow".to_owned();
    assert_eq!(play.said, [FromClient::Unsupported { kind }]);
    assert!(play.client.is_connected());
    play.said.clear();
    // It counted: the next number is 3.
    play.hear_text(r#"{"type":"resource_removed","resource":"res_00000000000000000000000000","epoch":1,"seq":3}"#);
    assert!(play.client.is_connected());
}

#[test]
fn whatever_comes_before_welcome_ends_the_session() {
    let mut play = Play::new();
    play.step();
    play.connect();
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/8"),
    });
    assert_eq!(play.disconnects, 1);
}

#[test]
fn a_refusal_with_a_time_is_obeyed() {
    let mut play = Play::new();
    play.step();
    play.connect();
    play.hear(ToClient::Refused {
        reason: reason(ReasonCode::TryLater),
        retry_after_s: Some(45),
    });
    assert_eq!((play.disconnects, play.ended.clone()), (1, None));
    // Somebody who waits changes nothing about it.
    play.packet(1, to("10.0.0.1", 80));
    assert!(play.next_timeout_ms().unwrap() >= play.now_ms + 45_000);
}

#[test]
fn a_bad_token_ends_the_client_and_what_was_granted() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.hear(ToClient::Refused {
        reason: reason(ReasonCode::BadToken),
        retry_after_s: None,
    });
    assert!(matches!(play.ended, Some(Ending::NotEnrolled(_))));
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.client.take_unkept().is_some());
    assert_eq!(play.client.poll_timeout(), None);
}

#[test]
fn a_revoked_client_is_told_from_a_bad_token() {
    let mut play = Play::open(&[]);
    play.hear(ToClient::Refused {
        reason: reason(ReasonCode::Revoked),
        retry_after_s: None,
    });
    assert!(matches!(play.ended, Some(Ending::Denied(_))));
}

#[test]
fn a_client_whose_owner_is_disabled_keeps_its_identity_loses_access_and_comes_back() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    // Its destinations are stored.
    play.step();
    let refused = || ToClient::Refused {
        reason: reason(ReasonCode::OwnerDisabled),
        retry_after_s: Some(5),
    };
    play.hear(refused());
    assert_eq!((play.disconnects, play.ended.clone()), (1, None));
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.peers.is_empty());
    // Nobody waits for what may take days, and nobody hurries.
    play.packet(1, to("10.0.0.1", 80));
    assert_eq!(play.refused, [(1, PacketRefusal::Prohibited)]);
    let interfaces = play.interfaces.len();
    for _ in 0..50 {
        let due_ms = play.next_timeout_ms().unwrap();
        assert!((5_000..=20_000).contains(&(due_ms - play.now_ms)));
        play.step();
        play.connect();
        play.hear(refused());
        assert_eq!(play.ended, None);
    }
    play.step();
    play.connect();
    play.welcome(vec![resource(1, "10.0.0.0/8")], Vec::new());
    assert_eq!(play.interfaces.len(), interfaces, "its address is the same");
    // One `hello` for each attempt.
    play.said.clear();
    play.gain("10.0.0.1", 1, Granting::through(1, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn a_client_says_once_that_its_owner_is_disabled() {
    let mut play = Play::open(&[]);
    for _ in 0..3 {
        play.hear(ToClient::Refused {
            reason: reason(ReasonCode::OwnerDisabled),
            retry_after_s: None,
        });
        play.step();
        play.connect();
    }
    let lines = std::iter::from_fn(|| play.client.poll_log());
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    let said = lines.iter().filter(|line| line.contains("owner"));
    assert_eq!(said.count(), 1, "{lines:?}");
}

#[test]
fn grants_go_on_without_a_portal_until_they_expire() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.disconnect();
    play.pass(HOUR_MS - 1_000);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.pass(1_000);
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.peers.is_empty());
}

#[test]
fn a_grant_that_welcome_does_not_name_has_ended() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.gain("172.16.0.1", 2, Granting::through(1, 2));
    let resources = vec![resource(1, "10.0.0.0/8"), resource(2, "172.16.0.0/12")];
    play.reconnect(resources, vec![grant_id(2)]);
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert_eq!(play.way_to("172.16.0.1"), Some(gateway_id(1)));
    // It was in use a moment ago, so that it is asked for again.
    let asked = play.said.iter().any(|message| {
        matches!(message, FromClient::RequestAccess { resource, .. } if *resource == super::play::resource_id(1))
    });
    assert!(asked, "{:?}", play.said);
}

#[test]
fn a_resource_that_welcome_does_not_name_is_gone() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.reconnect(vec![resource(2, "172.16.0.0/12")], Vec::new());
    assert_eq!(play.way_to("10.0.0.1"), None);
    // Its packets are refused in the tunnel.
    assert!(play.routes.contains(&prefix("10.0.0.0/8")));
    assert!(play.client.view(play.now(), play.unix()).resources.len() == 1);
}

#[test]
fn a_resource_whose_grant_stands_may_follow_after_welcome() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.reconnect(vec![resource(2, "172.16.0.0/12")], vec![grant_id(1)]);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    assert!(play.routes.contains(&prefix("10.0.0.0/8")));
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/9"),
    });
    assert_eq!(play.way_to("10.0.0.1"), None, "it points elsewhere now");
}

#[test]
fn somebody_who_waits_makes_the_client_try_within_two_seconds() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    for _ in 0..8 {
        play.disconnect();
        play.step();
    }
    play.disconnect();
    play.packet(7, to("10.0.0.1", 80));
    assert!(play.next_timeout_ms().unwrap() <= play.now_ms + 2_000);
    assert!(play.refused.is_empty(), "it waits");
    let began_ms = play.now_ms;
    while play.refused.is_empty() {
        play.step();
        play.disconnect();
    }
    assert_eq!(play.refused, [(7, PacketRefusal::Unreachable)]);
    assert!(play.now_ms - began_ms <= 5_000);
}

#[test]
fn what_was_asked_in_a_lost_session_is_asked_in_the_next() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (first, ..) = play.take_request();
    play.reconnect(vec![resource(1, "10.0.0.0/8")], Vec::new());
    play.said
        .retain(|message| !matches!(message, FromClient::Hello { .. }));
    let (second, ..) = play.take_request();
    assert!(second > first, "a number is used once");
    play.grant(second, 1, Granting::through(1, 1));
    assert_eq!(play.resumed, [1]);
}
