//! From a request to a grant, and to its end.

use super::play::{
    Granting, HOUR_MS, Play, gateway_id, grant_id, key, prefix, reason, resource, resource_id, to,
};
use culvert_base::{BootTime, UnixTime};
use culvert_client_core::{
    ANSWER_LIMIT_MS, MAX_DENIAL_MS, MAX_IN_FLIGHT, MIN_DENIAL_MS, PacketRefusal,
};
use culvert_wire::messages::{FromClient, ReasonCode, ToClient};
use culvert_wire::model::{Filter, PortRange, ToldTarget};

#[test]
fn the_first_packet_asks_and_goes_on_with_the_grant() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, asked, names, avoid) = play.take_request();
    assert_eq!(asked, resource_id(1));
    assert!(names.is_empty() && avoid.is_empty());
    assert_eq!(play.way_to("10.0.0.1"), None);
    play.grant(request, 1, Granting::through(1, 1));
    assert_eq!(play.resumed, [1]);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    assert_eq!(play.begun, [key(1)], "the handshake begins at once");
}

#[test]
fn packets_of_one_resource_make_one_request_and_go_on_in_order() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    for number in 1..=5 {
        play.packet(number, to("10.0.0.1", 80));
    }
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(1, 1));
    assert_eq!(play.resumed, [1, 2, 3, 4, 5]);
}

#[test]
fn a_denied_packet_is_refused_at_once_and_so_are_those_that_follow() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, ..) = play.take_request();
    play.deny(request, 1, ReasonCode::ConditionNotMet);
    assert_eq!(play.refused, [(1, PacketRefusal::Prohibited)]);
    play.packet(2, to("10.0.0.2", 80));
    assert_eq!(play.refused[1], (2, PacketRefusal::Prohibited));
    assert!(
        play.said.is_empty(),
        "the portal is not asked again so soon"
    );
    play.pass(MIN_DENIAL_MS);
    play.packet(3, to("10.0.0.2", 80));
    play.take_request();
}

#[test]
fn a_no_is_kept_for_ten_seconds_at_most() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    for number in 0..10 {
        play.packet(number, to("10.0.0.1", 80));
        let (request, ..) = play.take_request();
        play.deny(request, 1, ReasonCode::NoAccess);
        play.pass(MAX_DENIAL_MS);
    }
}

#[test]
fn without_a_gateway_the_sender_hears_unreachable() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, ..) = play.take_request();
    play.deny(request, 1, ReasonCode::NoGateway);
    assert_eq!(play.refused, [(1, PacketRefusal::Unreachable)]);
}

#[test]
fn a_change_of_the_resource_makes_it_worth_asking_again() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, ..) = play.take_request();
    play.deny(request, 1, ReasonCode::NoAccess);
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/8"),
    });
    play.packet(2, to("10.0.0.1", 80));
    play.take_request();
}

#[test]
fn a_request_without_an_answer_is_given_up() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, ..) = play.take_request();
    play.pass(ANSWER_LIMIT_MS);
    assert_eq!(play.refused, [(1, PacketRefusal::Unreachable)]);
    // The answer comes after all: nobody wants the grant any more.
    play.grant(request, 1, Granting::through(1, 1));
    let grant = grant_id(1);
    assert_eq!(play.said, [FromClient::ReleaseAccess { grant }]);
    assert!(play.peers.is_empty());
}

#[test]
fn a_late_answer_does_not_release_the_grant_that_answers_the_next_request_too() {
    for late_first in [true, false] {
        let mut play = Play::open(&[(1, "10.0.0.0/8")]);
        play.packet(1, to("10.0.0.1", 80));
        let (first, ..) = play.take_request();
        play.pass(ANSWER_LIMIT_MS);
        play.pass(ANSWER_LIMIT_MS);
        play.packet(2, to("10.0.0.1", 80));
        let (second, ..) = play.take_request();
        // The portal was late with both, and one grant is the answer to both.
        for request in if late_first {
            [first, second]
        } else {
            [second, first]
        } {
            play.grant(request, 1, Granting::through(1, 1));
        }
        assert_eq!(play.said, []);
        assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    }
}

