//! Names that are none of ours: upstreams, and what of theirs is believed.

use crate::common::{
    A_TYPE, AAAA_TYPE, Clocked, EDNS, Edns, UPSTREAMS, query, record, resource_of, socket,
    upstream_answer,
};
use culvert_dns::{Config, DropReason, Error, FORWARDS_MAX, Output, Stub, Transport};
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::net::IpAddr;

const OTHER: &str = "www.example.org";

#[test]
fn without_upstreams_other_names_are_refused() {
    let mut stub = Clocked::with(Config::default());
    stub.ask(1, OTHER, A_TYPE);
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::REFUSED);
    assert_eq!(
        answer.error.unwrap().0,
        ExtendedErrorCode::NOT_AUTHORITATIVE
    );
}

#[test]
fn a_query_goes_to_the_first_upstream_as_it_is_but_for_its_id() {
    let mut stub = Clocked::new();
    let bytes = query(1, "wWw.Example.oRg", A_TYPE, EDNS);
    stub.send(&bytes, 1, Transport::Tcp).unwrap();
    let forward = stub.forward();
    assert_eq!(forward.upstream, socket(UPSTREAMS[0]));
    assert_eq!(forward.transport, Transport::Tcp);
    assert_eq!(forward.query[2..], bytes[2..]);
}

#[test]
fn ids_of_forwarded_queries_are_not_those_of_the_askers_and_do_not_count_up() {
    let mut stub = Clocked::new();
    for id in 0..100 {
        stub.ask(id, OTHER, A_TYPE);
    }
    let ids: Vec<_> = stub
        .forwards
        .iter()
        .map(|it| u16::from_be_bytes([it.query[0], it.query[1]]))
        .collect();
    assert!(ids.iter().max().unwrap() - ids.iter().min().unwrap() > 30_000);
    assert!(
        ids.windows(2)
            .filter(|pair| pair[1] == pair[0].wrapping_add(1))
            .count()
            < 3
    );
}

#[test]
fn the_upstreams_answer_comes_back_untouched_under_the_askers_id_and_letters() {
    let mut stub = Clocked::new();
    stub.send(
        &query(77, "wWw.example.ORG", A_TYPE, EDNS),
        5,
        Transport::Udp,
    )
    .unwrap();
    let forward = stub.forward();
    let records = [
        record(5, &[4, b'e', b'd', b'g', b'e', 0xc0, 16]),
        record(A_TYPE, &[192, 0, 2, 80]),
    ];
    let bytes = upstream_answer(&forward.query, &records);
    stub.answer_upstream(&bytes, UPSTREAMS[0]).unwrap();
    let answer = stub.answer();
    assert_eq!((answer.id, answer.to.port()), (77, 5));
    assert_eq!(answer.addresses, [IpAddr::from([192, 0, 2, 80])]);
    assert_eq!(&answer.bytes[12..29], b"\x03wWw\x07example\x03ORG\0");
    assert_eq!(answer.bytes[29..], bytes[29..]);
    assert_eq!(stub.stub.counts().forwarded, 0);
}

#[test]
fn an_answer_that_is_not_to_what_was_asked_is_not_believed() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let forward = stub.forward();
    let good = upstream_answer(&forward.query, &[record(A_TYPE, &[192, 0, 2, 80])]);
    let mut other_id = good.clone();
    other_id[0] ^= 1;
    let mut other_name = good.clone();
    other_name[14] ^= 1;
    let mut other_type = good.clone();
    other_type[12 + 17 + 1] = 28;
    let mut no_question = good.clone();
    no_question[5] = 0;
    let mut other_opcode = good.clone();
    other_opcode[2] |= 4 << 3;
    let from = UPSTREAMS[0];
    for (bytes, from, reason) in [
        (&good[..11], from, DropReason::TooShort),
        (&forward.query[..], from, DropReason::NotAResponse),
        (&other_id, from, DropReason::UnknownId),
        (&good, UPSTREAMS[1], DropReason::WrongSource),
        (&good, "192.0.2.53:5353", DropReason::WrongSource),
        (&other_name, from, DropReason::WrongQuestion),
        (&other_type, from, DropReason::WrongQuestion),
        (&no_question, from, DropReason::WrongQuestion),
        (&other_opcode, from, DropReason::WrongQuestion),
        (&good[..good.len() - 1], from, DropReason::Malformed),
    ] {
        assert_eq!(stub.answer_upstream(bytes, from), Err(reason));
    }
    let by_tcp = stub.stub.handle_upstream_answer(
        &good,
        Transport::Tcp,
        socket(from),
        stub.now(),
        resource_of,
    );
    assert_eq!(by_tcp, Err(DropReason::WrongSource));
    assert_eq!(stub.answers, []);
    stub.answer_upstream(&good, "[::ffff:192.0.2.53]:53")
        .unwrap();
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
    assert_eq!(
        stub.answer_upstream(&good, from),
        Err(DropReason::UnknownId),
        "once"
    );
}

