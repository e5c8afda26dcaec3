//! Conditions about the address of a plain WireGuard device are judged by where its gateway hears it.

use crate::world::{SITE, World, actor, client, gateway, network, policy, resource};
use culvert_hub::limits::{DEVICE_SEEN_EVERY_MS, ENDPOINT_FRESH_MS, STANDING_REVIEW_MS};
use culvert_ids::{ClientId, SiteId};
use culvert_store::{AccountSettings, Decision, Entity, PathRule};
use culvert_wire::messages::{
    AdmittedDevice, DeviceEndpoint, FromGateway, GatewayFeature, ToGateway,
};
use culvert_wire::model::{
    Condition, Filter, WrittenCountries, WrittenPublicAddresses, WrittenVerified,
};
use culvert_wire::{PublicKey, Timestamp};
use std::net::IpAddr;

const OTHER_SITE: SiteId = SiteId::from_bytes([0x77; 16]);

/// In the condition's network.
const HOME: &str = "198.51.100.7";
/// Another address of it.
const DESK: &str = "198.51.100.8";
/// Outside of it.
const ROAD: &str = "203.0.113.9";

fn at_home() -> Condition {
    Condition::PublicAddress(WrittenPublicAddresses {
        cidrs: vec!["198.51.100.0/24".to_owned()],
    })
}

/// Gateway `number` admits devices and tells where they are.
fn enable(world: &mut World, number: u16) {
    let gateway = world.gateways.get_mut(&gateway(number)).unwrap();
    gateway.features.push(GatewayFeature::DeviceEndpoints);
}

/// Actor 1 has device 1, whose file leads to gateway 1. Its only resource may be used from home; the gateway is yet to come.
fn with_device() -> World {
    let mut world = World::simple();
    world.edit_client(1, |row| row.gateways = vec![gateway(1)]);
    world.set_policy(1, 1, 1, vec![at_home()]);
    enable(&mut world, 1);
    world
}

/// The same, and the gateway has come and heard nobody.
fn served() -> World {
    let mut world = with_device();
    world.join_gateway(1);
    tell(&mut world, 1, &[]);
    world
}

/// The same, and the device is at home.
fn at_home_and_served() -> World {
    let mut world = served();
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    world.forget_messages();
    world
}

/// Gateway `through` tells that it hears these devices, each by a handshake of now.
fn tell(world: &mut World, through: u16, devices: &[(u16, Option<&str>)]) {
    let now = world.now;
    let devices: Vec<_> = devices
        .iter()
        .map(|(number, address)| (*number, *address, now))
        .collect();
    tell_at(world, through, &devices);
}

fn tell_at(world: &mut World, through: u16, devices: &[(u16, Option<&str>, Timestamp)]) {
    let devices = devices
        .iter()
        .map(|(number, address, handshake)| endpoint(world, *number, *address, *handshake));
    let devices = devices.collect();
    world.gateway_says(
        through,
        FromGateway::DeviceEndpoints {
            devices,
            more: false,
        },
    );
}

fn endpoint(
    world: &World,
    number: u16,
    address: Option<&str>,
    handshake: Timestamp,
) -> DeviceEndpoint {
    let Some(Entity::Client(row)) = world.rows.get(&client(number).into()) else {
        panic!("no device {number}");
    };
    DeviceEndpoint {
        client: row.id,
        client_key: row.public_key,
        address: address.map(|address| address.parse::<IpAddr>().unwrap()),
        handshake,
    }
}

fn admitted(world: &World, number: u16) -> Vec<ClientId> {
    let admitted = world.gateways[&gateway(number)].admitted.as_ref();
    admitted
        .map(|all| all.keys().copied().collect())
        .unwrap_or_default()
}

