//! Records of names of resources that are no addresses: the site's DNS has them.

use crate::common::{Bed, SOON, access};
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4, RecordKind, ask_at};
use culvert_lab::wait_until;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Response codes (RFC 1035, §4.1.1).
const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;
const REFUSED: u8 = 5;

/// The port of gateways' DNS service (`SITE_DNS_PORT`).
const PORT: u16 = 20_053;

const SERVICE: &str = "_ldap._tcp.corp.example";

/// A server of the domain, in no resource that the client may use.
const DOMAIN_DNS: &str = "10.50.0.60";

/// The usual access, to every name below `corp.example`.
fn bed() -> Bed {
    Bed::with_access(1, &access().replace(PRIVATE_NAME, "**.corp.example")).unwrap()
}

/// Labels of a name, as records have them.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

#[test]
fn records_that_are_no_addresses_are_those_of_the_site() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let server = "dc.corp.example";
    let srv = [&[0, 0, 0, 100, 1, 133][..], &labels(server)].concat();
    let mx = [&[0, 10][..], &labels(server)].concat();
    let text = b"\x05hello";
    names.set(server, &[PRIVATE_V4.parse().unwrap()]);
    names.set_record(SERVICE, RecordKind::Srv, &srv);
    names.set_record("corp.corp.example", RecordKind::Mx, &mx);
    names.set_record("_acme-challenge.corp.example", RecordKind::Txt, text);
    for (name, kind, data) in [
        (SERVICE, RecordKind::Srv, &srv[..]),
        ("corp.corp.example", RecordKind::Mx, &mx),
        ("_acme-challenge.corp.example", RecordKind::Txt, text),
    ] {
        let answer = client.ask(name, kind).unwrap();
        assert_eq!(
            (answer.code, answer.records),
            (NO_ERROR, vec![data.to_vec()]),
            "{name}"
        );
        // Of other kinds there are none, and whoever asks for them first hears so as well.
        for other in [RecordKind::A, RecordKind::Https] {
            let answer = client.ask(name, other).unwrap();
            assert_eq!(
                (answer.code, answer.records, answer.addresses),
                (NO_ERROR, vec![], vec![])
            );
        }
    }
    for kind in [RecordKind::Txt, RecordKind::Srv, RecordKind::A] {
        let answer = client.ask("nothing.corp.example", kind).unwrap();
        assert_eq!((answer.code, answer.records), (NO_SUCH_NAME, vec![]));
    }
    // The target of the service is reached through the tunnel.
    let at = client.ask(server, RecordKind::A).unwrap().addresses;
    assert!(at.len() == 1 && at != [PRIVATE_V4.parse::<IpAddr>().unwrap()]);
    let said = client.run_with_dns(&format!("curl -fsS -m 8 http://{server}/"));
    assert!(said.unwrap().trim_end().ends_with(PRIVATE_V4));
}

#[test]
fn a_record_that_is_too_long_for_a_datagram_comes_whole() {
    let bed = bed();
    let mut text = Vec::new();
    for _ in 0..12 {
        text.push(250);
        text.extend([b'x'; 250]);
    }
    bed.product
        .names
        .set_record("long.corp.example", RecordKind::Txt, &text);
    let client = &bed.product.client;
    let answer = client.ask("long.corp.example", RecordKind::Txt);
    assert_eq!(answer.unwrap().records, [&text[..]]);

    // Connections that fall silent anywhere take nobody's place for long.
    let stub = SocketAddr::new(client.address().unwrap(), 53);
    let mut held = Vec::new();
    for begun in [
        &b""[..],
        b"\0",
        b"\0\x20",
        b"\0\x20\0\x01\x01\0",
        b"\0\0",
        b"\xff",
    ] {
        for _ in 0..50 {
            let stream = client.namespace.inside(|| Ok(TcpStream::connect(stub)?));
            let mut stream = stream.unwrap();
            let _gone = stream.write_all(begun);
            held.push(stream);
        }
        let asked = Instant::now();
        let answer = client.ask("long.corp.example", RecordKind::Txt);
        assert_eq!(answer.unwrap().records, [&text[..]]);
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "{begun:?}: {:?}",
            asked.elapsed()
        );
    }
}

