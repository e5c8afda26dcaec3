//! The portal's clock is set while it runs.

use crate::world::{Manner, SITE, World, client, gateway};
use culvert_hub::limits;
use culvert_wire::Timestamp;
use culvert_wire::messages::{GatewayFeature, ReasonCode};
use culvert_wire::model::{Condition, WrittenExpires};

const HOUR_MS: u64 = 3_600_000;
const WITHIN_S: u32 = 10;

/// The portal notices that its clock was set.
fn set_clock(world: &mut World, now_ms: u64) {
    world.now = Timestamp::from_unix_ms(now_ms);
    world.hub.handle_clock_set(WITHIN_S, world.now);
    world.drain();
}

fn back(world: &mut World) {
    let now_ms = world.now.unix_ms() - HOUR_MS;
    set_clock(world, now_ms);
}

/// The machines come back, as they were told.
fn come_back(world: &mut World) {
    assert!(
        world
            .closed
            .iter()
            .all(|(_, why)| *why == ReasonCode::TryLater)
    );
    assert_eq!(world.closed.len(), 2, "client and gateway are sent away");
    world.join_gateway(1);
    world.join_client(1);
}

#[test]
fn a_request_is_answered_although_the_clock_went_back_before_its_gateway_answered() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    back(&mut world);
    world.manner(1, Manner::Accept);
    come_back(&mut world);
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_gateway_that_is_silent_after_the_clock_went_back_is_waited_for_as_long_as_ever() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    back(&mut world);
    come_back(&mut world);
    world.ask(1, 1);
    world.pass(limits::GRANT_ANSWER_MS);
    assert_eq!(world.denials().len(), 1);
    assert_eq!(world.hub.status().asks, 0);
}

#[test]
fn a_request_waits_no_longer_for_a_gateway_that_was_expected_before() {
    let mut world = World::connected();
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.ask(1, 1);
    world.restart();
    world.join_client(1);
    world.ask(1, 2);
    back(&mut world);
    world.join_client(1);
    world.ask(1, 2);
    world.pass(limits::REQUEST_WAIT_MS);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    // Its grants end with it, if it does not come.
    world.pass(limits::GATEWAY_RETURN_MS);
    assert_eq!(world.hub.status().grants, 0);
}

#[test]
fn grants_stay_in_force_and_end_by_the_clock_of_now() {
    for shift in ["back", "ahead"] {
        let mut world = World::connected();
        world.ask(1, 1);
        let expires = world.gateways[&gateway(1)].held.values().next();
        let expires_ms = expires.unwrap().claims.exp.unix_ms();
        let now_ms = world.now.unix_ms();
        set_clock(
            &mut world,
            match shift {
                "back" => now_ms - HOUR_MS,
                _ => now_ms + HOUR_MS / 2,
            },
        );
        come_back(&mut world);
        assert_eq!((world.holds(1), world.grants_of(1)), (1, 1), "{shift}");
        world.check();
        let left_ms = expires_ms - world.now.unix_ms();
        world.pass(left_ms - 1);
        assert_eq!(world.holds(1), 1, "{shift}");
        world.pass(1);
        assert_eq!(
            (world.holds(1), world.hub.status().grants),
            (0, 0),
            "{shift}"
        );
        world.ask(1, 1);
        assert_eq!(world.holds(1), 1, "{shift}");
    }
}

#[test]
fn access_that_is_over_by_the_clock_of_now_ends() {
    let mut world = World::connected();
    let at = Timestamp::from_unix_ms(world.now.unix_ms() + HOUR_MS / 2);
    world.set_policy(1, 1, 1, vec![Condition::Expires(WrittenExpires { at })]);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    set_clock(&mut world, at.unix_ms());
    come_back(&mut world);
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn standing_grants_of_a_plain_device_have_no_gap() {
    let mut world = World::simple();
    world.edit_client(1, |row| row.gateways = vec![gateway(1)]);
    let sim = world.gateways.get_mut(&gateway(1)).unwrap();
    sim.features = vec![GatewayFeature::PlainDns];
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    back(&mut world);
    world.join_gateway(1);
    for _ in 0..40 {
        world.pass(HOUR_MS / 10);
        assert_eq!(world.holds(1), 1);
    }
    assert!(world.rows.contains_key(&client(1).into()));
    world.check();
}

#[test]
fn machines_are_told_to_come_back_one_after_the_other() {
    let mut world = World::connected();
    back(&mut world);
    let refused = world.to_clients.iter().any(|(_, message)| {
        matches!(
            message,
            culvert_wire::messages::ToClient::Refused { retry_after_s: Some(wait_s), .. }
                if *wait_s <= WITHIN_S + 1
        )
    });
    assert!(refused, "{:?}", world.to_clients);
    assert_eq!(world.hub.status().asks, 0);
}
