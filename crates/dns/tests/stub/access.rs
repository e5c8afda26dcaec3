//! Names of resources: asking for access, waiting for it, and what is answered.

use crate::common::{
    A_TYPE, AAAA_TYPE, ANY_TYPE, BOTH, CORP, Clocked, DATABASE, EDNS, PTR_TYPE, TXT_TYPE, name,
    query,
};
use culvert_dns::{
    Families, Outcome, REASON_LEN_MAX, Transport, WAITING_MAX, WAITING_PER_NAME_MAX,
};
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::net::IpAddr;

const HOST: &str = "www.corp.example";

#[test]
fn the_first_query_asks_for_access_once_and_waits() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.ask(2, HOST, AAAA_TYPE);
    stub.ask(3, "WWW.Corp.Example", A_TYPE);
    assert_eq!(stub.answers, []);
    assert_eq!(stub.wanted.len(), 1);
    let (wanted, resource, addresses) = stub.wanted[0].clone();
    assert_eq!((wanted, resource), (name(HOST), CORP));
    assert_eq!(stub.stub.addresses_of(&name(HOST)), Some(addresses));
    assert_eq!(
        stub.forwards,
        [],
        "a private name is nobody else's business"
    );
}

#[test]
fn all_who_wait_are_answered_when_access_is_granted() {
    let mut stub = Clocked::new();
    for (id, qtype) in [(1, A_TYPE), (2, AAAA_TYPE), (3, ANY_TYPE)] {
        stub.ask(id, HOST, qtype);
    }
    stub.resolve(HOST, Outcome::Families(BOTH));
    let addresses = stub.stub.addresses_of(&name(HOST)).unwrap();
    let (v4, v6) = (IpAddr::V4(addresses.v4), IpAddr::V6(addresses.v6));
    let told: Vec<_> = stub
        .answers
        .iter()
        .map(|it| (it.to.port(), it.id, it.addresses.clone()))
        .collect();
    assert_eq!(
        told,
        [(1, 1, vec![v4]), (2, 2, vec![v6]), (3, 3, vec![v4, v6])]
    );
    assert!(
        stub.answers
            .iter()
            .all(|it| it.code == OptRcode::NOERROR && it.ttl_s[0] == 30)
    );
    assert_eq!(stub.stub.counts().waiting, 0);
}

#[test]
fn a_granted_name_is_answered_at_once_without_asking_again() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    stub.ask(5, HOST, A_TYPE);
    assert_eq!(stub.answer().addresses, [IpAddr::V4(addresses.v4)]);
    assert_eq!(stub.wanted, []);
}

#[test]
fn a_family_that_the_name_does_not_have_gets_an_empty_answer() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(
        HOST,
        Outcome::Families(Families {
            v4: false,
            v6: true,
        }),
    );
    let answer = stub.answer();
    assert_eq!(
        (answer.code, answer.addresses.len()),
        (OptRcode::NOERROR, 0)
    );
    assert_eq!(answer.negative_ttl_s, Some(5));
    stub.ask(2, HOST, ANY_TYPE);
    assert!(stub.answer().addresses.iter().all(IpAddr::is_ipv6));
}

#[test]
fn a_name_that_does_not_exist_is_nxdomain_for_every_type() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(HOST, Outcome::NxDomain);
    let answer = stub.answer();
    assert_eq!(
        (answer.code, answer.negative_ttl_s),
        (OptRcode::NXDOMAIN, Some(5))
    );
    stub.ask(2, HOST, TXT_TYPE);
    assert_eq!(stub.answer().code, OptRcode::NXDOMAIN);
    stub.pass(5000);
    stub.ask(3, HOST, A_TYPE);
    assert_eq!(stub.wanted.len(), 2, "asked again once the answer is old");
}

#[test]
fn a_question_of_any_type_asks_whether_the_name_exists_and_waits() {
    // MX, TXT, SRV, SVCB, HTTPS, NS, SOA, CNAME, and one that nobody knows.
    for qtype in [15, 16, 33, 64, 65, 2, 6, 5, 65_000] {
        for (outcome, code) in [
            (Outcome::Families(BOTH), OptRcode::NOERROR),
            (Outcome::NoAddress, OptRcode::NOERROR),
            (Outcome::NxDomain, OptRcode::NXDOMAIN),
            (Outcome::Unanswered, OptRcode::SERVFAIL),
            (Outcome::Unreachable, OptRcode::SERVFAIL),
        ] {
            let mut stub = Clocked::new();
            stub.ask(qtype, HOST, qtype);
            assert_eq!((stub.wanted.len(), stub.answers.len()), (1, 0));
            stub.resolve(HOST, outcome.clone());
            assert_eq!(stub.answer().code, code, "{qtype} {outcome:?}");
            assert_eq!(stub.forwards.len(), 0);
        }
    }
}

