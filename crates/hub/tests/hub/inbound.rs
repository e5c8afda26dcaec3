//! Clients and gateways are told of a resource's rights at clients, and told again when they change.

use crate::world::{SITE, World, client, gateway, network, resource};
use culvert_store::Resource;
use culvert_wire::messages::{ToClient, ToGateway};
use culvert_wire::model::{Filter, TargetKind};

const OPENED: Filter = Filter::Icmp;

fn opening(inbound: Vec<Filter>) -> Resource {
    Resource {
        inbound,
        ..network(1, SITE, "10.0.1.0/24", vec![Filter::Any])
    }
}

/// A client with a grant of resource 1, which opens nothing.
fn granted() -> World {
    let mut world = World::connected();
    world.set(opening(Vec::new()));
    world.ask(1, 1);
    world.forget_messages();
    world
}

fn held(world: &World) -> Vec<Filter> {
    let held = world.gateways[&gateway(1)].held.values().next().unwrap();
    held.claims.inbound.to_vec()
}

fn told(world: &World) -> Vec<Filter> {
    world.clients[&client(1)].resources[&resource(1)]
        .inbound
        .to_vec()
}

#[test]
fn both_ends_are_told_at_once_and_nothing_is_cut() {
    let mut world = granted();
    assert_eq!((held(&world), told(&world)), (Vec::new(), Vec::new()));
    for inbound in [vec![OPENED], Vec::new()] {
        world.set(opening(inbound.clone()));
        assert!(matches!(
            &world.to_gateways[..],
            [(_, ToGateway::FiltersChanged { filters, .. })] if **filters == [Filter::Any]
        ));
        assert!(matches!(
            &world.to_clients[..],
            [(_, ToClient::ResourceSet { .. })]
        ));
        assert_eq!((held(&world), told(&world)), (inbound.clone(), inbound));
        assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
        world.forget_messages();
    }
    world.check();
}

#[test]
fn a_grant_says_what_it_opens() {
    let mut world = World::connected();
    world.set(opening(vec![OPENED]));
    world.ask(1, 1);
    assert_eq!(held(&world), [OPENED]);
    assert_eq!(told(&world), [OPENED]);
}

#[test]
fn a_resource_that_allows_nothing_is_granted_for_what_it_opens() {
    let mut world = World::connected();
    world.set(Resource {
        filters: Vec::new(),
        ..opening(vec![OPENED])
    });
    world.ask(1, 1);
    assert_eq!((world.holds(1), held(&world)), (1, vec![OPENED]));
}

#[test]
fn a_gateway_that_was_away_hears_of_it_when_it_is_back() {
    let mut world = World::connected();
    world.set(opening(vec![OPENED]));
    world.ask(1, 1);
    world.interrupt_gateway(1);
    world.set(opening(Vec::new()));
    world.join_gateway(1);
    assert_eq!(held(&world), Vec::new());
}

#[test]
fn names_open_nothing_whatever_their_row_says() {
    let mut world = World::connected();
    let mut row = opening(vec![OPENED]);
    row.target.kind = TargetKind::Dns;
    row.target.address = "*.corp.example".to_owned();
    world.set(row);
    let parsed =
        culvert_policy::Resource::try_from(&world.clients[&client(1)].resources[&resource(1)]);
    assert!(parsed.unwrap().inbound.is_empty());
}
