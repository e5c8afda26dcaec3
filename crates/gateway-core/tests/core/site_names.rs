//! Names of plain WireGuard devices between two sites (ADR 0061): the gateway that a device asks, and the one that resolves.

use crate::plain_dns::{
    A, AAAA, DB, NO_ERROR, NO_SUCH_NAME, PATTERN, REFUSED, SERVER_FAILURE, TXT, ask, ask_from,
    device, parse_answer, plain,
};
use crate::play::{
    Play, claims, client_ipv4, filters, found, grant_id, name, name_claims, resource_id, visible,
    wanted,
};
use culvert_gateway_core::{MAX_ASKED_ELSEWHERE, Output, Resolution};
use culvert_policy::Prefix;
use culvert_policy::gate::DropReason;
use culvert_wire::messages::{
    FromGateway, GatewayFeature, NameElsewhere, Ranges, SiteAnswer, ToGateway, WantedName,
};
use std::net::IpAddr;

const FOUND: SiteAnswer = SiteAnswer::Found {
    ipv4: true,
    ipv6: false,
};

/// The place of the other site's gateway in the device's file.
const PLACE: u8 = 2;

fn share(place: u8) -> [Prefix; 2] {
    let ranges = Ranges {
        machines_ipv4: String::new(),
        machines_ipv6: String::new(),
        names_ipv4: "100.96.0.0/11".to_owned(),
        names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
    };
    ranges.name_share(place).unwrap()
}

fn other_sites(client: u8, place: u8) -> ToGateway {
    ToGateway::NamesElsewhere {
        client: device(client),
        place,
        names: vec![NameElsewhere {
            resource: resource_id(9),
            pattern: PATTERN.to_owned(),
            place: PLACE,
        }],
    }
}

/// Device 5 may use a network here, and resource 9 at the site of the gateway in place [`PLACE`] of its file.
fn play() -> Play {
    let mut play = Play::open();
    play.grant(&plain(claims(1, 5, 1)));
    play.hear(other_sites(5, 0));
    play.said.clear();
    play
}

/// The questions that the portal was asked.
fn asked(play: &mut Play) -> Vec<(u64, WantedName)> {
    let said = std::mem::take(&mut play.said).into_iter();
    let asked = said.filter_map(|message| match message {
        FromGateway::AskName { ask, name, .. } => Some((ask, name)),
        _ => None,
    });
    asked.collect()
}

fn tell(play: &mut Play, ask: u64, answer: SiteAnswer) {
    play.hear(ToGateway::NameAnswered { ask, answer });
}

/// The oldest answer to a device.
fn answer(play: &mut Play, client: u8) -> Option<(u8, Vec<IpAddr>)> {
    if play.answers.is_empty() {
        return None;
    }
    let (bytes, to, _) = play.answers.remove(0);
    assert_eq!(to.ip(), IpAddr::from(client_ipv4(client)));
    Some(parse_answer(&bytes))
}

#[test]
fn a_name_of_another_site_is_asked_for_there_and_gets_addresses_that_the_file_sends_there() {
    let mut play = play();
    ask(&mut play, 5, "DB.corp.example", A);
    assert_eq!(answer(&mut play, 5), None, "its gateway is asked first");
    let questions = asked(&mut play);
    assert_eq!(questions.len(), 1);
    let (number, wanted) = &questions[0];
    assert_eq!(wanted.name, DB);
    let [v4, v6] = share(PLACE);
    assert!(v4.contains(wanted.ipv4.into()) && v6.contains(wanted.ipv6.into()));
    tell(&mut play, *number, FOUND);
    let address = IpAddr::from(wanted.ipv4);
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, vec![address])));
    // At once from here on. Other records are not known here, and nobody else is asked for them.
    for (kind, expected) in [(A, vec![address]), (AAAA, vec![]), (TXT, vec![])] {
        ask(&mut play, 5, DB, kind);
        assert_eq!(answer(&mut play, 5), Some((NO_ERROR, expected)), "{kind}");
    }
    assert_eq!(asked(&mut play), []);
    assert!(play.asked.is_empty() && play.lookups.is_empty());
    // Here it leads nowhere.
    let at = format!("{address}:443");
    assert_eq!(play.send(5, &at), Err(DropReason::NoGrant));
    // A minute later, it is asked for again while the known answer is given.
    play.pass(61_000);
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), Some((NO_ERROR, vec![address])));
    let again = asked(&mut play);
    assert_eq!(again[0].1, *wanted);
    tell(&mut play, again[0].0, SiteAnswer::Missing);
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), Some((NO_SUCH_NAME, vec![])));
}

