//! Names lead only into the networks that their resource allows: the gateway sees to it, and is told.

use crate::requests::wanted;
use crate::world::{Manner, SITE, World, client, gateway, network, resource};
use culvert_store::Resource;
use culvert_wire::GrantTarget;
use culvert_wire::messages::{FromGateway, GatewayFeature, Reason, ReasonCode};
use culvert_wire::model::{Filter, TargetKind};

const PATTERN: &str = "*.corp.example";
const DB: &str = "db.corp.example";

fn names_within(ranges: Option<&[&str]>) -> Resource {
    let mut row = network(2, SITE, PATTERN, vec![Filter::Any]);
    row.target.kind = TargetKind::Dns;
    row.within = ranges.map(|ranges| ranges.iter().map(ToString::to_string).collect());
    row
}

/// A client and a gateway, which leads names only where they may if `keeps` says so; the client may use
/// resource 2.
fn connected(keeps: bool) -> World {
    let mut world = World::simple();
    if keeps {
        let features = &mut world.gateways.get_mut(&gateway(1)).unwrap().features;
        features.push(GatewayFeature::Within);
    }
    world.join_gateway(1);
    world.join_client(1);
    world.set_policy(2, 1, 2, Vec::new());
    world
}

fn target(world: &World, number: u16) -> Option<GrantTarget> {
    let held = world.gateways[&gateway(number)].held.values().next();
    held.map(|held| held.claims.target.clone())
}

fn ask(world: &mut World) {
    world.ask_for(1, 2, vec![wanted(DB, 1)], Vec::new());
}

#[test]
fn the_grant_says_where_names_may_lead() {
    let mut world = connected(true);
    world.set(names_within(Some(&["10.7.0.0/16", "fd77::/16"])));
    ask(&mut world);
    let within = GrantTarget::NamesWithin {
        names: PATTERN.to_owned(),
        within: vec!["10.7.0.0/16".to_owned(), "fd77::/16".to_owned()],
    };
    assert_eq!(target(&world, 1), Some(within));
}

#[test]
fn a_gateway_that_would_lead_them_anywhere_is_given_none() {
    let mut world = connected(false);
    world.set(names_within(Some(&["10.7.0.0/16"])));
    ask(&mut world);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    let (_, entry) = (world.log.len(), world.log.last().unwrap());
    assert!(entry.reason.contains("update them"), "{entry:?}");
    let explained = world.hub.explain(client(1), resource(2), world.now);
    let why = explained.unwrap().gateway.unwrap_err();
    assert!(why.contains("update them"), "{why}");
    // Another one of the site that does is taken.
    world.set_gateway(2, SITE);
    let features = &mut world.gateways.get_mut(&gateway(2)).unwrap().features;
    features.push(GatewayFeature::Within);
    world.join_gateway(2);
    ask(&mut world);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
}

#[test]
fn a_resource_that_gets_networks_ends_what_was_granted_without_and_renews_nothing_there() {
    let mut world = connected(false);
    world.set(names_within(None));
    ask(&mut world);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.set(names_within(Some(&["10.7.0.0/16"])));
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.revocations(), [ReasonCode::PolicyChanged]);
    ask(&mut world);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn other_networks_end_what_was_granted_with_those_before() {
    let mut world = connected(true);
    world.set(names_within(Some(&["10.7.0.0/16"])));
    ask(&mut world);
    world.set(names_within(Some(&["10.8.0.0/16"])));
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    // The same ones in another row version end nothing.
    ask(&mut world);
    world.set(names_within(Some(&["10.8.0.0/16"])));
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
}

#[test]
fn networks_that_can_not_be_read_let_nobody_pass() {
    let mut world = connected(true);
    for ranges in [&["10.7.0.0"][..], &[]] {
        world.set(names_within(Some(ranges)));
        ask(&mut world);
        assert_eq!(world.holds(1), 0, "{ranges:?}");
        assert_eq!(world.hub.status().faults, 1);
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_told_to_who_asks_why_and_asked_of_no_other_gateway() {
    let mut world = connected(true);
    world.set(names_within(Some(&["10.7.0.0/16"])));
    world.set_gateway(2, SITE);
    world.manner(2, Manner::Silent);
    let features = &mut world.gateways.get_mut(&gateway(2)).unwrap().features;
    features.push(GatewayFeature::Within);
    world.join_gateway(2);
    world.manner(1, Manner::Silent);
    ask(&mut world);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let reason = Reason {
        code: ReasonCode::NameOutside,
        text: "db.corp.example leads to 10.8.0.1, outside".to_owned(),
    };
    world.gateway_says(1, FromGateway::GrantRefused { grant, reason });
    assert_eq!(world.denials(), [ReasonCode::NameNotFound]);
    assert_eq!(world.holds(2), 0);
    let entry = world.log.last().unwrap();
    assert!(entry.reason.contains("10.8.0.1"), "{entry:?}");
    let explained = world.hub.explain(client(1), resource(2), world.now);
    let explained = explained.unwrap();
    assert_eq!(explained.within.unwrap(), ["10.7.0.0/16"]);
    let (at, text) = explained.outside.unwrap();
    assert_eq!((at, text.contains("10.8.0.1")), (world.now, true));
}
