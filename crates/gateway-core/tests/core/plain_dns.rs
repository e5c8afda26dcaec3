//! DNS queries of plain WireGuard devices, which have no stub resolver.

use crate::play::{
    HOUR_MS, Play, claims, client_ipv4, filters, found, grant_id, name_claims, target, visible,
    wanted,
};
use culvert_dns::Transport;
use culvert_gateway_core::{MAX_LOOKUPS, MAX_QUESTIONS_PER_CLIENT, Resolution};
use culvert_ids::ClientId;
use culvert_policy::gate::DropReason;
use culvert_wire::GrantClaims;
use std::net::{IpAddr, SocketAddr};

pub(crate) const PATTERN: &str = "**.corp.example";
pub(crate) const DB: &str = "db.corp.example";
const ASK_AT: &str = "100.64.0.1:53";
const SITE_DNS: &str = "100.64.0.1:20053";

pub(crate) const A: u16 = 1;
const PTR: u16 = 12;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;

pub(crate) const NO_ERROR: u8 = 0;
pub(crate) const SERVER_FAILURE: u8 = 2;
pub(crate) const NO_SUCH_NAME: u8 = 3;
pub(crate) const REFUSED: u8 = 5;

pub(crate) fn device(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

pub(crate) fn plain(claims: GrantClaims) -> GrantClaims {
    GrantClaims {
        plain: true,
        ..claims
    }
}

/// Device 5 may use names below `corp.example`, device 6 addresses alone, and client 7 has Culvert.
fn play() -> Play {
    let mut play = Play::open();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    play.grant(&plain(claims(2, 6, 1)));
    play.grant_with(&name_claims(3, 7, 9, PATTERN), None, &[wanted(DB, 77)]);
    play.resolved(DB, Resolution::NotFound);
    play.asked.clear();
    play
}

/// The same, where device 5 knows `db.corp.example`, which leads to 10.7.0.1.
fn known() -> (Play, IpAddr) {
    let mut play = Play::open();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    ask(&mut play, 5, DB, A);
    play.resolved(DB, found(&["10.7.0.1"]));
    let (code, addresses) = answer(&mut play, 5).unwrap();
    assert_eq!((code, addresses.len()), (NO_ERROR, 1));
    (play, addresses[0])
}

fn labels(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let labels = labels.map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    [labels.collect::<Vec<_>>().concat(), vec![0]].concat()
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    let header = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], &labels(name), &kind.to_be_bytes(), &[0, 1]].concat()
}

/// The answer to a query with these records, each a type and its data.
fn response(query: &[u8], code: u8, records: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = query.to_vec();
    bytes[2] = 0x81;
    bytes[3] = 0x80 | code;
    bytes[7] = records.len() as u8;
    for (kind, data) in records {
        bytes.extend([0xc0, 12]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 30]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
    }
    bytes
}

pub(crate) fn ask_from(play: &mut Play, client: u8, port: u16, name: &str, kind: u16) {
    let from = SocketAddr::new(client_ipv4(client).into(), port);
    let asker = play.gateway.plain_client_at(from.ip());
    let asker = asker.expect("it is a plain device that may ask");
    let (query, now) = (query(name, kind), play.now());
    let origin = (from, Transport::Udp);
    play.gateway.handle_plain_query(asker, &query, origin, now);
    play.execute();
}

pub(crate) fn ask(play: &mut Play, client: u8, name: &str, kind: u16) {
    ask_from(play, client, 999, name, kind);
}

/// The code and the addresses of an answer.
pub(crate) fn parse_answer(bytes: &[u8]) -> (u8, Vec<IpAddr>) {
    let mut at = 12;
    while bytes[at] != 0 {
        at += 1 + usize::from(bytes[at]);
    }
    at += 5;
    let mut addresses = Vec::new();
    for _ in 0..u16::from_be_bytes([bytes[6], bytes[7]]) {
        assert_eq!(bytes[at] & 0xc0, 0xc0, "the name is the question's");
        let kind = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]);
        let len = usize::from(u16::from_be_bytes([bytes[at + 10], bytes[at + 11]]));
        let data = &bytes[at + 12..at + 12 + len];
        match kind {
            A => addresses.push(IpAddr::from(<[u8; 4]>::try_from(data).unwrap())),
            AAAA => addresses.push(IpAddr::from(<[u8; 16]>::try_from(data).unwrap())),
            _ => {}
        }
        at += 12 + len;
    }
    (bytes[3] & 15, addresses)
}

