//! Names of others that are aliases of names of resources.

use crate::common::{
    A_TYPE, AAAA_TYPE, BOTH, Clocked, EDNS, TXT_TYPE, UPSTREAMS, header, name, query, record_of,
    upstream_answer, wire_name,
};
use culvert_dns::{Outcome, Transport};
use domain::base::iana::{OptRcode, Rtype};
use domain::base::name::ParsedName;
use domain::base::{Message, ToName};
use domain::rdata::{AllRecordData, Srv};
use std::net::IpAddr;

const ALIAS: &str = "alias.example.org";
const HOST: &str = "www.corp.example";
const CNAME_TYPE: u16 = 5;
const SRV_TYPE: u16 = 33;

fn alias(owner: &str, target: &str) -> Vec<u8> {
    record_of(owner, CNAME_TYPE, &wire_name(target))
}

fn real_address(owner: &str) -> Vec<u8> {
    record_of(owner, A_TYPE, &[10, 50, 0, 10])
}

/// A query for the alias, which the upstream has answered with these records and this code.
fn asked(qtype: u16, records: &[Vec<u8>], code: u8) -> Clocked {
    let mut stub = Clocked::new();
    stub.ask(7, ALIAS, qtype);
    let forward = stub.forward();
    let mut bytes = upstream_answer(&forward.query, records);
    bytes[3] |= code;
    stub.answer_upstream(&bytes, UPSTREAMS[0]).unwrap();
    stub
}

#[test]
fn an_alias_of_a_resources_name_has_the_addresses_of_the_tunnel() {
    const DNAME_TYPE: u16 = 39;
    let answers: [&[Vec<u8>]; 8] = [
        &[alias(ALIAS, HOST), real_address(HOST)],
        &[real_address(HOST), alias(ALIAS, HOST)],
        &[alias(ALIAS, HOST)],
        &[alias("ALIAS.example.ORG", "WWW.Corp.Example")],
        // The site decides about its own name.
        &[alias(ALIAS, HOST), alias(HOST, "elsewhere.example.net")],
        // A domain that is another one, with the alias that follows from it (RFC 6672, section 3.1).
        &[
            record_of("example.org", DNAME_TYPE, &wire_name("corp.example")),
            alias(ALIAS, HOST),
            real_address(HOST),
        ],
        // A signature, which proves nothing any more.
        &[
            alias(ALIAS, HOST),
            record_of(ALIAS, 46, &[0, 5, 13, 3]),
            real_address(HOST),
        ],
        // Several addresses, and one that the alias is said to have by itself.
        &[
            alias(ALIAS, HOST),
            real_address(HOST),
            real_address(HOST),
            real_address(ALIAS),
        ],
    ];
    for records in answers {
        // The upstream may know nothing of the target, or say that there is none.
        for code in [0, 3] {
            let mut stub = asked(A_TYPE, records, code);
            assert_eq!((stub.wanted.len(), stub.answers.len()), (1, 0));
            stub.resolve(HOST, Outcome::Families(BOTH));
            let addresses = stub.stub.addresses_of(&name(HOST)).unwrap();
            let answer = stub.answer();
            assert_eq!((answer.id, answer.code), (7, OptRcode::NOERROR));
            assert_eq!(answer.aliases, [HOST]);
            assert_eq!(answer.addresses, [IpAddr::V4(addresses.v4)]);
        }
    }
}

#[test]
fn a_chain_of_aliases_ends_at_the_first_name_of_a_resource() {
    let records = [
        alias("two.example.net", HOST),
        alias("one.example.net", "two.example.net"),
        alias(ALIAS, "one.example.net"),
        alias(HOST, "db.corp.example"),
        real_address("db.corp.example"),
    ];
    let mut stub = asked(AAAA_TYPE, &records, 0);
    stub.resolve(HOST, Outcome::Families(BOTH));
    let answer = stub.answer();
    assert_eq!(answer.aliases, ["one.example.net", "two.example.net", HOST]);
    let addresses = stub.stub.addresses_of(&name(HOST)).unwrap();
    assert_eq!(answer.addresses, [IpAddr::V6(addresses.v6)]);
}

