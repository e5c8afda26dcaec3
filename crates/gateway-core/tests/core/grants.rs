//! Grants: which are taken, what follows, and how they end.

use crate::play::{
    HOUR_MS, Play, START_UNIX_MS, Signer, claims, client_ipv4, filters, grant_id, key,
    preshared_key, resource_id, target,
};
use culvert_base::UnixTime;
use culvert_gateway_core::CLOCK_SKEW;
use culvert_ids::{ClientId, GatewayId};
use culvert_policy::gate::{DropReason, Gate, Seed};
use culvert_wire::messages::{FromGateway, GrantLabels, ReasonCode, ToGateway};
use culvert_wire::{Cipher, GrantClaims, Timestamp};
use std::time::Duration;

const START: UnixTime = UnixTime::from_millis(START_UNIX_MS);

#[test]
fn a_grant_gives_its_client_a_peer_and_a_way() {
    let mut play = Play::open();
    play.assert_reaches_nothing();
    let mut claims = claims(1, 5, 9);
    claims.cipher = Cipher::Aes256Gcm;
    play.grant(&claims);
    play.assert_accepted(1);
    let peer = &play.peers[&key(5)];
    assert_eq!(peer.preshared_key, preshared_key(&claims));
    assert_eq!(peer.cipher, Cipher::Aes256Gcm);
    let own: [std::net::IpAddr; 2] = [claims.client_ipv4.into(), claims.client_ipv6.into()];
    assert_eq!(peer.addresses, own);
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.send(5, "10.0.8.1:53"), Err(DropReason::NoGrant));
}

#[test]
fn filters_hold_and_an_empty_list_allows_nothing() {
    let mut play = Play::open();
    let mut narrow = claims(1, 5, 9);
    narrow.filters = filters(r#"[{"protocol":"udp","ports":[53]}]"#);
    play.grant(&narrow);
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.send(5, "10.0.9.1:54"), Err(DropReason::Port));
    let mut empty = claims(2, 5, 8);
    empty.filters = filters("[]");
    play.grant(&empty);
    assert!(play.send(5, "10.0.8.1:53").is_err());
}

/// A change that makes a grant wrong, the code of the refusal, and a word of its text.
type Wrong = (fn(&mut GrantClaims), ReasonCode, &'static str);

#[test]
fn what_a_grant_says_must_hold_here_and_now() {
    let wrongs: [Wrong; 9] = [
        (
            |it| it.gateway = GatewayId::from_bytes([9; 16]),
            ReasonCode::BadGrant,
            "another gateway",
        ),
        (
            |it| it.exp = Timestamp::from_unix_ms(START_UNIX_MS),
            ReasonCode::Expired,
            "expired 0 s ago",
        ),
        (
            |it| it.exp = Timestamp::from_unix_ms(START_UNIX_MS - 90_000),
            ReasonCode::Expired,
            "expired 90 s ago",
        ),
        (
            |it| {
                it.iat = Timestamp::from(START.saturating_add(CLOCK_SKEW + Duration::from_secs(1)));
            },
            ReasonCode::BadGrant,
            "61 s from now",
        ),
        (
            |it| it.client_ipv4 = "10.0.0.1".parse().unwrap(),
            ReasonCode::BadGrant,
            "addresses",
        ),
        (
            |it| it.client_ipv4 = "100.64.0.1".parse().unwrap(),
            ReasonCode::BadGrant,
            "addresses",
        ),
        (
            |it| it.client_ipv6 = "2001:db8::1".parse().unwrap(),
            ReasonCode::BadGrant,
            "addresses",
        ),
        (
            |it| it.client_key = key(250),
            ReasonCode::BadGrant,
            "somebody else",
        ),
        (
            |it| it.target = target("10.0.9.1/24").into(),
            ReasonCode::BadGrant,
            "resource",
        ),
    ];
    for (spoil, code, word) in wrongs {
        let mut play = Play::open();
        let mut claims = claims(1, 5, 9);
        spoil(&mut claims);
        play.grant(&claims);
        play.assert_refused(1, code, word);
        play.assert_reaches_nothing();
        assert_eq!(play.gateway.counters().refused, 1);
    }
}

#[test]
fn a_grant_made_within_the_tolerated_skew_of_clocks_is_taken() {
    let mut play = Play::open();
    let mut claims = claims(1, 5, 9);
    claims.iat = Timestamp::from(START.saturating_add(CLOCK_SKEW));
    play.grant(&claims);
    play.assert_accepted(1);
}

#[test]
fn what_the_portals_key_has_not_signed_is_no_grant() {
    let mut play = Play::open();
    let forged = Signer::new(8).sign(&claims(1, 5, 9));
    play.hear(ToGateway::Grant {
        token: forged,
        preshared_key: preshared_key(&claims(1, 5, 9)),
        replaces: None,
        names: Vec::new(),
        labels: GrantLabels::default(),
    });
    play.assert_refused(1, ReasonCode::BadGrant, "signature");
    play.assert_reaches_nothing();
}

#[test]
fn keys_of_a_later_welcome_take_the_place_of_earlier_ones() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.disconnect();
    let old = std::mem::replace(&mut play.portal, Signer::new(8));
    play.reconnect(&[grant_id(1)]);
    // A grant of the old key goes on: the portal has confirmed it.
    play.assert_reaches(5, "10.0.9.1:53");
    play.grant(&claims(2, 6, 9));
    play.assert_reaches(6, "10.0.9.1:53");
    let token = old.sign(&claims(3, 7, 9));
    play.hear(ToGateway::Grant {
        token,
        preshared_key: preshared_key(&claims(3, 7, 9)),
        replaces: None,
        names: Vec::new(),
        labels: GrantLabels::default(),
    });
    play.assert_refused(3, ReasonCode::BadGrant, "signature");
}

