//! Gateways that are expected back: after a start of the portal, and after the end of the one that brought them.

use crate::world::{Manner, SITE, World, gateway, policy};
use culvert_hub::limits;
use culvert_wire::messages::{ReasonCode, ToClient};

/// A client that has access to one of two resources.
fn granted() -> World {
    let mut world = World::connected();
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.ask(1, 1);
    world.forget_messages();
    world
}

fn is_lost(world: &World) -> bool {
    let mut messages = world.to_clients.iter();
    messages.any(|(_, message)| matches!(message, ToClient::GatewayLost { .. }))
}

#[test]
fn after_a_restart_a_request_waits_for_the_gateway_that_had_grants() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    world.ask(1, 2);
    world.pass(limits::REQUEST_WAIT_MS - 1);
    assert_eq!(world.denials(), []);
    world.join_gateway(1);
    assert_eq!((world.holds(1), world.grants_of(1)), (2, 2));
    world.check();
}

#[test]
fn it_does_not_wait_for_long() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    world.ask(1, 2);
    world.pass(limits::REQUEST_WAIT_MS);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    // Nor does the next one.
    world.forget_messages();
    world.ask(1, 2);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    assert_eq!(world.grants_of(1), 1);
}

#[test]
fn a_request_that_waits_ends_with_its_client() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    world.ask(1, 2);
    world.leave_client(1);
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    world.join_client(1);
    world.ask(1, 2);
    assert_eq!((world.holds(1), world.grants_of(1)), (2, 2));
}

#[test]
fn a_request_that_is_no_longer_allowed_is_denied_when_the_gateway_is_back() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    world.ask(1, 2);
    world.remove(policy(2));
    world.join_gateway(1);
    assert_eq!(world.denials().len(), 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_gateway_whose_portal_is_gone_keeps_its_grants_and_its_clients_hear_nothing() {
    let mut world = granted();
    world.interrupt_gateway(1);
    assert!(!is_lost(&world));
    assert_eq!(world.grants_of(1), 1);
    // A request meanwhile waits.
    world.ask(1, 2);
    assert_eq!(world.denials(), []);
    world.join_gateway(1);
    assert!(!is_lost(&world));
    assert_eq!((world.holds(1), world.grants_of(1)), (2, 2));
    world.pass(2 * limits::GATEWAY_RETURN_MS);
    assert!(!is_lost(&world));
    world.check();
}

#[test]
fn a_gateway_whose_portal_is_gone_and_that_does_not_come_back_is_lost() {
    let mut world = granted();
    world.interrupt_gateway(1);
    world.pass(limits::GATEWAY_RETURN_MS - 1);
    assert!(!is_lost(&world));
    world.pass(1);
    assert!(is_lost(&world));
    assert_eq!(world.grants_of(1), 0);
    assert!(world.gateways[&gateway(1)].session.is_none());
}

#[test]
fn an_offer_that_a_gateway_had_not_answered_goes_to_it_again() {
    let mut world = granted();
    world.manner(1, Manner::Silent);
    world.ask(1, 2);
    world.interrupt_gateway(1);
    world.manner(1, Manner::Accept);
    world.join_gateway(1);
    assert_eq!(world.denials(), []);
    assert_eq!((world.holds(1), world.grants_of(1)), (2, 2));
    world.check();
}

#[test]
fn while_another_gateway_of_the_site_is_there_no_request_waits() {
    let mut world = granted();
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.interrupt_gateway(1);
    world.ask(1, 2);
    assert_eq!((world.holds(2), world.grants_of(1)), (1, 2));
}

#[test]
fn a_gateway_whose_connection_breaks_off_again_and_again_keeps_its_grants() {
    let mut world = granted();
    for _ in 0..3 {
        world.break_off_gateway(1);
        world.pass(limits::GATEWAY_RECONNECT_MS - 1);
        assert!(!is_lost(&world));
        world.join_gateway(1);
        assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
        world.pass(2 * limits::GATEWAY_RETURN_MS);
        assert!(!is_lost(&world));
    }
    world.check();
}

#[test]
fn a_gateway_whose_connection_breaks_off_and_that_does_not_come_back_is_lost() {
    let mut world = granted();
    world.break_off_gateway(1);
    world.ask(1, 2);
    world.pass(limits::GATEWAY_RECONNECT_MS - 1);
    assert!(!is_lost(&world));
    assert_eq!(world.denials(), [], "the request waits");
    world.pass(1);
    assert!(is_lost(&world));
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    assert_eq!(world.grants_of(1), 0);
    world.check();
}

#[test]
fn offers_and_requests_of_the_time_without_a_connection_are_granted_by_the_same_gateway() {
    let mut world = granted();
    world.set_network(3, SITE);
    world.set_policy(3, 1, 3, Vec::new());
    world.manner(1, Manner::Silent);
    world.ask(1, 2);
    world.break_off_gateway(1);
    world.ask(1, 3);
    world.manner(1, Manner::Accept);
    world.join_gateway(1);
    assert_eq!(world.denials(), []);
    assert_eq!((world.holds(1), world.grants_of(1)), (3, 3));
    world.check();
}

#[test]
fn a_gateway_that_says_goodbye_or_drains_is_lost_at_once() {
    let mut world = granted();
    world.leave_gateway(1);
    assert!(is_lost(&world));

    let mut world = granted();
    world.gateways.get_mut(&gateway(1)).unwrap().draining = true;
    world.join_gateway(1);
    world.forget_messages();
    world.break_off_gateway(1);
    assert!(is_lost(&world));
    world.check();
}
