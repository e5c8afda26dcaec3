//! Names: resolved before a grant is said to be in force, and followed while it is.

use crate::play::{
    HOUR_MS, Play, filters, found, grant_id, name, name_claims, resource_id, wanted,
};
use culvert_gateway_core::{RESOLVE_LIMIT_MS, Resolution};
use culvert_policy::gate::{DropReason, Gate, Seed};
use culvert_wire::messages::{Existence, ReasonCode, ResolvedName, ToGateway};

const PATTERN: &str = "*.corp.example";
const DB: &str = "db.corp.example";

fn families(text: &str, ipv4: bool, ipv6: bool) -> ResolvedName {
    ResolvedName {
        name: text.to_owned(),
        ipv4,
        ipv6,
        existence: Existence::Exists,
    }
}

/// The entry for a name that has no addresses.
fn without_addresses(text: &str, existence: Existence) -> ResolvedName {
    ResolvedName {
        existence,
        ..families(text, false, false)
    }
}

/// A client, 5, with a name that leads to 10.7.0.1.
fn with_db() -> Play {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_accepted(1);
    play.asked.clear();
    play
}

#[test]
fn a_grant_with_names_comes_into_force_when_the_dns_has_answered() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    assert_eq!(play.asked, [name(DB)]);
    assert_eq!(play.said, []);
    play.assert_reaches_nothing();
    play.resolved(DB, found(&["10.7.0.1", "10.7.0.2", "fd77::1"]));
    let accepted = play.take_accepted();
    assert_eq!(accepted, [(grant_id(1), vec![families(DB, true, true)])]);
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Ok("10.7.0.1:80".parse().unwrap())
    );
    let v6 = play.send(5, "[fd00:2021:1111:8000::1]:80");
    assert_eq!(v6, Ok("[fd77::1]:80".parse().unwrap()));
    // The resolved address itself was not granted.
    assert_eq!(play.send(5, "10.7.0.1:80"), Err(DropReason::NoGrant));
}

#[test]
fn a_name_that_does_not_exist_leads_nowhere_and_the_grant_stands() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, Resolution::NotFound);
    let accepted = play.take_accepted();
    let missing = without_addresses(DB, Existence::Missing);
    assert_eq!(accepted, [(grant_id(1), vec![missing])]);
    assert!(play.send(5, "100.96.0.1:80").is_err());
    // It is asked for again, and may come to be.
    play.asked.clear();
    play.pass(10_000);
    assert_eq!(play.asked, [name(DB)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    assert!(play.send(5, "100.96.0.1:80").is_ok());
}

#[test]
fn a_name_that_exists_without_addresses_is_told_from_one_that_does_not_exist() {
    let mut play = Play::open();
    let names = [wanted(DB, 1), wanted("x.corp.example", 2)];
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &names);
    play.resolved(DB, Resolution::NoAddress);
    play.resolved("x.corp.example", Resolution::NotFound);
    let told = vec![
        without_addresses(DB, Existence::Exists),
        without_addresses("x.corp.example", Existence::Missing),
    ];
    assert_eq!(play.take_accepted(), [(grant_id(1), told)]);
}

