//! Rules about applications: nothing goes to a resource with one before the host sees to it.

use super::play::{Granting, Play, gateway_id, grant_id, prefix, resource, resource_id, to};
use culvert_client_core::PacketRefusal;
use culvert_policy::Applications;
use culvert_wire::messages::{FromClient, ToClient};
use culvert_wire::model::{self, Resource, ToldApplications};

fn only(name: &str) -> ToldApplications {
    ToldApplications::Known(model::Applications::Only(vec![name.to_owned()]))
}

fn ruled(number: u8, address: &str, name: &str) -> Resource {
    Resource {
        applications: only(name),
        ..resource(number, address)
    }
}

fn rule(name: &str) -> Applications {
    Applications::try_from(&only(name)).unwrap()
}

/// A client with these resources, whose host has not said anything yet.
fn open(resources: Vec<Resource>) -> Play {
    let mut play = Play::open(&[]);
    play.hear(ToClient::ResourceSet {
        resource: resource(99, "192.0.2.0/24"),
    });
    for resource in resources {
        play.hear(ToClient::ResourceSet { resource });
    }
    play
}

#[test]
fn nothing_leads_to_a_resource_and_nobody_asks_for_it_before_its_rule_is_in_force() {
    let mut play = open(vec![ruled(1, "10.0.0.0/8", "backup")]);
    let expected = [(prefix("10.0.0.0/8"), rule("backup"))];
    assert_eq!(play.guard.ranges, expected.into());
    assert!(!play.routes.contains(&prefix("10.0.0.0/8")));
    assert!(play.routes.contains(&prefix("192.0.2.0/24")), "another one");
    play.packet(1, to("10.0.0.1", 80));
    assert!(play.said.is_empty(), "{:?}", play.said);
    assert!(play.refused.is_empty(), "its sender sends it again");
    play.guarded();
    assert!(play.routes.contains(&prefix("10.0.0.0/8")));
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(1, 1));
    assert!(
        play.resumed.is_empty(),
        "nobody held its sender to the rule"
    );
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn a_resource_whose_rule_the_host_cannot_see_to_is_denied_and_others_are_not() {
    let mut play = open(vec![
        ruled(1, "10.0.0.0/8", "backup"),
        resource(2, "172.16.0.0/12"),
    ]);
    play.unguarded("nft is not there");
    play.packet(1, to("10.0.0.1", 80));
    assert_eq!(play.refused, [(1, PacketRefusal::Prohibited)]);
    assert!(play.said.is_empty(), "{:?}", play.said);
    let view = play.client.view(play.now(), play.unix());
    let of_it = view.resources.iter().find(|it| it.id == resource_id(1));
    let why = of_it.unwrap().why.as_ref().unwrap();
    assert!(why.text.contains("nft is not there"), "{why:?}");
    play.gain("172.16.0.1", 2, Granting::through(1, 1));
    assert_eq!(play.way_to("172.16.0.1"), Some(gateway_id(1)));

    play.guarded();
    play.gain("10.0.0.1", 1, Granting::through(1, 2));
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn a_granted_resource_has_no_way_while_its_rule_is_changed_or_lost() {
    let mut play = open(vec![ruled(1, "10.0.0.0/8", "backup")]);
    play.guarded();
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.hear(ToClient::ResourceSet {
        resource: ruled(1, "10.0.0.0/8", "sync"),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    play.packet(2, to("10.0.0.1", 80));
    assert!(play.refused.is_empty(), "a connection outlives the moment");
    play.guarded();
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.unguarded("another program has removed the rules");
    assert_eq!(play.way_to("10.0.0.1"), None);
    play.guarded();
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn a_granted_resource_that_gets_a_rule_has_no_way_until_it_is_in_force() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    assert!(play.guard.is_empty());
    play.hear(ToClient::ResourceSet {
        resource: ruled(1, "10.0.0.0/8", "backup"),
    });
    assert_eq!(play.way_to("10.0.0.1"), None);
    play.guarded();
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/8"),
    });
    assert!(play.guard.is_empty());
    assert_eq!(play.way_to("10.0.0.1"), Some(gateway_id(1)));
}

#[test]
fn answers_of_the_host_about_older_rules_open_nothing() {
    let mut play = open(vec![ruled(1, "10.0.0.0/8", "backup")]);
    let older = play.guard.clone();
    play.hear(ToClient::ResourceSet {
        resource: ruled(1, "10.0.0.0/8", "sync"),
    });
    play.client.handle_guard(older, Ok(()), play.now());
    play.poll();
    play.packet(1, to("10.0.0.1", 80));
    assert!(play.said.is_empty(), "{:?}", play.said);
    play.guarded();
    play.take_request();
}

#[test]
fn of_resources_with_one_target_a_program_must_satisfy_all_and_the_narrower_counts_alone() {
    let play = open(vec![
        ruled(1, "10.0.0.0/8", "backup"),
        ruled(2, "10.0.0.0/8", "sync"),
        resource(3, "10.1.0.0/16"),
        resource(4, "11.0.0.0/8"),
    ]);
    let nobody = Applications::only([].into()).unwrap();
    let expected = [
        (prefix("10.0.0.0/8"), nobody),
        (prefix("10.1.0.0/16"), Applications::ANY),
    ];
    assert_eq!(play.guard.ranges, expected.into());
}

#[test]
fn a_rule_that_cannot_be_read_lets_no_program_pass() {
    let mut play = Play::open(&[]);
    let mut later = serde_json::to_value(resource(1, "10.0.0.0/8")).unwrap();
    later["applications"] = serde_json::json!({"signed_by": ["Example Ltd"]});
    let later: Resource = serde_json::from_value(later).unwrap();
    play.hear(ToClient::ResourceSet { resource: later });
    let nobody = Applications::only([].into()).unwrap();
    assert_eq!(play.guard.ranges, [(prefix("10.0.0.0/8"), nobody)].into());
}

#[test]
fn a_name_is_asked_for_once_its_addresses_are_under_the_rule() {
    let mut play = open(vec![ruled(1, "*.corp.example", "backup")]);
    super::names::ask(&mut play, "db.corp.example", super::names::A);
    assert!(play.said.is_empty(), "{:?}", play.said);
    let ruled: Vec<_> = play.guard.names.values().collect();
    assert_eq!(ruled, [&rule("backup"), &rule("backup")], "of each family");
    let address = play.guard.names.keys().next().unwrap().to_string();
    play.guarded();
    let (request, _, names, _) = play.take_request();
    assert_eq!(names[0].ipv4.to_string(), address);
    let granting = super::names::granting(1, 1, &["db.corp.example"]);
    play.grant(request, 1, granting);
    assert_eq!(play.answers.len(), 1);
    assert_eq!(play.way_to(&address), Some(gateway_id(1)));

    // A second name waits alone.
    super::names::ask(&mut play, "web.corp.example", super::names::A);
    assert!(play.said.is_empty(), "{:?}", play.said);
    assert_eq!(play.way_to(&address), Some(gateway_id(1)));
    play.guarded();
    assert!(matches!(play.said[..], [FromClient::RequestAccess { .. }]));
}

#[test]
fn a_rule_that_goes_with_its_resource_takes_nothing_else_along() {
    let mut play = open(vec![
        ruled(1, "10.0.0.0/8", "backup"),
        ruled(2, "172.16.0.0/12", "sync"),
    ]);
    play.guarded();
    play.gain("172.16.0.1", 2, Granting::through(1, 1));
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(1),
    });
    play.guarded();
    assert_eq!(play.guard.ranges.len(), 1);
    assert_eq!(play.way_to("172.16.0.1"), Some(gateway_id(1)));
    assert!(play.said.iter().all(|message| {
        !matches!(message, FromClient::ReleaseAccess { grant } if *grant == grant_id(1))
    }));
}
