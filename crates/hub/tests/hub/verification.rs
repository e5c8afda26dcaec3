//! In an account that requires verified gateways, one that waits is connected and has nothing.

use crate::world::{SITE, World, gateway};
use culvert_store::Decision;
use culvert_wire::messages::{
    EndedFlow, FlowEnd, FlowReport, FromGateway, GatewayFeature, GatewayLoad, ReasonCode, ToClient,
    ToGateway,
};

/// A client and two gateways of one site, all connected; verified gateways are required, and none is.
fn waiting() -> World {
    let mut world = World::simple();
    world.set_gateway(2, SITE);
    world.require_verified_gateways(true);
    world.join_gateway(1);
    world.join_gateway(2);
    world.join_client(1);
    world
}

fn verify(world: &mut World, number: u16, on: bool) {
    let now = world.now;
    world.edit_gateway(number, |row| row.verified = on.then_some(now));
    world.check();
}

/// Through which gateways the client was told to reach resources.
fn led_to(world: &World) -> Vec<u16> {
    let told = world.to_clients.iter();
    let told = told.filter_map(|(_, message)| match message {
        ToClient::AccessGranted { gateway, .. } => Some(*gateway),
        _ => None,
    });
    told.map(|id| (1..=2).find(|number| gateway(*number) == id).unwrap())
        .collect()
}

fn is_told_of(world: &World, number: u16) -> Vec<&ToGateway> {
    let told = world.to_gateways.iter();
    told.filter(|(id, _)| *id == gateway(number))
        .map(|(_, message)| message)
        .collect()
}

#[test]
fn a_gateway_that_waits_is_welcomed_and_told_and_gets_no_grant() {
    let mut world = waiting();
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    assert_eq!((led_to(&world), world.holds(1)), (vec![], 0));
    let reason = &world.log[0].reason;
    assert!(reason.contains("wait to be verified"), "{reason}");
    let [
        ToGateway::Welcome {
            grants,
            verification_awaited: true,
            ..
        },
    ] = is_told_of(&world, 1)[..]
    else {
        panic!("{:?}", is_told_of(&world, 1));
    };
    assert_eq!(grants[..], []);
    let status = world.hub.status();
    assert_eq!(
        (status.gateways, status.gateways_awaiting_verification),
        (2, 2)
    );
}

#[test]
fn clients_are_led_to_verified_gateways_alone() {
    let mut world = waiting();
    verify(&mut world, 2, true);
    assert!(matches!(
        is_told_of(&world, 2)[..],
        [_, ToGateway::Verification { awaited: false }]
    ));
    for _ in 0..3 {
        world.ask(1, 1);
    }
    assert_eq!(led_to(&world), [2, 2, 2]);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
}

#[test]
fn unverified_a_gateway_loses_its_grants_and_clients_go_elsewhere() {
    let mut world = waiting();
    verify(&mut world, 1, true);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    verify(&mut world, 2, true);
    world.forget_messages();
    verify(&mut world, 1, false);
    assert!(matches!(
        is_told_of(&world, 1)[..],
        [
            ToGateway::Revoke { .. },
            ToGateway::Verification { awaited: true }
        ]
    ));
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::GatewayLost { .. })]
    ));
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert!(world.saved.is_empty());
    assert_eq!(world.log[0].decision, Decision::Revoked);
    assert_eq!(world.closed, [], "it stays connected");
    world.ask(1, 1);
    assert_eq!(led_to(&world), [2]);
}

#[test]
fn requiring_it_ends_what_unverified_gateways_have_and_nothing_else() {
    let mut world = waiting();
    world.require_verified_gateways(false);
    world.check();
    verify(&mut world, 2, true);
    world.ask(1, 1);
    let unverified = world.holds(1) == 1;
    let avoid = vec![gateway(if unverified { 1 } else { 2 })];
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.ask_for(1, 2, Vec::new(), avoid);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    world.require_verified_gateways(true);
    world.check();
    assert_eq!(
        (world.holds(1), world.holds(2), world.grants_of(1)),
        (0, 1, 1)
    );
    world.require_verified_gateways(false);
    world.check();
    assert_eq!(world.holds(2), 1);
}

#[test]
fn what_was_granted_is_void_where_verification_ended_while_the_portal_was_down() {
    let mut world = waiting();
    verify(&mut world, 1, true);
    world.ask(1, 1);
    assert_eq!(world.saved.len(), 1);
    let Some(culvert_store::Entity::Gateway(row)) = world.rows.get_mut(&gateway(1).into()) else {
        panic!("no gateway");
    };
    row.verified = None;
    world.restart();
    assert!(world.saved.is_empty());
    world.join_gateway(1);
    world.check();
    assert_eq!(world.holds(1), 0);
}

#[test]
fn what_a_gateway_that_never_served_says_of_its_traffic_counts_for_nothing() {
    let mut world = waiting();
    let mut account = world.account();
    account.settings.logs.flow_log = true;
    world.set(account);
    let features = &mut world.gateways.get_mut(&gateway(1)).unwrap().features;
    features.push(GatewayFeature::Flows);
    world.join_gateway(1);
    let says = |world: &mut World| {
        let load = GatewayLoad {
            rate_bytes_per_s: 1_000,
            ..GatewayLoad::default()
        };
        world.pass(5_000);
        world.gateway_says(1, FromGateway::Load(load));
        world.gateway_says(1, FromGateway::Flows(report(world)));
    };
    says(&mut world);
    assert_eq!((world.flows.len(), world.traffic_bytes), (0, 0));
    verify(&mut world, 1, true);
    assert!(matches!(
        is_told_of(&world, 1)[..],
        [.., ToGateway::FlowLog { on: true }]
    ));
    says(&mut world);
    assert_eq!((world.flows.len(), world.traffic_bytes > 0), (1, true));
    // The flows that ended with its verification are told after it.
    verify(&mut world, 1, false);
    says(&mut world);
    assert_eq!(world.flows.len(), 2);
}

fn report(world: &World) -> FlowReport {
    let flow = EndedFlow {
        client: crate::world::client(1),
        resource: crate::world::resource(1),
        grant: culvert_ids::GrantId::from_bytes([4; 16]),
        protocol: 6,
        address: "10.0.1.1".parse().unwrap(),
        inbound: false,
        port: 443,
        started: world.now,
        ended: world.now,
        sent_bytes: 1,
        sent_packets: 1,
        received_bytes: 1,
        received_packets: 1,
        end: FlowEnd::Policy,
    };
    FlowReport {
        run: 1,
        batch: 1,
        lost: 0,
        flows: vec![flow],
    }
}