#[test]
fn nobody_waits_again_for_a_name_that_the_dns_did_not_just_answer_for() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, Resolution::NoAnswer);
    play.assert_refused(1, ReasonCode::NameUnanswered, DB);
    play.asked.clear();
    // Alone it is refused at once, and beside another name it delays nothing.
    play.grant_with(&name_claims(2, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.assert_refused(2, ReasonCode::NameUnanswered, DB);
    let names = [wanted(DB, 1), wanted("x.corp.example", 2)];
    play.grant_with(&name_claims(3, 5, 9, PATTERN), None, &names);
    play.resolved("x.corp.example", found(&["10.7.0.3"]));
    let told = vec![
        families("x.corp.example", true, false),
        without_addresses(DB, Existence::Unanswered),
    ];
    assert_eq!(play.take_accepted(), [(grant_id(3), told)]);
    assert_eq!(play.asked, [name("x.corp.example")]);
    // A few seconds later the DNS is asked again.
    play.pass(5_000);
    play.grant_with(&name_claims(4, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    let accepted = play.take_accepted();
    assert_eq!(accepted, [(grant_id(4), vec![families(DB, true, false)])]);
}

#[test]
fn a_dns_that_does_not_answer_refuses_the_grant_and_says_so() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    play.resolved(DB, Resolution::NoAnswer);
    play.assert_refused(1, ReasonCode::NameUnanswered, DB);
    play.assert_reaches_nothing();
    // A resolver that says nothing at all comes to the same, before the portal gives up.
    play.grant_with(
        &name_claims(2, 5, 9, PATTERN),
        None,
        &[wanted("x.corp.example", 1)],
    );
    play.pass(RESOLVE_LIMIT_MS - 1);
    assert_eq!(play.said, []);
    play.pass(1);
    play.assert_refused(2, ReasonCode::NameUnanswered, "x.corp.example");
}

#[test]
fn one_name_whose_servers_are_down_does_not_cost_the_others() {
    let mut play = Play::open();
    let names = [
        wanted(DB, 1),
        wanted("x.corp.example", 2),
        wanted("y.corp.example", 3),
    ];
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &names);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.resolved("x.corp.example", Resolution::NoAnswer);
    assert_eq!(play.said, []);
    play.resolved("y.corp.example", Resolution::NoAnswer);
    let told = vec![
        families(DB, true, false),
        without_addresses("x.corp.example", Existence::Unanswered),
        without_addresses("y.corp.example", Existence::Unanswered),
    ];
    assert_eq!(play.take_accepted(), [(grant_id(1), told)]);
    assert!(play.send(5, "100.96.0.1:80").is_ok());
    assert!(play.send(5, "100.96.0.2:80").is_err());
}

#[test]
fn one_name_whose_servers_are_silent_holds_the_others_up_for_a_tenth_of_a_second() {
    let mut play = Play::open();
    let names = [wanted(DB, 1), wanted("x.corp.example", 2)];
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &names);
    play.pass(1_000);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.pass(99);
    assert_eq!(play.said, []);
    play.pass(1);
    let told = vec![
        families(DB, true, false),
        without_addresses("x.corp.example", Existence::Pending),
    ];
    assert_eq!(play.take_accepted(), [(grant_id(1), told)]);
    assert!(play.send(5, "100.96.0.1:80").is_ok());
    assert!(play.send(5, "100.96.0.2:80").is_err());
    // The client asks again, and the question that is under way answers it.
    play.asked.clear();
    let later = name_claims(2, 5, 9, PATTERN);
    play.grant_with(&later, Some(grant_id(1)), &[wanted("x.corp.example", 2)]);
    play.resolved("x.corp.example", found(&["10.7.0.3"]));
    let told = vec![families("x.corp.example", true, false)];
    assert_eq!(play.take_accepted(), [(grant_id(2), told)]);
    assert_eq!(play.asked, []);
    assert!(play.send(5, "100.96.0.1:80").is_ok());
    assert!(play.send(5, "100.96.0.2:80").is_ok());
}

#[test]
fn a_grant_that_others_wait_for_comes_into_force_without_names_that_are_not_there_yet() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    let grant = grant_id(1);
    play.hear(ToGateway::AnswerNow { grant });
    let told = vec![without_addresses(DB, Existence::Pending)];
    assert_eq!(play.take_accepted(), [(grant, told)]);
    assert!(play.send(5, "100.96.0.1:80").is_err());
    // A grant that is answered already, and one that nobody has offered, get no answer.
    play.hear(ToGateway::AnswerNow { grant });
    let grant = grant_id(7);
    play.hear(ToGateway::AnswerNow { grant });
    assert_eq!(play.said, []);
    // A name that nobody asks for again opens nothing.
    play.resolved(DB, found(&["10.7.0.1"]));
    assert_eq!(play.said, []);
    assert!(play.send(5, "100.96.0.1:80").is_err());
}

