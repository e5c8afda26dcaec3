//! Questions about names of resources that are none for addresses: the site answers them.

use crate::common::{
    A_TYPE, BOTH, CORP, Clocked, DATABASE, Edns, Forward, TXT_TYPE, UPSTREAMS, header, name, query,
    record, record_of, socket, upstream_answer, wire_name,
};
use culvert_dns::{Outcome, SITE_SILENCE, Transport, UPSTREAM_TRIES, UPSTREAM_WAIT, Via};
use domain::base::iana::{ExtendedErrorCode, OptRcode};

const HOST: &str = "www.corp.example";
const GATEWAY: &str = "100.64.0.1:20053";
const OTHER_GATEWAY: &str = "100.64.0.2:20053";
const HTTPS_TYPE: u16 = 65;
const SRV_TYPE: u16 = 33;
const ENDS: [Outcome; 2] = [Outcome::Families(BOTH), Outcome::NoAddress];

/// A stub whose resource `**.corp.example` has a gateway that answers.
fn at_a_site() -> Clocked {
    let mut stub = Clocked::new();
    stub.stub.set_site(CORP, Some(socket(GATEWAY)), stub.now());
    stub
}

/// The question is forwarded, and how.
fn asked(outcome: Outcome, qtype: u16) -> (Clocked, Forward) {
    let mut stub = at_a_site();
    stub.ask(7, HOST, qtype);
    assert_eq!(stub.forwards, [], "not before there is access");
    stub.resolve(HOST, outcome);
    let forward = stub.forward();
    (stub, forward)
}

#[test]
fn a_name_that_exists_is_asked_of_its_site_for_all_types_but_addresses() {
    for outcome in ENDS {
        for qtype in [
            2, 5, 6, 12, 15, TXT_TYPE, SRV_TYPE, 35, 64, HTTPS_TYPE, 257, 65_000,
        ] {
            let (mut stub, forward) = asked(outcome.clone(), qtype);
            assert_eq!(forward.upstream, socket(GATEWAY));
            assert_eq!(
                (forward.via, forward.transport),
                (Via::Tunnel, Transport::Udp)
            );
            assert_eq!(stub.answers, []);
            let bytes = upstream_answer(&forward.query, &[record(qtype, &[3, b'a', b'b', b'c'])]);
            // For other types these are no data.
            if qtype == TXT_TYPE || qtype == 65_000 {
                stub.answer_upstream(&bytes, GATEWAY).unwrap();
                let answer = stub.answer();
                assert_eq!((answer.id, answer.code), (7, OptRcode::NOERROR));
                assert!(answer.bytes.ends_with(&[3, b'a', b'b', b'c']));
            }
        }
    }
}

#[test]
fn addresses_of_a_name_are_never_asked_of_the_site() {
    for outcome in ENDS {
        for qtype in [A_TYPE, 28, 255] {
            let mut stub = at_a_site();
            stub.ask(7, HOST, qtype);
            stub.resolve(HOST, outcome.clone());
            let addresses = stub.answer().addresses.len();
            assert_eq!(addresses > 0, outcome != Outcome::NoAddress);
            assert_eq!(stub.forwards, []);
        }
    }
}

#[test]
fn a_name_that_does_not_exist_or_that_nobody_may_use_is_asked_of_nobody() {
    for (outcome, code) in [
        (Outcome::NxDomain, OptRcode::NXDOMAIN),
        (Outcome::Unanswered, OptRcode::SERVFAIL),
        (Outcome::Unreachable, OptRcode::SERVFAIL),
        (
            Outcome::Denied {
                brief: String::new(),
            },
            OptRcode::REFUSED,
        ),
    ] {
        let mut stub = at_a_site();
        stub.ask(7, HOST, SRV_TYPE);
        stub.resolve(HOST, outcome);
        assert_eq!(stub.answer().code, code);
        assert_eq!(stub.forwards, []);
    }
}

#[test]
fn what_the_site_says_is_passed_on_with_its_code() {
    for code in [0, 2, 3, 5] {
        let (mut stub, forward) = asked(Outcome::NoAddress, TXT_TYPE);
        let mut bytes = upstream_answer(&forward.query, &[]);
        bytes[3] |= code;
        stub.answer_upstream(&bytes, GATEWAY).unwrap();
        assert_eq!(stub.answer().code.to_int(), u16::from(code));
    }
}