#[test]
fn the_outcome_at_the_other_site_is_the_device_s_answer() {
    let mut play = play();
    let denied = SiteAnswer::Denied {
        text: "no".to_owned(),
    };
    let none = SiteAnswer::Found {
        ipv4: false,
        ipv6: false,
    };
    for (number, said, code) in [
        (1, SiteAnswer::Missing, NO_SUCH_NAME),
        (2, none, NO_ERROR),
        (3, SiteAnswer::Unanswered, SERVER_FAILURE),
        (4, SiteAnswer::Unreachable, SERVER_FAILURE),
        (5, denied, REFUSED),
    ] {
        ask(&mut play, 5, &format!("n{number}.corp.example"), A);
        let question = asked(&mut play)[0].0;
        tell(&mut play, question, said);
        assert_eq!(answer(&mut play, 5), Some((code, vec![])), "{number}");
    }
}

#[test]
fn without_an_answer_in_time_or_a_portal_the_device_hears_of_a_failure() {
    let mut play = play();
    ask(&mut play, 5, DB, A);
    let (late, _) = asked(&mut play)[0].clone();
    play.pass(4_500);
    assert_eq!(answer(&mut play, 5), Some((SERVER_FAILURE, vec![])));
    tell(&mut play, late + 7, FOUND);
    assert_eq!(answer(&mut play, 5), None);
    // It is asked for again, and known then.
    play.pass(1_000);
    ask(&mut play, 5, DB, A);
    let (number, wanted) = asked(&mut play)[0].clone();
    assert_ne!(number, late);
    tell(&mut play, number, FOUND);
    let expected = (NO_ERROR, vec![IpAddr::from(wanted.ipv4)]);
    assert_eq!(answer(&mut play, 5), Some(expected.clone()));
    // Questions that wait end with the session.
    ask(&mut play, 5, "new.corp.example", A);
    assert_eq!(answer(&mut play, 5), None);
    play.disconnect();
    assert_eq!(answer(&mut play, 5), Some((SERVER_FAILURE, vec![])));
    ask(&mut play, 5, "newer.corp.example", A);
    assert_eq!(answer(&mut play, 5), Some((SERVER_FAILURE, vec![])));
    // Known names stay known.
    ask(&mut play, 5, DB, A);
    assert_eq!(answer(&mut play, 5), Some(expected));
    // The next session begins without a word on names at other sites, so they are those of the system's resolver.
    play.reconnect(&[grant_id(1)]);
    play.said.clear();
    ask(&mut play, 5, "public.corp.example", A);
    assert_eq!((asked(&mut play), play.lookups.len()), (vec![], 1));
}