#[test]
fn names_must_be_of_the_resource_and_their_addresses_of_the_range_for_names() {
    let mut outside = wanted(DB, 1);
    outside.ipv4 = "10.7.0.9".parse().unwrap();
    let mut machine = wanted(DB, 1);
    machine.ipv6 = "fd00:2021:1111::1:5".parse().unwrap();
    let bad = [
        vec![wanted("db.other.example", 1)],
        vec![wanted("a.b.corp.example", 1)],
        vec![wanted("corp.example", 1)],
        vec![wanted("", 1)],
        vec![wanted(DB, 1), wanted("x.corp.example", 1)],
        vec![outside],
        vec![machine],
    ];
    for names in bad {
        let mut play = Play::open();
        play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &names);
        play.assert_refused(1, ReasonCode::BadGrant, "name");
        assert_eq!(play.asked, [], "{names:?}");
        play.assert_reaches_nothing();
    }
    // A resource that is no name has none.
    let mut play = Play::open();
    play.grant_with(&crate::play::claims(1, 5, 9), None, &[wanted(DB, 1)]);
    play.assert_refused(1, ReasonCode::BadGrant, "name");
}

#[test]
fn a_name_never_leads_to_the_gateway_or_back_into_the_tunnel() {
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "100.64.1.6",
        "100.96.0.2",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "fe80::1",
        "ff02::1",
        "fd00:2021:1111::1:6",
        "fd00:2021:1111:8000::2",
        "168.63.129.16",
        "100.100.100.200",
        "240.0.0.1",
        "fec0::1",
        "fd00:ec2::254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::127.0.0.1",
        "2002:7f00:1::1",
        "2001:0:102:304::80ff:fffe",
        "2001:db8::5efe:169.254.169.254",
    ] {
        let mut play = Play::open();
        play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
        play.resolved(DB, found(&[address]));
        let accepted = play.take_accepted();
        let nothing = families(DB, false, false);
        assert_eq!(accepted, [(grant_id(1), vec![nothing])], "{address}");
        assert!(play.send(5, "100.96.0.1:80").is_err(), "{address}");
        assert!(play.send(5, "[fd00:2021:1111:8000::1]:80").is_err());
        // Beside one that is none of these it is passed over, also later.
        let good = if address.contains(':') {
            "fd77::1"
        } else {
            "10.7.0.1"
        };
        play.resolved(DB, found(&[address, good]));
        let to = match address.contains(':') {
            true => "[fd00:2021:1111:8000::1]:80",
            false => "100.96.0.1:80",
        };
        assert_eq!(
            play.send(5, to).unwrap().ip(),
            good.parse::<std::net::IpAddr>().unwrap()
        );
    }
}

#[test]
fn new_flows_follow_the_dns_and_old_ones_stay() {
    let mut play = with_db();
    let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
    let first = play.send_through(&mut gate, 5, "100.96.0.1:80").unwrap();
    play.pass(30_000);
    assert_eq!(play.asked, [name(DB)], "its time to live is over");
    play.resolved(DB, found(&["10.7.0.2"]));
    assert_eq!(play.send_through(&mut gate, 5, "100.96.0.1:80"), Ok(first));
    let other = play.send_through(&mut gate, 5, "100.96.0.1:81").unwrap();
    assert_eq!(other, "10.7.0.2:81".parse().unwrap());
}