/// The oldest answer: its code and addresses. Each address is in force in the table of the time.
pub(crate) fn answer(play: &mut Play, client: u8) -> Option<(u8, Vec<IpAddr>)> {
    if play.answers.is_empty() {
        return None;
    }
    let (bytes, to, table) = play.answers.remove(0);
    assert_eq!(to.ip(), IpAddr::from(client_ipv4(client)));
    let (code, addresses) = parse_answer(&bytes);
    let in_force = |address: &IpAddr| {
        let mut clients = table.clients();
        clients.any(|client| {
            client.addresses().contains(&to.ip())
                && client.grants().iter().any(|grant| match &grant.reach {
                    culvert_policy::gate::Reach::Names(names) => {
                        names.iter().any(|name| name.visible() == *address)
                    }
                    culvert_policy::gate::Reach::Addresses(_) => false,
                })
        })
    };
    let of_names: culvert_policy::Prefix = "100.96.0.0/11".parse().unwrap();
    let mut proxies = addresses.iter().filter(|it| of_names.contains(**it));
    assert!(proxies.all(in_force), "{addresses:?}");
    Some((code, addresses))
}

/// The system's resolver answers the oldest question.
pub(crate) fn look_up(play: &mut Play, code: u8, records: &[(u16, Vec<u8>)]) {
    let (client, id, query) = play.lookups.remove(0);
    let answer = response(&query, code, records);
    let now = play.now();
    play.gateway
        .handle_plain_looked_up(client, id, Some(&answer), now);
    play.execute();
}

#[test]
fn devices_ask_at_port_53_and_clients_with_culvert_where_they_always_did() {
    let mut play = play();
    for client in [5, 6] {
        play.assert_reaches(client, ASK_AT);
        assert_eq!(play.send(client, SITE_DNS), Err(DropReason::NoGrant));
        let at = client_ipv4(client).into();
        assert_eq!(play.gateway.plain_client_at(at), Some(device(client)));
    }
    play.assert_reaches(7, SITE_DNS);
    assert_eq!(play.send(7, ASK_AT), Err(DropReason::NoGrant));
    for address in [
        client_ipv4(7).into(),
        client_ipv4(8).into(),
        IpAddr::from([10, 7, 0, 1]),
    ] {
        assert_eq!(play.gateway.plain_client_at(address), None);
    }
    play.revoke(2);
    assert_eq!(play.send(6, ASK_AT), Err(DropReason::NoGrant));
    assert_eq!(play.gateway.plain_client_at(client_ipv4(6).into()), None);
    play.now_ms += HOUR_MS;
    assert_eq!(play.send(5, ASK_AT), Err(DropReason::Expired));
}

#[test]
fn a_name_of_a_resource_is_answered_once_it_leads_there() {
    let mut play = Play::open();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    ask(&mut play, 5, "DB.Corp.Example", A);
    assert_eq!(answer(&mut play, 5), None, "the DNS is asked first");
    assert_eq!(play.asked, [crate::play::name(DB)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    let (code, addresses) = answer(&mut play, 5).unwrap();
    assert_eq!((code, addresses.len()), (NO_ERROR, 1));
    let at = |port: u16| format!("{}:{port}", addresses[0]);
    assert_eq!(play.send(5, &at(443)), Ok("10.7.0.1:443".parse().unwrap()));
    // At once from here on, and of IPv6 there is nothing.
    for (kind, expected) in [(A, &addresses[..]), (AAAA, &[])] {
        ask(&mut play, 5, DB, kind);
        let said = answer(&mut play, 5).unwrap();
        assert_eq!(said, (NO_ERROR, expected.to_vec()));
    }
    assert_eq!((play.asked.len(), play.lookups.len()), (1, 0));
}

#[test]
fn filters_expiry_and_revocation_hold_for_a_name() {
    let (mut play, address) = known();
    let at = format!("{address}:443");
    let written = filters(r#"[{"protocol":"tcp","ports":[80]}]"#);
    let resource = crate::play::resource_id(9);
    play.hear(culvert_wire::messages::ToGateway::FiltersChanged {
        resource,
        filters: written,
        inbound: Vec::new().into(),
    });
    assert_eq!(play.send(5, &at), Err(DropReason::Protocol));
    // A renewal takes the name over, and its addresses.
    let renewed = plain(name_claims(4, 5, 9, PATTERN));
    play.grant_with(&renewed, Some(grant_id(1)), &[]);
    assert_eq!(play.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, vec![address])));
    play.grant(&plain(claims(5, 5, 2)));
    play.revoke(4);
    assert_eq!(play.send(5, &at), Err(DropReason::NoGrant));
    // It is a name as any other now, and one of a private network.
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), None);
    look_up(&mut play, NO_ERROR, &[(A, vec![10, 7, 0, 1])]);
    assert_eq!(answer(&mut play, 5), Some((NO_SUCH_NAME, vec![])));
}

