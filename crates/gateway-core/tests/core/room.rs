//! A client's share of names: those that nobody uses make room for new ones.

use crate::play::{Play, found, grant_id, name_claims, wanted};
use crate::questions::many;
use culvert_gateway_core::MAX_WAITING_PER_CLIENT;
use culvert_policy::gate::{DropReason, MAX_NAMES_PER_GRANT};
use culvert_wire::messages::{ReasonCode, WantedName};
use std::collections::BTreeSet;
use std::net::IpAddr;

const PATTERN: &str = "*.corp.example";

/// As many names as a client may have before the gateway looks for unused ones.
const UNCROWDED: usize = MAX_NAMES_PER_GRANT / 8 * 7;

/// The grant of client 5 gets these names too, as many a second as it may want at once. Returns the number of the next
/// grant.
fn add(play: &mut Play, mut number: u8, names: &[WantedName]) -> u8 {
    for names in names.chunks(MAX_WAITING_PER_CLIENT) {
        play.now_ms += 1_000;
        add_at_once(play, number, names);
        number += 1;
    }
    number
}

fn add_at_once(play: &mut Play, number: u8, names: &[WantedName]) {
    let replaces = (number > 1).then(|| grant_id(number - 1));
    play.grant_with(&name_claims(number, 5, 9, PATTERN), replaces, names);
    while let Some(asked) = play.asked.pop() {
        play.resolved(asked.as_str(), found(&["10.7.0.1"]));
    }
    play.assert_accepted(number);
}

/// Client 5 has as many of these as it may without a look; client 6 has one. Returns the number of the next grant.
fn with_names(play: &mut Play, names: &[WantedName]) -> u8 {
    play.grant_with(
        &name_claims(200, 6, 9, PATTERN),
        None,
        &[wanted("db.corp.example", 1)],
    );
    play.resolved("db.corp.example", found(&["10.7.0.2"]));
    play.assert_accepted(200);
    let number = add(play, 1, &names[..UNCROWDED]);
    assert_eq!(play.looks, 0);
    number
}

/// The addresses of names in use by client 5.
fn in_use<'a>(names: impl IntoIterator<Item = &'a WantedName>) -> BTreeSet<(IpAddr, IpAddr)> {
    let client = name_claims(1, 5, 9, PATTERN).client_ipv4;
    let names = names.into_iter();
    names
        .map(|name| (client.into(), name.ipv4.into()))
        .collect()
}

fn reaches(play: &mut Play, name: &WantedName) -> bool {
    match play.send(5, &format!("{}:80", name.ipv4)) {
        Ok(_) => true,
        Err(DropReason::NoGrant) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn names_without_flows_give_way_the_oldest_first_and_those_with_flows_stay() {
    let mut play = Play::open();
    let names = many(MAX_NAMES_PER_GRANT + 10, "x");
    let number = with_names(&mut play, &names);
    let number = add(&mut play, number, &names[UNCROWDED..=UNCROWDED]);
    assert_eq!(play.looks, 1, "its share is almost full");
    let now = play.now();
    play.gateway.handle_names_in_use(&in_use(&names[..10]), now);
    play.execute();
    let gone = UNCROWDED + 1 - MAX_NAMES_PER_GRANT / 4 * 3;
    assert_eq!(play.gateway.counters().names_evicted, gone as u64);
    assert!(reaches(&mut play, &names[0]) && reaches(&mut play, &names[9]));
    assert!(!reaches(&mut play, &names[10]) && !reaches(&mut play, &names[gone - 1]));
    assert!(reaches(&mut play, &names[UNCROWDED]), "the newest stays");
    let others = play.send(6, "100.96.0.1:80");
    assert!(others.is_ok(), "another client loses nothing");
    // More than there was room for before.
    add(&mut play, number, &names[UNCROWDED + 1..]);
    assert!(reaches(&mut play, names.last().unwrap()));
}

#[test]
fn where_all_names_have_flows_none_gives_way_and_new_ones_are_refused() {
    let mut play = Play::open();
    let names = many(MAX_NAMES_PER_GRANT + 1, "x");
    let number = with_names(&mut play, &names);
    let (rest, last) = names[UNCROWDED..].split_at(MAX_NAMES_PER_GRANT - UNCROWDED);
    let number = add(&mut play, number, rest);
    assert!(play.looks > 0);
    let now = play.now();
    play.gateway.handle_names_in_use(&in_use(&names), now);
    play.execute();
    assert_eq!(play.gateway.counters().names_evicted, 0);
    let replaces = Some(grant_id(number - 1));
    play.grant_with(&name_claims(number, 5, 9, PATTERN), replaces, last);
    play.assert_refused(number, ReasonCode::TooMany, "names of one client");
    assert!(reaches(&mut play, &names[0]));
}

#[test]
fn flows_are_looked_at_once_a_second_however_many_grants_come() {
    let mut play = Play::open();
    let names = many(UNCROWDED + 20, "x");
    let number = with_names(&mut play, &names);
    let number = add(&mut play, number, &names[UNCROWDED..=UNCROWDED]);
    assert_eq!(play.looks, 1);
    for (number, name) in (number..).zip(&names[UNCROWDED + 1..UNCROWDED + 6]) {
        add_at_once(&mut play, number, std::slice::from_ref(name));
    }
    assert_eq!(play.looks, 1);
    add(&mut play, number + 5, &names[UNCROWDED + 6..UNCROWDED + 7]);
    assert_eq!(play.looks, 2);
}
