use super::super::finding::Verdict;
use super::*;

const OWN: &str = "10.0.0.2:50000";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn answered(to: &str, ms: u64, mapped: &str) -> Question {
    Question {
        to: at(to),
        outcome: Outcome::Answered {
            round_trip: Duration::from_millis(ms),
            mapped: at(mapped),
        },
    }
}

fn unanswered(to: &str, outcome: Outcome) -> Question {
    Question {
        to: at(to),
        outcome,
    }
}

fn of(name: &str, main: Vec<Question>) -> RelayObservation {
    RelayObservation {
        name: name.to_owned(),
        unresolved: None,
        main,
        second: Vec::new(),
        tls: None,
    }
}

fn observed(relays: Vec<RelayObservation>) -> Observations {
    Observations {
        sources: [Some(at(OWN).ip()), None],
        nat64: Nat64::NotNeeded,
        portal: Vec::new(),
        relays,
        own: vec![at(OWN)],
        has_path: false,
    }
}

#[track_caller]
fn find<'a>(judged: &'a Judged, check: &str, holds: &str) -> &'a Finding {
    let mut findings = judged.findings.iter();
    findings
        .find(|it| it.check == check && it.found.contains(holds))
        .unwrap_or_else(|| panic!("{check}: {holds}: {:#?}", judged.findings))
}

#[test]
fn relays_come_nearest_first_and_show_the_nat() {
    let mapped = "203.0.113.1:6000";
    let far = of("far", vec![answered("192.0.2.1:3478", 80, mapped)]);
    let near = of("near", vec![answered("198.51.100.1:3478", 8, mapped)]);
    let judged = judge(&observed(vec![far, near]));
    let names: Vec<_> = judged.relays.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["near", "far"]);
    assert_eq!(judged.relays[0].round_trip_us, Some(8_000));
    assert_eq!(judged.network.ipv4.nat, Some("endpoint_independent"));
    assert_eq!(judged.network.ipv4.mapped, [at(mapped)]);
    assert_eq!(judged.network.ipv4.state, FamilyState::Works);
    assert_eq!(
        find(&judged, NAT, "endpoint-independent").verdict,
        Verdict::Ok
    );
    assert_eq!(find(&judged, RELAY, "near answers at").verdict, Verdict::Ok);
    assert!(
        judged
            .findings
            .iter()
            .all(|it| it.verdict != Verdict::Failed)
    );
}

#[test]
fn a_symmetric_nat_is_a_warning_with_the_way_out() {
    let one = of("one", vec![answered("192.0.2.1:3478", 1, "203.0.113.1:1")]);
    let mut other = of(
        "other",
        vec![answered("192.0.2.2:3478", 1, "203.0.113.1:2")],
    );
    let judged = judge(&observed(vec![one, other]));
    assert_eq!(judged.network.ipv4.nat, Some("endpoint_dependent"));
    let finding = find(&judged, NAT, "another port");
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.fix.as_ref().unwrap().contains("forwarded port"));
    // A second port of a relay tells more, also of one alone.
    other = of(
        "other",
        vec![answered("192.0.2.2:3478", 1, "203.0.113.1:2")],
    );
    other.second = vec![answered("192.0.2.2:3479", 1, "203.0.113.1:3")];
    let judged = judge(&observed(vec![other]));
    assert_eq!(judged.network.ipv4.nat, Some("address_and_port_dependent"));
}

#[test]
fn one_relay_can_tell_that_there_is_a_nat_and_not_which() {
    let one = of("one", vec![answered("192.0.2.1:3478", 1, "203.0.113.1:1")]);
    let judged = judge(&observed(vec![one]));
    let finding = find(&judged, NAT, "a single relay can't tell");
    assert_eq!(finding.verdict, Verdict::Skipped);
    assert!(finding.fix.as_ref().unwrap().contains("--relay"));
    let one = of("one", vec![answered("192.0.2.1:3478", 1, OWN)]);
    let judged = judge(&observed(vec![one]));
    assert_eq!(judged.network.ipv4.nat, Some("none"));
}

#[test]
fn udp_that_is_blocked_is_in_the_way_unless_tls_or_a_gateway_is_reached() {
    let silent = || of("one", vec![unanswered("192.0.2.1:3478", Outcome::Silent)]);
    let verdict = |tls: Option<TlsOutcome>, has_path: bool| {
        let mut one = silent();
        one.tls = tls;
        let mut observed = observed(vec![one]);
        observed.has_path = has_path;
        let judged = judge(&observed);
        assert_eq!(judged.relays[0].udp, "silent");
        let finding = find(&judged, RELAY, "no UDP comes back from 192.0.2.1:3478");
        assert!(finding.fix.as_ref().unwrap().contains("let UDP out to"));
        finding.verdict
    };
    assert_eq!(verdict(None, false), Verdict::Failed);
    let refused = || Some(TlsOutcome::Fails("refused".to_owned()));
    assert_eq!(verdict(refused(), false), Verdict::Failed);
    assert_eq!(verdict(refused(), true), Verdict::Warning);
    assert_eq!(verdict(Some(TlsOutcome::Works), false), Verdict::Warning);
    // Another relay answers: UDP as such passes.
    let other = of("two", vec![answered("192.0.2.2:3478", 1, OWN)]);
    let judged = judge(&observed(vec![silent(), other]));
    assert_eq!(find(&judged, RELAY, "no UDP").verdict, Verdict::Warning);
}

