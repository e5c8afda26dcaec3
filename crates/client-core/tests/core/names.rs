//! DNS names: from a query to a grant and an answer.

use super::play::{
    Granting, HOUR_MS, Play, gateway_id, grant_id, interface, reason, resource, resource_id, to,
};
use culvert_client_core::Domains;
use culvert_dns::Transport;
use culvert_policy::Prefix;
use culvert_wire::messages::{
    Existence, FromClient, ReasonCode, ResolvedName, ToClient, WantedName,
};
use std::net::SocketAddr;

pub(crate) const A: u16 = 1;
const AAAA: u16 = 28;

fn query(name: &str, qtype: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(qtype.to_be_bytes());
    bytes.extend(1_u16.to_be_bytes());
    bytes
}

pub(crate) fn ask(play: &mut Play, name: &str, qtype: u16) {
    let from = "127.0.0.1:4000".parse().unwrap();
    let bytes = query(name, qtype);
    play.client
        .handle_dns_query(&bytes, Transport::Udp, from, play.now());
    play.poll();
}

fn resolved(name: &str) -> ResolvedName {
    ResolvedName {
        name: name.to_owned(),
        ipv4: true,
        ipv6: false,
        existence: Existence::Exists,
    }
}

/// The gateway's answer about a name without addresses.
fn without_addresses(name: &str, existence: Existence) -> ResolvedName {
    ResolvedName {
        ipv4: false,
        existence,
        ..resolved(name)
    }
}

pub(crate) fn granting(gateway: u8, grant: u8, names: &[&str]) -> Granting {
    Granting {
        names: names.iter().map(|name| resolved(name)).collect(),
        ..Granting::through(gateway, grant)
    }
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 15
}

fn answers_in(answer: &[u8]) -> u16 {
    u16::from_be_bytes([answer[6], answer[7]])
}

/// The only request, and the one name in it.
fn requested(play: &mut Play) -> (u64, WantedName) {
    let (request, _, names, _) = play.take_request();
    assert_eq!(names.len(), 1, "{names:?}");
    (request, names.into_iter().next().unwrap())
}

#[test]
fn a_query_asks_for_access_and_is_answered_with_the_grant() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "Db.Corp.Example", A);
    ask(&mut play, "db.corp.example", AAAA);
    let (request, name) = requested(&mut play);
    assert_eq!(name.name, "db.corp.example");
    assert!(play.answers.is_empty());
    play.grant(request, 1, granting(1, 1, &["db.corp.example"]));
    let mut counts: Vec<_> = play
        .answers
        .iter()
        .map(|answer| (code(answer), answers_in(answer)))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(0, 0), (0, 1)], "an address for A, none for AAAA");
    let address = name.ipv4.to_string();
    assert_eq!(play.way_to(&address), Some(gateway_id(1)));
}

/// The names of the only request.
fn names_of_request(play: &mut Play) -> (u64, Vec<String>) {
    let (request, _, names, _) = play.take_request();
    (request, names.into_iter().map(|name| name.name).collect())
}

fn expedited(request: u64) -> FromClient {
    FromClient::AnswerNow {
        request,
        resource: resource_id(1),
    }
}