#[test]
fn a_device_whose_access_depends_on_its_address_is_admitted_and_has_it_once_it_is_heard() {
    let mut world = served();
    assert_eq!(admitted(&world, 1), [client(1)]);
    assert_eq!(world.holds(1), 0);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn a_move_ends_access_at_once_and_the_way_back_gives_it_again() {
    let mut world = at_home_and_served();
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!(world.holds(1), 0);
    let entry = world.log.last().unwrap();
    assert_eq!(entry.decision, Decision::Revoked);
    assert!(entry.reason.contains(ROAD), "{}", entry.reason);
    assert_eq!(admitted(&world, 1), [client(1)], "it may come back");
    world.check();
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn another_address_of_the_same_network_changes_nothing() {
    let mut world = at_home_and_served();
    tell(&mut world, 1, &[(1, Some(DESK))]);
    assert_eq!(world.holds(1), 1);
    let is_about_grants =
        |message: &ToGateway| matches!(message, ToGateway::Grant { .. } | ToGateway::Revoke { .. });
    assert!(!world.to_gateways.iter().any(|(_, it)| is_about_grants(it)));
}

#[test]
fn an_address_counts_for_as_long_as_the_keys_of_the_last_handshake() {
    let mut world = at_home_and_served();
    world.pass(ENDPOINT_FRESH_MS - 1);
    assert_eq!(world.holds(1), 1);
    world.pass(1);
    assert_eq!(world.holds(1), 0);
    world.check();
    // Its next handshake is from the same address.
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    // As long as it has handshakes, it keeps its access.
    for _ in 0..10 {
        world.pass(ENDPOINT_FRESH_MS * 2 / 3);
        assert_eq!(world.holds(1), 1);
        tell(&mut world, 1, &[(1, Some(HOME))]);
    }
    world.check();
}

#[test]
fn a_handshake_of_long_ago_gives_nothing_and_one_of_the_future_is_one_of_now() {
    let mut world = served();
    let long_ago = Timestamp::from_unix_ms(world.now.unix_ms() - ENDPOINT_FRESH_MS);
    tell_at(&mut world, 1, &[(1, Some(HOME), long_ago)]);
    assert_eq!(world.holds(1), 0);
    let future = Timestamp::from_unix_ms(world.now.unix_ms() + 10 * ENDPOINT_FRESH_MS);
    tell_at(&mut world, 1, &[(1, Some(HOME), future)]);
    assert_eq!(world.holds(1), 1);
    world.pass(ENDPOINT_FRESH_MS);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn a_device_that_moves_too_often_has_no_address() {
    let mut world = at_home_and_served();
    tell(&mut world, 1, &[(1, None)]);
    assert_eq!(world.holds(1), 0);
    let explained = world
        .hub
        .explain(client(1), resource(1), world.now)
        .unwrap();
    let judged = explained.judged.unwrap();
    assert!(judged.is_unsettled);
    assert_eq!(judged.address, None);
}

#[test]
fn countries_are_judged_by_the_same_address() {
    let mut world = with_device();
    let germany = Condition::Country(WrittenCountries {
        countries: vec!["DE".to_owned()],
    });
    world.set_policy(1, 1, 1, vec![germany]);
    let home: IpAddr = HOME.parse().unwrap();
    world
        .hub
        .set_countries(Box::new(move |address| match address == home {
            true => "DE".parse().ok(),
            false => "FR".parse().ok(),
        }));
    world.join_gateway(1);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn each_gateway_judges_by_the_address_that_it_sees() {
    let mut world = with_device();
    world.set_gateway(2, OTHER_SITE);
    world.set(network(2, OTHER_SITE, "10.2.0.0/16", vec![Filter::Any]));
    world.set_policy(2, 1, 2, vec![at_home()]);
    world.edit_client(1, |row| row.gateways = vec![gateway(1), gateway(2)]);
    enable(&mut world, 2);
    for number in [1, 2] {
        world.join_gateway(number);
    }
    tell(&mut world, 1, &[(1, Some(HOME))]);
    tell(&mut world, 2, &[(1, Some(ROAD))]);
    assert_eq!((world.holds(1), world.holds(2)), (1, 0));
    tell(&mut world, 2, &[(1, Some(HOME))]);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    world.check();
    let views = world.hub.device_endpoints(client(1), world.now);
    let views: Vec<_> = views
        .iter()
        .map(|view| (view.gateway, view.address))
        .collect();
    assert_eq!(views.len(), 2);
    assert!(views.contains(&(gateway(1), Some(ROAD.parse().unwrap()))));
    assert!(views.contains(&(gateway(2), Some(HOME.parse().unwrap()))));
}

#[test]
fn an_older_gateway_is_told_nothing_and_the_condition_denies_with_its_reason() {
    let mut world = with_device();
    world
        .gateways
        .get_mut(&gateway(1))
        .unwrap()
        .features
        .clear();
    world.join_gateway(1);
    assert_eq!(world.gateways[&gateway(1)].admitted, None);
    // It is no word of a gateway that did not say that it tells this.
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 0);
    let explained = world
        .hub
        .explain(client(1), resource(1), world.now)
        .unwrap();
    assert!(!explained.is_allow());
    assert!(explained.judged.unwrap().is_untold);
}

#[test]
fn only_devices_that_a_condition_about_addresses_concerns_are_admitted() {
    type Make = fn(&mut World);
    let cases: [(&str, Make, bool); 8] = [
        ("a condition about addresses", |_| {}, true),
        (
            "no condition",
            |world| world.set_policy(1, 1, 1, Vec::new()),
            false,
        ),
        (
            "another condition",
            |world| {
                let verified = Condition::Verified(WrittenVerified {});
                world.set_policy(1, 1, 1, vec![verified]);
            },
            false,
        ),
        ("no membership", |world| world.remove_member(1, 1), false),
        ("owner disabled", |world| world.set_actor(1, true), false),
        (
            "revoked",
            |world| world.edit_client(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1))),
            false,
        ),
        ("deleted", |world| world.remove(client(1)), false),
        (
            "relays alone",
            |world| {
                let mut account = world.account();
                account.settings.paths = PathRule::Relayed;
                world.set(account);
            },
            false,
        ),
    ];
    for (what, make, is_admitted) in cases {
        // Before the gateway comes, and while it is there.
        let mut before = with_device();
        make(&mut before);
        before.join_gateway(1);
        let mut during = served();
        assert_eq!(admitted(&during, 1), [client(1)]);
        make(&mut during);
        for world in [&before, &during] {
            assert_eq!(
                admitted(world, 1).contains(&client(1)),
                is_admitted,
                "{what}"
            );
            assert!(world.gateways[&gateway(1)].admitted.is_some(), "{what}");
        }
    }
}

#[test]
fn a_condition_that_comes_later_has_the_device_admitted() {
    let mut world = with_device();
    world.set_policy(1, 1, 1, Vec::new());
    world.join_gateway(1);
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!((world.holds(1), admitted(&world, 1)), (1, Vec::new()));
    world.set_policy(1, 1, 1, vec![at_home()]);
    assert_eq!((world.holds(1), admitted(&world, 1)), (0, vec![client(1)]));
    world.remove(policy(1));
    assert_eq!(admitted(&world, 1), []);
    world.check();
}

#[test]
fn another_key_is_admitted_in_the_place_of_the_first_and_is_nowhere_yet() {
    let mut world = at_home_and_served();
    let before = endpoint(&world, 1, Some(HOME), world.now);
    let key = PublicKey::from_bytes([9; 32]);
    world.edit_client(1, |row| row.public_key = key);
    assert_eq!(world.holds(1), 0);
    let devices = world.gateways[&gateway(1)].admitted.as_ref().unwrap();
    let keys: Vec<_> = devices.values().map(|device| device.client_key).collect();
    assert_eq!(keys, [key]);
    // A report of before the change was still on its way.
    let devices = vec![before];
    world.gateway_says(
        1,
        FromGateway::DeviceEndpoints {
            devices,
            more: false,
        },
    );
    assert_eq!(world.holds(1), 0);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn a_gateway_tells_of_its_own_devices_alone() {
    let mut world = served();
    world.set_client(2, 1);
    world.set_gateway(2, SITE);
    enable(&mut world, 2);
    world.join_gateway(2);
    let before = world.hub.status().counters.ignored;
    tell(&mut world, 2, &[(1, Some(HOME)), (2, Some(HOME))]);
    assert_eq!(world.holds(1) + world.holds(2), 0);
    assert_eq!(world.hub.status().counters.ignored, before + 2);
    assert!(world.hub.device_endpoints(client(1), world.now).is_empty());
}

#[test]
fn a_connection_that_breaks_costs_no_access_and_the_gateway_s_list_decides_then() {
    let mut world = at_home_and_served();
    world.break_off_gateway(1);
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    // A device that is not in the list is not there: the gateway has started anew.
    world.break_off_gateway(1);
    world.join_gateway(1);
    tell(&mut world, 1, &[]);
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn a_list_in_pages_decides_once_it_is_whole() {
    let mut world = at_home_and_served();
    world.break_off_gateway(1);
    world.join_gateway(1);
    world.gateway_says(
        1,
        FromGateway::DeviceEndpoints {
            devices: Vec::new(),
            more: true,
        },
    );
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[]);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn a_portal_that_restarts_cuts_no_access_and_gives_none_by_what_it_remembers() {
    let mut world = at_home_and_served();
    // A grant that is about as old as its resource would be signed anew.
    world.pass(ENDPOINT_FRESH_MS / 2);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    world.restart();
    assert_eq!(world.holds(1), 1);
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(world.holds(1), 1);
    world.check();
    // The device moved meanwhile.
    world.restart();
    world.join_gateway(1);
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!(world.holds(1), 0);
    world.check();
    // The gateway does not hear it any more.
    let mut world = at_home_and_served();
    world.restart();
    world.join_gateway(1);
    tell(&mut world, 1, &[]);
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn what_was_recorded_counts_for_a_minute_after_the_start_at_most() {
    let mut world = at_home_and_served();
    world.leave_gateway(1);
    world.restart();
    world.pass(STANDING_REVIEW_MS);
    world.join_gateway(1);
    // It has not told yet where its devices are.
    assert_eq!(world.holds(1), 0);
}

#[test]
fn the_place_of_a_device_is_recorded_when_it_changes_and_once_a_minute() {
    let mut world = served();
    let begun = world.now;
    let seen = |world: &mut World| -> Vec<(u64, IpAddr)> {
        let seen = std::mem::take(&mut world.seen).into_iter();
        let of_device = seen.map(|machine| {
            assert_eq!(machine.id, culvert_store::MachineId::Client(client(1)));
            (machine.seen.at.unix_ms(), machine.seen.address.unwrap())
        });
        of_device.collect()
    };
    let place = |after_ms: u64, address: &str| {
        (
            begun.unix_ms() + after_ms,
            address.parse::<IpAddr>().unwrap(),
        )
    };
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(seen(&mut world), [place(0, HOME)]);
    world.pass(DEVICE_SEEN_EVERY_MS / 2);
    tell(&mut world, 1, &[(1, Some(HOME))]);
    assert_eq!(seen(&mut world), []);
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!(seen(&mut world), [place(DEVICE_SEEN_EVERY_MS / 2, ROAD)]);
    world.pass(DEVICE_SEEN_EVERY_MS);
    tell(&mut world, 1, &[(1, Some(ROAD))]);
    assert_eq!(
        seen(&mut world),
        [place(DEVICE_SEEN_EVERY_MS * 3 / 2, ROAD)]
    );
    tell(&mut world, 1, &[(1, None)]);
    assert_eq!(seen(&mut world), []);
}

#[test]
fn explanations_name_the_address_and_the_gateway_that_hears_it() {
    let mut world = at_home_and_served();
    let judged = |world: &World| {
        let explained = world.hub.explain(client(1), resource(1), world.now);
        explained.unwrap().judged
    };
    let seen = judged(&world).unwrap();
    assert_eq!(seen.address, Some(HOME.parse().unwrap()));
    assert_eq!(seen.gateway, Some(gateway(1)));
    assert_eq!(seen.handshake, Some(world.now));
    world.pass(ENDPOINT_FRESH_MS);
    let stale = judged(&world).unwrap();
    assert_eq!((stale.address, stale.handshake), (None, seen.handshake));
    // Nothing is said if no condition looks at it.
    world.set_policy(1, 1, 1, Vec::new());
    assert_eq!(judged(&world), None);
    // The portal sees a client with Culvert by itself.
    let mut world = World::connected();
    world.set_policy(1, 1, 1, vec![at_home()]);
    world.clients.get_mut(&client(1)).unwrap().address = Some(HOME.parse().unwrap());
    world.leave_client(1);
    world.join_client(1);
    let seen = judged(&world).unwrap();
    assert_eq!(
        (seen.address, seen.gateway),
        (Some(HOME.parse().unwrap()), None)
    );
}

#[test]
fn a_gateway_that_waits_for_verification_admits_nobody() {
    let mut world = served();
    let mut account = world.account();
    account.settings = AccountSettings {
        require_verified_gateways: true,
        ..account.settings
    };
    world.set(account);
    assert_eq!(admitted(&world, 1), []);
    world.edit_gateway(1, |row| row.verified = Some(Timestamp::from_unix_ms(1)));
    assert_eq!(admitted(&world, 1), [client(1)]);
}

#[test]
fn a_device_of_somebody_else_does_not_gain_by_another_s_address() {
    let mut world = at_home_and_served();
    world.set_actor(2, false);
    world.add_member(2, 1);
    world.set_client(2, 2);
    world.edit_client(2, |row| row.gateways = vec![gateway(1)]);
    assert_eq!(admitted(&world, 1), [client(1), client(2)]);
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[(2, Some(ROAD))]);
    assert_eq!(world.holds(1), 1);
    tell(&mut world, 1, &[(2, Some(HOME)), (1, Some(ROAD))]);
    let mut held = world.gateways[&gateway(1)].held.values();
    assert!(held.all(|held| held.claims.client == client(2)));
    assert_eq!(world.holds(1), 1);
    assert_ne!(actor(1), actor(2));
    world.check();
}

#[test]
fn a_long_list_of_admitted_devices_comes_in_pages() {
    let mut world = World::simple();
    world.set_policy(1, 1, 1, vec![at_home()]);
    enable(&mut world, 1);
    let devices = culvert_wire::messages::MAX_DEVICES_PER_MESSAGE as u16 + 1;
    for number in 2..devices + 2 {
        world.set_client(number, 1);
        world.edit_client(number, |row| row.gateways = vec![gateway(1)]);
    }
    world.join_gateway(1);
    let pages: Vec<(usize, bool)> = world
        .to_gateways
        .iter()
        .filter_map(|(_, message)| match message {
            ToGateway::DevicesAdmitted { devices, more, .. } => Some((devices.len(), *more)),
            _ => None,
        })
        .collect();
    assert_eq!(pages, [(usize::from(devices) - 1, true), (1, false)]);
    let first = world.gateways[&gateway(1)].admitted.as_ref().unwrap();
    let AdmittedDevice { client: id, .. } = first.values().next().unwrap();
    assert_eq!(*id, client(2));
}
