//! Names in zones: asked of the zone's servers and of nobody else.

use crate::common::{
    A_TYPE, Clocked, EDNS, Forward, TXT_TYPE, UPSTREAMS, name, query, record, socket,
    upstream_answer,
};
use culvert_dns::{Config, Transport, UPSTREAM_TRIES};
use culvert_policy::DnsZone;
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

const OFFICE: [&str; 2] = ["10.0.0.53:53", "[fd0c::53]:53"];
const LAB: &str = "10.1.0.53:53";

fn zones(list: &[(&str, &[&str])]) -> BTreeMap<DnsZone, Vec<SocketAddr>> {
    let zones = list.iter().map(|(zone, servers)| {
        let servers = servers.iter().map(|server| socket(server));
        (zone.parse().unwrap(), servers.collect())
    });
    zones.collect()
}

/// `office.example` and, inside it, `lab.office.example`.
fn office() -> Clocked {
    let mut stub = Clocked::new();
    let told = zones(&[("office.example", &OFFICE), ("lab.office.example", &[LAB])]);
    stub.stub.set_zones(told, stub.now());
    stub
}

fn asked_of(stub: &mut Clocked, text: &str) -> String {
    stub.ask(1, text, A_TYPE);
    let forward = stub.forward();
    let bytes = upstream_answer(&forward.query, &[record(A_TYPE, &[192, 0, 2, 80])]);
    let upstream = forward.upstream.to_string();
    stub.answer_upstream(&bytes, &upstream).unwrap();
    assert_eq!(stub.answer().addresses, [IpAddr::from([192, 0, 2, 80])]);
    upstream
}

#[test]
fn a_name_is_asked_of_the_servers_of_the_smallest_zone_that_holds_it() {
    let mut stub = office();
    for (text, server) in [
        ("office.example", OFFICE[0]),
        ("Intranet.OFFICE.example", OFFICE[0]),
        ("a.b.c.office.example", OFFICE[0]),
        ("lab.office.example", LAB),
        ("rack1.lab.office.example", LAB),
        ("collab.office.example", OFFICE[0]),
        ("notoffice.example", UPSTREAMS[0]),
        ("example", UPSTREAMS[0]),
        // A service's name is no host's, and lies in the zone all the same.
        ("Big Printer._ipp._tcp.office.example", OFFICE[0]),
    ] {
        assert_eq!(asked_of(&mut stub, text), server, "{text}");
    }
}

#[test]
fn the_zone_of_all_names_has_those_that_no_other_has() {
    let mut stub = office();
    let told = zones(&[(".", &[LAB]), ("office.example", &OFFICE)]);
    stub.stub.set_zones(told, stub.now());
    assert_eq!(asked_of(&mut stub, "www.example.org"), LAB);
    assert_eq!(asked_of(&mut stub, "router"), LAB);
    assert_eq!(asked_of(&mut stub, "x.office.example"), OFFICE[0]);
    stub.stub.set_zones(BTreeMap::new(), stub.now());
    assert_eq!(asked_of(&mut stub, "www.example.org"), UPSTREAMS[0]);
    assert_eq!(asked_of(&mut stub, "x.office.example"), UPSTREAMS[0]);
}

#[test]
fn a_name_of_a_resource_is_no_zones() {
    let mut stub = Clocked::new();
    let told = zones(&[("corp.example", &OFFICE), (".", &[LAB])]);
    stub.stub.set_zones(told, stub.now());
    stub.ask(1, "web.corp.example", TXT_TYPE);
    stub.ask(2, "db.corp.example", A_TYPE);
    assert_eq!(stub.wanted.len(), 2);
    assert!(stub.forwards.is_empty());
    // The domain itself is no resource here.
    assert_eq!(asked_of(&mut stub, "corp.example"), OFFICE[0]);
}

#[test]
fn the_portals_name_is_in_no_zone_and_of_no_resource() {
    let mut stub = Clocked::with(Config {
        upstreams: UPSTREAMS.map(socket).to_vec(),
        fixed: vec![name("portal.corp.example")],
        ..Config::default()
    });
    let told = zones(&[(".", &[LAB]), ("portal.corp.example", &OFFICE)]);
    stub.stub.set_zones(told, stub.now());
    assert_eq!(asked_of(&mut stub, "Portal.corp.EXAMPLE"), UPSTREAMS[0]);
    assert_eq!(asked_of(&mut stub, "a.portal.corp.test"), LAB);
}

#[test]
fn a_silent_server_gives_way_to_the_next_of_its_zone_and_never_to_another() {
    let mut stub = office();
    stub.ask(1, "intranet.office.example", A_TYPE);
    let mut asked = BTreeSet::new();
    for _ in 0..UPSTREAM_TRIES {
        asked.insert(stub.forward().upstream.to_string());
        stub.pass(1_500);
    }
    assert_eq!(asked, OFFICE.map(str::to_owned).into());
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::SERVFAIL);
    assert_eq!(answer.error.unwrap().0, ExtendedErrorCode::NETWORK_ERROR);

    // The one that answers is asked first from then on; other names are not concerned.
    stub.ask(2, "intranet.office.example", A_TYPE);
    let first = stub.forward();
    stub.stub.handle_upstream_unreachable(first.id, stub.now());
    stub.drain();
    let second = stub.forward();
    assert_ne!(first.upstream, second.upstream);
    let bytes = upstream_answer(&second.query, &[]);
    stub.answer_upstream(&bytes, &second.upstream.to_string())
        .unwrap();
    stub.answers.clear();
    assert_eq!(
        asked_of(&mut stub, "x.office.example"),
        second.upstream.to_string()
    );
    assert_eq!(asked_of(&mut stub, "www.example.org"), UPSTREAMS[0]);
    // Being told the same again does not begin with the silent one.
    let told = zones(&[("office.example", &OFFICE)]);
    stub.stub.set_zones(told, stub.now());
    assert_eq!(
        asked_of(&mut stub, "x.office.example"),
        second.upstream.to_string()
    );
}