#[test]
fn a_silent_name_holds_up_one_that_is_asked_for_beside_it_for_a_tenth_of_a_second() {
    const SILENT: &str = "silent.corp.example";
    const GOOD: &str = "good.corp.example";
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, SILENT, A);
    let (first, names) = names_of_request(&mut play);
    assert_eq!(names, [SILENT]);
    play.pass(40);
    ask(&mut play, GOOD, A);
    ask(&mut play, "other.corp.example", A);
    play.pass(59);
    assert_eq!(play.said, []);
    play.pass(1);
    assert_eq!(play.said, [expedited(first)], "said once");
    play.said.clear();
    let mut granted = granting(1, 1, &[]);
    granted.names = vec![without_addresses(SILENT, Existence::Pending)];
    play.grant(first, 1, granted);
    assert!(play.answers.is_empty(), "nobody has been told anything");
    let (second, names) = names_of_request(&mut play);
    assert_eq!(names, [GOOD, "other.corp.example", SILENT]);
    play.pass(100);
    let mut granted = granting(1, 2, &[GOOD, "other.corp.example"]);
    granted
        .names
        .push(without_addresses(SILENT, Existence::Pending));
    play.grant(second, 1, granted);
    let codes = play.answers.iter().map(|answer| code(answer));
    assert_eq!(codes.collect::<Vec<_>>(), [0, 0]);
    play.answers.clear();
    // The silent one is asked for beside those that are there.
    let (third, names) = names_of_request(&mut play);
    assert_eq!(names, [GOOD, "other.corp.example", SILENT]);
    play.pass(2_000);
    assert_eq!(play.said, [], "nobody else waits");
    let mut granted = granting(1, 3, &[GOOD, "other.corp.example"]);
    granted
        .names
        .push(without_addresses(SILENT, Existence::Unanswered));
    play.grant(third, 1, granted);
    let codes = play.answers.iter().map(|answer| code(answer));
    assert_eq!(codes.collect::<Vec<_>>(), [2]);
    assert_eq!(play.said, []);
}

#[test]
fn a_gateway_that_never_gets_to_a_name_keeps_nobody_busy() {
    let pending = |grant| {
        let mut granted = granting(1, grant, &[]);
        granted.names = vec![without_addresses("a.corp.example", Existence::Pending)];
        granted
    };
    // One that says so at once is not asked again.
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, pending(1));
    assert_eq!(play.said, []);
    assert_eq!(code(&play.answers[0]), 2);
    // One that says so for ever is asked for five seconds.
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    for number in 1..=10 {
        let (request, _) = requested(&mut play);
        play.pass(500);
        play.grant(request, 1, pending(number));
    }
    assert_eq!(play.said, []);
}

#[test]
fn further_names_of_a_granted_resource_are_asked_for_and_the_first_ones_stay() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, first) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    ask(&mut play, "b.corp.example", A);
    let (request, _, names, _) = play.take_request();
    let second = names
        .iter()
        .find(|name| name.name == "b.corp.example")
        .unwrap();
    assert_eq!(play.way_to(&second.ipv4.to_string()), None);
    play.grant(request, 1, granting(1, 2, &["b.corp.example"]));
    assert_eq!(play.way_to(&second.ipv4.to_string()), Some(gateway_id(1)));
    // The answer did not name the first one: what was known of it still counts.
    assert_eq!(play.way_to(&first.ipv4.to_string()), Some(gateway_id(1)));
    ask(&mut play, "c.corp.example", A);
    let (request, ..) = play.take_request();
    let mut gone = granting(1, 3, &["b.corp.example", "c.corp.example"]);
    gone.names
        .push(without_addresses("a.corp.example", Existence::Missing));
    play.grant(request, 1, gone);
    // It is not told any more, and flows that it has go on.
    assert_eq!(play.way_to(&first.ipv4.to_string()), Some(gateway_id(1)));
    play.answers.clear();
    ask(&mut play, "a.corp.example", A);
    assert_eq!(answers_in(&play.answers.pop().unwrap()), 0);
}

#[test]
fn names_wanted_while_a_request_is_on_its_way_go_into_the_next() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, _) = requested(&mut play);
    ask(&mut play, "b.corp.example", A);
    ask(&mut play, "c.corp.example", A);
    assert!(play.said.is_empty(), "one request of a resource at a time");
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    let (_, _, names, _) = play.take_request();
    let names: Vec<_> = names.iter().map(|name| name.name.as_str()).collect();
    assert!(names.contains(&"b.corp.example") && names.contains(&"c.corp.example"));
}

