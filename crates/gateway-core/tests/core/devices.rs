//! Plain WireGuard devices that are admitted without a grant, and what the portal is told of where they are.

use crate::play::{HOUR_MS, Play, START_UNIX_MS, claims, client_ipv4, grant_id, key};
use culvert_gateway_core::HeardDevice;
use culvert_ids::ClientId;
use culvert_policy::gate::DropReason;
use culvert_wire::messages::{AdmittedDevice, FromGateway, GatewayFeature, ReasonCode, ToGateway};
use culvert_wire::{GrantClaims, PresharedKey};
use std::net::IpAddr;
use std::time::Duration;

const WEB: &str = "10.0.9.1:53";
const HOME: &str = "198.51.100.7";
const ROAD: &str = "203.0.113.9";
const KEPT_S: u32 = 3_600;

fn device(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

fn admitted(number: u8) -> AdmittedDevice {
    let claims = claims(1, number, 9);
    AdmittedDevice {
        client: claims.client,
        client_key: claims.client_key,
        client_ipv4: claims.client_ipv4,
        client_ipv6: claims.client_ipv6,
        dns: false,
    }
}

fn plain(claims: GrantClaims) -> GrantClaims {
    GrantClaims {
        plain: true,
        ..claims
    }
}

fn list(play: &mut Play, numbers: &[u8]) {
    let devices = numbers.iter().map(|number| admitted(*number)).collect();
    play.hear(ToGateway::DevicesAdmitted {
        devices,
        more: false,
        kept_s: KEPT_S,
    });
}

fn grant(play: &mut Play, claims: &GrantClaims) {
    let ToGateway::Grant {
        token,
        replaces,
        names,
        labels,
        ..
    } = play.grant_message(claims, None, &[])
    else {
        panic!("a grant is a grant");
    };
    play.hear(ToGateway::Grant {
        token,
        preshared_key: PresharedKey::NONE,
        replaces,
        names,
        labels,
    });
}

fn hear(play: &mut Play, number: u8, address: &str, handshake_s: u64) {
    let heard = HeardDevice {
        key: key(number),
        address: address.parse().unwrap(),
        handshake: Duration::from_secs(handshake_s),
    };
    play.gateway.handle_heard(vec![heard], play.now());
    play.execute();
}

/// The devices that the portal was told of since the last call, each message a list.
fn told(play: &mut Play) -> Vec<Vec<(ClientId, Option<IpAddr>)>> {
    let said = play.said.extract_if(.., |message| {
        matches!(message, FromGateway::DeviceEndpoints { .. })
    });
    let lists = said.map(|message| match message {
        FromGateway::DeviceEndpoints { devices, .. } => devices
            .into_iter()
            .map(|endpoint| (endpoint.client, endpoint.address))
            .collect(),
        other => panic!("{other:?}"),
    });
    lists.collect()
}

fn at(address: &str) -> Option<IpAddr> {
    Some(address.parse().unwrap())
}

#[test]
fn a_gateway_says_that_it_admits_devices_and_tells_where_they_are() {
    let mut play = Play::begin();
    play.connect();
    let Some(FromGateway::Hello { features, .. }) = play.said.first() else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&GatewayFeature::DeviceEndpoints));
}

#[test]
fn an_admitted_device_has_a_tunnel_and_reaches_nothing() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    let peer = &play.peers[&key(5)];
    assert_eq!(peer.preshared_key, PresharedKey::NONE);
    assert_eq!(peer.addresses[0], IpAddr::from(client_ipv4(5)));
    let mut entries = play.table.clients();
    assert!(entries.all(|entry| entry.grants().is_empty()));
    for to in [WEB, "100.64.0.1:53"] {
        assert_eq!(play.send(5, to), Err(DropReason::NoGrant), "{to}");
    }
    // It counts for nothing that is said of clients with grants.
    assert_eq!(play.gateway.client_count(), 0);
    let address = client_ipv4(5).into();
    assert_eq!(play.gateway.plain_client_at(address), None);
}

#[test]
fn a_grant_opens_and_ends_without_a_gap_in_the_tunnel() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    let before = play.peers.clone();
    grant(&mut play, &plain(claims(1, 5, 9)));
    play.assert_reaches(5, WEB);
    assert_eq!(play.gateway.client_count(), 1);
    play.revoke(1);
    assert_eq!(play.send(5, WEB), Err(DropReason::NoGrant));
    assert_eq!(play.peers, before);
    assert_eq!(play.gateway.client_count(), 0);
    grant(&mut play, &plain(claims(2, 5, 9)));
    play.pass(HOUR_MS + 1_000);
    assert_eq!(play.peers, before, "it expired");
}

#[test]
fn a_dismissed_device_is_no_peer_and_one_with_a_grant_stays_until_that_ends() {
    let mut play = Play::open();
    list(&mut play, &[5, 6]);
    grant(&mut play, &plain(claims(1, 6, 9)));
    for client in [device(5), device(6)] {
        play.hear(ToGateway::DeviceDismissed { client });
    }
    assert!(!play.peers.contains_key(&key(5)));
    play.assert_reaches(6, WEB);
    play.revoke(1);
    play.assert_reaches_nothing();
}

#[test]
fn a_device_with_another_key_is_another_peer() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    let device = AdmittedDevice {
        client_key: key(77),
        ..admitted(5)
    };
    play.hear(ToGateway::DeviceAdmitted { device });
    assert_eq!(play.peers.keys().collect::<Vec<_>>(), [&key(77)]);
}