#[test]
fn a_name_without_addresses_is_empty_for_every_type() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(HOST, Outcome::NoAddress);
    for (id, qtype) in [(1, A_TYPE), (2, AAAA_TYPE), (3, TXT_TYPE), (4, ANY_TYPE)] {
        if id > 1 {
            stub.ask(id, HOST, qtype);
        }
        let answer = stub.answer();
        assert_eq!(
            (answer.code, answer.addresses.len(), answer.negative_ttl_s),
            (OptRcode::NOERROR, 0, Some(5))
        );
    }
}

#[test]
fn what_is_known_of_a_name_stays_when_the_sites_dns_does_not_answer_any_more() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    stub.resolve(HOST, Outcome::Unanswered);
    stub.ask(1, HOST, A_TYPE);
    assert_eq!(stub.answer().addresses, [IpAddr::V4(addresses.v4)]);
}

#[test]
fn a_denied_name_is_refused_with_the_reason_in_brief() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.send(&query(2, HOST, A_TYPE, None), 2, Transport::Udp)
        .unwrap();
    let brief = "outside of working hours".to_owned();
    stub.resolve(
        HOST,
        Outcome::Denied {
            brief: brief.clone(),
        },
    );
    assert!(
        stub.answers
            .iter()
            .all(|it| it.code == OptRcode::REFUSED && it.addresses.is_empty())
    );
    assert_eq!(
        stub.answers[0].error,
        Some((ExtendedErrorCode::PROHIBITED, brief))
    );
    assert_eq!(
        stub.answers[1].error, None,
        "who does not know EDNS gets none"
    );
    stub.answers.clear();
    stub.ask(3, HOST, A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::REFUSED);
    assert_eq!(stub.wanted.len(), 1);
    stub.pass(5000);
    stub.ask(4, HOST, A_TYPE);
    assert_eq!(
        stub.wanted.len(),
        2,
        "an administrator may have granted it meanwhile"
    );
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(
        HOST,
        Outcome::Denied {
            brief: format!("x{}", "é".repeat(40_000)),
        },
    );
    let (_, text) = stub.answer().error.unwrap();
    assert_eq!(text.len(), REASON_LEN_MAX - 1);
}

#[test]
fn an_unreachable_name_is_servfail_with_an_extended_error() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(HOST, Outcome::Unreachable);
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::SERVFAIL);
    assert_eq!(
        answer.error.unwrap().0,
        ExtendedErrorCode::NO_REACHABLE_AUTHORITY
    );
}

#[test]
fn an_unreachable_name_is_asked_for_again_after_a_second() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.resolve(HOST, Outcome::Unreachable);
    stub.pass(999);
    stub.ask(2, HOST, A_TYPE);
    assert_eq!(stub.wanted.len(), 1, "not with each query");
    stub.pass(1);
    stub.ask(3, HOST, A_TYPE);
    assert_eq!(stub.wanted.len(), 2, "a gateway may have come back");
}

#[test]
fn a_query_that_nobody_decides_about_is_servfail_after_four_seconds() {
    let mut stub = Clocked::new();
    stub.ask(1, HOST, A_TYPE);
    stub.pass(3999);
    assert_eq!(stub.answers, []);
    stub.pass(1);
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.ask(2, HOST, A_TYPE);
    assert_eq!(stub.wanted.len(), 1, "the request may still be answered");
    stub.pass(1000);
    stub.ask(3, HOST, A_TYPE);
    assert_eq!(stub.wanted.len(), 2);
    stub.resolve(HOST, Outcome::Families(BOTH));
    assert_eq!(stub.answers.len(), 2);
}

#[test]
fn a_query_that_was_sent_again_is_answered_once() {
    let mut stub = Clocked::new();
    for _ in 0..10 {
        stub.ask(1, HOST, A_TYPE);
    }
    assert_eq!(stub.stub.counts().waiting, 1);
    stub.ask(1, "wWw.corp.example", A_TYPE);
    assert_eq!(
        stub.stub.counts().waiting,
        2,
        "in other letters it is another query"
    );
}