#[test]
fn a_denied_name_is_refused() {
    let mut play = Play::open(&[(1, "db.corp.example")]);
    ask(&mut play, "db.corp.example", A);
    let (request, _) = requested(&mut play);
    play.deny(request, 1, ReasonCode::NoAccess);
    assert_eq!(code(&play.answers[0]), 5);
    ask(&mut play, "db.corp.example", A);
    assert_eq!(code(&play.answers[1]), 5);
    assert!(play.said.is_empty());
}

#[test]
fn a_name_that_does_not_exist_is_told_so_and_the_others_go_on() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, _) = requested(&mut play);
    play.deny(request, 1, ReasonCode::NameNotFound);
    assert_eq!(code(&play.answers[0]), 3);
    ask(&mut play, "b.corp.example", A);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["b.corp.example"]));
    assert_eq!(code(&play.answers[1]), 0);
}

#[test]
fn every_type_is_answered_as_the_sites_dns_says_whether_the_name_exists() {
    const TXT: u16 = 16;
    const SRV: u16 = 33;
    for (existence, expected) in [
        (Existence::Exists, 0),
        (Existence::Missing, 3),
        (Existence::Unanswered, 2),
    ] {
        for types in [[A, AAAA, TXT, SRV], [SRV, TXT, AAAA, A]] {
            let mut play = Play::open(&[(1, "*.corp.example")]);
            // The first question waits for the gateway, whatever its type.
            ask(&mut play, "a.corp.example", types[0]);
            let (request, name) = requested(&mut play);
            assert!(play.answers.is_empty());
            let mut granting = granting(1, 1, &[]);
            granting
                .names
                .push(without_addresses("a.corp.example", existence));
            play.grant(request, 1, granting);
            for qtype in &types[1..] {
                ask(&mut play, "a.corp.example", *qtype);
            }
            let codes: Vec<u8> = play.answers.iter().map(|answer| code(answer)).collect();
            assert_eq!(codes, [expected; 4], "{existence:?} {types:?}");
            assert!(play.answers.iter().all(|answer| answers_in(answer) == 0));
            assert_eq!(play.way_to(&name.ipv4.to_string()), None);
        }
    }
}

#[test]
fn a_name_that_the_sites_dns_does_not_answer_for_harms_no_other_name() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "bad.corp.example", A);
    let (request, _) = requested(&mut play);
    play.deny(request, 1, ReasonCode::NameUnanswered);
    assert_eq!(code(&play.answers[0]), 2);
    for number in 0..15 {
        ask(&mut play, "bad.corp.example", A);
        assert_eq!(code(play.answers.last().unwrap()), 2);
        let name = format!("n{number}.corp.example");
        ask(&mut play, &name, A);
        let (request, _, names, _) = play.take_request();
        assert!(names.iter().any(|wanted| wanted.name == name));
        play.grant(request, 1, granting(1, number + 1, &[&name]));
        let last = play.answers.last().unwrap();
        assert_eq!((code(last), answers_in(last)), (0, 1), "{name}");
    }
}

#[test]
fn other_names_go_upstream_without_a_request() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "www.example.org", A);
    assert_eq!(play.forwarded, 1);
    assert!(play.said.is_empty());
}

#[test]
fn a_packet_to_a_name_whose_grant_has_ended_asks_with_the_name() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, name) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    play.pass(HOUR_MS);
    assert!(play.peers.is_empty());
    play.said.clear();
    play.packet(1, to(&name.ipv4.to_string(), 443));
    let (request, again) = requested(&mut play);
    assert_eq!(again, name, "it keeps its address");
    play.grant(request, 1, granting(1, 2, &["a.corp.example"]));
    assert_eq!(play.resumed, [1]);
}

