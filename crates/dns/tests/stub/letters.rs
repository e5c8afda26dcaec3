//! The case of letters in forwarded questions, which who forges an answer does not know.

use crate::common::{
    A_TYPE, Clocked, EDNS, Forward, UPSTREAMS, query, record, socket, upstream_answer,
};
use culvert_dns::{CASE_RULE_LIFETIME, DropReason, Transport, may_answer};
use domain::base::iana::OptRcode;
use std::collections::BTreeSet;

/// 20 letters, and other characters that XOR would turn into something else.
const OTHER: &str = "www-0123.example-zone.org";
const NAME_END: usize = 12 + OTHER.len() + 2;

fn letters(forward: &Forward) -> &[u8] {
    &forward.query[12..NAME_END]
}

/// The answer of a server that does not keep the case.
fn in_lower_case(forward: &Forward) -> Vec<u8> {
    let mut bytes = upstream_answer(&forward.query, &[record(A_TYPE, &[192, 0, 2, 80])]);
    bytes[12..NAME_END].make_ascii_lowercase();
    bytes
}

#[test]
fn each_letter_of_a_forwarded_name_has_a_case_of_its_own() {
    let mut stub = Clocked::new();
    let mut seen = BTreeSet::new();
    let (mut upper, mut all) = (0, 0);
    for id in 0..100 {
        stub.ask(id, OTHER, A_TYPE);
        let forward = stub.forward();
        let expected = query(id, OTHER, A_TYPE, EDNS);
        let lower = forward.query[12..NAME_END].to_ascii_lowercase();
        assert_eq!(lower, expected[12..NAME_END], "the same name");
        assert_eq!(forward.query[NAME_END..], expected[NAME_END..]);
        upper += letters(&forward)
            .iter()
            .filter(|it| it.is_ascii_uppercase())
            .count();
        all += letters(&forward)
            .iter()
            .filter(|it| it.is_ascii_alphabetic())
            .count();
        seen.insert(letters(&forward).to_vec());
    }
    assert_eq!(seen.len(), 100, "none twice");
    assert!(
        (all * 4 / 10..all * 6 / 10).contains(&upper),
        "{upper} of {all}"
    );
}

#[test]
fn a_query_over_tcp_goes_in_the_askers_letters() {
    let mut stub = Clocked::new();
    let bytes = query(1, OTHER, A_TYPE, EDNS);
    stub.send(&bytes, 1, Transport::Tcp).unwrap();
    assert_eq!(stub.forward().query[2..], bytes[2..]);
}

#[test]
fn an_answer_in_other_letters_is_not_believed_and_asked_for_by_tcp() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let forward = stub.forward();
    let answer = upstream_answer(&forward.query, &[record(A_TYPE, &[192, 0, 2, 80])]);
    let mut forged = answer.clone();
    // One letter: the first.
    forged[13] ^= 0x20;
    let result = stub.answer_upstream(&forged, UPSTREAMS[0]);
    assert_eq!(result, Err(DropReason::WrongCase));
    assert_eq!(stub.answers, []);
    let again = stub.forward();
    assert_eq!((again.id, &again.query), (forward.id, &forward.query));
    assert_eq!(
        (again.transport, again.upstream),
        (Transport::Tcp, socket(UPSTREAMS[0]))
    );
    // By UDP nothing is believed any more, not even what would have been.
    let result = stub.answer_upstream(&answer, UPSTREAMS[0]);
    assert_eq!(result, Err(DropReason::WrongSource));
    stub.answer_upstream_by(Transport::Tcp, &forged, UPSTREAMS[0])
        .unwrap();
    let believed = stub.answer();
    assert_eq!((believed.id, believed.transport), (1, Transport::Udp));
    assert_eq!(
        believed.bytes[12..NAME_END],
        query(1, OTHER, A_TYPE, EDNS)[12..NAME_END]
    );
}