#[test]
fn one_name_cannot_take_all_places_to_wait() {
    let mut stub = Clocked::new();
    for id in 0..u16::try_from(WAITING_PER_NAME_MAX).unwrap() {
        stub.ask(id, HOST, A_TYPE);
    }
    assert_eq!(stub.answers, []);
    stub.ask(9999, HOST, A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.ask(9999, "other.corp.example", A_TYPE);
    assert_eq!(stub.answers, []);
}

#[test]
fn only_so_many_queries_wait() {
    let mut stub = Clocked::new();
    for id in 0..2000 {
        stub.ask(id, &format!("host{id}.corp.example"), A_TYPE);
    }
    assert_eq!(stub.stub.counts().waiting, WAITING_MAX);
    assert_eq!(stub.answers.len(), 2000 - WAITING_MAX);
    assert!(stub.answers.iter().all(|it| it.code == OptRcode::SERVFAIL));
}

#[test]
fn other_types_of_a_name_that_exists_are_empty_and_stay_here() {
    let mut stub = Clocked::new();
    stub.grant(HOST);
    // MX, TXT, SRV, SVCB, HTTPS, NS, SOA, CNAME, and one that nobody knows.
    for qtype in [15, 16, 33, 64, 65, 2, 6, 5, 65_000] {
        stub.ask(qtype, HOST, qtype);
        let answer = stub.answer();
        assert_eq!(
            (answer.code, answer.negative_ttl_s),
            (OptRcode::NOERROR, Some(5))
        );
    }
    assert_eq!(stub.forwards.len(), 0);
}

#[test]
fn names_are_known_again_in_any_case_and_answered_in_the_case_of_the_question() {
    let mut stub = Clocked::new();
    stub.grant(HOST);
    let bytes = query(7, "wWw.CoRp.eXaMpLe", A_TYPE, EDNS);
    stub.send(&bytes, 7, Transport::Udp).unwrap();
    let answer = stub.answer();
    assert_eq!(answer.addresses.len(), 1);
    assert_eq!(
        &answer.bytes[12..34],
        &bytes[12..34],
        "the question, letter by letter"
    );
    assert_eq!(&answer.bytes[34..36], &[0xc0, 12], "the owner points to it");
}

#[test]
fn each_name_has_its_own_addresses_which_lead_back_to_it() {
    let mut stub = Clocked::new();
    let first = stub.grant(HOST);
    let second = stub.grant("db.corp.example");
    assert!(first.v4 != second.v4 && first.v6 != second.v6);
    for address in [IpAddr::V4(second.v4), IpAddr::V6(second.v6)] {
        let assigned = stub.stub.at(address).unwrap();
        assert_eq!(
            (assigned.name, assigned.resource),
            (&name("db.corp.example"), DATABASE)
        );
    }
    assert_eq!(stub.stub.at("100.127.0.1".parse().unwrap()), None);
    assert_eq!(stub.stub.at("192.0.2.1".parse().unwrap()), None);
}

#[test]
fn an_address_is_turned_back_into_its_name() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    let [a, b, c, d] = addresses.v4.octets();
    let v4 = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
    let nibbles = format!("{:032x}", u128::from(addresses.v6));
    let v6: Vec<_> = nibbles.chars().rev().map(String::from).collect();
    let v6 = format!("{}.IP6.ARPA", v6.join("."));
    for reverse in [&v4, &v6] {
        stub.ask(1, reverse, PTR_TYPE);
        assert_eq!(stub.answer().pointers, [HOST]);
        stub.ask(2, reverse, TXT_TYPE);
        assert_eq!(stub.answer().code, OptRcode::NOERROR);
    }
    stub.ask(3, "9.9.127.100.in-addr.arpa", PTR_TYPE);
    assert_eq!(
        stub.answer().code,
        OptRcode::NXDOMAIN,
        "of names, but of none now"
    );
    assert_eq!(stub.forwards, []);
    stub.ask(4, "9.9.128.100.in-addr.arpa", PTR_TYPE);
    assert_eq!(stub.forwards.len(), 1, "not of names");
}

#[test]
fn names_resolve_on_while_nobody_can_be_asked() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    stub.pass(300_000);
    stub.ask(1, HOST, A_TYPE);
    assert_eq!(
        stub.answer().addresses,
        [IpAddr::V4(addresses.v4)],
        "answered before asking"
    );
    assert_eq!(stub.wanted.len(), 1, "whether the families changed");
    stub.resolve(HOST, Outcome::Unreachable);
    stub.ask(2, HOST, A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
    assert_eq!(stub.wanted.len(), 1, "not with each query");
    stub.pass(5000);
    stub.ask(3, HOST, A_TYPE);
    assert_eq!(
        (stub.answer().code, stub.wanted.len()),
        (OptRcode::NOERROR, 2)
    );
    stub.resolve(
        HOST,
        Outcome::Denied {
            brief: String::new(),
        },
    );
    stub.ask(4, HOST, A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::REFUSED, "but a denial counts");
}

#[test]
fn access_that_ended_is_asked_for_again_under_the_same_addresses() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    stub.grant("db.corp.example");
    stub.end_access(CORP);
    stub.ask(1, "db.corp.example", A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::NOERROR, "of another resource");
    stub.ask(2, HOST, A_TYPE);
    assert_eq!(stub.answers, []);
    assert_eq!(stub.wanted, [(name(HOST), CORP, addresses)]);
}

#[test]
fn a_name_that_passes_to_another_resource_is_asked_for_there() {
    let mut stub = Clocked::new();
    let addresses = stub.grant(HOST);
    let from = ([127, 0, 0, 1], 9).into();
    let (bytes, now) = (query(9, HOST, A_TYPE, EDNS), stub.now());
    stub.stub
        .handle_query(&bytes, Transport::Udp, from, now, |_| Some(DATABASE))
        .unwrap();
    stub.drain();
    assert_eq!(stub.answers, []);
    assert_eq!(stub.wanted, [(name(HOST), DATABASE, addresses)]);
}

#[test]
fn an_outcome_for_a_name_that_was_never_wanted_changes_nothing() {
    let mut stub = Clocked::new();
    stub.resolve(HOST, Outcome::Families(BOTH));
    assert_eq!(stub.stub.counts(), culvert_dns::Counts::default());
    stub.ask(1, HOST, A_TYPE);
    assert_eq!(stub.answers, []);
}