#[test]
fn a_question_over_tcp_is_asked_over_tcp() {
    let mut stub = office();
    let bytes = query(1, "intranet.office.example", A_TYPE, EDNS);
    stub.send(&bytes, 1, Transport::Tcp).unwrap();
    let forward = stub.forward();
    assert_eq!(
        (forward.upstream, forward.transport),
        (socket(OFFICE[0]), Transport::Tcp)
    );
}

#[test]
fn servers_that_lead_back_here_are_not_asked_and_their_names_nobody_else() {
    let mut stub = Clocked::with(Config {
        listens_on: vec![socket("100.64.0.9:53")],
        upstreams: UPSTREAMS.map(socket).to_vec(),
        ..Config::default()
    });
    let told = zones(&[
        ("a.example", &["100.64.0.9:53", "100.96.0.7:53", LAB]),
        ("b.example", &["100.64.0.9:53"]),
        ("c.example", &[]),
    ]);
    stub.stub.set_zones(told, stub.now());
    assert_eq!(asked_of(&mut stub, "x.a.example"), LAB);
    for text in ["x.b.example", "c.example"] {
        stub.ask(1, text, A_TYPE);
        let answer = stub.answer();
        assert_eq!(answer.code, OptRcode::SERVFAIL);
        assert_eq!(
            answer.error.unwrap().0,
            ExtendedErrorCode::NO_REACHABLE_AUTHORITY
        );
        assert!(stub.forwards.is_empty());
    }
}

#[test]
fn a_change_moves_what_waits_and_leaves_alone_what_it_does_not_concern() {
    let mut stub = office();
    stub.ask(1, "x.office.example", A_TYPE);
    stub.ask(2, "x.lab.office.example", A_TYPE);
    stub.ask(3, "www.example.org", A_TYPE);
    stub.forwards.clear();
    let told = zones(&[("office.example", &OFFICE)]);
    stub.stub.set_zones(told, stub.now());
    stub.drain();
    // A question that was asked of the removed zone goes to the zone around it, and nothing else
    // moves.
    assert_eq!(stub.forward().upstream, socket(OFFICE[0]));
    let others = vec![socket("192.0.2.77:53")];
    stub.stub.set_upstreams(others, stub.now()).unwrap();
    stub.drain();
    assert_eq!(stub.forward().upstream, socket("192.0.2.77:53"));
}

/// The zones of the property, each with a server of its own.
const NESTED: [&str; 6] = [".", "a", "b.a", "c.b.a", "ab", "b.ab"];

fn server(index: usize) -> SocketAddr {
    (IpAddr::from([10, 0, 0, u8::try_from(index).unwrap()]), 53).into()
}

fn any_zones() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..NESTED.len(), 0..=NESTED.len())
}

/// The server to ask, found by comparing texts.
fn expected(text: &str, known: &BTreeSet<usize>) -> Option<SocketAddr> {
    let holds = |zone: &str| zone == "." || text == zone || text.ends_with(&format!(".{zone}"));
    let labels = |zone: &str| match zone {
        "." => 0,
        zone => zone.split('.').count(),
    };
    let holding = known.iter().filter(|index| holds(NESTED[**index]));
    let longest = holding.max_by_key(|index| labels(NESTED[**index]));
    longest.map(|index| server(*index))
}

fn told(known: &BTreeSet<usize>) -> BTreeMap<DnsZone, Vec<SocketAddr>> {
    let zone = |index: &usize| (NESTED[*index].parse().unwrap(), vec![server(*index)]);
    known.iter().map(zone).collect()
}

proptest! {
    #[test]
    fn zones_are_found_as_by_comparing_texts_and_every_question_gets_one_answer(
        before in any_zones(),
        after in any_zones(),
        texts in prop::collection::vec("[ab](\\.[abc]){0,3}|ab|c\\.ab|x\\.b\\.ab", 1..8),
    ) {
        let mut stub = Clocked::new();
        stub.stub.set_zones(told(&before), stub.now());
        let mut asked = BTreeMap::new();
        for (id, text) in (1..).zip(&texts) {
            stub.ask(id, text, A_TYPE);
            let Forward { upstream, .. } = stub.forward();
            let server = expected(text, &before).unwrap_or(socket(UPSTREAMS[0]));
            prop_assert_eq!(upstream, server);
            asked.insert(id, text.clone());
        }
        stub.stub.set_zones(told(&after), stub.now());
        stub.drain();
        for forward in &stub.forwards {
            let text = asked.values().find(|text| {
                let query = forward.query[12..].to_ascii_lowercase();
                query.starts_with(&crate::common::wire_name(text))
            });
            let server = expected(text.unwrap(), &after).unwrap_or(socket(UPSTREAMS[0]));
            prop_assert_eq!(forward.upstream, server);
        }
        stub.pass(10_000);
        let mut answered: Vec<u16> = stub.answers.iter().map(|answer| answer.id).collect();
        answered.sort_unstable();
        prop_assert_eq!(answered, asked.into_keys().collect::<Vec<_>>());
    }
}