#[test]
fn a_flow_of_a_name_that_has_lost_its_addresses_goes_on_and_new_ones_are_refused() {
    for lost in [
        Resolution::NoAddress,
        Resolution::NotFound,
        // None that may be used is left, or none of the family of the flow.
        found(&["127.0.0.1"]),
        found(&["100.64.1.6", "169.254.169.254"]),
        found(&["fd77::1"]),
        found(&["fe80::1"]),
        found(&["::ffff:10.7.0.1"]),
    ] {
        let mut play = with_db();
        let mut gate = Gate::with_max_flows(Seed::new([1; 32]), 64);
        let first = play.send_through(&mut gate, 5, "100.96.0.1:80").unwrap();
        play.pass(30_000);
        let has_ipv6 = lost == found(&["fd77::1"]);
        play.resolved(DB, lost);
        assert_eq!(play.send_through(&mut gate, 5, "100.96.0.1:80"), Ok(first));
        let new = play.send_through(&mut gate, 5, "100.96.0.1:81");
        assert_eq!(new, Err(DropReason::NoAddress));
        // Of a family that it never had there is nothing to keep.
        let v6 = play.send_through(&mut gate, 5, "[fd00:2021:1111:8000::1]:80");
        let expected = match has_ipv6 {
            true => Ok("[fd77::1]:80".parse().unwrap()),
            false => Err(DropReason::NoGrant),
        };
        assert_eq!(v6, expected);
        play.pass(10_000);
        play.resolved(DB, found(&["10.7.0.2"]));
        assert_eq!(play.send_through(&mut gate, 5, "100.96.0.1:80"), Ok(first));
        let new = play.send_through(&mut gate, 5, "100.96.0.1:81").unwrap();
        assert_eq!(new, "10.7.0.2:81".parse().unwrap());
        // With the grant, the flow ends.
        play.resolved(DB, Resolution::NoAddress);
        play.pass(HOUR_MS);
        assert!(play.send_through(&mut gate, 5, "100.96.0.1:80").is_err());
    }
}

#[test]
fn an_address_is_kept_while_the_dns_still_names_it() {
    let mut play = with_db();
    play.resolved(DB, found(&["10.7.0.2", "10.7.0.1"]));
    let to = play.send(5, "100.96.0.1:80").unwrap();
    assert_eq!(to, "10.7.0.1:80".parse().unwrap());
}

#[test]
fn what_was_known_holds_while_the_dns_does_not_answer_but_not_when_the_name_is_gone() {
    let mut play = with_db();
    play.pass(30_000);
    play.resolved(DB, Resolution::NoAnswer);
    assert!(play.send(5, "100.96.0.1:80").is_ok());
    play.pass(10_000);
    assert_eq!(play.asked.len(), 2, "it is asked again");
    play.resolved(DB, Resolution::NotFound);
    assert!(play.send(5, "100.96.0.1:80").is_err());
}

#[test]
fn names_are_asked_for_only_while_a_grant_has_them() {
    let mut play = with_db();
    play.revoke(1);
    play.pass(HOUR_MS);
    assert_eq!(play.asked, []);
}

#[test]
fn a_grant_keeps_the_names_of_the_one_that_it_replaces() {
    let mut play = with_db();
    let more = wanted("x.corp.example", 2);
    let later = name_claims(2, 5, 9, PATTERN);
    play.grant_with(&later, Some(grant_id(1)), &[more]);
    play.resolved("x.corp.example", found(&["10.7.0.3"]));
    let accepted = play.take_accepted();
    let new = vec![families("x.corp.example", true, false)];
    assert_eq!(
        accepted,
        [(grant_id(2), new)],
        "new names alone are answered"
    );
    for (to, leads_to) in [
        ("100.96.0.1:1", "10.7.0.1:1"),
        ("100.96.0.2:1", "10.7.0.3:1"),
    ] {
        assert_eq!(play.send(5, to), Ok(leads_to.parse().unwrap()));
    }
}

#[test]
fn names_that_are_known_need_no_question() {
    let mut play = with_db();
    play.grant_with(&name_claims(2, 6, 9, PATTERN), None, &[wanted(DB, 9)]);
    play.assert_accepted(2);
    assert_eq!(play.asked, []);
    assert_eq!(
        play.send(6, "100.96.0.9:1"),
        Ok("10.7.0.1:1".parse().unwrap())
    );
}