#[test]
fn an_upstream_cannot_lend_a_resource_to_another_name() {
    for (qtype, data) in [
        (A_TYPE, vec![100, 96, 0, 1]),
        (
            AAAA_TYPE,
            vec![
                0xfd, 0, 0x20, 0x21, 0x11, 0x11, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            ],
        ),
        (
            AAAA_TYPE,
            vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 100, 96, 0, 1],
        ),
        // HTTPS 1 . ipv4hint=192.0.2.1,100.96.0.1
        (65, vec![0, 1, 0, 0, 4, 0, 8, 192, 0, 2, 1, 100, 96, 0, 1]),
        // SVCB 1 . ipv6hint=fd00:2021:1111:8000::1
        (
            64,
            vec![
                0, 1, 0, 0, 6, 0, 16, 0xfd, 0, 0x20, 0x21, 0x11, 0x11, 0x80, 0, 0, 0, 0, 0, 0, 0,
                0, 1,
            ],
        ),
    ] {
        let mut stub = Clocked::new();
        stub.ask(1, "rebind.example.org", qtype);
        let forward = stub.forward();
        let bytes = upstream_answer(&forward.query, &[record(qtype, &data)]);
        stub.answer_upstream(&bytes, UPSTREAMS[0]).unwrap();
        let answer = stub.answer();
        assert_eq!(
            (answer.code, answer.addresses.len()),
            (OptRcode::SERVFAIL, 0)
        );
        assert_eq!(answer.error.unwrap().0, ExtendedErrorCode::BLOCKED);
    }
}

#[test]
fn an_answer_longer_than_the_asker_takes_is_truncated() {
    let records: Vec<_> = (0..40)
        .map(|host| record(A_TYPE, &[192, 0, 2, host]))
        .collect();
    let payload = |payload| {
        Some(Edns {
            version: 0,
            payload,
        })
    };
    for (edns, transport, truncated) in [
        (None, Transport::Udp, true),
        (payload(0), Transport::Udp, true),
        (payload(600), Transport::Udp, true),
        (payload(1232), Transport::Udp, false),
        (None, Transport::Tcp, false),
    ] {
        let mut stub = Clocked::new();
        stub.send(&query(1, OTHER, A_TYPE, edns), 1, transport)
            .unwrap();
        let forward = stub.forward();
        let bytes = upstream_answer(&forward.query, &records);
        assert!((601..1232).contains(&bytes.len()));
        stub.stub
            .handle_upstream_answer(
                &bytes,
                transport,
                socket(UPSTREAMS[0]),
                stub.now(),
                resource_of,
            )
            .unwrap();
        stub.drain();
        let answer = stub.answer();
        assert_eq!(
            (answer.is_truncated, answer.addresses.is_empty()),
            (truncated, truncated)
        );
        assert_eq!(answer.id, 1);
    }
}

#[test]
fn a_silent_upstream_is_passed_over_and_no_longer_asked_first() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let first = stub.forward();
    stub.pass(1499);
    assert_eq!(stub.forwards, []);
    stub.pass(1);
    let second = stub.forward();
    assert_eq!((second.id, &second.query), (first.id, &first.query));
    assert_eq!(second.upstream, socket(UPSTREAMS[1]));
    let bytes = upstream_answer(&first.query, &[]);
    assert_eq!(
        stub.answer_upstream(&bytes, UPSTREAMS[0]),
        Err(DropReason::WrongSource),
        "too late"
    );
    stub.answer_upstream(&bytes, UPSTREAMS[1]).unwrap();
    stub.ask(2, OTHER, A_TYPE);
    assert_eq!(stub.forward().upstream, socket(UPSTREAMS[1]));
}

#[test]
fn where_no_upstream_answers_the_query_is_servfail_within_five_seconds() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    stub.pass(4499);
    assert_eq!((stub.forwards.len(), stub.answers.len()), (3, 0));
    stub.pass(1);
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::SERVFAIL);
    assert_eq!(answer.error.unwrap().0, ExtendedErrorCode::NETWORK_ERROR);
    assert_eq!(
        (stub.stub.counts().forwarded, stub.stub.poll_timeout()),
        (0, None)
    );
}