#[test]
fn a_firewall_of_this_machine_is_named() {
    let blocked = vec![unanswered("192.0.2.1:3478", Outcome::BlockedHere)];
    let judged = judge(&observed(vec![of("one", blocked)]));
    assert_eq!(judged.relays[0].udp, "blocked_here");
    let finding = find(&judged, RELAY, "own firewall drops UDP to 192.0.2.1:3478");
    assert_eq!(finding.verdict, Verdict::Failed);
}

#[test]
fn answers_of_another_are_a_captive_network() {
    let garbage = vec![unanswered("192.0.2.1:3478", Outcome::Garbage)];
    let judged = judge(&observed(vec![of("one", garbage)]));
    let finding = find(&judged, RELAY, "answers no question");
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.fix.as_ref().unwrap().contains("page to log in at"));
    let mut one = of("one", vec![answered("192.0.2.1:3478", 1, OWN)]);
    one.tls = Some(TlsOutcome::WrongCertificate);
    let judged = judge(&observed(vec![one]));
    assert_eq!(
        find(&judged, RELAY, "another server").verdict,
        Verdict::Warning
    );
    assert_eq!(judged.relays[0].tls, Some("wrong_certificate"));
}

#[test]
fn a_family_is_dead_only_if_the_other_one_answers() {
    let v6 = "[2001:db8::1]:3478";
    let state = |v4: Outcome, v6_outcome: Outcome| {
        let main = vec![unanswered("192.0.2.1:3478", v4), unanswered(v6, v6_outcome)];
        let mut observed = observed(vec![of("one", main)]);
        observed.sources[1] = Some("2001:db8::2".parse().unwrap());
        let judged = judge(&observed);
        (judged.network.ipv6.state, judged)
    };
    let works = || Outcome::Answered {
        round_trip: Duration::from_millis(1),
        mapped: at(OWN),
    };
    let (dead, judged) = state(works(), Outcome::Silent);
    assert_eq!(dead, FamilyState::Dead);
    let finding = find(&judged, "ipv6", "nothing comes back");
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.fix.as_ref().unwrap().contains("router"));
    assert_eq!(
        state(Outcome::Silent, Outcome::Silent).0,
        FamilyState::Silent
    );
    assert_eq!(state(Outcome::Silent, works()).0, FamilyState::Works);
    // Nobody has an address of the family.
    let mut lonely = observed(vec![of("one", vec![answered("192.0.2.1:3478", 1, OWN)])]);
    assert_eq!(judge(&lonely).network.ipv6.state, FamilyState::Absent);
    lonely.sources[1] = Some("2001:db8::2".parse().unwrap());
    assert_eq!(judge(&lonely).network.ipv6.state, FamilyState::Untested);
    // The portal counts too.
    lonely.portal = vec![(at("[2001:db8::9]:443"), false)];
    assert_eq!(judge(&lonely).network.ipv6.state, FamilyState::Dead);
}

#[test]
fn without_any_route_that_is_what_is_in_the_way() {
    let mut none = observed(Vec::new());
    none.sources = [None, None];
    let judged = judge(&none);
    assert_eq!(
        find(&judged, "ipv4", "no default route").verdict,
        Verdict::Failed
    );
    assert_eq!(judged.network.ipv4.nat, None);
}

#[test]
fn a_nat64_is_told_and_its_absence_is_a_warning() {
    let mut only_ipv6 = observed(Vec::new());
    only_ipv6.sources = [None, Some("2001:db8::2".parse().unwrap())];
    let prefix = culvert_path::Nat64Prefix::WELL_KNOWN;
    only_ipv6.nat64 = Nat64::Discovered(prefix);
    let judged = judge(&only_ipv6);
    assert_eq!(find(&judged, NAT64, "64:ff9b::/96").verdict, Verdict::Ok);
    assert_eq!(judged.network.nat64.as_deref(), Some("64:ff9b::/96"));
    only_ipv6.nat64 = Nat64::Assumed;
    let judged = judge(&only_ipv6);
    assert_eq!(
        find(&judged, NAT64, "tells no NAT64").verdict,
        Verdict::Warning
    );
}
