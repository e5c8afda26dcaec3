//! Questions to the DNS: each client has its share of them.

use crate::play::{Play, found, grant_id, name, name_claims, wanted};
use culvert_gateway_core::{MAX_QUESTIONS_PER_CLIENT, MAX_WAITING_PER_CLIENT, Resolution};
use culvert_policy::DomainName;
use culvert_policy::gate::MAX_NAMES_PER_GRANT;
use culvert_wire::messages::{ReasonCode, ResolvedName, WantedName};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

const PATTERN: &str = "*.corp.example";
const DB: &str = "db.corp.example";

/// As many names, each with addresses of its own.
pub(crate) fn many(count: usize, prefix: &str) -> Vec<WantedName> {
    let wanted = (1..=u16::try_from(count).unwrap()).map(|number| {
        let [high, low] = number.to_be_bytes();
        WantedName {
            name: format!("{prefix}{number}.corp.example"),
            ipv4: Ipv4Addr::new(100, 97, high, low),
            ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 1, number),
        }
    });
    wanted.collect()
}

/// Client 5 wants more names at once than it may, and nobody answers for them.
fn with_a_greedy_client() -> Play {
    let mut play = Play::open();
    let names = many(MAX_WAITING_PER_CLIENT + 100, "x");
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &names);
    play
}

#[test]
fn a_client_that_wants_thousands_of_names_makes_no_other_wait() {
    let mut play = with_a_greedy_client();
    assert_eq!(play.asked.len(), MAX_QUESTIONS_PER_CLIENT);
    play.asked.clear();
    play.grant_with(&name_claims(2, 6, 9, PATTERN), None, &[wanted(DB, 1)]);
    assert_eq!(play.asked, [name(DB)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_accepted(2);
}

#[test]
fn names_beyond_a_clients_share_are_told_to_be_unanswered_and_counted() {
    let mut play = with_a_greedy_client();
    assert_eq!(play.gateway.counters().questions_refused, 100);
    // As many more as are under way, and no more.
    let more = many(MAX_QUESTIONS_PER_CLIENT, "y");
    play.grant_with(&name_claims(2, 5, 8, PATTERN), None, &more);
    play.grant_with(&name_claims(3, 5, 7, PATTERN), None, &[wanted(DB, 1)]);
    play.assert_refused(3, ReasonCode::TooMany, "names of one client");
    assert_eq!(play.gateway.counters().questions_refused, 101);
    let mut answered = 0;
    while let Some(asked) = play.asked.pop() {
        play.resolved(asked.as_str(), found(&["10.7.0.1"]));
        answered += 1;
    }
    let all = MAX_WAITING_PER_CLIENT + MAX_QUESTIONS_PER_CLIENT;
    assert_eq!(answered, all, "a place is used again at once");
    let accepted = play.take_accepted().into_iter();
    let found = |names: Vec<ResolvedName>| names.iter().filter(|name| name.ipv4).count();
    let mut accepted: Vec<_> = accepted.map(|(id, names)| (id, found(names))).collect();
    accepted.sort_unstable();
    let expected = [
        (grant_id(1), MAX_WAITING_PER_CLIENT),
        (grant_id(2), MAX_QUESTIONS_PER_CLIENT),
    ];
    assert_eq!(accepted, expected);
}

#[test]
fn one_clients_names_never_take_all_the_room_there_is() {
    let mut play = Play::open();
    let names = many(MAX_NAMES_PER_GRANT, "x");
    let (first, rest) = names.split_at(MAX_WAITING_PER_CLIENT);
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, first);
    while let Some(asked) = play.asked.pop() {
        play.resolved(asked.as_str(), Resolution::NotFound);
    }
    play.take_accepted();
    play.grant_with(&name_claims(2, 5, 8, PATTERN), None, &names);
    play.assert_refused(2, ReasonCode::TooMany, "names of one client");
    play.grant_with(&name_claims(3, 5, 8, PATTERN), None, &rest[..1]);
    assert_eq!(play.asked.len(), 1);
}

#[test]
fn every_name_is_asked_for_after_a_restart_however_many_there_are() {
    let mut play = Play::open();
    let names = many(MAX_WAITING_PER_CLIENT + 100, "x");
    for (number, names) in (1..).zip(names.chunks(MAX_WAITING_PER_CLIENT)) {
        play.grant_with(&name_claims(number, 5, 8 + number, PATTERN), None, names);
        while let Some(asked) = play.asked.pop() {
            play.resolved(asked.as_str(), found(&["10.7.0.1"]));
        }
    }
    play.pass(1_000);
    let mut play = crate::persisted::restart(&play, 1_000);
    let mut asked = BTreeSet::<DomainName>::new();
    for _ in 0..10 {
        while let Some(name) = play.asked.pop() {
            play.resolved(name.as_str(), found(&["10.7.0.1"]));
            asked.insert(name);
        }
        play.pass(5_000);
    }
    assert_eq!(asked.len(), names.len());
    assert!(play.send(5, "100.97.4.100:80").is_ok());
}