#[test]
fn an_upstream_that_does_not_keep_the_case_is_asked_by_tcp_from_then_on_and_tried_again_after_an_hour()
 {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let forward = stub.forward();
    let _refused = stub.answer_upstream(&in_lower_case(&forward), UPSTREAMS[0]);
    let by_tcp = stub.forward();
    stub.answer_upstream_by(Transport::Tcp, &in_lower_case(&by_tcp), UPSTREAMS[0])
        .unwrap();
    stub.answer();
    assert_eq!(stub.not_persisted, [(socket(UPSTREAMS[0]), true)]);
    let ask = |stub: &mut Clocked| {
        stub.ask(2, OTHER, A_TYPE);
        let forward = stub.forward();
        let answer = in_lower_case(&forward);
        let _judged = stub.answer_upstream_by(forward.transport, &answer, UPSTREAMS[0]);
        stub.answers.clear();
        stub.forwards.clear();
        forward.transport
    };
    assert_eq!(ask(&mut stub), Transport::Tcp);
    assert_eq!(stub.not_persisted.len(), 1, "told once");
    stub.pass(CASE_RULE_LIFETIME.as_millis() as u64 + 2_000);
    stub.forwards.clear();
    stub.answers.clear();
    assert_eq!(ask(&mut stub), Transport::Udp);
}

#[test]
fn an_upstream_that_answers_neither_is_believed_in_any_case_for_an_hour_and_that_is_told() {
    let mut stub = Clocked::new();
    stub.stub
        .set_upstreams(vec![socket(UPSTREAMS[0])], stub.now())
        .unwrap();
    stub.ask(1, OTHER, A_TYPE);
    let forward = stub.forward();
    let _refused = stub.answer_upstream(&in_lower_case(&forward), UPSTREAMS[0]);
    let by_tcp = stub.forward();
    assert_eq!(by_tcp.transport, Transport::Tcp);
    assert_eq!(stub.not_persisted, []);
    stub.stub.handle_upstream_unreachable(by_tcp.id, stub.now());
    stub.drain();
    assert_eq!(stub.not_persisted, [(socket(UPSTREAMS[0]), false)]);
    let by_udp = stub.forward();
    assert_eq!(by_udp.transport, Transport::Udp);
    stub.answer_upstream(&in_lower_case(&by_udp), UPSTREAMS[0])
        .unwrap();
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
    stub.ask(2, OTHER, A_TYPE);
    let next = stub.forward();
    stub.answer_upstream(&in_lower_case(&next), UPSTREAMS[0])
        .unwrap();
    stub.answer();
    stub.pass(CASE_RULE_LIFETIME.as_millis() as u64);
    stub.ask(3, OTHER, A_TYPE);
    let next = stub.forward();
    let result = stub.answer_upstream(&in_lower_case(&next), UPSTREAMS[0]);
    assert_eq!(result, Err(DropReason::WrongCase));
}

#[test]
fn an_upstream_whose_tcp_is_silent_is_passed_over_like_any_that_is() {
    let mut stub = Clocked::new();
    stub.ask(1, OTHER, A_TYPE);
    let forward = stub.forward();
    let _refused = stub.answer_upstream(&in_lower_case(&forward), UPSTREAMS[0]);
    assert_eq!(stub.forward().transport, Transport::Tcp);
    stub.pass(1_500);
    let next = stub.forward();
    assert_eq!(
        (next.upstream, next.transport),
        (socket(UPSTREAMS[1]), Transport::Udp)
    );
    assert_eq!(stub.not_persisted, [(socket(UPSTREAMS[0]), false)]);
}

#[test]
fn a_socket_waits_for_what_has_id_and_question_of_its_query() {
    let asked = query(7, OTHER, A_TYPE, EDNS);
    let answer = upstream_answer(&asked, &[record(A_TYPE, &[192, 0, 2, 80])]);
    assert!(may_answer(&answer, &asked));
    let mut other_case = answer.clone();
    other_case[13] ^= 0x20;
    assert!(may_answer(&other_case, &asked), "the stub judges that");
    let no_question = [&answer[..4], &[0, 0], &answer[6..]].concat();
    let with = |place: usize, bits: u8| {
        let mut bytes = answer.clone();
        bytes[place] ^= bits;
        bytes
    };
    for (what, message) in [
        ("another id", with(1, 1)),
        ("a query", with(2, 0x80)),
        ("another operation", with(2, 0x20)),
        ("another name", with(13, 1)),
        ("another type", with(NAME_END + 1, 29)),
        ("another class", with(NAME_END + 3, 2)),
        ("no question", no_question),
        ("a header", answer[..12].to_vec()),
        ("nothing", Vec::new()),
    ] {
        assert!(!may_answer(&message, &asked), "{what}");
    }
}
