//! Reports of flows: asked for where the account wants them, kept once, answered once they are
//! written.

use crate::sim_relay::relay;
use crate::world::{ACCOUNT, SITE, START_MS, World, actor, client, gateway, network, resource};
use culvert_ids::{GrantId, RelayId};
use culvert_store::{Account, AccountSettings, Resource, Stamp};
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    ClientFeature, EndedFlow, FlowEnd, FlowReport, FromClient, FromGateway, GatewayFeature,
    GatewayLoad, MAX_FLOWS_PER_REPORT, PathKind, ToGateway,
};
use culvert_wire::model::{Applications, Filter};

fn account(flow_log: bool) -> Account {
    let mut settings = AccountSettings::default();
    settings.logs.flow_log = flow_log;
    Account {
        id: ACCOUNT,
        name: "corp".to_owned(),
        settings,
        stamp: Stamp::default(),
    }
}

/// A gateway that can tell of flows, or one that can't, connected to a portal with a flow log.
fn connected(can_tell: bool) -> World {
    let mut world = World::simple();
    world.set(account(true));
    if can_tell {
        let gateway = world.gateways.get_mut(&gateway(1)).unwrap();
        gateway.features.push(GatewayFeature::Flows);
    }
    world.join_gateway(1);
    world
}

/// Messages about flows to gateways since the last call.
fn told(world: &mut World) -> Vec<ToGateway> {
    let said = std::mem::take(&mut world.to_gateways);
    let said = said.into_iter().map(|(_, message)| message);
    said.filter(|message| {
        matches!(
            message,
            ToGateway::FlowLog { .. } | ToGateway::FlowsTaken { .. }
        )
    })
    .collect()
}

fn flow(world: &World) -> EndedFlow {
    EndedFlow {
        client: client(1),
        resource: resource(1),
        grant: GrantId::from_bytes([1; 16]),
        protocol: 17,
        address: "10.0.0.1".parse().unwrap(),
        inbound: false,
        port: 53,
        started: world.now,
        ended: world.now,
        sent_bytes: 1,
        sent_packets: 2,
        received_bytes: 3,
        received_packets: 4,
        end: FlowEnd::Idle,
    }
}

fn report(world: &World, flows: usize) -> FlowReport {
    FlowReport {
        run: 7,
        batch: 1,
        lost: 0,
        flows: vec![flow(world); flows],
    }
}

#[test]
fn a_gateway_that_can_tell_hears_whether_it_is_to_and_no_other_does() {
    let mut world = connected(true);
    assert_eq!(told(&mut world), [ToGateway::FlowLog { on: true }]);
    world.set(account(false));
    assert_eq!(told(&mut world), [ToGateway::FlowLog { on: false }]);
    // Another change of the account is none of the log.
    let mut other = account(false);
    other.settings.grant_lifetime_s = 600;
    world.set(other);
    assert_eq!(told(&mut world), []);
    let mut world = connected(false);
    world.set(account(false));
    assert_eq!(told(&mut world), []);
}

#[test]
fn a_report_is_answered_once_it_is_written_and_not_before() {
    let mut world = connected(true);
    told(&mut world);
    let report = report(&world, 1);
    world.gateway_says(1, FromGateway::Flows(report));
    assert_eq!(told(&mut world), []);
    let (session, batch) = world.flows.pop().unwrap();
    assert_eq!((batch.gateway, batch.run, batch.batch), (gateway(1), 7, 1));
    assert_eq!(batch.flows[0].actor, Some(actor(1)));
    assert_eq!(batch.flows[0].end, FlowEnd::Idle);
    world.hub.handle_flows_written(session, 7, 1);
    world.drain();
    let taken = ToGateway::FlowsTaken { run: 7, batch: 1 };
    assert_eq!(told(&mut world), [taken]);
}

/// The application in the log for a flow of the client by its newest grant, which began `later_ms` from now.
fn application(world: &mut World, later_ms: u64) -> Option<String> {
    let mut report = report(world, 1);
    let flow = &mut report.flows[0];
    flow.grant = *world.clients[&client(1)].grants.keys().last().unwrap();
    flow.started = Timestamp::from_unix_ms(world.now.unix_ms() + later_ms);
    flow.ended = flow.started;
    world.now = flow.ended;
    world.gateway_says(1, FromGateway::Flows(report));
    world
        .flows
        .pop()
        .unwrap()
        .1
        .flows
        .pop()
        .unwrap()
        .application
}

#[test]
fn a_flow_is_of_the_one_application_that_the_resource_is_for() {
    let ruled = |names: &[&str]| Resource {
        applications: Applications::Only(names.iter().map(|&name| name.to_owned()).collect()),
        ..network(1, SITE, "10.0.1.0/24", vec![Filter::Any])
    };
    let mut world = connected(true);
    let sim = world.clients.entry(client(1)).or_default();
    sim.features.push(ClientFeature::Applications);
    world.set(ruled(&["backup"]));
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(application(&mut world, 0).as_deref(), Some("backup"));
    // Of several nobody knows which.
    world.set(ruled(&["backup", "browser"]));
    assert_eq!(application(&mut world, 0), None);
    // A grant from before the rule: its client may not have heard of it, until none can be left.
    world.now = Timestamp::from_unix_ms(world.now.unix_ms() + 1_000);
    world.set(ruled(&["browser"]));
    assert_eq!(application(&mut world, 1), None);
    assert_eq!(
        application(&mut world, 3_600_000).as_deref(),
        Some("browser")
    );
    // A gateway tells of nobody else's grants.
    let mut report = report(&world, 1);
    report.flows[0].started = Timestamp::from_unix_ms(START_MS);
    world.gateway_says(1, FromGateway::Flows(report));
    assert_eq!(world.flows.pop().unwrap().1.flows[0].application, None);
}