/// Codes by which a server says that it does not answer the question. The first three are those that resolvers of C
/// libraries go on after; servers that know no EDNS, that answer for their own zones alone, or that are of a later time,
/// say the others.
const REFUSALS: [OptRcode; 9] = [
    OptRcode::SERVFAIL,
    OptRcode::NOTIMP,
    OptRcode::REFUSED,
    OptRcode::FORMERR,
    OptRcode::YXDOMAIN,
    OptRcode::NXRRSET,
    OptRcode::NOTAUTH,
    OptRcode::NOTZONE,
    OptRcode::masked_from_int(15),
];

/// An answer with this code and without records.
fn refusal(query: &[u8], code: OptRcode) -> Vec<u8> {
    let mut bytes = upstream_answer(query, &[]);
    bytes[3] |= code.to_int() as u8;
    bytes
}

/// An answer without records, by a server that does not look names up for others.
fn referral(query: &[u8]) -> Vec<u8> {
    const RECURSION_AVAILABLE: u8 = 0x80;
    let mut bytes = upstream_answer(query, &[]);
    bytes[3] &= !RECURSION_AVAILABLE;
    bytes
}

#[test]
fn a_server_that_refers_to_others_is_passed_over_and_one_that_answers_for_its_zone_is_not() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let first = stub.forward();
    stub.answer_upstream(&referral(&first.query), UPSTREAMS[0])
        .unwrap();
    assert_eq!(stub.answers, []);
    let second = stub.forward();
    assert_eq!(second.upstream, socket(UPSTREAMS[1]));
    // An answer of authority counts, though its server looks nothing up.
    const AUTHORITATIVE: u8 = 0x04;
    let mut empty = referral(&second.query);
    empty[2] |= AUTHORITATIVE;
    let (from, now) = (socket(UPSTREAMS[1]), stub.now());
    stub.stub
        .handle_upstream_answer(&empty, Transport::Udp, from, now, resource_of)
        .unwrap();
    let passed_on = stub.stub.poll_output();
    assert!(
        matches!(&passed_on, Some(Output::Answer { bytes, .. }) if bytes[2] == empty[2]),
        "{passed_on:?}"
    );
    stub.ask(2, OTHER, A_TYPE);
    assert_eq!(stub.forward().upstream, socket(UPSTREAMS[1]));
}

#[test]
fn where_an_upstream_refuses_the_next_is_asked_at_once_and_asked_first_from_then_on() {
    for code in REFUSALS {
        let mut stub = Clocked::new();
        stub.ask(1, OTHER, A_TYPE);
        let first = stub.forward();
        let refused = refusal(&first.query, code);
        stub.answer_upstream(&refused, UPSTREAMS[0]).unwrap();
        assert_eq!(stub.answers, []);
        let second = stub.forward();
        assert_eq!(second.upstream, socket(UPSTREAMS[1]));
        let good = upstream_answer(&second.query, &[record(A_TYPE, &[192, 0, 2, 1])]);
        stub.answer_upstream(&good, UPSTREAMS[1]).unwrap();
        let answer = stub.answer();
        assert_eq!(
            (answer.code, answer.addresses.len()),
            (OptRcode::NOERROR, 1)
        );
        stub.ask(2, OTHER, A_TYPE);
        assert_eq!(stub.forward().upstream, socket(UPSTREAMS[1]), "{code}");
    }
}

#[test]
fn a_server_that_refuses_is_not_asked_first_because_another_was_silent_once() {
    let mut stub = Clocked::new();
    for id in 1..10 {
        stub.ask(id, OTHER, A_TYPE);
        let mut asked = stub.forward();
        if id == 1 {
            // The second one misses the first question.
            let refused = refusal(&asked.query, OptRcode::REFUSED);
            stub.answer_upstream(&refused, UPSTREAMS[0]).unwrap();
            stub.pass(4500);
            let again: Vec<_> = stub.forwards.drain(..).map(|it| it.upstream).collect();
            assert_eq!(again, [socket(UPSTREAMS[1]); 3]);
            assert_eq!(stub.answer().code, OptRcode::REFUSED);
            continue;
        }
        if asked.upstream == socket(UPSTREAMS[0]) {
            assert_eq!(id, 2, "the one that refuses is asked first once");
            let refused = refusal(&asked.query, OptRcode::REFUSED);
            stub.answer_upstream(&refused, UPSTREAMS[0]).unwrap();
            asked = stub.forward();
        }
        let good = upstream_answer(&asked.query, &[record(A_TYPE, &[192, 0, 2, 1])]);
        stub.answer_upstream(&good, UPSTREAMS[1]).unwrap();
        assert_eq!(stub.answer().addresses.len(), 1);
    }
}