#[test]
fn names_of_the_own_site_get_addresses_of_the_gateway_s_own_place() {
    for place in [0, 1] {
        let mut play = Play::open();
        play.grant(&plain(name_claims(1, 5, 8, "*.lab.example")));
        if place > 0 {
            play.hear(other_sites(5, place));
        }
        ask(&mut play, 5, "web.lab.example", A);
        play.resolved("web.lab.example", found(&["10.7.0.1"]));
        let (_, addresses) = answer(&mut play, 5).unwrap();
        assert!(share(place)[0].contains(addresses[0]), "{addresses:?}");
        let at = format!("{}:443", addresses[0]);
        assert_eq!(play.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
        // The device's file has the gateway in another place now.
        play.hear(other_sites(5, 3));
        ask(&mut play, 5, "web.lab.example", A);
        play.resolved("web.lab.example", found(&["10.7.0.1"]));
        let (_, moved) = answer(&mut play, 5).unwrap();
        assert!(share(3)[0].contains(moved[0]), "{moved:?}");
        let there = format!("{}:443", moved[0]);
        assert_eq!(play.send(5, &there), Ok("10.7.0.1:443".parse().unwrap()));
        assert_eq!(play.send(5, &at), Err(DropReason::NoGrant));
    }
}

#[test]
fn of_patterns_here_and_elsewhere_the_narrowest_counts_and_what_ends_is_asked_for_no_more() {
    let mut play = play();
    play.grant(&plain(name_claims(2, 5, 8, DB)));
    ask(&mut play, 5, DB, A);
    assert_eq!(play.asked, [name(DB)], "it is of this site");
    play.resolved(DB, found(&["10.7.0.1"]));
    assert_eq!(answer(&mut play, 5).unwrap().0, NO_ERROR);
    ask(&mut play, 5, "other.corp.example", A);
    assert_eq!(asked(&mut play).len(), 1);
    play.answers.clear();
    play.hear(ToGateway::NamesElsewhere {
        client: device(5),
        place: 0,
        names: Vec::new(),
    });
    ask(&mut play, 5, "third.corp.example", A);
    assert_eq!((asked(&mut play), play.lookups.len()), (vec![], 1));
}

#[test]
fn a_device_that_asks_for_names_elsewhere_without_end_leaves_places_to_others() {
    let mut play = play();
    play.grant(&plain(claims(2, 6, 1)));
    play.hear(other_sites(6, 0));
    for number in 0..1_000_u16 {
        let text = format!("n{number}.corp.example");
        ask_from(&mut play, 5, 1_000 + number, &text, A);
    }
    let own = asked(&mut play).len();
    assert!((40..=MAX_ASKED_ELSEWHERE / 4).contains(&own), "{own}");
    play.answers.clear();
    ask(&mut play, 6, DB, A);
    let question = asked(&mut play)[0].0;
    tell(&mut play, question, FOUND);
    assert_eq!(answer(&mut play, 6).unwrap().0, NO_ERROR);
}

/// Gateway of the site of resource 9: device 5 has a grant, and asks another gateway.
fn resolver() -> Play {
    let mut play = Play::open();
    play.grant(&plain(name_claims(1, 5, 9, PATTERN)));
    play.said.clear();
    play
}

fn resolve(ask: u64, client: u8, name: &str, number: u8) -> ToGateway {
    ToGateway::ResolveName {
        ask,
        client: device(client),
        resource: resource_id(9),
        name: wanted(name, number),
    }
}

/// The answers that the portal was told.
fn told(play: &mut Play) -> Vec<(u64, SiteAnswer)> {
    let said = std::mem::take(&mut play.said).into_iter();
    let told = said.filter_map(|message| match message {
        FromGateway::NameAnswered { ask, answer } => Some((ask, answer)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_name_for_another_gateway_s_device_is_answered_once_it_leads_there() {
    let mut play = resolver();
    let at = format!("{}:443", visible(7));
    play.hear(resolve(3, 5, DB, 7));
    assert_eq!(told(&mut play), []);
    assert_eq!(play.asked, [name(DB)]);
    // The data plane is told first.
    let now = play.now();
    play.gateway
        .handle_resolved(&name(DB), found(&["10.7.0.1"]), now);
    let outputs: Vec<Output> = std::iter::from_fn(|| play.gateway.poll_output()).collect();
    let place = |is_it: fn(&Output) -> bool| outputs.iter().position(is_it).unwrap();
    let engine = place(|output| matches!(output, Output::Engine { .. }));
    let answered = place(
        |output| matches!(output, Output::ToPortal(FromGateway::NameAnswered { ask: 3, answer }) if *answer == FOUND),
    );
    assert!(engine < answered);

    let mut play = resolver();
    play.hear(resolve(3, 5, DB, 7));
    play.resolved(DB, found(&["10.7.0.1"]));
    assert_eq!(told(&mut play), [(3, FOUND)]);
    assert_eq!(play.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
    // A renewal takes it over, and the filters are the resource's.
    let mut renewed = plain(name_claims(4, 5, 9, PATTERN));
    renewed.filters = filters(r#"[{"protocol":"udp","ports":[443]}]"#);
    play.grant_with(&renewed, Some(grant_id(1)), &[]);
    assert_eq!(play.send(5, &at), Ok("10.7.0.1:443".parse().unwrap()));
    let forbidden = format!("{}:80", visible(7));
    assert_eq!(play.send(5, &forbidden), Err(DropReason::Port));
    // It is known now. An address that the other gateway reuses leads to the newer name alone.
    play.hear(resolve(5, 5, "other.corp.example", 7));
    play.resolved("other.corp.example", found(&["10.7.0.9"]));
    assert_eq!(told(&mut play), [(5, FOUND)]);
    assert_eq!(play.send(5, &at), Ok("10.7.0.9:443".parse().unwrap()));
    play.revoke(4);
    play.hear(resolve(6, 5, DB, 7));
    let answers = told(&mut play);
    assert!(
        matches!(answers[..], [(6, SiteAnswer::Denied { .. })]),
        "{answers:?}"
    );
}

#[test]
fn what_the_portal_may_not_ask_for_is_denied_and_what_does_not_exist_is_missing() {
    let mut play = resolver();
    play.grant_with(&name_claims(2, 7, 9, PATTERN), None, &[wanted(DB, 77)]);
    play.resolved(DB, Resolution::NotFound);
    play.said.clear();
    let out_of_range = ToGateway::ResolveName {
        ask: 4,
        client: device(5),
        resource: resource_id(9),
        name: WantedName {
            ipv4: [10, 7, 0, 1].into(),
            ..wanted("a.corp.example", 7)
        },
    };
    for question in [
        resolve(1, 6, "a.corp.example", 7),
        resolve(2, 7, "a.corp.example", 7),
        resolve(3, 5, "a.other.example", 7),
        out_of_range,
    ] {
        play.hear(question);
    }
    let answers = told(&mut play);
    assert_eq!(answers.len(), 4);
    let mut denied = answers.iter().map(|(_, answer)| answer);
    assert!(
        denied.all(|it| matches!(it, SiteAnswer::Denied { .. })),
        "{answers:?}"
    );
    play.hear(resolve(5, 5, DB, 7));
    assert_eq!(told(&mut play), [(5, SiteAnswer::Missing)], "it is known");
    for (number, resolution, expected) in [
        (6, Resolution::NotFound, SiteAnswer::Missing),
        (7, Resolution::NoAnswer, SiteAnswer::Unanswered),
    ] {
        let text = format!("n{number}.corp.example");
        play.hear(resolve(number, 5, &text, 7));
        play.resolved(&text, resolution);
        assert_eq!(told(&mut play), [(number, expected)]);
    }
    // The session is another one by then.
    play.hear(resolve(8, 5, "late.corp.example", 8));
    play.break_off();
    play.connect();
    play.welcome(&[grant_id(1), grant_id(2)]);
    play.said.clear();
    play.resolved("late.corp.example", found(&["10.7.0.1"]));
    assert_eq!(told(&mut play), []);
}

#[test]
fn the_gateway_says_that_it_knows_names_of_other_sites() {
    let mut play = Play::begin();
    play.connect();
    let mut hellos = play.said.iter().filter_map(|message| match message {
        FromGateway::Hello { features, .. } => Some(features),
        _ => None,
    });
    assert!(hellos.next().unwrap().contains(&GatewayFeature::SiteNames));
}