#[test]
fn a_grant_nobody_asked_for_is_released() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.grant(77, 1, Granting::through(1, 1));
    let grant = grant_id(1);
    assert_eq!(play.said, [FromClient::ReleaseAccess { grant }]);
    assert_eq!(play.way_to("10.0.0.1"), None);
}

#[test]
fn an_answer_for_another_resource_than_was_asked_for_grants_nothing() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12")]);
    play.packet(1, to("10.0.0.1", 80));
    let (request, ..) = play.take_request();
    play.grant(request, 2, Granting::through(1, 1));
    assert_eq!(play.way_to("172.16.0.1"), None);
    assert_eq!(play.way_to("10.0.0.1"), None);
}

#[test]
fn a_grant_in_use_is_renewed_after_two_thirds_of_its_life_without_a_gap() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 0);
    play.pass(HOUR_MS / 3 * 2 - 60_000);
    play.report_alive(1, 1_000);
    assert!(play.said.is_empty());
    let began_ms = play.now_ms;
    play.until_said();
    assert!((60_000..=60_000 + HOUR_MS / 12).contains(&(play.now_ms - began_ms)));
    let (request, ..) = play.take_request();
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    let peers = play.peers.clone();
    play.grant(request, 1, Granting::through(1, 2));
    assert_eq!(play.peers, peers, "nothing changes for the data plane");
    // The first grant's end does not matter any more.
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::Expired),
    });
    play.pass(HOUR_MS / 3);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn a_grant_out_of_use_is_not_renewed() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 0);
    play.pass(HOUR_MS - 1);
    assert!(play.said.is_empty(), "{:?}", play.said);
    play.pass(1);
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.peers.is_empty());
    // It was never used after the packet that asked for it.
    let grant = grant_id(1);
    assert_eq!(play.said, [FromClient::ReleaseAccess { grant }]);
}

#[test]
fn a_renewal_that_is_denied_leaves_the_grant_until_it_ends() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.pass(HOUR_MS / 3 * 2 - 1);
    play.report_alive(1, 1_000);
    play.until_said();
    let (request, ..) = play.take_request();
    play.deny(request, 1, ReasonCode::ConditionNotMet);
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.pass(HOUR_MS / 3);
    assert_eq!(play.way_to("10.0.0.1"), None);
}

#[test]
fn a_grant_is_believed_no_longer_than_the_lifetime_of_grants() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let mut granting = Granting::through(1, 1);
    granting.life_ms = 1_000 * HOUR_MS;
    play.gain("10.0.0.1", 1, granting);
    play.pass(HOUR_MS);
    assert_eq!(play.way_to("10.0.0.1"), None);
}

#[test]
fn a_grant_that_came_too_late_grants_nothing() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let mut granting = Granting::through(1, 1);
    granting.life_ms = 0;
    play.gain("10.0.0.1", 1, granting);
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert_eq!(play.refused, [(1, PacketRefusal::Unreachable)]);
}

#[test]
fn a_revoked_grant_has_no_route_at_once_and_the_sender_hears_why() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    play.packet(2, to("10.0.0.1", 80));
    assert_eq!(play.refused, [(2, PacketRefusal::Prohibited)]);
    let view = play.client.view(play.now(), play.unix());
    let why = view.resources[0].why.clone().unwrap();
    assert_eq!(why.code, "policy_changed");
}

#[test]
fn a_removed_resource_takes_its_grant_along() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "10.0.0.0/16")]);
    play.gain("10.0.0.1", 2, Granting::through(1, 1));
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(2),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    // The wider one is meant from here on.
    play.packet(2, to("10.0.0.1", 80));
    assert_eq!(play.take_request().1, resource_id(1));
}

#[test]
fn a_resource_that_points_elsewhere_loses_its_grant() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/9"),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.routes.contains(&prefix("10.0.0.0/9")));
}

