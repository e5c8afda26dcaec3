//! Reports of a gateway about itself.

use super::play::{
    GATEWAY, HOUR_MS, Play, SITE, START_UNIX_MS, claims, client_ipv4, found, grant_id, key,
    name_claims, resource_id, wanted,
};
use culvert_base::UnixTime;
use culvert_control::PortalState;
use culvert_gateway_core::status::{MAX_LISTED_CLIENTS, MAX_LISTED_GRANTS};
use culvert_gateway_core::{NotReady, View};
use culvert_ids::{ClientId, GrantId};
use culvert_wire::GrantClaims;
use std::net::Ipv4Addr;

fn view(play: &Play) -> View {
    play.gateway
        .view(play.now(), UnixTime::from_millis(play.unix_ms()))
}

#[test]
fn a_gateway_tells_who_it_is_once_the_portal_has_said_so() {
    let mut play = Play::begin();
    let before = view(&play);
    assert_eq!(
        (before.gateway, before.site, before.interface),
        (None, None, None)
    );
    assert_eq!(before.portal.state, PortalState::Connecting);
    play.connect();
    play.welcome(&[]);
    play.pass(3_000);
    let after = view(&play);
    assert_eq!((after.gateway, after.site), (Some(GATEWAY), Some(SITE)));
    assert_eq!(after.interface.unwrap().ipv4, Ipv4Addr::new(100, 64, 0, 1));
    assert_eq!(after.candidates, super::play::candidates());
    assert_eq!(after.portal.state, PortalState::Connected);
    assert_eq!(after.portal.state_for_ms, 3_000);
    assert_eq!((after.portal.attempts, after.portal.sessions), (1, 1));
}

#[test]
fn a_lost_portal_is_told_with_its_error_and_the_next_attempt() {
    let mut play = Play::open();
    play.disconnect();
    let portal = view(&play).portal;
    assert_eq!(portal.state, PortalState::Waiting);
    assert_eq!(portal.last_error.as_deref(), Some("cut"));
    let next_ms = portal.next_attempt_in_ms.unwrap();
    assert!((1_000..=2_000).contains(&next_ms), "{next_ms}");
}

#[test]
fn clients_are_told_with_what_they_may_reach_and_until_when() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 1));
    play.grant(&claims(2, 5, 2));
    play.grant(&claims(3, 6, 1));
    play.pass(60_000);
    let view = view(&play);
    assert_eq!((view.client_count, view.grant_count), (2, 3));
    let [first, second] = &view.clients[..] else {
        panic!("{:?}", view.clients);
    };
    assert_eq!(first.id, ClientId::from_bytes([5; 16]));
    assert_eq!((first.public_key, first.ipv4), (key(5), client_ipv4(5)));
    assert_eq!((first.grant_count, second.grant_count), (2, 1));
    let grant = &first.grants[1];
    assert_eq!((grant.id, grant.resource), (grant_id(2), resource_id(2)));
    assert_eq!(grant.target, "10.0.2.0/24");
    assert_eq!(grant.expires.unix_ms(), START_UNIX_MS + HOUR_MS);
    assert_eq!(view.counters.accepted, 3);
    play.revoke(1);
    play.revoke(2);
    let view = self::view(&play);
    assert_eq!((view.clients.len(), view.grant_count), (1, 1));
    assert_eq!(view.counters.revoked, 2);
}

#[test]
fn names_are_told_with_where_they_lead_once_the_dns_has_answered() {
    let mut play = Play::open();
    let grant = name_claims(1, 5, 1, "db.corp.example");
    play.grant_with(&grant, None, &[wanted("db.corp.example", 1)]);
    let before = view(&play);
    assert_eq!((before.waiting_grants, before.grant_count), (1, 0));
    assert!(!before.names[0].answered);
    play.resolved("db.corp.example", found(&["10.7.0.1"]));
    let after = view(&play);
    assert_eq!((after.waiting_grants, after.grant_count), (0, 1));
    let [name] = &after.names[..] else {
        panic!("{:?}", after.names);
    };
    assert_eq!(name.name, "db.corp.example");
    assert!(name.answered);
    assert_eq!(name.ipv4, Some(Ipv4Addr::new(10, 7, 0, 1)));
    assert_eq!((name.ipv6, name.renewed_in_ms), (None, 30_000));
    // A name that leads to the gateway itself leads nowhere.
    play.pass(30_000);
    play.resolved("db.corp.example", found(&["127.0.0.1", "::1"]));
    let name = &view(&play).names[0];
    assert_eq!((name.answered, name.ipv4, name.ipv6), (true, None, None));
}

#[test]
fn a_gateway_is_ready_when_welcomed_or_while_it_holds_grants() {
    let mut play = Play::begin();
    assert_eq!(play.gateway.readiness(), Err(NotReady::Idle));
    play.connect();
    assert_eq!(play.gateway.readiness(), Err(NotReady::Idle));
    play.welcome(&[]);
    assert_eq!(play.gateway.readiness(), Ok(()));
    play.grant(&claims(1, 5, 1));
    play.disconnect();
    assert_eq!(play.gateway.readiness(), Ok(()), "grants go on");
    play.pass(HOUR_MS);
    assert_eq!(play.gateway.readiness(), Err(NotReady::Idle));
}

#[test]
fn a_gateway_that_drains_is_not_ready_whoever_asked_for_it() {
    let mut play = Play::open();
    play.gateway.handle_drain(true);
    assert_eq!(play.gateway.readiness(), Err(NotReady::Draining));
    assert!(play.gateway.summary().ends_with(", draining"));
    play.gateway.handle_drain(false);
    assert_eq!(play.gateway.readiness(), Ok(()));
    play.hear(culvert_wire::messages::ToGateway::Drain { on: true });
    assert_eq!(play.gateway.readiness(), Err(NotReady::Draining));
}

#[test]
fn a_gateway_without_its_guard_is_not_ready_until_it_is_back() {
    let mut play = Play::open();
    play.gateway.handle_guard(false, play.now());
    assert_eq!(play.gateway.readiness(), Err(NotReady::Unguarded));
    play.gateway.handle_guard(true, play.now());
    assert_eq!(play.gateway.readiness(), Ok(()));
}

/// A grant of a client of its own, by number.
fn numbered(number: u32) -> GrantClaims {
    let [.., high, low] = number.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    let mut key = [7; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    let base = claims(1, 1, 1);
    GrantClaims {
        grant: GrantId::from_bytes(bytes),
        client: ClientId::from_bytes(bytes),
        client_key: culvert_wire::PublicKey::from_bytes(key),
        client_ipv4: Ipv4Addr::new(100, 65, high, low),
        client_ipv6: format!("fd00:2021:1111::2:{number:x}").parse().unwrap(),
        ..base
    }
}

#[test]
fn more_clients_than_are_listed_are_counted() {
    let mut play = Play::open();
    let count = MAX_LISTED_CLIENTS + 10;
    for number in 0..u32::try_from(count).unwrap() {
        play.grant(&numbered(number));
    }
    let view = view(&play);
    assert_eq!(view.client_count, count);
    assert_eq!(view.clients.len(), MAX_LISTED_CLIENTS);
    assert!(view.grant_count <= MAX_LISTED_GRANTS);
}