#[test]
fn without_a_gateway_that_answers_there_are_no_records() {
    for server in [None, Some(GATEWAY)] {
        let mut stub = Clocked::new();
        // That of another resource is of no use.
        let server = server.map(socket);
        stub.stub.set_site(DATABASE, server, stub.now());
        stub.ask(7, HOST, TXT_TYPE);
        stub.resolve(HOST, Outcome::Families(BOTH));
        let answer = stub.answer();
        assert_eq!(
            (answer.code, answer.addresses.len()),
            (OptRcode::NOERROR, 0)
        );
        assert_eq!(stub.forwards, []);
    }
}

#[test]
fn a_site_that_is_silent_is_left_alone_for_a_while_and_addresses_are_found_meanwhile() {
    let (mut stub, _) = asked(Outcome::Families(BOTH), HTTPS_TYPE);
    let tries = u64::try_from(UPSTREAM_TRIES).unwrap();
    let wait_ms = u64::try_from(UPSTREAM_WAIT.as_millis()).unwrap();
    stub.pass(tries * wait_ms);
    assert_eq!(stub.forwards.len() + 1, UPSTREAM_TRIES);
    stub.forwards.clear();
    let silent = (OptRcode::SERVFAIL, Some(ExtendedErrorCode::NETWORK_ERROR));
    let answer = stub.answer();
    assert_eq!((answer.code, answer.error.map(|(code, _)| code)), silent);
    stub.ask(8, HOST, TXT_TYPE);
    let answer = stub.answer();
    assert_eq!((answer.code, answer.error.map(|(code, _)| code)), silent);
    stub.ask(9, HOST, A_TYPE);
    assert_eq!(stub.answer().addresses.len(), 1);
    stub.pass(u64::try_from(SITE_SILENCE.as_millis()).unwrap());
    stub.ask(10, HOST, TXT_TYPE);
    let forward = stub.forward();
    stub.answer_upstream(&upstream_answer(&forward.query, &[]), GATEWAY)
        .unwrap();
    assert_eq!(stub.answer().id, 10);
    stub.ask(11, HOST, TXT_TYPE);
    assert_eq!(stub.forward().upstream, socket(GATEWAY), "it answers again");
}

#[test]
fn a_question_that_waits_goes_to_the_gateway_that_takes_the_others_place() {
    let (mut stub, forward) = asked(Outcome::NoAddress, TXT_TYPE);
    stub.stub
        .set_site(CORP, Some(socket(OTHER_GATEWAY)), stub.now());
    stub.drain();
    let again = stub.forward();
    assert_eq!(again.upstream, socket(OTHER_GATEWAY));
    let late = upstream_answer(&forward.query, &[]);
    stub.answer_upstream(&late, GATEWAY).unwrap_err();
    let bytes = upstream_answer(&again.query, &[]);
    stub.answer_upstream(&bytes, OTHER_GATEWAY).unwrap();
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
}

#[test]
fn a_question_that_waits_fails_where_access_ends() {
    let (mut stub, _) = asked(Outcome::NoAddress, TXT_TYPE);
    stub.end_access(CORP);
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.ask(8, HOST, TXT_TYPE);
    assert_eq!((stub.answers.len(), stub.wanted.len()), (0, 2));
}