#[test]
fn no_two_clients_have_one_address_or_one_key() {
    let spoil: [fn(&mut GrantClaims); 3] = [
        |it| it.client_ipv4 = client_ipv4(5),
        |it| it.client_ipv6 = claims(1, 5, 9).client_ipv6,
        |it| it.client_key = key(5),
    ];
    for spoil in spoil {
        let mut play = Play::open();
        play.grant(&claims(1, 5, 9));
        let mut second = claims(2, 6, 8);
        spoil(&mut second);
        play.grant(&second);
        play.assert_refused(2, ReasonCode::BadGrant, "somebody else");
        play.assert_reaches(5, "10.0.9.1:53");
        play.revoke(1);
        play.said.clear();
        play.grant(&second);
        play.assert_accepted(2);
    }
}

#[test]
fn an_id_is_one_grants_alone() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(1, 6, 8));
    play.assert_refused(1, ReasonCode::BadGrant, "another grant");
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.peers.len(), 1);
    // The very same one comes again: nothing changes.
    play.said.clear();
    play.grant(&claims(1, 5, 9));
    play.assert_accepted(1);
    play.revoke(1);
    play.assert_reaches_nothing();
}

#[test]
fn a_grant_replaces_another_without_a_gap() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
    play.send_through(&mut gate, 5, "10.0.9.1:53").unwrap();
    let before = play.peers.clone();
    play.said.clear();
    let mut later = claims(2, 5, 9);
    later.exp = Timestamp::from_unix_ms(START_UNIX_MS + 2 * HOUR_MS);
    play.grant_with(&later, Some(grant_id(1)), &[]);
    play.assert_accepted(2);
    assert_eq!(play.peers, before, "the peer keeps its tunnel");
    assert_eq!(play.gateway.grants().collect::<Vec<_>>(), [grant_id(2)]);
    // The flow goes on, beyond the end of the first grant.
    play.pass(HOUR_MS + 1_000);
    play.send_through(&mut gate, 5, "10.0.9.1:53").unwrap();
    assert_eq!(gate.flow_count(), 1);
    play.revoke(1);
    play.assert_reaches(5, "10.0.9.1:53");
}

#[test]
fn a_grant_that_replaces_another_may_end_earlier() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let mut sooner = claims(2, 5, 9);
    sooner.exp = Timestamp::from_unix_ms(START_UNIX_MS + 60_000);
    play.grant_with(&sooner, Some(grant_id(1)), &[]);
    play.assert_reaches(5, "10.0.9.1:53");
    play.pass(60_000);
    play.assert_reaches_nothing();
}

#[test]
fn only_a_grant_of_the_same_client_and_resource_is_replaced() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant_with(&claims(2, 6, 9), Some(grant_id(1)), &[]);
    play.grant_with(&claims(3, 5, 8), Some(grant_id(1)), &[]);
    for (client, to) in [(5, "10.0.9.1:1"), (6, "10.0.9.1:1"), (5, "10.0.8.1:1")] {
        play.assert_reaches(client, to);
    }
}

#[test]
fn a_grant_ends_at_its_expiry_with_its_flows() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
    play.send_through(&mut gate, 5, "10.0.9.1:53").unwrap();
    play.now_ms += HOUR_MS;
    // The data plane does not wait for the core to wake up.
    assert!(play.send_through(&mut gate, 5, "10.0.9.1:53").is_err());
    play.now_ms -= HOUR_MS;
    play.pass(HOUR_MS);
    play.assert_reaches_nothing();
    assert_eq!(play.gateway.counters().expired, 1);
    assert_eq!(play.gateway.client_count(), 0);
}

#[test]
fn a_revoked_grant_ends_at_once_and_takes_nothing_else_along() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 5, 8));
    let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
    play.send_through(&mut gate, 5, "10.0.9.1:53").unwrap();
    play.revoke(1);
    assert!(play.send_through(&mut gate, 5, "10.0.9.1:53").is_err());
    play.assert_reaches(5, "10.0.8.1:53");
    play.revoke(2);
    play.assert_reaches_nothing();
    assert_eq!(play.gateway.counters().revoked, 2);
    // It may name one that has ended already.
    play.revoke(2);
    assert_eq!(play.disconnects, 0);
}