#[test]
fn another_gateway_is_told_the_names_again() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, name) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    play.report_alive(1, 10);
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    play.packet(1, to(&name.ipv4.to_string(), 443));
    // The first request may have left before the packet; between them they name it.
    let mut named = false;
    for _ in 0..2 {
        let said = std::mem::take(&mut play.said);
        for message in said {
            let FromClient::RequestAccess { request, names, .. } = message else {
                continue;
            };
            named |= names.contains(&name);
            let known: Vec<_> = names.iter().map(|name| name.name.as_str()).collect();
            play.grant(request, 1, granting(2, 2, &known));
        }
    }
    assert!(named);
    assert_eq!(play.way_to(&name.ipv4.to_string()), Some(gateway_id(2)));
}

#[test]
fn a_revoked_grant_takes_its_names_along() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, name) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert_eq!(play.way_to(&name.ipv4.to_string()), None);
    ask(&mut play, "a.corp.example", A);
    assert_eq!(code(play.answers.last().unwrap()), 5);
}

#[test]
fn the_more_specific_pattern_is_asked_for() {
    let mut play = Play::open(&[
        (1, "**.example"),
        (2, "*.corp.example"),
        (3, "db.corp.example"),
    ]);
    for (name, expected) in [
        ("db.corp.example", 3),
        ("web.corp.example", 2),
        ("a.b.corp.example", 1),
    ] {
        ask(&mut play, name, A);
        let (_, asked, ..) = play.take_request();
        assert_eq!(asked, resource_id(expected), "{name}");
    }
}

#[test]
fn without_a_portal_a_query_hears_of_it_before_it_is_repeated() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    play.disconnect();
    ask(&mut play, "a.corp.example", A);
    play.pass(5_000);
    assert_eq!(code(&play.answers[0]), 2);
}

#[test]
fn names_already_granted_resolve_while_the_portal_is_gone() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", A);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &["a.corp.example"]));
    play.disconnect();
    play.pass(HOUR_MS / 2);
    ask(&mut play, "a.corp.example", A);
    let last = play.answers.last().unwrap();
    assert_eq!((code(last), answers_in(last)), (0, 1));
}

#[test]
fn a_pattern_that_allows_nothing_is_refused_and_not_forwarded() {
    let mut play = Play::open(&[]);
    let mut nothing = resource(1, "*.corp.example");
    nothing.filters = Vec::new().into();
    play.hear(ToClient::ResourceSet { resource: nothing });
    ask(&mut play, "a.corp.example", A);
    assert_eq!((code(&play.answers[0]), play.forwarded), (5, 0));
    assert!(play.said.is_empty());
}

#[test]
fn the_portals_own_name_is_asked_elsewhere_whatever_it_matches() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "Portal.corp.example", A);
    assert_eq!(play.forwarded, 1);
    ask(&mut play, "db.corp.example", A);
    let (_, name) = requested(&mut play);
    assert_eq!((name.name.as_str(), play.forwarded), ("db.corp.example", 1));
}

#[test]
fn where_names_lie_is_told_with_each_change_of_it() {
    let mut play = Play::open(&[(1, "*.corp.example"), (2, "10.0.0.0/8")]);
    let set = |number, address| ToClient::ResourceSet {
        resource: resource(number, address),
    };
    play.hear(ToClient::EndedAccessSet { releases: true });
    play.hear(set(3, "db.corp.example"));
    play.hear(set(4, "wiki.example"));
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(1),
    });
    let within = |names: &[&str]| {
        let names = names.iter().map(|name| name.parse().unwrap());
        Domains::Within(names.collect())
    };
    let expected = [
        within(&["corp.example"]),
        within(&["corp.example", "wiki.example"]),
        within(&["db.corp.example", "wiki.example"]),
    ];
    assert_eq!(play.domains, expected);
}

#[test]
fn of_the_resolvers_that_the_system_asked_before_the_client_is_none() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    let (own, other) = (interface(9), "192.0.2.7:53".parse().unwrap());
    let found = [
        (own.ipv4, 53).into(),
        (own.ipv6, 53).into(),
        "100.96.0.9:53".parse().unwrap(),
        other,
    ];
    play.client.set_dns_upstreams(&found, play.now());
    assert_eq!(play.client.dns_upstreams(), [other]);
}