#[test]
fn a_grant_that_waits_hears_of_revocation_filters_and_the_end_of_the_session() {
    let waiting = || {
        let mut play = Play::open();
        play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
        play
    };
    let mut revoked = waiting();
    revoked.revoke(1);
    revoked.resolved(DB, found(&["10.7.0.1"]));
    revoked.assert_reaches_nothing();
    assert_eq!(revoked.said, []);

    let mut narrowed = waiting();
    narrowed.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    narrowed.resolved(DB, found(&["10.7.0.1"]));
    narrowed.assert_accepted(1);
    assert!(narrowed.send(5, "100.96.0.1:53").is_ok());
    assert_eq!(narrowed.send(5, "100.96.0.1:80"), Err(DropReason::Port));

    let mut cut = waiting();
    cut.disconnect();
    cut.resolved(DB, found(&["10.7.0.1"]));
    cut.assert_reaches_nothing();
}

#[test]
fn two_that_wait_do_not_both_get_one_address() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    let mut second = name_claims(2, 6, 9, PATTERN);
    second.client_ipv4 = crate::play::client_ipv4(5);
    play.grant_with(&second, None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_refused(2, ReasonCode::BadGrant, "somebody else");
    play.assert_accepted(1);
}

#[test]
fn of_two_that_wait_for_one_answer_only_the_one_that_stays_is_accepted() {
    let mut play = Play::open();
    play.grant_with(&name_claims(1, 5, 9, PATTERN), None, &[wanted(DB, 1)]);
    let later = name_claims(2, 5, 9, PATTERN);
    play.grant_with(&later, Some(grant_id(1)), &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_accepted(2);
    play.assert_refused(1, ReasonCode::BadGrant, "its place");
    assert_eq!(play.gateway.grants().collect::<Vec<_>>(), [grant_id(2)]);
}

#[test]
fn a_grant_that_expires_while_it_waits_is_refused() {
    let mut play = Play::open();
    let mut short = name_claims(1, 5, 9, PATTERN);
    short.exp = culvert_wire::Timestamp::from_unix_ms(crate::play::START_UNIX_MS + 1_000);
    play.grant_with(&short, None, &[wanted(DB, 1)]);
    play.pass(1_500);
    play.resolved(DB, found(&["10.7.0.1"]));
    play.assert_refused(1, ReasonCode::Expired, "expired");
    play.assert_reaches_nothing();
}

/// A client that starts again gives its addresses out anew, while grants of its earlier life last.
#[test]
fn an_address_leads_to_the_name_that_the_client_gave_it_last() {
    let mut play = with_db();
    const WIKI: &str = "wiki.corp.example";
    play.grant_with(
        &name_claims(2, 5, 10, "wiki.corp.example"),
        None,
        &[wanted(WIKI, 1)],
    );
    play.resolved(WIKI, found(&["10.7.0.2"]));
    play.assert_accepted(2);
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Ok("10.7.0.2:80".parse().unwrap())
    );
}

#[test]
fn names_of_one_resource_may_change_their_addresses_all_at_once() {
    let mut play = with_db();
    const WEB: &str = "web.corp.example";
    play.grant_with(
        &name_claims(2, 5, 9, PATTERN),
        Some(grant_id(1)),
        &[wanted(WEB, 1)],
    );
    play.resolved(WEB, found(&["10.7.0.2"]));
    play.assert_accepted(2);
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Ok("10.7.0.2:80".parse().unwrap())
    );
    play.grant_with(
        &name_claims(3, 5, 9, PATTERN),
        Some(grant_id(2)),
        &[wanted(DB, 2)],
    );
    play.assert_accepted(3);
    assert_eq!(
        play.send(5, "100.96.0.2:80"),
        Ok("10.7.0.1:80".parse().unwrap())
    );
    assert_eq!(
        play.send(5, "100.96.0.1:80"),
        Ok("10.7.0.2:80".parse().unwrap())
    );
}