/// As many aliases as are followed, and one more: then nothing of the resource's name is left in the answer.
#[test]
fn a_chain_is_followed_as_far_as_resolvers_follow_it_and_leaks_nothing_beyond() {
    for (links, is_followed) in [(3, true), (11, true), (16, true), (17, false), (40, false)] {
        let host = |number: usize| match number {
            0 => ALIAS.to_owned(),
            number if number == links => HOST.to_owned(),
            number => format!("n{number}.example.net"),
        };
        let mut records: Vec<_> = (0..links)
            .map(|number| alias(&host(number), &host(number + 1)))
            .collect();
        records.push(real_address(HOST));
        let mut stub = Clocked::new();
        let bytes = query(7, ALIAS, A_TYPE, EDNS);
        stub.send(&bytes, 1, Transport::Tcp).unwrap();
        let forward = stub.forward();
        let answer = upstream_answer(&forward.query, &records);
        stub.answer_upstream_by(Transport::Tcp, &answer, UPSTREAMS[0])
            .unwrap();
        assert_eq!(stub.wanted.len(), usize::from(is_followed), "{links}");
        if is_followed {
            stub.resolve(HOST, Outcome::Families(BOTH));
        }
        let answer = stub.answer();
        assert_eq!(answer.aliases.len(), links);
        let own = stub.stub.addresses_of(&name(HOST));
        let own: Vec<IpAddr> = own.into_iter().map(|own| own.v4.into()).collect();
        assert_eq!(answer.addresses, own, "{links}");
    }
}

#[test]
fn what_the_site_says_of_the_name_is_said_of_the_alias() {
    for (outcome, code, aliases) in [
        (Outcome::NoAddress, OptRcode::NOERROR, 1),
        (Outcome::NxDomain, OptRcode::NXDOMAIN, 1),
        (Outcome::Unanswered, OptRcode::SERVFAIL, 0),
        (Outcome::Unreachable, OptRcode::SERVFAIL, 0),
    ] {
        for qtype in [A_TYPE, TXT_TYPE] {
            let mut stub = asked(qtype, &[alias(ALIAS, HOST), real_address(HOST)], 0);
            stub.resolve(HOST, outcome.clone());
            let answer = stub.answer();
            assert_eq!((answer.code, answer.aliases.len()), (code, aliases));
            assert_eq!(answer.addresses, Vec::<IpAddr>::new());
        }
    }
}

#[test]
fn who_asks_for_the_alias_itself_gets_it_from_the_upstream() {
    let mut stub = asked(CNAME_TYPE, &[alias(ALIAS, HOST)], 0);
    assert_eq!(stub.wanted, []);
    assert_eq!(stub.answer().aliases, [HOST]);
}

#[test]
fn aliases_of_other_names_and_circles_of_them_are_passed_on() {
    let circle = [
        alias(ALIAS, "one.example.net"),
        alias("one.example.net", ALIAS),
    ];
    let other = [
        alias(ALIAS, "one.example.net"),
        record_of("one.example.net", A_TYPE, &[192, 0, 2, 1]),
        // Not what the question is about.
        alias("mail.example.net", HOST),
    ];
    for (records, addresses) in [(&circle[..], 0), (&other[..], 1)] {
        let mut stub = asked(A_TYPE, records, 0);
        assert_eq!(stub.wanted, []);
        assert_eq!(stub.answer().addresses.len(), addresses);
    }
}