#[test]
fn a_resource_that_cannot_be_read_gives_no_access() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.1/8"),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(play.routes.contains(&prefix("10.0.0.0/8")));
    play.packet(2, to("10.0.0.1", 80));
    assert_eq!(play.refused, [(2, PacketRefusal::Prohibited)]);
    assert_eq!(
        play.client
            .view(BootTime::ZERO, UnixTime::EPOCH)
            .unreadable
            .len(),
        1
    );
}

#[test]
fn a_resource_of_a_kind_that_is_not_known_gives_no_access_and_is_told() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "10.1.0.0/16")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    let kind = "app\u{1b}".to_owned();
    let mut later = resource(1, "10.0.0.0/8");
    later.target = ToldTarget::Unknown { kind };
    play.hear(ToClient::ResourceSet {
        resource: later.clone(),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    assert!(
        play.routes.contains(&prefix("10.1.0.0/16")),
        "the others stay"
    );
    let unreadable = |play: &Play| play.client.view(BootTime::ZERO, UnixTime::EPOCH).unreadable;
    let told = unreadable(&play).remove(0);
    assert_eq!(told.name.as_deref(), Some("resource 1"));
    assert!(
        told.why.contains("`app` need a newer version"),
        "{}",
        told.why
    );
    play.reconnect(vec![later, resource(2, "10.1.0.0/16")], Vec::new());
    assert!(play.client.is_connected(), "it does not end the session");
    assert_eq!(unreadable(&play), [told]);
    assert_eq!(
        play.client
            .view(BootTime::ZERO, UnixTime::EPOCH)
            .resources
            .len(),
        1
    );
}

#[test]
fn filters_that_are_not_known_are_told_and_leave_the_others() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let text =
        r#"[{"protocol":"sctp"},{"protocol":"tcp","ports":[80]},{"protocol":"udp","ports":[80]}]"#;
    let mut later = resource(1, "10.0.0.0/8");
    later.filters = serde_json::from_str(text).unwrap();
    play.hear(ToClient::ResourceSet { resource: later });
    assert!(play.client.is_connected());
    let unknown = |play: &Play| {
        play.client.view(BootTime::ZERO, UnixTime::EPOCH).resources[0].unknown_filters
    };
    assert_eq!(unknown(&play), 1);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/8"),
    });
    assert_eq!(unknown(&play), 0);
}

#[test]
fn the_more_specific_resource_is_asked_for_and_cut_out_of_the_wider_one() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "10.1.0.0/16")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    assert_eq!(play.way_to("10.2.0.1"), Some(gateway_id(1)));
    assert_eq!(play.way_to("10.1.0.1"), None, "it belongs to the other");
    play.gain("10.1.0.1", 2, Granting::through(2, 2));
    assert_eq!(play.way_to("10.1.0.1"), Some(gateway_id(2)));
    assert_eq!(play.way_to("10.2.0.1"), Some(gateway_id(1)));
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(2),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert_eq!(
        play.way_to("10.1.0.1"),
        None,
        "the wider one does not step in"
    );
}

#[test]
fn the_tunnels_own_ranges_are_no_resource() {
    let mut play = Play::open(&[(1, "0.0.0.0/0"), (2, "100.64.0.7")]);
    play.gain("192.0.2.1", 1, Granting::through(1, 1));
    assert_eq!(play.way_to("198.51.100.1"), Some(gateway_id(1)));
    assert_eq!(play.way_to("100.64.0.7"), None);
    assert_eq!(play.way_to("100.96.0.7"), None);
    assert!(!play.routes.contains(&prefix("100.64.0.7/32")));
}

#[test]
fn resources_with_one_target_are_asked_for_together() {
    let web = |number, port| {
        let mut one = resource(number, "10.0.0.1");
        let ports = vec![PortRange {
            first: port,
            last: port,
        }];
        one.filters = vec![Filter::Tcp { ports }].into();
        one
    };
    let mut play = Play::open(&[]);
    for resource in [web(1, 80), web(2, 443)] {
        play.hear(ToClient::ResourceSet { resource });
    }
    play.packet(1, to("10.0.0.1", 443));
    let said = std::mem::take(&mut play.said);
    assert_eq!(said.len(), 2, "{said:?}");
    let request_of = |wanted| {
        let found = said.iter().find_map(|message| match message {
            FromClient::RequestAccess {
                request, resource, ..
            } if *resource == resource_id(wanted) => Some(*request),
            _ => None,
        });
        found.unwrap()
    };
    play.grant(request_of(1), 1, Granting::through(1, 1));
    assert!(play.resumed.is_empty(), "the packet is for the other");
    play.grant(request_of(2), 2, Granting::through(1, 2));
    assert_eq!(play.resumed, [1]);
}