/// The site's word about records of one exact name counts, though the domain has servers of its own, which know others.
#[test]
fn records_of_one_exact_name_are_those_of_the_site_whatever_servers_its_domain_has() {
    let dns =
        format!("[dns]\n\n[[dns.domain]]\nname = \"corp.example\"\nservers = [\"{DOMAIN_DNS}\"]\n");
    let bed = Bed::with_access(1, &(dns + &access())).unwrap();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let private = &bed.product.private;
    private
        .run(&format!("ip address add {DOMAIN_DNS} dev lo"))
        .unwrap();
    let others = Names::start(private, DOMAIN_DNS.parse().unwrap()).unwrap();
    let host = labels("dc.corp.example");
    for (kind, data) in [
        (RecordKind::Txt, b"\x05hello".to_vec()),
        (RecordKind::Mx, [&[0, 10][..], &host].concat()),
        (RecordKind::Caa, b"\x00\x05issueca.test".to_vec()),
        (
            RecordKind::Https,
            [&[0, 1][..], &host, &[0, 1, 0, 3, 2, b'h', b'2']].concat(),
        ),
        (RecordKind::Svcb, [&[0, 2][..], &host].concat()),
        (
            RecordKind::Naptr,
            b"\x00\x0a\x00\x14\x01u\x07E2U+sip\x04!^.!\x00".to_vec(),
        ),
        (RecordKind::Srv, [&[0, 1, 0, 2, 1, 133][..], &host].concat()),
        (RecordKind::Sshfp, [&[4, 2][..], &[0xab; 32]].concat()),
        (RecordKind::Tlsa, [&[3, 1, 1][..], &[0xcd; 32]].concat()),
        (
            RecordKind::Uri,
            b"\x00\x0a\x00\x01https://host.test/".to_vec(),
        ),
        (RecordKind::Private, b"whatever".to_vec()),
    ] {
        names.set_record(PRIVATE_NAME, kind, &data);
        others.set_record(PRIVATE_NAME, kind, b"\x05wrong");
        let answer = client.ask(PRIVATE_NAME, kind).unwrap();
        assert_eq!(
            (answer.code, answer.records),
            (NO_ERROR, vec![data]),
            "{kind:?}"
        );
    }
    assert_eq!(others.asked(PRIVATE_NAME), Vec::<IpAddr>::new());
}

#[test]
fn a_gateway_answers_clients_alone_and_for_names_that_they_may_use() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let text = b"\x05hello";
    names.set_record("a.corp.example", RecordKind::Txt, text);
    names.set_record("a.other.example", RecordKind::Txt, text);
    let answer = client.ask("a.corp.example", RecordKind::Txt).unwrap();
    assert_eq!(answer.records, [text.to_vec()]);
    let status = bed.product.gateways[0].status().unwrap();
    let gateway: IpAddr = status["ipv4"].as_str().unwrap().parse().unwrap();
    let at = SocketAddr::new(gateway, PORT);
    let ask = |name: &str, kind| ask_at(&client.namespace, at, name, kind).unwrap();
    assert_eq!(
        ask("a.corp.example", RecordKind::Txt).records,
        [text.to_vec()]
    );
    for (name, kind) in [
        // Not of a resource.
        ("a.other.example", RecordKind::Txt),
        ("corp.example", RecordKind::Txt),
        // Addresses that lead past the tunnel.
        ("a.corp.example", RecordKind::A),
        ("a.corp.example", RecordKind::Aaaa),
    ] {
        let answer = ask(name, kind);
        assert_eq!(
            (answer.code, answer.records),
            (REFUSED, vec![]),
            "{name} {kind:?}"
        );
    }
    assert_eq!(names.asked("a.other.example"), Vec::<IpAddr>::new());
}

#[test]
fn records_are_found_through_the_gateway_that_takes_anothers_place() {
    let access = access().replace(PRIVATE_NAME, "**.corp.example");
    let mut bed = Bed::with_access(2, &access).unwrap();
    let text = b"\x05hello";
    bed.product
        .names
        .set_record("a.corp.example", RecordKind::Txt, text);
    let ask = |bed: &Bed| bed.product.client.ask("a.corp.example", RecordKind::Txt);
    assert_eq!(ask(&bed).unwrap().records.len(), 1);
    let serving = bed.serving();
    bed.product.gateways[serving].kill().unwrap();
    wait_until("the other gateway to answer", SOON, || {
        let answer = ask(&bed);
        answer.is_ok_and(|answer| answer.records.len() == 1)
    })
    .unwrap();
}
