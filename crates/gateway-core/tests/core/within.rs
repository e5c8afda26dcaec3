//! Names lead only where their resource allows.

use crate::persisted::restart;
use crate::play::{Play, found, grant_id, name_claims, wanted};
use culvert_gateway_core::Resolution;
use culvert_policy::Within;
use culvert_policy::gate::DropReason;
use culvert_wire::messages::{Existence, FromGateway, GatewayFeature, ReasonCode, ResolvedName};
use culvert_wire::model::{Target, TargetKind};
use culvert_wire::{GrantClaims, GrantTarget};

const PATTERN: &str = "*.corp.example";
const DB: &str = "db.corp.example";
const WIKI: &str = "wiki.corp.example";

fn within(grant: u8, client: u8, resource: u8, ranges: &[&str]) -> GrantClaims {
    GrantClaims {
        target: GrantTarget::NamesWithin {
            names: PATTERN.to_owned(),
            within: ranges.iter().map(ToString::to_string).collect(),
        },
        ..name_claims(grant, client, resource, PATTERN)
    }
}

fn families(name: &str, ipv4: bool, ipv6: bool) -> ResolvedName {
    ResolvedName {
        name: name.to_owned(),
        ipv4,
        ipv6,
        existence: Existence::Exists,
    }
}

#[test]
fn hello_says_that_names_are_led_only_where_they_may() {
    let mut play = Play::begin();
    play.connect();
    let Some(FromGateway::Hello { features, .. }) = play.said.first() else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&GatewayFeature::Within));
}

#[test]
fn a_name_that_leads_elsewhere_is_refused_with_its_address() {
    let mut play = Play::open();
    play.grant_with(&within(1, 5, 9, &["10.7.0.0/16"]), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.8.0.1"]));
    play.assert_refused(
        1,
        ReasonCode::NameOutside,
        "db.corp.example leads to 10.8.0.1",
    );
    play.assert_reaches_nothing();
    assert_eq!(play.gateway.counters().names_outside, 1);
}

#[test]
fn of_several_addresses_one_within_is_taken() {
    let mut play = Play::open();
    let claims = within(1, 5, 9, &["10.7.0.0/16", "fd77::/16"]);
    play.grant_with(&claims, None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.8.0.1", "10.7.0.2", "10.7.0.3", "fd78::1"]));
    let accepted = play.take_accepted();
    assert_eq!(accepted, [(grant_id(1), vec![families(DB, true, false)])]);
    let to = play.send(5, "100.96.0.1:80");
    assert_eq!(to, Ok("10.7.0.2:80".parse().unwrap()));
    let v6 = play.send(5, "[fd00:2021:1111:8000::1]:80");
    assert_eq!(v6, Err(DropReason::OutsideWithin));
}

#[test]
fn one_name_outside_does_not_cost_the_others() {
    let mut play = Play::open();
    let names = [wanted(DB, 1), wanted(WIKI, 2)];
    play.grant_with(&within(1, 5, 9, &["10.7.0.0/16"]), None, &names);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.resolved(WIKI, found(&["192.0.2.1"]));
    let accepted = play.take_accepted();
    let told = vec![families(DB, true, false), families(WIKI, false, false)];
    assert_eq!(accepted, [(grant_id(1), told)]);
    assert!(play.send(5, "100.96.0.1:80").is_ok());
    assert_eq!(
        play.send(5, "100.96.0.2:80"),
        Err(DropReason::OutsideWithin)
    );
    assert_eq!(play.gateway.counters().names_outside, 1);
}

#[test]
fn a_name_that_comes_to_lead_elsewhere_leads_nowhere_from_then_on() {
    let mut play = Play::open();
    play.grant_with(&within(1, 5, 9, &["10.7.0.0/16"]), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_accepted(1);
    play.resolved(DB, found(&["10.9.0.1"]));
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Err(DropReason::OutsideWithin)
    );
    assert_eq!(play.gateway.counters().names_outside, 1);
    // The same answer again is no news, and the right one mends it.
    play.resolved(DB, found(&["10.9.0.1"]));
    assert_eq!(play.gateway.counters().names_outside, 1);
    play.resolved(DB, found(&["10.7.0.5"]));
    let to = play.send(5, "100.96.0.1:80");
    assert_eq!(to, Ok("10.7.0.5:80".parse().unwrap()));
    play.resolved(DB, Resolution::NotFound);
    assert_eq!(play.send(5, "100.96.0.1:80"), Err(DropReason::NoAddress));
}

#[test]
fn each_resource_with_a_name_has_its_own_ranges() {
    let mut play = Play::open();
    play.grant_with(&within(1, 5, 9, &["10.7.0.0/16"]), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.8.0.1", "10.7.0.1"]));
    play.assert_accepted(1);
    // It is known by now.
    play.grant_with(&within(2, 6, 8, &["10.8.0.0/16"]), None, &[wanted(DB, 1)]);
    play.assert_accepted(2);
    play.grant_with(&within(3, 7, 7, &["10.9.0.0/16"]), None, &[wanted(DB, 1)]);
    play.assert_refused(3, ReasonCode::NameOutside, DB);
    let [seven, eight] = ["10.7.0.1:80", "10.8.0.1:80"].map(|to| Ok(to.parse().unwrap()));
    assert_eq!(play.send(5, "100.96.0.1:80"), seven);
    assert_eq!(play.send(6, "100.96.0.1:80"), eight);
}

#[test]
fn ranges_outlive_a_restart() {
    let mut play = Play::open();
    play.grant_with(&within(1, 5, 9, &["10.7.0.0/16"]), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_accepted(1);
    play.pass(1_000);
    let mut play = restart(&play, 0);
    play.resolved(DB, found(&["10.8.0.1"]));
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Err(DropReason::OutsideWithin)
    );
}

#[test]
fn ranges_that_can_not_be_refuse_the_grant() {
    for ranges in [&[][..], &["10.7.0.1/16"], &["anywhere"], &["10.0.0.0/33"]] {
        let mut play = Play::open();
        play.grant_with(&within(1, 5, 9, ranges), None, &[wanted(DB, 1)]);
        play.assert_refused(1, ReasonCode::BadGrant, "the resource can't be");
        assert_eq!(play.asked, [], "{ranges:?}");
    }
}

/// A gateway that knows nothing of ranges reads a target as this type.
#[test]
fn a_gateway_without_ranges_does_not_take_such_a_grant_for_one_without() {
    let names = Target {
        kind: TargetKind::Dns,
        address: PATTERN.to_owned(),
    };
    let ranges = Within::new(["10.7.0.0/16".parse().unwrap()]).unwrap();
    let within = serde_json::to_value(GrantTarget::new(names.clone(), Some(&ranges))).unwrap();
    assert!(serde_json::from_value::<Target>(within).is_err());
    let plain = serde_json::to_value(GrantTarget::new(names.clone(), None)).unwrap();
    let target: Target = serde_json::from_value(plain).unwrap();
    assert_eq!(target, names);
}