#[test]
fn what_no_filter_allows_is_refused_without_asking() {
    let mut play = Play::open(&[]);
    let mut only_icmp = resource(1, "10.0.0.1");
    only_icmp.filters = vec![Filter::Icmp].into();
    play.hear(ToClient::ResourceSet {
        resource: only_icmp,
    });
    let mut nothing = resource(2, "10.0.0.2");
    nothing.filters = Vec::new().into();
    play.hear(ToClient::ResourceSet { resource: nothing });
    play.packet(1, to("10.0.0.1", 80));
    play.packet(2, to("10.0.0.2", 80));
    assert_eq!(
        play.refused,
        [
            (1, PacketRefusal::Prohibited),
            (2, PacketRefusal::Prohibited)
        ]
    );
    assert!(play.said.is_empty());
}

#[test]
fn requests_on_their_way_are_bounded_and_the_others_follow() {
    let mut play = Play::open(&[]);
    let count = u8::try_from(MAX_IN_FLIGHT).unwrap() + 10;
    for number in 1..=count {
        let address = format!("10.0.0.{number}");
        play.hear(ToClient::ResourceSet {
            resource: resource(number, &address),
        });
        play.packet(number.into(), to(&address, 80));
    }
    assert_eq!(play.said.len(), MAX_IN_FLIGHT);
    play.grant(1, 1, Granting::through(1, 1));
    assert_eq!(play.said.len(), MAX_IN_FLIGHT + 1);
}

#[test]
fn the_clients_own_key_is_no_gateways() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let mut granting = Granting::through(1, 1);
    granting.key = 200;
    play.gain("10.0.0.1", 1, granting);
    assert!(play.peers.is_empty());
}

#[test]
fn what_shares_the_range_of_a_grant_in_use_is_asked_for_when_it_comes_and_after_each_no() {
    let mut play = Play::open(&[(1, "10.1.1.1")]);
    play.gain("10.1.1.1", 1, Granting::through(1, 1));
    play.report_alive(1, 100);
    assert!(play.said.is_empty(), "there is no other");
    // No packet will ask for it: all go where the range leads.
    play.hear(ToClient::ResourceSet {
        resource: resource(2, "10.1.1.1"),
    });
    play.report_alive(1, 200);
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(2));
    play.deny(request, 2, ReasonCode::ConditionNotMet);
    play.pass(MAX_DENIAL_MS);
    play.report_alive(1, 300);
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(2));
    play.grant(request, 2, Granting::through(1, 2));
    play.pass(MAX_DENIAL_MS);
    play.report_alive(1, 400);
    assert!(play.said.is_empty(), "all of them are granted");
}

#[test]
fn what_shares_the_range_of_a_grant_that_nobody_uses_is_not_asked_for() {
    let mut play = Play::open(&[(1, "10.1.1.1"), (2, "10.1.1.1")]);
    play.packet(1, to("10.1.1.1", 80));
    let mut asked = Vec::new();
    for said in std::mem::take(&mut play.said) {
        if let FromClient::RequestAccess {
            request, resource, ..
        } = said
        {
            asked.push((request, resource));
        }
    }
    let [(first, _), (second, _)] = asked[..] else {
        panic!("{asked:?}");
    };
    play.grant(first, 1, Granting::through(1, 1));
    play.deny(second, 2, ReasonCode::NoAccess);
    play.report_alive(1, 100);
    play.pass(2 * MAX_DENIAL_MS);
    play.report_alive(1, 100);
    assert!(play.said.is_empty());
}