#[test]
fn a_resource_that_is_permitted_again_keeps_its_names_addresses() {
    let (mut play, address) = known();
    play.grant(&plain(claims(5, 5, 2)));
    play.revoke(1);
    play.grant(&plain(name_claims(6, 5, 9, PATTERN)));
    ask(&mut play, 5, DB, A);
    play.resolved(DB, found(&["10.7.0.2"]));
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, vec![address])));
    let at = format!("{address}:443");
    assert_eq!(play.send(5, &at), Ok("10.7.0.2:443".parse().unwrap()));
}

#[test]
fn names_and_their_addresses_outlast_a_restart_of_the_gateway() {
    let (mut play, address) = known();
    play.pass(1_000);
    let stored = play.grants_file.clone().unwrap();
    let mut next = Play::begin();
    next.gateway.handle_persisted(
        stored,
        culvert_base::UnixTime::from_millis(next.unix_ms()),
        next.now(),
    );
    next.execute();
    next.resolved(DB, found(&["10.7.0.1"]));
    let at = format!("{address}:443");
    assert_eq!(next.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
    ask(&mut next, 5, "other.corp.example", A);
    next.resolved("other.corp.example", found(&["10.7.0.9"]));
    let (_, other) = answer(&mut next, 5).unwrap();
    assert_ne!(other, [address]);
    ask(&mut next, 5, DB, A);
    assert_eq!(answer(&mut next, 5), Some((NO_ERROR, vec![address])));
}

#[test]
fn a_name_that_leads_nowhere_is_answered_as_what_it_is() {
    let mut play = Play::open();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    for (name, resolution, code) in [
        ("a.corp.example", Resolution::NotFound, NO_SUCH_NAME),
        ("b.corp.example", Resolution::NoAddress, NO_ERROR),
        ("c.corp.example", Resolution::NoAnswer, SERVER_FAILURE),
    ] {
        ask(&mut play, 5, name, A);
        play.resolved(name, resolution);
        assert_eq!(answer(&mut play, 5), Some((code, vec![])), "{name}");
    }
    // Out of the ranges of its resource.
    let mut within = plain(name_claims(2, 5, 8, "*.wide.example"));
    let ranges = culvert_policy::Within::new(["10.8.0.0/16".parse().unwrap()]).unwrap();
    within.target = culvert_wire::GrantTarget::new(target("*.wide.example"), Some(&ranges));
    play.grant(&within);
    ask(&mut play, 5, "x.wide.example", A);
    play.resolved("x.wide.example", found(&["10.9.0.1"]));
    assert_eq!(answer(&mut play, 5), Some((REFUSED, vec![])));
    // The gateway's own machine.
    let own = ["10.8.0.7".parse().unwrap()].into();
    play.gateway.handle_host_addresses(own, play.now());
    ask(&mut play, 5, "y.wide.example", A);
    play.resolved("y.wide.example", found(&["10.8.0.7"]));
    assert_eq!(answer(&mut play, 5), Some((REFUSED, vec![])));
    // No query is left waiting where nobody answers at all.
    ask(&mut play, 5, "d.corp.example", A);
    play.pass(4_500);
    assert_eq!(answer(&mut play, 5), Some((SERVER_FAILURE, vec![])));
}

#[test]
fn resources_with_one_pattern_are_reached_by_one_address_each_by_its_own_ports() {
    let mut play = Play::open();
    for (grant, resource, port) in [(1, 8, 22), (2, 9, 443)] {
        let mut of_port = plain(name_claims(grant, 5, resource, PATTERN));
        of_port.filters = filters(&format!(r#"[{{"protocol":"udp","ports":[{port}]}}]"#));
        play.grant(&of_port);
    }
    ask(&mut play, 5, DB, A);
    play.resolved(DB, found(&["10.7.0.1"]));
    let (_, addresses) = answer(&mut play, 5).unwrap();
    for port in [22, 443] {
        let to = format!("{}:{port}", addresses[0]);
        let there = format!("10.7.0.1:{port}").parse().unwrap();
        assert_eq!(play.send(5, &to), Ok(there));
    }
    let to = format!("{}:80", addresses[0]);
    assert_eq!(play.send(5, &to), Err(DropReason::Port));
    // A resource of the name alone takes its place.
    let mut narrow = plain(name_claims(3, 5, 7, DB));
    narrow.filters = filters(r#"[{"protocol":"udp","ports":[80]}]"#);
    play.grant(&narrow);
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, addresses.clone())));
    assert_eq!(play.send(5, &to), Ok("10.7.0.1:80".parse().unwrap()));
    let before = format!("{}:443", addresses[0]);
    assert_eq!(play.send(5, &before), Err(DropReason::Port));
}

#[test]
fn other_names_are_those_of_the_systems_resolver() {
    let mut play = play();
    for client in [5, 6] {
        ask(&mut play, client, "www.example.com", A);
        look_up(&mut play, NO_ERROR, &[(A, vec![203, 0, 113, 7])]);
        let expected = vec![IpAddr::from([203, 0, 113, 7])];
        assert_eq!(answer(&mut play, client), Some((NO_ERROR, expected)));
        ask(&mut play, client, "nothing.example.com", A);
        look_up(&mut play, NO_SUCH_NAME, &[]);
        assert_eq!(answer(&mut play, client), Some((NO_SUCH_NAME, vec![])));
    }
    // Device 6 has no resource by name: the site's own answer is not for it.
    ask(&mut play, 6, DB, A);
    look_up(&mut play, NO_ERROR, &[(A, vec![10, 7, 0, 1])]);
    assert_eq!(answer(&mut play, 6), Some((NO_SUCH_NAME, vec![])));
    ask(&mut play, 6, DB, AAAA);
    let inside = "fd00:7::1".parse::<std::net::Ipv6Addr>().unwrap();
    look_up(&mut play, NO_ERROR, &[(AAAA, inside.octets().to_vec())]);
    assert_eq!(answer(&mut play, 6), Some((NO_SUCH_NAME, vec![])));
    // Nor are names of its hosts.
    ask(&mut play, 6, "1.0.7.10.in-addr.arpa", PTR);
    assert_eq!(answer(&mut play, 6), Some((NO_SUCH_NAME, vec![])));
    assert!(play.asked.is_empty() && play.lookups.is_empty());
    // Nobody but the gateway gives addresses of names out.
    ask(&mut play, 5, "evil.example.com", A);
    look_up(&mut play, NO_ERROR, &[(A, visible(9).octets().to_vec())]);
    assert_eq!(answer(&mut play, 5), Some((SERVER_FAILURE, vec![])));
}

#[test]
fn records_of_a_resource_are_those_of_its_site_once_the_name_is_known_to_exist() {
    let (mut play, _) = known();
    ask(&mut play, 5, DB, TXT);
    look_up(&mut play, NO_ERROR, &[(TXT, b"\x05hello".to_vec())]);
    let (bytes, ..) = &play.answers[0];
    assert!(bytes.ends_with(b"\x05hello"), "{bytes:?}");
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, vec![])));
}

