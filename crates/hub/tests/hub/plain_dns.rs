//! The first gateway of a plain WireGuard device is its DNS server, and answers it without a grant (ADR 0067).

use crate::world::{World, client, gateway, network};
use culvert_ids::SiteId;
use culvert_store::PathRule;
use culvert_wire::Timestamp;
use culvert_wire::messages::{AdmittedDevice, GatewayFeature, NameElsewhere, ToGateway};
use culvert_wire::model::{Filter, TargetKind};

const OTHER_SITE: SiteId = SiteId::from_bytes([0x77; 16]);
const PATTERN: &str = "*.corp.example";

const OF_TODAY: [GatewayFeature; 4] = [
    GatewayFeature::PlainDns,
    GatewayFeature::SiteNames,
    GatewayFeature::DeviceEndpoints,
    GatewayFeature::AdmittedDns,
];

/// Device 1 has gateway 1 and gateway 2, of another site, in its file. It may use nothing; the gateways are yet to come.
fn world() -> World {
    let mut world = World::simple();
    world.set_gateway(2, OTHER_SITE);
    world.remove(crate::world::policy(1));
    for number in [1, 2] {
        let gateway = world.gateways.get_mut(&gateway(number)).unwrap();
        gateway.features = OF_TODAY.to_vec();
    }
    world.edit_client(1, |row| {
        row.gateways = vec![gateway(1), gateway(2)];
        row.name_shares = true;
    });
    world
}

fn served() -> World {
    let mut world = world();
    world.join_gateway(1);
    world.join_gateway(2);
    world
}

fn admitted(world: &World, number: u16) -> Option<&AdmittedDevice> {
    let all = world.gateways[&gateway(number)].admitted.as_ref();
    all.expect("it was told").get(&client(1))
}

fn asks(world: &World, number: u16) -> bool {
    admitted(world, number).is_some_and(|device| device.dns)
}

fn told(world: &World) -> Vec<NameElsewhere> {
    let told = world.to_gateways.iter().rev();
    let mut told = told.filter_map(|(_, message)| match message {
        ToGateway::NamesElsewhere { names, .. } => Some(names.clone()),
        _ => None,
    });
    told.next().unwrap_or_default()
}

#[test]
fn the_first_gateway_alone_answers_a_device_that_may_use_nothing() {
    let world = served();
    assert!(asks(&world, 1));
    assert_eq!(admitted(&world, 2), None);
    world.check();
}

#[test]
fn names_of_another_site_that_are_granted_later_are_told_to_the_first_gateway() {
    let mut world = served();
    let mut row = network(2, OTHER_SITE, PATTERN, vec![Filter::Any]);
    row.target.kind = TargetKind::Dns;
    world.set(row);
    world.set_policy(2, 1, 2, Vec::new());
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    assert_eq!(told(&world).len(), 1);
    assert!(asks(&world, 1));
    world.check();
}

#[test]
fn a_device_is_answered_with_and_without_a_grant() {
    let mut world = served();
    world.set_policy(1, 1, 1, Vec::new());
    assert_eq!((world.holds(1), asks(&world, 1)), (1, true));
    world.remove(crate::world::policy(1));
    assert_eq!((world.holds(1), asks(&world, 1)), (0, true));
}

#[test]
fn who_could_have_no_grant_is_not_answered() {
    type Make = fn(&mut World);
    let cases: [(&str, Make); 6] = [
        ("owner disabled", |world| world.set_actor(1, true)),
        ("revoked", |world| {
            world.edit_client(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
        }),
        ("deleted", |world| world.remove(client(1))),
        ("another first gateway", |world| {
            world.edit_client(1, |row| row.gateways = vec![gateway(2), gateway(1)]);
        }),
        ("an address of former networks", |world| {
            world.edit_client(1, |row| row.ipv4 = [192, 0, 2, 1].into());
        }),
        ("relays alone", |world| {
            let mut account = world.account();
            account.settings.paths = PathRule::Relayed;
            world.set(account);
        }),
    ];
    for (what, make) in cases {
        let mut before = world();
        make(&mut before);
        before.join_gateway(1);
        let mut during = served();
        assert!(asks(&during, 1));
        make(&mut during);
        for world in [&before, &during] {
            assert!(!asks(world, 1), "{what}");
        }
    }
}

#[test]
fn the_next_gateway_answers_once_the_first_is_revoked() {
    let mut world = served();
    world.edit_gateway(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
    assert!(asks(&world, 2));
}

#[test]
fn a_gateway_of_an_earlier_version_is_not_told() {
    let mut world = world();
    let features = &mut world.gateways.get_mut(&gateway(1)).unwrap().features;
    features.retain(|feature| *feature != GatewayFeature::AdmittedDns);
    world.join_gateway(1);
    assert_eq!(admitted(&world, 1), None);
    assert!(!world.hub.gateways().any(|view| view.answers_admitted));
}