#[test]
fn where_all_upstreams_refuse_the_code_is_passed_on_without_asking_one_twice() {
    for code in REFUSALS {
        let mut stub = Clocked::new();
        stub.ask(7, OTHER, A_TYPE);
        for upstream in UPSTREAMS {
            let forward = stub.forward();
            assert_eq!(forward.upstream, socket(upstream));
            let refused = refusal(&forward.query, code);
            stub.answer_upstream(&refused, upstream).unwrap();
        }
        let answer = stub.answer();
        assert_eq!((answer.id, answer.code), (7, code));
        assert_eq!((stub.forwards.len(), stub.stub.poll_timeout()), (0, None));
    }
}

#[test]
fn a_name_that_does_not_exist_at_one_upstream_is_asked_of_no_other() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let missing = refusal(&stub.forward().query, OptRcode::NXDOMAIN);
    stub.answer_upstream(&missing, UPSTREAMS[0]).unwrap();
    assert_eq!(stub.answer().code, OptRcode::NXDOMAIN);
    assert_eq!(stub.forwards, []);
}

#[test]
fn an_upstream_that_cannot_be_reached_is_passed_over_at_once() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    for _ in 0..2 {
        let forward = stub.forward();
        stub.stub
            .handle_upstream_unreachable(forward.id, stub.now());
        stub.drain();
    }
    let third = stub.forward();
    stub.stub.handle_upstream_unreachable(third.id, stub.now());
    stub.drain();
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.stub.handle_upstream_unreachable(third.id, stub.now());
    assert_eq!(stub.stub.poll_output(), None, "it is over");
}

#[test]
fn a_query_that_was_sent_again_goes_to_the_next_upstream_and_is_answered_once() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let first = stub.forward();
    stub.ask(1, OTHER, A_TYPE);
    let again = stub.forward();
    assert_eq!((again.id, again.upstream), (first.id, socket(UPSTREAMS[1])));
    assert_eq!(stub.stub.counts().forwarded, 1);
}

#[test]
fn only_so_many_queries_wait_for_upstreams() {
    let mut stub = Clocked::new();
    for id in 0..600 {
        stub.ask(id, OTHER, A_TYPE);
    }
    assert_eq!(stub.forwards.len(), FORWARDS_MAX);
    assert_eq!(stub.answers.len(), 600 - FORWARDS_MAX);
    assert!(stub.answers.iter().all(|it| it.code == OptRcode::SERVFAIL));
}

#[test]
fn other_upstreams_take_over_what_waits() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    stub.pass(1500);
    stub.forwards.clear();
    stub.stub
        .set_upstreams(vec![socket("198.51.100.53:53")], stub.now())
        .unwrap();
    stub.drain();
    assert_eq!(stub.forward().upstream, socket("198.51.100.53:53"));
    stub.stub.set_upstreams(Vec::new(), stub.now()).unwrap();
    stub.drain();
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.ask(2, OTHER, A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::REFUSED);
}

#[test]
fn the_resolver_is_never_its_own_upstream() {
    let listens_on = vec![socket("100.64.0.9:53"), socket("[fd00::9]:53")];
    let with = |upstream: &str| {
        let upstreams = vec![socket(upstream)];
        let config = Config {
            listens_on: listens_on.clone(),
            upstreams,
            ..Config::default()
        };
        Stub::new(config, [0; 32]).map(|_| ())
    };
    for own in [
        "100.64.0.9:53",
        "[::ffff:100.64.0.9]:53",
        "[fd00::9]:53",
        "100.96.3.4:53",
    ] {
        assert_eq!(with(own), Err(Error::Loop(socket(own))));
    }
    for nowhere in [
        "0.0.0.0:53",
        "192.0.2.1:0",
        "[ff02::fb]:5353",
        "255.255.255.255:53",
    ] {
        assert_eq!(with(nowhere), Err(Error::NotAnUpstream(socket(nowhere))));
    }
    assert_eq!(with("127.0.0.53:53"), Ok(()));
    let mut stub = Clocked::new();
    let many = (0..9)
        .map(|host| (IpAddr::from([192, 0, 2, host]), 53).into())
        .collect();
    assert_eq!(
        stub.stub.set_upstreams(many, stub.now()),
        Err(Error::TooManyUpstreams(9))
    );
    stub.ask(1, OTHER, A_TYPE);
    assert_eq!(
        stub.forward().upstream,
        socket(UPSTREAMS[0]),
        "they stay what they were"
    );
}