#[test]
fn a_device_that_asks_for_all_it_can_makes_only_itself_wait() {
    let mut play = Play::open();
    for client in [5, 6] {
        let (grant, resource) = (client, 9);
        play.grant(&plain(name_claims(grant, client, resource, PATTERN)));
    }
    for number in 0..1_000 {
        let port = 1_000 + number;
        ask_from(&mut play, 5, port, &format!("n{number}.corp.example"), A);
        ask_from(&mut play, 5, port, &format!("n{number}.example.com"), A);
    }
    assert_eq!(play.asked.len(), MAX_QUESTIONS_PER_CLIENT);
    assert!(
        (16..=MAX_LOOKUPS / 4).contains(&play.lookups.len()),
        "{}",
        play.lookups.len()
    );
    assert!(play.lookups.iter().all(|(client, ..)| *client == device(5)));
    // The questions without a place are answered at once.
    let failed = play.answers.len();
    assert!(failed >= 1_000 - MAX_LOOKUPS, "{failed}");
    play.answers.clear();
    ask(&mut play, 6, DB, A);
    play.resolved(DB, found(&["10.7.0.1"]));
    let (code, addresses) = answer(&mut play, 6).unwrap();
    assert_eq!((code, addresses.len()), (NO_ERROR, 1));
    play.lookups.clear();
    ask(&mut play, 6, "www.example.com", A);
    assert_eq!(play.lookups.len(), 1);
    look_up(&mut play, NO_ERROR, &[(A, vec![203, 0, 113, 7])]);
    assert_eq!(answer(&mut play, 6).unwrap().0, NO_ERROR);
}

#[test]
fn an_answer_that_comes_late_or_twice_is_nothing() {
    let mut play = play();
    ask(&mut play, 5, "www.example.com", A);
    let (client, id, query) = play.lookups[0].clone();
    let records = [(A, vec![203, 0, 113, 7])];
    look_up(&mut play, NO_ERROR, &records);
    assert_eq!(play.answers.len(), 1);
    let again = response(&query, NO_ERROR, &records);
    let now = play.now();
    for answer in [Some(&again[..]), None] {
        play.gateway.handle_plain_looked_up(client, id, answer, now);
        play.execute();
    }
    assert_eq!(play.answers.len(), 1);
    // Of a device that has no grant any more as well.
    ask(&mut play, 5, "www.example.net", A);
    play.revoke(1);
    look_up(&mut play, NO_ERROR, &records);
    assert_eq!(play.answers.len(), 1);
    play.pass(10_000);
    assert_eq!(play.answers.len(), 1);
}