#[test]
fn an_address_of_a_resources_name_beside_an_answer_is_left_out_and_the_rest_stays() {
    let target = |before: &[u8]| [before, &wire_name(HOST)].concat();
    let naptr = b"\x00\x0a\x00\x14\x01a\x07E2U+sip\x00";
    let v6 = [0xfd, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
    // The type in question with its data, and the owner, type and data of what is beside it.
    for (qtype, data, owner, rtype, address) in [
        (
            SRV_TYPE,
            target(&[0, 1, 0, 2, 1, 133]),
            HOST,
            A_TYPE,
            &[10, 50, 0, 10][..],
        ),
        (
            SRV_TYPE,
            target(&[0, 1, 0, 2, 1, 133]),
            HOST,
            AAAA_TYPE,
            &v6,
        ),
        (
            SRV_TYPE,
            target(&[0, 1, 0, 2, 1, 133]),
            "WWW.Corp.example",
            A_TYPE,
            &[10, 50, 0, 10],
        ),
        // MX, NS, NAPTR and URI name a machine as well; a server may add whatever it has.
        (15, target(&[0, 10]), HOST, A_TYPE, &[10, 50, 0, 10]),
        (2, target(&[]), HOST, A_TYPE, &[10, 50, 0, 10]),
        (35, target(naptr), HOST, AAAA_TYPE, &v6),
        (
            TXT_TYPE,
            b"\x05hello".to_vec(),
            "db.corp.example",
            A_TYPE,
            &[10, 50, 0, 11],
        ),
    ] {
        const SERVICE: &str = "_ldap._tcp.example.org";
        let mut stub = Clocked::new();
        let bytes = query(7, SERVICE, qtype, EDNS);
        stub.send(&bytes, 1, Transport::Tcp).unwrap();
        let forward = stub.forward();
        let end = 12 + wire_name(SERVICE).len() + 4;
        let id = u16::from_be_bytes([forward.query[0], forward.query[1]]);
        let mut answer = header(id, 0x8180, [1, 1, 0, 3]);
        answer.extend(&forward.query[12..end]);
        answer.extend(record_of(SERVICE, qtype, &data));
        answer.extend(record_of(owner, rtype, address));
        answer.extend(record_of("ns.example.org", A_TYPE, &[192, 0, 2, 1]));
        answer.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
        stub.answer_upstream_by(Transport::Tcp, &answer, UPSTREAMS[0])
            .unwrap();
        let answer = stub.answer();
        assert_eq!(answer.id, 7);
        let message = Message::from_octets(answer.bytes).unwrap();
        let answers = message.answer().unwrap();
        let answers = answers.limit_to::<AllRecordData<_, ParsedName<_>>>();
        let remaining: Vec<Rtype> = answers.map(|record| record.unwrap().rtype()).collect();
        assert_eq!(remaining, [Rtype::from_int(qtype)]);
        let additional = message.additional().unwrap().map(|record| {
            let record = record.unwrap();
            (record.owner().to_vec().to_string(), record.rtype())
        });
        assert_eq!(
            additional.collect::<Vec<_>>(),
            [
                ("ns.example.org".to_owned(), Rtype::A),
                (".".to_owned(), Rtype::OPT)
            ],
            "{qtype} {owner}"
        );
    }
}

#[test]
fn the_target_of_a_service_stays_where_the_address_beside_it_goes() {
    const SERVICE: &str = "_ldap._tcp.example.org";
    let mut stub = Clocked::new();
    let bytes = query(7, SERVICE, SRV_TYPE, EDNS);
    stub.send(&bytes, 1, Transport::Tcp).unwrap();
    let forward = stub.forward();
    let end = 12 + wire_name(SERVICE).len() + 4;
    let id = u16::from_be_bytes([forward.query[0], forward.query[1]]);
    let mut answer = header(id, 0x8180, [1, 1, 0, 3]);
    answer.extend(&forward.query[12..end]);
    let srv = [&[0, 1, 0, 2, 1, 133][..], &wire_name(HOST)].concat();
    answer.extend(record_of(SERVICE, SRV_TYPE, &srv));
    answer.extend(real_address(HOST));
    answer.extend(record_of("ns.example.org", A_TYPE, &[192, 0, 2, 1]));
    answer.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    stub.answer_upstream_by(Transport::Tcp, &answer, UPSTREAMS[0])
        .unwrap();
    let answer = stub.answer();
    assert_eq!(answer.id, 7);
    let message = Message::from_octets(answer.bytes).unwrap();
    let services = message.answer().unwrap();
    let services = services.limit_to::<Srv<ParsedName<_>>>();
    let targets = services.map(|record| record.unwrap().data().target().to_vec().to_string());
    assert_eq!(targets.collect::<Vec<_>>(), [HOST]);
    let additional = message.additional().unwrap().map(|record| {
        let record = record.unwrap();
        (record.owner().to_vec().to_string(), record.rtype())
    });
    assert_eq!(
        additional.collect::<Vec<_>>(),
        [
            ("ns.example.org".to_owned(), Rtype::A),
            (".".to_owned(), Rtype::OPT)
        ]
    );
}