#[test]
fn the_site_learns_nothing_of_the_asker_but_the_question() {
    let mut stub = at_a_site();
    let edns = Some(Edns {
        version: 0,
        payload: 4096,
    });
    let mut bytes = query(7, HOST, TXT_TYPE, edns);
    // A cookie (RFC 7873).
    let len = bytes.len();
    bytes[len - 1] = 12;
    bytes.extend([0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    stub.send(&bytes, 7, Transport::Udp).unwrap();
    stub.resolve(HOST, Outcome::NoAddress);
    let forward = stub.forward();
    assert_eq!(forward.query[2..12], header(0, 0x0100, [1, 0, 0, 1])[2..]);
    let end = 12 + wire_name(HOST).len() + 4;
    let asked = [&wire_name(HOST)[..], &[0, 16, 0, 1]].concat();
    assert!(forward.query[12..end].eq_ignore_ascii_case(&asked));
    let opt = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
    assert_eq!(forward.query[end..], opt, "with DO, and without options");
}

/// Data of an HTTPS record: where the service is, and these parameters.
fn service(target: &str, parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut data = vec![0, 1];
    data.extend(wire_name(target));
    for (key, value) in parameters {
        data.extend(key.to_be_bytes());
        data.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        data.extend(*value);
    }
    data
}

const PROTOCOLS: (u16, &[u8]) = (1, b"\x02h2");
const HINT_V4: (u16, &[u8]) = (4, &[10, 50, 0, 10]);
const HINT_V6: (u16, &[u8]) = (6, &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10]);

#[test]
fn addresses_that_a_service_hints_at_are_left_out_where_it_is_at_a_resources_name() {
    let plain = service("", &[PROTOCOLS]);
    for (target, parameters, left) in [
        ("", vec![PROTOCOLS, HINT_V4, HINT_V6], Some(plain)),
        (
            "db.corp.example",
            vec![HINT_V4],
            Some(service("db.corp.example", &[])),
        ),
        (
            "cdn.example.net",
            vec![HINT_V4],
            Some(service("cdn.example.net", &[HINT_V4])),
        ),
        // A client must not use the record without the hints that it declares mandatory.
        ("", vec![(0, &[0, 4][..]), HINT_V4], None),
    ] {
        let (mut stub, forward) = asked(Outcome::Families(BOTH), HTTPS_TYPE);
        let data = service(target, &parameters);
        let bytes = upstream_answer(&forward.query, &[record(HTTPS_TYPE, &data)]);
        stub.answer_upstream(&bytes, GATEWAY).unwrap();
        let answer = stub.answer();
        assert_eq!(answer.code, OptRcode::NOERROR);
        match left {
            Some(data) => assert!(answer.bytes.ends_with(&data), "{target} {parameters:?}"),
            None => assert_eq!(answer.bytes[6..8], [0, 0], "no answer"),
        }
    }
}

#[test]
fn an_upstreams_service_at_a_resources_name_has_no_hints_either() {
    let mut stub = Clocked::new();
    stub.ask(7, "www.example.org", HTTPS_TYPE);
    let forward = stub.forward();
    let data = service(HOST, &[PROTOCOLS, HINT_V4]);
    let records = [record_of("www.example.org", HTTPS_TYPE, &data)];
    stub.answer_upstream(&upstream_answer(&forward.query, &records), UPSTREAMS[0])
        .unwrap();
    let bytes = stub.answer().bytes;
    assert!(bytes.ends_with(&service(HOST, &[PROTOCOLS])));
}

#[test]
fn a_service_that_is_cut_short_is_no_answer() {
    for cut in 1..30 {
        let (mut stub, forward) = asked(Outcome::Families(BOTH), HTTPS_TYPE);
        let data = service("", &[PROTOCOLS, HINT_V4, HINT_V6]);
        let data = &data[..data.len() - cut];
        let bytes = upstream_answer(&forward.query, &[record(HTTPS_TYPE, data)]);
        if stub.answer_upstream(&bytes, GATEWAY).is_ok() {
            let bytes = stub.answer().bytes;
            assert!(
                !bytes.windows(4).any(|window| window == [10, 50, 0, 10]),
                "{cut}"
            );
        }
    }
}

#[test]
fn names_of_several_resources_are_asked_of_their_own_sites() {
    let mut stub = at_a_site();
    stub.stub
        .set_site(DATABASE, Some(socket(OTHER_GATEWAY)), stub.now());
    for (host, gateway) in [(HOST, GATEWAY), ("db.corp.example", OTHER_GATEWAY)] {
        stub.ask(7, host, TXT_TYPE);
        assert!(stub.stub.addresses_of(&name(host)).is_some());
        stub.resolve(host, Outcome::NoAddress);
        assert_eq!(stub.forward().upstream, socket(gateway));
    }
}
