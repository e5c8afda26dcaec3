//! Leases: how long a name keeps its addresses, and who gets them then.

use crate::common::{A_TYPE, BOTH, CORP, Clocked, name};
use culvert_dns::{LEASE_IDLE, NAMES_MAX, Outcome, Ranges, TOLD_MIN, TTL};
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::net::IpAddr;

const TOLD_MS: u64 = TOLD_MIN.as_millis() as u64;
const LEASE_MS: u64 = (LEASE_IDLE.as_millis() + TTL.as_millis()) as u64;

fn fill(stub: &mut Clocked) {
    for index in 0..254 {
        stub.grant(&format!("host{index}.corp.example"));
    }
}

#[test]
fn a_name_keeps_its_addresses_for_hours() {
    let mut stub = Clocked::small();
    let addresses = stub.grant("host0.corp.example");
    stub.pass(LEASE_MS * 10);
    assert_eq!(
        stub.grant("host0.corp.example"),
        addresses,
        "as long as nobody else needs them"
    );
}

#[test]
fn addresses_that_were_told_of_late_are_never_given_to_another_name() {
    let mut stub = Clocked::small();
    fill(&mut stub);
    stub.pass(TOLD_MS - 1);
    stub.ask(1, "late.corp.example", A_TYPE);
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::SERVFAIL);
    assert_eq!(answer.error.unwrap().0, ExtendedErrorCode::NOT_READY);
    assert_eq!((stub.released.len(), stub.wanted.len()), (0, 0));
    stub.pass(1);
    stub.ask(2, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("host0.corp.example")]);
    assert_eq!(stub.wanted.len(), 1);
}

#[test]
fn in_a_full_range_the_name_that_was_told_longest_ago_makes_room() {
    let mut stub = Clocked::small();
    fill(&mut stub);
    stub.pass(TOLD_MS - 1);
    stub.ask(1, "host0.corp.example", A_TYPE);
    stub.pass(1);
    stub.ask(2, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("host1.corp.example")]);
    // A name that is there already makes no other name leave.
    stub.ask(3, "host2.corp.example", A_TYPE);
    assert_eq!(stub.released.len(), 1);
}

#[test]
fn names_of_the_resource_with_the_most_make_room_for_all() {
    let mut stub = Clocked::small();
    // Of another resource, and told before all others.
    let addresses = stub.grant("db.corp.example");
    stub.pass(1);
    for index in 0..253 {
        stub.grant(&format!("host{index}.corp.example"));
    }
    stub.pass(TOLD_MS);
    stub.ask(1, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("host0.corp.example")]);
    assert_eq!(
        stub.stub.addresses_of(&name("db.corp.example")),
        Some(addresses)
    );
    let at = stub.stub.at(addresses.v4.into()).map(|at| at.resource);
    assert_ne!(at, Some(CORP));
}

/// A page asks for label after label of a wildcard, as fast as it can, for an hour.
#[test]
fn a_page_that_asks_for_all_labels_of_a_wildcard_leaves_addresses_for_other_names() {
    let ranges = Ranges::new(
        "100.96.0.0/11".parse().unwrap(),
        "fd00:2021:1111:8000::/107".parse().unwrap(),
    );
    let mut stub = Clocked::with(culvert_dns::Config {
        ranges: ranges.unwrap(),
        ..culvert_dns::Config::default()
    });
    let mut given = std::collections::BTreeSet::new();
    let (mut refused, mut number) = (0, 0);
    for second in 0..1_200 {
        stub.pass(1_000);
        for _ in 0..100 {
            number += 1;
            let text = format!("x{number}.corp.example");
            stub.ask(1, &text, A_TYPE);
            stub.wanted.clear();
            match stub.answers.pop() {
                // It waits for access.
                None => stub.resolve(&text, Outcome::Families(BOTH)),
                Some(answer) => {
                    assert_eq!(answer.code, OptRcode::SERVFAIL);
                    refused += 1;
                    continue;
                }
            }
            let answer = stub.answers.pop().unwrap();
            assert!(given.insert(answer.addresses[0]), "no address twice");
        }
        if second % 100 == 99 {
            // A name of another resource, each time another one.
            stub.ask(1, "db.corp.example", A_TYPE);
            let is_known = stub.answers.pop().is_some();
            stub.resolve("db.corp.example", Outcome::Families(BOTH));
            assert!(is_known || stub.answers.pop().is_some());
        }
    }
    assert_eq!(stub.stub.counts().names, NAMES_MAX);
    assert!(!stub.released.contains(&name("db.corp.example")));
    // 1,024 at once and 64 a second.
    assert_eq!(number - refused, 1_024 + 64 * 1_199);
}

#[test]
fn an_answer_or_a_packet_prolongs_the_lease() {
    let mut stub = Clocked::small();
    fill(&mut stub);
    let packet_for = stub
        .stub
        .addresses_of(&name("host0.corp.example"))
        .unwrap()
        .v6;
    stub.pass(LEASE_MS - 1);
    stub.stub.handle_used(IpAddr::V6(packet_for), stub.now());
    stub.ask(1, "host1.corp.example", A_TYPE);
    stub.pass(1);
    stub.ask(2, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("host2.corp.example")]);
}

#[test]
fn a_name_whose_addresses_nobody_was_told_makes_room_at_once() {
    let mut stub = Clocked::small();
    for index in 0..253 {
        stub.grant(&format!("host{index}.corp.example"));
    }
    for index in 0..20 {
        let text = format!("no{index}.corp.example");
        stub.ask(1, &text, A_TYPE);
        stub.resolve(&text, Outcome::NxDomain);
        assert_eq!(stub.answer().code, OptRcode::NXDOMAIN);
        stub.pass(5000);
    }
    assert_eq!(stub.stub.counts().names, 254);
    let remaining = (0..253).all(|index| {
        stub.stub
            .addresses_of(&name(&format!("host{index}.corp.example")))
            .is_some()
    });
    assert!(remaining);
}

#[test]
fn who_waits_for_a_name_that_loses_its_place_is_answered_and_not_for_another() {
    let mut stub = Clocked::small();
    for index in 0..253 {
        stub.grant(&format!("host{index}.corp.example"));
    }
    stub.ask(1, "slow.corp.example", A_TYPE);
    // The clock was not checked while its deadline passed.
    stub.now_ms += 10_000;
    stub.ask(2, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("slow.corp.example")]);
    let answer = stub.answer();
    assert_eq!((answer.id, answer.code), (1, OptRcode::SERVFAIL));
    stub.resolve("late.corp.example", Outcome::Families(BOTH));
    assert_eq!(stub.answer().id, 2);
}
