//! Leases: how long a name keeps its addresses, and who gets them then.

use crate::common::{A_TYPE, BOTH, Clocked, name};
use culvert_dns::{LEASE_IDLE, Outcome, TTL};
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::net::IpAddr;

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
fn addresses_in_use_are_never_given_to_another_name() {
    let mut stub = Clocked::small();
    fill(&mut stub);
    stub.pass(LEASE_MS - 1);
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
    let kept = (0..253).all(|index| {
        stub.stub
            .addresses_of(&name(&format!("host{index}.corp.example")))
            .is_some()
    });
    assert!(kept);
}

#[test]
fn who_waits_for_a_name_that_loses_its_place_is_answered_and_not_for_another() {
    let mut stub = Clocked::small();
    for index in 0..253 {
        stub.grant(&format!("host{index}.corp.example"));
    }
    stub.ask(1, "slow.corp.example", A_TYPE);
    // Nobody looked at the clock while its deadline passed.
    stub.now_ms += 10_000;
    stub.ask(2, "late.corp.example", A_TYPE);
    assert_eq!(stub.released, [name("slow.corp.example")]);
    let answer = stub.answer();
    assert_eq!((answer.id, answer.code), (1, OptRcode::SERVFAIL));
    stub.resolve("late.corp.example", Outcome::Families(BOTH));
    assert_eq!(stub.answer().id, 2);
}