/// The path in the log for a flow of the client that ends now.
fn path(world: &mut World) -> (Option<PathKind>, Option<RelayId>) {
    let report = report(world, 1);
    world.gateway_says(1, FromGateway::Flows(report));
    let flow = world.flows.pop().unwrap().1.flows.pop().unwrap();
    (flow.path, flow.relay)
}

fn tells(world: &mut World, path: PathKind) {
    let session = world.clients[&client(1)].session.unwrap();
    let message = FromClient::PathChanged {
        gateway: gateway(1),
        path,
        relay: (path != PathKind::Direct).then_some(relay(1)),
        round_trip_us: None,
    };
    world.client_says(session, message);
}

#[test]
fn a_flow_has_the_path_of_its_end_also_once_its_client_is_gone() {
    let mut world = World::simple();
    world.set(account(true));
    world.use_relays(1, 1);
    let at = world.gateways.get_mut(&gateway(1)).unwrap();
    at.features.push(GatewayFeature::Flows);
    world.set_relay(1);
    world.join_relay(1);
    world.join_gateway(1);
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(path(&mut world), (None, None), "it has not told yet");
    tells(&mut world, PathKind::Relayed);
    let relayed = (Some(PathKind::Relayed), Some(relay(1)));
    assert_eq!(path(&mut world), relayed);
    world.pass(60_000);
    tells(&mut world, PathKind::Direct);
    assert_eq!(path(&mut world), (Some(PathKind::Direct), None));
    // One that ended before the path changed.
    let mut earlier = report(&world, 1);
    earlier.flows[0].ended = Timestamp::from_unix_ms(world.now.unix_ms() - 1_000);
    earlier.flows[0].started = earlier.flows[0].ended;
    world.gateway_says(1, FromGateway::Flows(earlier));
    let flow = world.flows.pop().unwrap().1.flows.pop().unwrap();
    assert_eq!((flow.path, flow.relay), relayed);
    tells(&mut world, PathKind::RelayedTls);
    let session = world.clients[&client(1)].session.unwrap();
    world.hub.handle_left(session, world.now);
    let by_tls = (Some(PathKind::RelayedTls), Some(relay(1)));
    assert_eq!(path(&mut world), by_tls);
}

#[test]
fn without_relays_every_flow_went_directly() {
    let mut world = connected(true);
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(path(&mut world), (Some(PathKind::Direct), None));
}

#[test]
fn nothing_is_kept_of_flows_that_nobody_wants_to_know_of() {
    let mut world = connected(true);
    world.set(account(false));
    let report = report(&world, 1);
    world.gateway_says(1, FromGateway::Flows(report));
    assert_eq!(world.flows.len(), 0);
}

#[test]
fn a_report_is_bounded_and_none_ends_in_the_future() {
    let mut world = connected(true);
    let mut report = report(&world, 2 * MAX_FLOWS_PER_REPORT);
    report.lost = u64::MAX;
    let ahead = Timestamp::from_unix_ms(world.now.unix_ms() + 3_600_000);
    report.flows[0].started = ahead;
    report.flows[0].ended = ahead;
    world.gateway_says(1, FromGateway::Flows(report));
    let (_, batch) = world.flows.pop().unwrap();
    assert_eq!(batch.flows.len(), MAX_FLOWS_PER_REPORT);
    assert_eq!(batch.flows[0].at, world.now);
    assert_eq!(batch.flows[0].started, world.now);
    assert!(batch.lost <= u64::from(u32::MAX));
}

#[test]
fn what_a_gateway_carries_is_its_rate_for_as_long_as_it_held() {
    let mut world = connected(false);
    let load = |rate_bytes_per_s| {
        FromGateway::Load(GatewayLoad {
            rate_bytes_per_s,
            ..GatewayLoad::default()
        })
    };
    world.gateway_says(1, load(0));
    assert_eq!(world.traffic_bytes, 0);
    let later = |world: &mut World, ms| {
        world.now = Timestamp::from_unix_ms(world.now.unix_ms() + ms);
    };
    later(&mut world, 5_000);
    world.gateway_says(1, load(1_000));
    assert_eq!(world.traffic_bytes, 5_000);
    // Traffic during a silence is not known, and absurd rates are capped.
    later(&mut world, 3_600_000);
    world.gateway_says(1, load(1_000));
    assert_eq!(world.traffic_bytes, 20_000);
    later(&mut world, 1_000);
    world.gateway_says(1, load(u64::MAX));
    assert_eq!(world.traffic_bytes, 20_000 + 1_000_000_000_000);
}
