//! Flows that resources begin at the host: the client holds grants for them by itself, and opens what the portal has told.

use crate::play::{Granting, HOUR_MS, Play, reason, resource, resource_id, to};
use culvert_client_core::status::AccessState;
use culvert_policy::Service;
use culvert_wire::messages::{FromClient, ReasonCode, ToClient};
use culvert_wire::model::{Filter, PortRange, Resource};
use std::net::IpAddr;

const OFFICE: &str = "10.0.0.0/24";

fn opening(number: u8, address: &str) -> Resource {
    let ports = vec![PortRange {
        first: 22,
        last: 22,
    }];
    Resource {
        inbound: vec![Filter::Tcp { ports }].into(),
        // It is used by nobody here.
        filters: Vec::new().into(),
        ..resource(number, address)
    }
}

fn open(resources: Vec<Resource>) -> Play {
    let mut play = Play::open(&[]);
    play.disconnect();
    play.reconnect(resources, Vec::new());
    play
}

fn set(play: &mut Play, resource: Resource) {
    play.hear(ToClient::ResourceSet { resource });
}

fn is_open(play: &Play, from: &str, port: u16) -> bool {
    let from: IpAddr = from.parse().unwrap();
    play.inbound.opens(from, Service::Tcp(port), play.now())
}

fn requests(play: &mut Play) -> Vec<u64> {
    let said = std::mem::take(&mut play.said).into_iter();
    let requests = said.filter_map(|message| match message {
        FromClient::RequestAccess { request, .. } => Some(request),
        _ => None,
    });
    requests.collect()
}

/// A client that was granted resource 1 without a packet.
fn granted() -> Play {
    let mut play = open(vec![opening(1, OFFICE)]);
    let asked = requests(&mut play);
    play.grant(asked[0], 1, Granting::through(1, 1));
    play
}

#[test]
fn a_grant_is_asked_for_without_a_packet_and_opens_what_the_portal_told() {
    let mut play = open(vec![opening(1, OFFICE), resource(2, "10.5.0.0/24")]);
    assert!(!is_open(&play, "10.0.0.7", 22), "there is no grant");
    let asked = requests(&mut play);
    assert_eq!(asked.len(), 1, "the other opens nothing");
    play.grant(asked[0], 1, Granting::through(1, 1));
    assert!(is_open(&play, "10.0.0.7", 22));
    assert!(!is_open(&play, "10.0.0.7", 23) && !is_open(&play, "10.5.0.7", 22));
    // A path to the gateway is kept open, and begun at once.
    assert!(play.peers.values().all(|peer| peer.is_kept_open));
    assert_eq!(play.begun.len(), 1);
}

#[test]
fn it_closes_with_the_grant_and_with_the_portals_word() {
    let mut play = granted();
    set(&mut play, resource(1, OFFICE));
    assert!(!is_open(&play, "10.0.0.7", 22));
    assert!(!play.peers.values().any(|peer| peer.is_kept_open));
    set(&mut play, opening(1, OFFICE));
    assert!(is_open(&play, "10.0.0.7", 22));
    play.hear(ToClient::AccessRevoked {
        grant: crate::play::grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert!(!is_open(&play, "10.0.0.7", 22));
    let mut play = granted();
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(1),
    });
    assert!(!is_open(&play, "10.0.0.7", 22));
    let mut play = granted();
    play.disconnect();
    play.pass(HOUR_MS);
    assert!(!is_open(&play, "10.0.0.7", 22), "it has expired");
}

#[test]
fn a_grant_that_nothing_goes_through_is_renewed() {
    let mut play = granted();
    play.until_said();
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(1));
    play.grant(request, 1, Granting::through(1, 2));
    assert!(is_open(&play, "10.0.0.7", 22));
    // One that opens nothing is not.
    let mut play = Play::open(&[(1, OFFICE)]);
    play.gain("10.0.0.7", 1, Granting::through(1, 1));
    play.pass(HOUR_MS);
    assert!(requests(&mut play).is_empty());
}

#[test]
fn a_gateway_that_is_lost_has_another_one_asked_for() {
    let mut play = granted();
    play.hear(ToClient::GatewayLost {
        gateway: crate::play::gateway_id(1),
    });
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(2, 2));
    assert!(is_open(&play, "10.0.0.7", 22));
}

#[test]
fn a_denial_is_asked_about_again_soon_and_then_once_a_minute() {
    let mut play = open(vec![opening(1, OFFICE)]);
    let asked = requests(&mut play);
    play.deny(asked[0], 1, ReasonCode::NoGateway);
    let mut since_ms = play.now_ms;
    for wait_ms in [4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        play.until_said();
        let asked = requests(&mut play);
        assert_eq!(asked.len(), 1);
        let waited_ms = play.now_ms - since_ms;
        let expected = wait_ms..=wait_ms / 2 * 3 + 1;
        assert!(expected.contains(&waited_ms), "{waited_ms} for {wait_ms}");
        since_ms = play.now_ms;
        play.deny(asked[0], 1, ReasonCode::NoGateway);
    }
}

#[test]
fn a_bounded_number_of_grants_is_held_without_use() {
    let resources: Vec<Resource> = (1..=40)
        .map(|number| opening(number, &format!("10.{number}.0.0/16")))
        .collect();
    let mut play = open(resources);
    assert_eq!(requests(&mut play).len(), 32);
}

#[test]
fn names_and_the_tunnels_own_networks_open_nothing() {
    let mut play = open(vec![opening(1, "*.corp.example")]);
    assert!(requests(&mut play).is_empty());
    let mut play = open(vec![opening(2, "0.0.0.0/0")]);
    let asked = requests(&mut play);
    play.grant(asked[0], 2, Granting::through(1, 1));
    assert!(is_open(&play, "10.0.0.7", 22));
    assert!(!is_open(&play, "100.64.0.77", 22), "another client");
}

#[test]
fn a_narrower_resource_that_opens_nothing_is_cut_out() {
    let mut play = open(vec![opening(1, "10.0.0.0/8"), resource(2, OFFICE)]);
    let asked = requests(&mut play);
    play.grant(asked[0], 1, Granting::through(1, 1));
    assert_eq!(
        play.way_to("10.0.0.7"),
        None,
        "it has no grant: no way in either"
    );
    play.packet(1, to("10.0.0.7", 80));
    let asked = requests(&mut play);
    play.grant(asked[0], 2, Granting::through(1, 2));
    assert!(!is_open(&play, "10.0.0.7", 22) && is_open(&play, "10.1.0.7", 22));
}

#[test]
fn the_status_says_who_may_begin_what() {
    let mut play = open(vec![opening(1, OFFICE), resource(2, "10.5.0.0/24")]);
    let told = |play: &Play| -> Vec<(Vec<String>, AccessState)> {
        let view = play.client.view(play.now(), play.unix());
        let resources = view.resources.into_iter();
        resources.map(|it| (it.inbound, it.state)).collect()
    };
    let services = vec!["tcp:22".to_owned()];
    assert_eq!(told(&play)[0], (services.clone(), AccessState::Asking));
    assert_eq!(told(&play)[1], (Vec::new(), AccessState::Idle));
    let asked = requests(&mut play);
    play.grant(asked[0], 1, Granting::through(1, 1));
    assert_eq!(told(&play)[0], (services, AccessState::Granted));
    set(&mut play, resource(1, OFFICE));
    assert_eq!(told(&play)[0].0, Vec::<String>::new());
}