/// The grant's gateway answers questions about names.
fn answering(gateway: u8, grant: u8, names: &[&str]) -> Granting {
    Granting {
        answers_dns: true,
        ..granting(gateway, grant, names)
    }
}

const TXT: u16 = 16;

#[test]
fn records_that_are_no_addresses_are_asked_of_the_grants_gateway() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", TXT);
    let (request, _) = requested(&mut play);
    assert_eq!(play.upstreams, []);
    play.grant(request, 1, answering(3, 1, &["a.corp.example"]));
    let at = SocketAddr::from((interface(3).ipv4, 20_053));
    assert_eq!((play.upstreams.clone(), play.answers.len()), (vec![at], 0));
    // A route leads back there, or hosts that check that drop what it says.
    let route = Prefix::host(at.ip());
    assert!(play.routes.contains(&route), "{:?}", play.routes);
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::NoAccess),
    });
    assert_eq!(code(&play.answers[0]), 2, "nobody is left to answer");
    assert!(!play.routes.contains(&route));
}

#[test]
fn a_gateway_that_does_not_say_that_it_answers_is_not_asked() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", TXT);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, granting(3, 1, &["a.corp.example"]));
    assert_eq!((play.upstreams.len(), code(&play.answers[0])), (0, 0));
}

#[test]
fn after_a_failover_the_new_gateway_is_asked() {
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, "a.corp.example", TXT);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, answering(3, 1, &["a.corp.example"]));
    play.upstreams.clear();
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(3),
    });
    ask(&mut play, "a.corp.example", TXT);
    // The client asks for a grant in use again by itself, and for the name after that.
    let (request, _, _, _) = play.take_request();
    play.grant(request, 1, answering(4, 2, &[]));
    let (request, _) = requested(&mut play);
    play.grant(request, 1, answering(4, 3, &["a.corp.example"]));
    let at = SocketAddr::from((interface(4).ipv4, 20_053));
    assert!(play.upstreams.contains(&at), "{:?}", play.upstreams);
}

#[test]
fn a_name_that_has_lost_its_addresses_is_noticed_soon_and_its_flows_go_on() {
    const NAME: &str = "db.corp.example";
    let mut play = Play::open(&[(1, "*.corp.example")]);
    ask(&mut play, NAME, A);
    let (request, wanted) = requested(&mut play);
    play.grant(request, 1, granting(1, 1, &[NAME]));
    assert_eq!(answers_in(&play.answers.pop().unwrap()), 1);
    let address = wanted.ipv4.to_string();
    assert_eq!(play.way_to(&address), Some(gateway_id(1)));
    // Two lifetimes of an answer later, a query asks anew behind its back.
    play.pass(60_000);
    ask(&mut play, NAME, A);
    assert_eq!(answers_in(&play.answers.pop().unwrap()), 1);
    let (request, _) = requested(&mut play);
    for (grant, existence) in [(2, Existence::Exists), (3, Existence::Missing)] {
        let request = match grant {
            2 => request,
            _ => {
                play.pass(5_000);
                ask(&mut play, NAME, A);
                requested(&mut play).0
            }
        };
        let lost = Granting {
            names: vec![without_addresses(NAME, existence)],
            ..Granting::through(1, grant)
        };
        play.grant(request, 1, lost);
        play.answers.clear();
        ask(&mut play, NAME, A);
        assert_eq!(answers_in(&play.answers.pop().unwrap()), 0);
        // Open connections go on through the gateway, which keeps its address.
        assert_eq!(play.way_to(&address), Some(gateway_id(1)));
    }
    play.pass(5_000);
    ask(&mut play, NAME, A);
    let (request, _) = requested(&mut play);
    play.grant(request, 1, granting(1, 4, &[NAME]));
    assert_eq!(answers_in(&play.answers.pop().unwrap()), 1);
}
