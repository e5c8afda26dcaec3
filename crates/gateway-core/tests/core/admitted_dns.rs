//! A gateway answers the DNS questions of plain WireGuard devices that it is the DNS server of, without a grant (ADR 0067).

use crate::plain_dns::{
    A, DB, NO_ERROR, NO_SUCH_NAME, PATTERN, answer, ask, device, look_up, plain,
};
use crate::play::{Play, claims, client_ipv4, found, name_claims, resource_id};
use culvert_policy::gate::DropReason;
use culvert_wire::messages::{
    AdmittedDevice, FromGateway, GatewayFeature, NameElsewhere, SiteAnswer, ToGateway,
};
use std::net::IpAddr;

const ASK_AT: &str = "100.64.0.1:53";
const PUBLIC: &str = "www.example.com";

fn admitted(number: u8, dns: bool) -> AdmittedDevice {
    let claims = claims(1, number, 9);
    AdmittedDevice {
        client: claims.client,
        client_key: claims.client_key,
        client_ipv4: claims.client_ipv4,
        client_ipv6: claims.client_ipv6,
        dns,
    }
}

/// The gateway is the DNS server of device 5, and not of device 6. Neither has a grant.
fn play() -> Play {
    let mut play = Play::open();
    play.hear(ToGateway::DevicesAdmitted {
        devices: vec![admitted(5, true), admitted(6, false)],
        more: false,
        kept_s: 3_600,
    });
    play
}

#[test]
fn the_gateway_says_that_it_answers_devices_without_a_grant() {
    let mut play = Play::begin();
    play.connect();
    let Some(FromGateway::Hello { features, .. }) = play.said.first() else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&GatewayFeature::AdmittedDns));
}

#[test]
fn without_a_grant_a_device_asks_its_dns_server_and_reaches_nothing_else() {
    let play = play();
    play.assert_reaches(5, ASK_AT);
    for to in [
        "10.0.9.1:53",
        "100.64.0.1:20053",
        "100.64.0.1:80",
        "100.64.0.6:53",
    ] {
        assert_eq!(play.send(5, to), Err(DropReason::NoGrant), "{to}");
    }
    assert_eq!(play.send(6, ASK_AT), Err(DropReason::NoGrant));
    let at = |number| play.gateway.plain_client_at(client_ipv4(number).into());
    assert_eq!((at(5), at(6)), (Some(device(5)), None));
    assert_eq!(play.gateway.client_count(), 0);
}

#[test]
fn it_finds_public_names_and_nothing_of_the_private_network() {
    let mut play = play();
    for (name, address, expected) in [
        (PUBLIC, [203, 0, 113, 7], NO_ERROR),
        (DB, [10, 7, 0, 1], NO_SUCH_NAME),
    ] {
        ask(&mut play, 5, name, A);
        look_up(&mut play, NO_ERROR, &[(A, address.to_vec())]);
        let (code, addresses) = answer(&mut play, 5).unwrap();
        assert_eq!(code, expected, "{name}");
        let is_told = addresses == [IpAddr::from(address)];
        assert_eq!(is_told, code == NO_ERROR, "{addresses:?}");
    }
    assert!(play.asked.is_empty(), "no name of a resource is looked for");
}

#[test]
fn a_resource_by_name_that_is_granted_later_is_found_and_its_end_leaves_public_names() {
    let mut play = play();
    ask(&mut play, 5, PUBLIC, A);
    look_up(&mut play, NO_ERROR, &[(A, vec![203, 0, 113, 7])]);
    assert_eq!(answer(&mut play, 5).unwrap().0, NO_ERROR);
    let peers = play.peers.clone();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    ask(&mut play, 5, DB, A);
    play.resolved(DB, found(&["10.7.0.1"]));
    let (code, addresses) = answer(&mut play, 5).unwrap();
    assert_eq!((code, addresses.len()), (NO_ERROR, 1));
    let at = format!("{}:443", addresses[0]);
    assert_eq!(play.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
    play.revoke(1);
    play.assert_reaches(5, ASK_AT);
    ask(&mut play, 5, DB, A);
    look_up(&mut play, NO_ERROR, &[(A, vec![10, 7, 0, 1])]);
    assert_eq!(answer(&mut play, 5), Some((NO_SUCH_NAME, vec![])));
    assert_eq!(play.peers.len(), peers.len());
}

#[test]
fn a_name_of_another_site_is_asked_for_there() {
    let mut play = play();
    play.hear(ToGateway::NamesElsewhere {
        client: device(5),
        place: 0,
        names: vec![NameElsewhere {
            resource: resource_id(9),
            pattern: PATTERN.to_owned(),
            place: 1,
        }],
    });
    play.said.clear();
    ask(&mut play, 5, DB, A);
    let Some(FromGateway::AskName {
        ask: number, name, ..
    }) = play.said.pop()
    else {
        panic!("{:?}", play.said);
    };
    play.hear(ToGateway::NameAnswered {
        ask: number,
        answer: SiteAnswer::Found {
            ipv4: true,
            ipv6: false,
        },
    });
    let (bytes, _, _) = play.answers.remove(0);
    let told = crate::plain_dns::parse_answer(&bytes);
    assert_eq!(told, (NO_ERROR, vec![IpAddr::from(name.ipv4)]));
}

#[test]
fn a_device_that_is_admitted_no_more_or_for_less_asks_nothing() {
    for ended in [
        ToGateway::DeviceDismissed { client: device(5) },
        ToGateway::DeviceAdmitted {
            device: admitted(5, false),
        },
        ToGateway::Verification { awaited: true },
    ] {
        let mut play = play();
        ask(&mut play, 5, PUBLIC, A);
        play.hear(ended.clone());
        assert!(play.send(5, ASK_AT).is_err(), "{ended:?}");
        let at = client_ipv4(5).into();
        assert_eq!(play.gateway.plain_client_at(at), None, "{ended:?}");
        // The answer of the resolver comes too late.
        look_up(&mut play, NO_ERROR, &[(A, vec![203, 0, 113, 7])]);
        assert_eq!(answer(&mut play, 5), None, "{ended:?}");
    }
}
