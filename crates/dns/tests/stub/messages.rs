//! Queries that are odd, and the form of answers.

use crate::common::{A_TYPE, Clocked, EDNS, Edns, header, opt, query, question, record, wire_name};
use culvert_dns::{DropReason, QUERY_LEN_MAX, Transport};
use domain::base::iana::OptRcode;

const HOST: &str = "www.corp.example";

fn code_of(bytes: &[u8]) -> OptRcode {
    let mut stub = Clocked::new();
    stub.grant(HOST);
    stub.send(bytes, 1, Transport::Udp).unwrap();
    let answer = stub.answer();
    assert_eq!(answer.bytes[..2], bytes[..2], "the id of the query");
    answer.code
}

#[test]
fn what_is_no_query_gets_no_answer() {
    let mut stub = Clocked::new();
    let response = header(1, 0x8180, [1, 0, 0, 0]);
    let long = vec![0; QUERY_LEN_MAX + 1];
    for (bytes, reason) in [
        (&[][..], DropReason::TooShort),
        (&response[..11], DropReason::TooShort),
        (&response, DropReason::NotAQuery),
        (&long, DropReason::TooLong),
    ] {
        assert_eq!(stub.send(bytes, 1, Transport::Tcp), Err(reason));
    }
    assert_eq!((stub.answers.len(), stub.forwards.len()), (0, 0));
}

#[test]
fn other_than_one_question_is_formerr() {
    let asked = question(HOST, A_TYPE, 1);
    for count in [0, 2, 65_535] {
        let mut bytes = header(9, 0x0100, [count, 0, 0, 0]);
        bytes.extend(asked.repeat(usize::from(count.min(2))));
        assert_eq!(code_of(&bytes), OptRcode::FORMERR);
    }
}

#[test]
fn a_query_that_is_cut_off_is_formerr() {
    let whole = query(9, HOST, A_TYPE, EDNS);
    for len in 12..whole.len() {
        assert_eq!(code_of(&whole[..len]), OptRcode::FORMERR, "{len} bytes");
    }
}

#[test]
fn a_question_that_points_elsewhere_is_formerr() {
    let mut bytes = header(9, 0x0100, [1, 0, 0, 0]);
    bytes.extend([0xc0, 12, 0, 1, 0, 1]);
    assert_eq!(code_of(&bytes), OptRcode::FORMERR);
    bytes[13] = 4;
    assert_eq!(code_of(&bytes), OptRcode::FORMERR);
}

#[test]
fn other_operations_than_queries_are_not_implemented() {
    // IQUERY, STATUS, NOTIFY, UPDATE, and one that nobody knows.
    for opcode in [1, 2, 4, 5, 15] {
        let mut bytes = query(9, HOST, A_TYPE, EDNS);
        bytes[2] |= opcode << 3;
        assert_eq!(code_of(&bytes), OptRcode::NOTIMP);
    }
}

#[test]
fn other_classes_and_transfers_are_refused() {
    for class in [3, 4, 254, 255] {
        let mut bytes = header(9, 0x0100, [1, 0, 0, 0]);
        bytes.extend(question("version.bind", 16, class));
        assert_eq!(code_of(&bytes), OptRcode::REFUSED);
    }
    // OPT, TKEY, TSIG, IXFR, AXFR, MAILB, MAILA: of our names and of others.
    for qtype in [41, 249, 250, 251, 252, 253, 254] {
        assert_eq!(code_of(&query(9, HOST, qtype, EDNS)), OptRcode::REFUSED);
        assert_eq!(
            code_of(&query(9, "example.org", qtype, EDNS)),
            OptRcode::REFUSED
        );
    }
}

#[test]
fn an_answer_has_edns_if_and_only_if_the_query_has() {
    for edns in [EDNS, None] {
        let mut stub = Clocked::new();
        stub.grant(HOST);
        stub.send(&query(1, HOST, 16, edns), 1, Transport::Udp)
            .unwrap();
        assert_eq!(stub.answer().has_edns, edns.is_some());
    }
}

#[test]
fn a_later_version_of_edns_is_badvers() {
    let edns = Some(Edns {
        version: 1,
        payload: 1232,
    });
    assert_eq!(code_of(&query(9, HOST, A_TYPE, edns)), OptRcode::BADVERS);
}

#[test]
fn two_edns_records_or_one_of_a_name_are_formerr() {
    let edns = opt(EDNS.unwrap());
    let mut twice = header(9, 0x0100, [1, 0, 0, 2]);
    twice.extend(question(HOST, A_TYPE, 1));
    twice.extend(edns.repeat(2));
    assert_eq!(code_of(&twice), OptRcode::FORMERR);
    let mut of_a_name = header(9, 0x0100, [1, 0, 0, 1]);
    of_a_name.extend(question(HOST, A_TYPE, 1));
    of_a_name.extend(wire_name(HOST));
    of_a_name.extend(&edns[1..]);
    assert_eq!(code_of(&of_a_name), OptRcode::FORMERR);
}

#[test]
fn unknown_records_and_options_beside_the_question_are_ignored() {
    let mut bytes = header(9, 0x0100, [1, 0, 0, 2]);
    bytes.extend(question(HOST, 16, 1));
    bytes.extend(record(999, b"what"));
    // An option of code 65001 with two bytes.
    bytes.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 6, 0xfd, 0xe9, 0, 2, 1, 2]);
    assert_eq!(code_of(&bytes), OptRcode::NOERROR);
}

#[test]
fn the_flags_of_the_query_come_back() {
    let mut bytes = query(9, HOST, 16, EDNS);
    bytes[2] = 0;
    bytes[3] = 0x10;
    let mut stub = Clocked::new();
    stub.grant(HOST);
    stub.send(&bytes, 1, Transport::Udp).unwrap();
    let answer = stub.answer();
    assert_eq!(answer.bytes[2..4], [0x80, 0x90], "QR; RA, CD; not RD");
}

#[test]
fn an_answer_goes_back_by_the_transport_of_its_query() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut stub = Clocked::new();
        stub.grant(HOST);
        stub.send(&query(1, HOST, 16, EDNS), 4711, transport)
            .unwrap();
        let answer = stub.answer();
        assert_eq!((answer.transport, answer.to.port()), (transport, 4711));
    }
}

#[test]
fn a_name_with_a_dot_inside_a_label_is_not_taken_for_another() {
    let mut bytes = header(9, 0x0100, [1, 0, 0, 0]);
    bytes.extend(b"\x08db.corp2\x07example\0\0\x01\0\x01");
    let mut stub = Clocked::new();
    stub.send(&bytes, 1, Transport::Udp).unwrap();
    assert_eq!((stub.wanted.len(), stub.forwards.len()), (0, 1));
    let mut bytes = header(9, 0x0100, [1, 0, 0, 0]);
    bytes.extend(b"\x07db.corp\x07example\0\0\x01\0\x01");
    stub.send(&bytes, 2, Transport::Udp).unwrap();
    assert_eq!((stub.wanted.len(), stub.forwards.len()), (0, 2));
}