#[test]
fn a_filter_of_a_later_version_allows_nothing_and_leaves_the_others() {
    let mut play = Play::open();
    let mut later = claims(1, 5, 9);
    later.filters = filters(r#"[{"protocol":"quic"},{"protocol":"udp","ports":[53]}]"#);
    play.grant(&later);
    play.assert_accepted(1);
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.send(5, "10.0.9.1:80"), Err(DropReason::Port));
    let mut alone = claims(2, 6, 8);
    alone.filters = filters(r#"[{"protocol":"quic"}]"#);
    play.grant(&alone);
    play.assert_accepted(2);
    assert!(play.send(6, "10.0.8.1:443").is_err());
}

#[test]
fn changed_filters_hold_for_every_grant_of_the_resource() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 6, 9));
    play.grant(&claims(3, 5, 8));
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    for client in [5, 6] {
        play.assert_reaches(client, "10.0.9.1:53");
        assert_eq!(play.send(client, "10.0.9.1:80"), Err(DropReason::Port));
    }
    play.assert_reaches(5, "10.0.8.1:80");
    // Filters that this version does not understand allow nothing.
    let later = filters(r#"[{"protocol":"sctp"},{"protocol":"udp","ports":[53],"except":"x"}]"#);
    assert_eq!(later.others(), 2);
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: later,
    });
    assert!(play.gateway.is_connected());
    assert!(play.send(5, "10.0.9.1:53").is_err());
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[]}]"#),
    });
    assert!(play.send(5, "10.0.9.1:53").is_err());
}

#[test]
fn a_client_with_a_new_key_has_no_grant_of_the_old_one() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.grant(&claims(2, 5, 8));
    let mut renewed = claims(3, 5, 9);
    renewed.client_key = key(105);
    play.grant(&renewed);
    play.assert_accepted_last(3);
    assert_eq!(play.peers.keys().copied().collect::<Vec<_>>(), [key(105)]);
    assert_eq!(play.gateway.grants().collect::<Vec<_>>(), [grant_id(3)]);
    assert_eq!(play.table.clients().count(), 1);
    play.revoke(3);
    play.assert_reaches_nothing();
}

#[test]
fn a_grant_too_many_leaves_those_before_it() {
    let mut play = Play::open();
    let most = culvert_policy::gate::MAX_GRANTS_PER_CLIENT;
    let mut one = claims(1, 5, 9);
    for number in 0..=most {
        let mut bytes = [7; 16];
        bytes[..2].copy_from_slice(&u16::try_from(number).unwrap().to_be_bytes());
        one.grant = culvert_ids::GrantId::from_bytes(bytes);
        play.said.clear();
        play.grant(&one);
    }
    let last = play.said.pop();
    let Some(FromGateway::GrantRefused { grant, reason }) = last else {
        panic!("{last:?}");
    };
    assert_eq!((grant, reason.code), (one.grant, ReasonCode::TooMany));
    assert_eq!(play.gateway.grants().count(), most);
    play.assert_reaches(5, "10.0.9.1:53");
}

#[test]
fn another_identity_voids_every_grant() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.break_off();
    play.connect();
    let mut welcome = play.welcome_message(&[grant_id(1)]);
    if let ToGateway::Welcome { gateway, .. } = &mut welcome {
        *gateway = GatewayId::from_bytes([77; 16]);
    }
    play.hear(welcome);
    play.assert_reaches_nothing();
}

#[test]
fn clients_are_told_apart_by_their_ids() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let mut same = claims(2, 5, 8);
    same.client = ClientId::from_bytes([66; 16]);
    play.grant(&same);
    play.assert_refused(2, ReasonCode::BadGrant, "somebody else");
}

impl Play {
    #[track_caller]
    fn assert_accepted_last(&mut self, number: u8) {
        let accepted = self.take_accepted();
        assert_eq!(accepted.last().unwrap().0, grant_id(number));
    }
}

#[test]
fn without_the_kernels_guard_nothing_passes_and_with_it_everything_is_as_before() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
    play.send_through(&mut gate, 5, "10.0.9.1:53").unwrap();
    play.gateway.handle_guard(false, play.now());
    play.execute();
    assert!(play.send_through(&mut gate, 5, "10.0.9.1:53").is_err());
    assert!(play.peers.contains_key(&key(5)), "tunnels stay up");
    // A client that comes meanwhile reaches nothing either.
    play.said.clear();
    play.is_guarded = false;
    play.grant(&claims(2, 6, 9));
    play.is_guarded = true;
    assert!(play.send(6, "10.0.9.1:53").is_err());
    play.gateway.handle_guard(true, play.now());
    play.execute();
    for client in [5, 6] {
        play.assert_reaches(client, "10.0.9.1:53");
    }
    play.send_through(&mut gate, 5, "10.0.9.1:54").unwrap();
    play.revoke(1);
    assert!(play.send_through(&mut gate, 5, "10.0.9.1:54").is_err());
}
