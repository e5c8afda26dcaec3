//! DNS questions of clients that are none for addresses: who may ask what.

use crate::play::{HOUR_MS, Play, claims, client_ipv4, filters, found, name, name_claims, wanted};
use culvert_gateway_core::{MAX_QUESTIONS, NotAsked};
use culvert_ids::ClientId;
use culvert_policy::gate::DropReason;
use std::net::IpAddr;

const PATTERN: &str = "**.corp.example";
const DB: &str = "db.corp.example";
const TO: &str = "100.64.0.1:20053";

/// Client 5 may use names below `corp.example`, client 6 addresses alone.
fn play() -> Play {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.grant(&claims(2, 6, 1));
    play
}

fn asked(play: &mut Play, client: u8, text: &str) -> Result<ClientId, NotAsked> {
    let from = IpAddr::from(client_ipv4(client));
    let asked = play.gateway.handle_question(from, &name(text), play.now());
    if let Ok(client) = asked {
        play.gateway.handle_question_answered(client);
    }
    asked
}

#[test]
fn a_client_asks_for_names_of_its_resources_and_for_no_others() {
    let mut play = play();
    let own = Ok(ClientId::from_bytes([5; 16]));
    for text in [
        DB,
        "_ldap._tcp.corp.example",
        "not-yet-asked-for.corp.example",
    ] {
        assert_eq!(asked(&mut play, 5, text), own, "{text}");
    }
    for text in ["corp.example", "db.corp.example.net", "example"] {
        assert_eq!(
            asked(&mut play, 5, text),
            Err(NotAsked::NotGranted),
            "{text}"
        );
    }
    for client in [6, 7] {
        assert_eq!(asked(&mut play, client, DB), Err(NotAsked::NotGranted));
    }
}

#[test]
fn questions_reach_the_gateway_while_a_grant_to_names_lasts() {
    let mut play = play();
    assert_eq!(play.gateway.site_dns(), Some(TO.parse().unwrap()));
    play.assert_reaches(5, TO);
    for to in [
        "100.64.0.1:53",
        "100.64.0.1:20054",
        "[fd00:2021:1111::1]:20053",
    ] {
        assert_eq!(play.send(5, to), Err(DropReason::NoGrant), "{to}");
    }
    assert_eq!(play.send(6, TO), Err(DropReason::NoGrant));
    play.now_ms += HOUR_MS - 1;
    play.assert_reaches(5, TO);
    play.now_ms += 1;
    assert_eq!(play.send(5, TO), Err(DropReason::Expired));
    assert_eq!(asked(&mut play, 5, DB), Err(NotAsked::NotGranted));
}

#[test]
fn nobody_asks_by_a_grant_that_was_taken_back() {
    let mut play = play();
    play.grant_with(&name_claims(3, 5, 8, "a.example"), None, &[]);
    play.revoke(1);
    assert_eq!(asked(&mut play, 5, DB), Err(NotAsked::NotGranted));
    assert!(asked(&mut play, 5, "a.example").is_ok());
    play.assert_reaches(5, TO);
    play.revoke(3);
    assert_eq!(play.send(5, TO), Err(DropReason::NoGrant));
}

#[test]
fn a_resource_around_the_gateways_address_stays_what_it_was() {
    let mut play = play();
    let mut wide = claims(4, 5, 3);
    wide.target = crate::play::target("100.64.0.0/10").into();
    wide.filters = filters(r#"[{"protocol":"tcp","ports":[80]}]"#);
    play.grant(&wide);
    play.assert_reaches(5, TO);
    assert_eq!(play.send(5, "100.64.0.1:20054"), Err(DropReason::Protocol));
    assert_eq!(play.send(5, "100.64.0.9:20053"), Err(DropReason::Protocol));
}

#[test]
fn a_client_has_a_share_of_the_questions_at_once() {
    let mut play = play();
    let from = IpAddr::from(client_ipv4(5));
    let mut begun = 0;
    while play
        .gateway
        .handle_question(from, &name(DB), play.now())
        .is_ok()
    {
        begun += 1;
    }
    assert!((10..MAX_QUESTIONS / 4).contains(&begun), "{begun}");
    assert_eq!(asked(&mut play, 5, DB), Err(NotAsked::TooMany));
    play.gateway
        .handle_question_answered(ClientId::from_bytes([5; 16]));
    assert!(asked(&mut play, 5, DB).is_ok());
}