#[test]
fn a_list_replaces_the_one_before_once_it_is_whole() {
    let mut play = Play::open();
    list(&mut play, &[5, 6]);
    play.break_off();
    play.connect();
    play.welcome(&[]);
    let page = |numbers: &[u8], more| ToGateway::DevicesAdmitted {
        devices: numbers.iter().map(|number| admitted(*number)).collect(),
        more,
        kept_s: KEPT_S,
    };
    play.hear(page(&[6], true));
    assert_eq!(play.peers.len(), 2, "the list is not whole");
    play.hear(page(&[7], false));
    assert_eq!(play.peers.keys().collect::<Vec<_>>(), [&key(6), &key(7)]);
}

#[test]
fn without_the_portal_they_stay_for_as_long_as_a_grant_does() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    play.disconnect();
    let kept_ms = u64::from(KEPT_S) * 1_000;
    play.pass(kept_ms - 1_000);
    assert!(play.peers.contains_key(&key(5)));
    play.pass(2_000);
    play.assert_reaches_nothing();
}

#[test]
fn what_ends_all_grants_ends_all_admissions() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    play.hear(ToGateway::Verification { awaited: true });
    play.assert_reaches_nothing();
}

#[test]
fn nobody_is_admitted_with_the_key_or_the_address_of_another_or_of_the_gateway() {
    let mut play = Play::open();
    grant(&mut play, &claims(1, 5, 9));
    let key_of_another = AdmittedDevice {
        client_key: key(5),
        ..admitted(6)
    };
    let address_of_another = AdmittedDevice {
        client_ipv4: client_ipv4(5),
        ..admitted(7)
    };
    let own = AdmittedDevice {
        client_key: crate::play::options().public_key,
        ..admitted(8)
    };
    for device in [key_of_another, address_of_another, own] {
        play.hear(ToGateway::DeviceAdmitted { device });
    }
    assert_eq!(play.peers.keys().collect::<Vec<_>>(), [&key(5)]);
    play.assert_reaches(5, WEB);
}

#[test]
fn more_devices_than_there_can_be_end_the_session() {
    let mut play = Play::open();
    for page in 0..5_u16 {
        let devices = (0..2_048_u16).map(|number| {
            let [high, low] = (page * 2_048 + number).to_be_bytes();
            let mut bytes = [9; 16];
            bytes[..2].copy_from_slice(&[high, low]);
            AdmittedDevice {
                client: ClientId::from_bytes(bytes),
                ..admitted(5)
            }
        });
        play.hear(ToGateway::DevicesAdmitted {
            devices: devices.collect(),
            more: true,
            kept_s: KEPT_S,
        });
    }
    assert_eq!(play.disconnects, 1);
}

#[test]
fn the_portal_hears_of_devices_once_it_has_said_which_are_admitted() {
    let mut play = Play::open();
    grant(&mut play, &plain(claims(1, 5, 9)));
    hear(&mut play, 5, HOME, 1);
    play.pass(5_000);
    assert!(
        told(&mut play).is_empty(),
        "an older portal does not know it"
    );
    list(&mut play, &[6]);
    assert_eq!(told(&mut play), [vec![(device(5), at(HOME))]]);
    hear(&mut play, 6, ROAD, 1);
    play.pass(1_000);
    assert_eq!(told(&mut play), [vec![(device(6), at(ROAD))]]);
    play.break_off();
    play.connect();
    play.welcome(&[grant_id(1)]);
    list(&mut play, &[6]);
    let mut all = told(&mut play).concat();
    all.sort_unstable();
    assert_eq!(all, [(device(5), at(HOME)), (device(6), at(ROAD))]);
}

#[test]
fn a_list_without_devices_is_told_as_well() {
    let mut play = Play::open();
    list(&mut play, &[]);
    assert_eq!(told(&mut play), [vec![]]);
}

#[test]
fn a_move_is_told_within_half_a_second_and_clients_with_culvert_are_never_told_of() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    grant(&mut play, &claims(1, 7, 9));
    hear(&mut play, 5, HOME, 1);
    hear(&mut play, 7, HOME, 1);
    play.pass(1_000);
    told(&mut play);
    hear(&mut play, 5, ROAD, 1);
    play.pass(500);
    assert_eq!(told(&mut play), [vec![(device(5), at(ROAD))]]);
    hear(&mut play, 5, HOME, 1);
    play.pass(500);
    assert_eq!(told(&mut play), [vec![(device(5), at(HOME))]]);
}

#[test]
fn the_time_of_the_handshake_is_the_portal_s() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    let begun_ms = play.unix_ms();
    assert!(begun_ms >= START_UNIX_MS);
    hear(&mut play, 5, HOME, 1);
    play.pass(700);
    hear(&mut play, 5, ROAD, 1);
    play.pass(500);
    let handshakes = play.said.iter().filter_map(|message| match message {
        FromGateway::DeviceEndpoints { devices, .. } => devices.first(),
        _ => None,
    });
    let handshakes: Vec<u64> = handshakes.map(|it| it.handshake.unix_ms()).collect();
    assert_eq!(handshakes, [begun_ms, begun_ms]);
}

#[test]
fn a_grant_whose_key_a_device_has_is_refused_while_that_is_admitted() {
    let mut play = Play::open();
    list(&mut play, &[5]);
    let claims = GrantClaims {
        client_key: key(5),
        ..plain(claims(1, 6, 9))
    };
    grant(&mut play, &claims);
    play.assert_refused(1, ReasonCode::BadGrant, "somebody else");
    play.hear(ToGateway::DeviceDismissed { client: device(5) });
    grant(&mut play, &claims);
    play.assert_accepted(1);
}
