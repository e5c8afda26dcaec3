//! Decisions by policies and conditions.

use crate::time::{at, window};
use culvert_base::UnixTime;
use culvert_ids::{GroupId, PolicyId, ResourceId};
use culvert_policy::conditions::{
    ClientFacts, ClientSystems, Countries, Expires, Fact, Kind, OperatingSystem, PublicAddresses,
    Times, Verified,
};
use culvert_policy::{
    BriefCode, Condition, ConditionError, Conditions, Decision, Explanation, MAX_CONDITIONS,
    Policy, PolicyNames, Subject, Unmet, evaluate, next_change,
};
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;

/// A Wednesday.
const NOW: &str = "2025-01-15T12:00:00Z";

fn policy_id(number: u64) -> PolicyId {
    PolicyId::new(UnixTime::from_millis(number), [1; 10])
}

fn group(number: u64) -> GroupId {
    GroupId::new(UnixTime::from_millis(number), [2; 10])
}

fn resource(number: u64) -> ResourceId {
    ResourceId::new(UnixTime::from_millis(number), [3; 10])
}

/// Policy of group 1 for resource 1.
fn policy(number: u64, conditions: &[Condition]) -> Policy {
    Policy {
        id: policy_id(number),
        group: group(1),
        resource: resource(1),
        disabled: false,
        conditions: Conditions::new(conditions.to_vec()).unwrap(),
    }
}

fn member() -> Subject {
    Subject {
        groups: [group(1)].into(),
        ..Subject::default()
    }
}

fn decide(policies: &[Policy], subject: &Subject) -> Decision {
    evaluate(policies, resource(1), subject, at(NOW))
}

fn time(text: &str) -> Condition {
    Times(text.split("; ").map(window).collect()).into()
}

fn addresses(texts: &[&str]) -> Condition {
    PublicAddresses(texts.iter().map(|text| text.parse().unwrap()).collect()).into()
}

fn countries(texts: &[&str]) -> Condition {
    Countries(texts.iter().map(|text| text.parse().unwrap()).collect()).into()
}

fn systems(text: &str) -> Condition {
    let written = ClientSystems::read(&[text.to_owned()]).unwrap().unwrap();
    ClientSystems::understand(&written).unwrap().into()
}

fn expires(text: &str) -> Condition {
    Expires { at: at(text) }.into()
}

fn allows(conditions: &[Condition], subject: &Subject) -> bool {
    decide(&[policy(1, conditions)], subject).is_allow()
}

/// One policy and one group with a name.
struct Named;

impl PolicyNames for Named {
    fn policy(&self, id: PolicyId) -> Option<&str> {
        (id == policy_id(1)).then_some("office")
    }

    fn group(&self, id: GroupId) -> Option<&str> {
        (id == group(1)).then_some("staff")
    }
}

#[test]
fn without_a_policy_access_is_denied() {
    assert_eq!(decide(&[], &member()), Decision::Deny { reasons: vec![] });
}

#[test]
fn a_policy_without_conditions_allows_its_group_for_ever() {
    let policies = [policy(1, &[])];
    let allow = Decision::Allow {
        policy: policy_id(1),
        until: None,
    };
    assert_eq!(decide(&policies, &member()), allow);
    let stranger = Subject {
        groups: [group(2)].into(),
        ..member()
    };
    assert_eq!(
        decide(&policies, &stranger),
        Decision::Deny { reasons: vec![] }
    );
    assert_eq!(
        decide(&policies, &Subject::default()),
        Decision::Deny { reasons: vec![] }
    );
}

#[test]
fn a_policy_of_another_resource_does_not_count() {
    let mut other = policy(1, &[]);
    other.resource = resource(2);
    assert!(!decide(&[other], &member()).is_allow());
}

#[test]
fn a_disabled_policy_allows_nothing() {
    let mut policy = policy(1, &[]);
    policy.disabled = true;
    let decision = decide(&[policy], &member());
    let Decision::Deny { reasons } = decision else {
        panic!("allowed");
    };
    assert_eq!(reasons[0].unmet, [Unmet::Disabled]);
}

#[test]
fn all_conditions_of_one_policy_must_hold_and_any_policy_is_enough() {
    let open = time("daily 00:00-24:00 UTC");
    assert!(!allows(
        &[open.clone(), Condition::Verified(Verified)],
        &member()
    ));
    let verified = Subject {
        verified: true,
        ..member()
    };
    assert!(allows(
        &[open.clone(), Condition::Verified(Verified)],
        &verified
    ));
    let policies = [
        policy(1, &[Condition::Verified(Verified)]),
        policy(2, &[open]),
    ];
    assert!(decide(&policies, &member()).is_allow());
}

#[test]
fn the_address_is_the_one_that_the_portal_sees() {
    let condition = [addresses(&["198.51.100.0/24", "2001:db8::/32"])];
    let at = |address: &str| Subject {
        client: ClientFacts {
            public_address: Some(address.parse().unwrap()),
            ..ClientFacts::default()
        },
        ..member()
    };
    for inside in ["198.51.100.1", "2001:db8::1", "::ffff:198.51.100.1"] {
        assert!(allows(&condition, &at(inside)), "{inside}");
    }
    for outside in [
        "198.51.101.1",
        "2001:db9::1",
        "::ffff:10.0.0.1",
        "::198.51.100.1",
    ] {
        assert!(!allows(&condition, &at(outside)), "{outside}");
    }
    assert!(
        !allows(&condition, &member()),
        "an unknown address is in no range"
    );
}

#[test]
fn without_a_database_a_country_never_holds() {
    let condition = [countries(&["de", "FR"])];
    assert!(!allows(&condition, &member()));
    let within = |country: &str| Subject {
        client: ClientFacts {
            country: Some(country.parse().unwrap()),
            ..ClientFacts::default()
        },
        ..member()
    };
    assert!(allows(&condition, &within("DE")));
    assert!(!allows(&condition, &within("US")));
}

#[test]
fn a_policy_holds_until_the_instant_at_which_it_expires() {
    let policies = [policy(1, &[expires(NOW)])];
    let decided = |now| evaluate(&policies, resource(1), &member(), now);
    let until = Some(at(NOW));
    assert_eq!(
        decided(at(NOW).saturating_sub(Duration::from_millis(1))),
        Decision::Allow {
            policy: policy_id(1),
            until
        }
    );
    assert!(!decided(at(NOW)).is_allow());
    assert!(!decided(UnixTime::MAX).is_allow());
}

#[test]
fn an_allowance_ends_with_the_first_of_its_conditions() {
    let office = time("mon,tue,wed,thu,fri 09:00-17:00 Europe/Berlin");
    let until = |conditions: &[Condition]| match decide(&[policy(1, conditions)], &member()) {
        Decision::Allow { until, .. } => until,
        Decision::Deny { .. } => panic!("denied"),
    };
    assert_eq!(
        until(std::slice::from_ref(&office)),
        Some(at("2025-01-15T16:00:00Z"))
    );
    assert_eq!(
        until(&[office.clone(), expires("2025-01-15T15:00:00Z")]),
        Some(at("2025-01-15T15:00:00Z"))
    );
    assert_eq!(
        until(&[office, expires("2026-01-01T00:00:00Z")]),
        Some(at("2025-01-15T16:00:00Z"))
    );
    // Windows that follow each other are one.
    let adjacent = time("wed 11:00-13:00 UTC; wed 13:00-15:00 UTC; wed 14:00-16:00 UTC");
    assert_eq!(until(&[adjacent]), Some(at("2025-01-15T16:00:00Z")));
}

#[test]
fn of_several_policies_the_one_that_allows_longest_is_used() {
    let short = policy(1, &[expires("2025-01-15T13:00:00Z")]);
    let long = policy(2, &[expires("2025-01-15T14:00:00Z")]);
    let forever = [policy(4, &[]), policy(3, &[])];
    let chosen = |policies: &[&Policy]| {
        let owned: Vec<_> = policies.iter().map(|policy| (*policy).clone()).collect();
        match decide(&owned, &member()) {
            Decision::Allow { policy, .. } => policy,
            Decision::Deny { .. } => panic!("denied"),
        }
    };
    assert_eq!(chosen(&[&short, &long]), policy_id(2));
    assert_eq!(chosen(&[&long, &short]), policy_id(2));
    assert_eq!(chosen(&[&forever[0], &long, &short]), policy_id(4));
    assert_eq!(chosen(&[&forever[0], &forever[1]]), policy_id(3));
}

#[test]
fn lists_without_entries_and_beyond_their_bounds_are_refused() {
    for empty in [Times(vec![]).into(), addresses(&[]), countries(&[])] {
        assert_eq!(Conditions::new(vec![empty]), Err(ConditionError::Empty));
    }
    let many = vec![Condition::Verified(Verified); MAX_CONDITIONS + 1];
    let too_many = ConditionError::TooMany {
        count: MAX_CONDITIONS + 1,
        max: MAX_CONDITIONS,
    };
    assert_eq!(Conditions::new(many), Err(too_many));
    let windows = vec![window("mon 09:00-17:00 UTC"); 29];
    let too_many = ConditionError::TooMany { count: 29, max: 28 };
    assert_eq!(Conditions::new(vec![Times(windows).into()]), Err(too_many));
}

#[test]
fn the_full_explanation_names_what_failed_and_the_brief_one_does_not() {
    let mut other = policy(3, &[]);
    other.group = group(9);
    let policies = [
        policy(
            1,
            &[
                time("mon 09:00-17:00 Europe/Berlin"),
                Condition::Verified(Verified),
            ],
        ),
        policy(
            2,
            &[
                addresses(&["192.0.2.0/24"]),
                countries(&["DE"]),
                expires("2025-01-01T00:00:00Z"),
            ],
        ),
        other,
    ];
    let subject = Subject {
        client: ClientFacts {
            public_address: Some("198.51.100.7".parse().unwrap()),
            ..ClientFacts::default()
        },
        ..member()
    };
    let explanation = Explanation::new(&policies, resource(1), &subject, at(NOW));
    let full = explanation.in_words(&Named).to_string();
    for part in [
        "denied: policy \"office\" of group \"staff\": now is outside",
        "now is outside of mon 09:00-17:00 Europe/Berlin, which opens at 2025-01-20T08:00:00Z",
        "the client is not verified",
        "198.51.100.7 is in none of the ranges",
        "the client's country is unknown",
        "the policy expired at 2025-01-01T00:00:00Z",
        "policies of groups without the client: 1",
    ] {
        assert!(full.contains(part), "{part} in {full}");
    }
    let brief = explanation.brief();
    assert_eq!(brief.code, BriefCode::ConditionNotMet);
    assert_eq!(
        brief.text,
        "access is not allowed at this time; this client has to be verified by an administrator"
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["verdict"], "deny");
    assert_eq!(json["policies"][0]["policy"], policy_id(1).to_string());
    assert_eq!(json["policies"][0]["verdict"], "deny");
    assert_eq!(
        json["policies"][0]["reasons"][1],
        "the client is not verified"
    );
    assert_eq!(json["policies_of_other_groups"], 1);
    assert_eq!(full.lines().count(), 1, "{full}");
    // A policy that has gone meanwhile has no name.
    assert!(
        full.contains(&format!("; {} of group", policy_id(2))),
        "{full}"
    );
    for secret in ["office", "staff", "pol_", "grp_"] {
        assert!(!brief.text.contains(secret), "{}", brief.text);
    }
    let told = explanation
        .policies()
        .iter()
        .map(|it| (it.policy, it.group));
    let expected = [(policy_id(1), group(1)), (policy_id(2), group(1))];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// Names from before such characters were refused.
struct Deceptive;

impl PolicyNames for Deceptive {
    fn policy(&self, _: PolicyId) -> Option<&str> {
        Some("off\u{202e}ice")
    }

    fn group(&self, _: GroupId) -> Option<&str> {
        Some("staff\u{200b}")
    }
}

#[test]
fn a_character_that_nobody_sees_in_a_name_is_shown() {
    let explanation = Explanation::new(&[policy(1, &[])], resource(1), &member(), at(NOW));
    assert_eq!(
        explanation.in_words(&Deceptive).to_string(),
        "allowed by policy \"off<U+202E>ice\"; \
         policy \"off<U+202E>ice\" of group \"staff<U+200B>\": allows"
    );
}

#[test]
fn where_no_policy_joins_client_and_resource_the_explanation_says_that_and_no_more() {
    let explanation = Explanation::new(&[], resource(1), &member(), at(NOW));
    assert_eq!(
        explanation.in_words(&Named).to_string(),
        "denied: no policy joins a group of the client with the resource"
    );
    assert!(explanation.policies().is_empty());
}

#[test]
fn the_brief_explanation_does_not_tell_a_missing_policy_from_a_disabled_one() {
    let mut disabled = policy(1, &[]);
    disabled.disabled = true;
    let briefs = [vec![], vec![disabled]]
        .map(|policies| Explanation::new(&policies, resource(1), &member(), at(NOW)).brief());
    assert_eq!(briefs[0], briefs[1]);
    assert_eq!(briefs[0].code, BriefCode::NoAccess);
    assert_eq!(serde_json::to_value(briefs[0].code).unwrap(), "no_access");
}

#[test]
fn an_explanation_of_an_allowance_says_by_what_and_until_when() {
    let policies = [policy(1, &[expires("2025-01-15T13:00:00Z")])];
    let explanation = Explanation::new(&policies, resource(1), &member(), at(NOW));
    assert_eq!(
        explanation.in_words(&Named).to_string(),
        "allowed by policy \"office\" until 2025-01-15T13:00:00Z; policy \"office\" of group \"staff\": allows \
         until 2025-01-15T13:00:00Z"
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["until_ms"], at("2025-01-15T13:00:00Z").as_millis());
    assert_eq!(explanation.brief().code, BriefCode::Allowed);
}

/// 2025-03-29T00:00:00Z, the day before clocks go forward.
const BASE: UnixTime = UnixTime::from_millis(1_743_206_400_000);
const STEP: Duration = Duration::from_mins(15);

fn condition() -> impl Strategy<Value = Condition> {
    let windows = prop_oneof![
        Just("sat 22:00-03:00 Europe/Berlin"),
        Just("daily 09:00-12:00 UTC"),
        Just("daily 12:00-15:00 UTC"),
        Just("sun 02:15-02:45 Europe/Berlin"),
        Just("sat,sun 00:00-24:00 America/New_York"),
    ];
    prop_oneof![
        4 => prop::collection::vec(windows.prop_map(window), 1..4).prop_map(|windows| Times(windows).into()),
        2 => (0_u32..300).prop_map(|steps| Expires { at: BASE.saturating_add(STEP * steps) }.into()),
        1 => Just(Condition::Verified(Verified)),
        1 => Just(addresses(&["192.0.2.0/24"])),
        1 => Just(countries(&["DE"])),
        1 => Just(systems("debian")),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let conditions = prop::collection::vec(condition(), 0..3);
    (
        0_u64..8,
        0_u64..3,
        0_u64..2,
        prop::bool::weighted(0.2),
        conditions,
    )
        .prop_map(
            |(number, group_number, resource_number, disabled, conditions)| Policy {
                group: group(group_number),
                resource: resource(resource_number),
                disabled,
                ..policy(number, &conditions)
            },
        )
}

#[test]
fn what_can_not_come_to_allow_announces_no_change() {
    let later = expires("2025-01-16T00:00:00Z");
    let next = |policy: &Policy, now: &str| next_change([policy], resource(1), &member(), at(now));
    let expiring = policy(1, std::slice::from_ref(&later));
    assert_eq!(next(&expiring, NOW), Some(at("2025-01-16T00:00:00Z")));
    assert_eq!(next(&expiring, "2025-01-16T00:00:00Z"), None);
    let mut disabled = expiring;
    disabled.disabled = true;
    assert_eq!(next(&disabled, NOW), None);
    for unmet in [
        Condition::Verified(Verified),
        addresses(&["192.0.2.0/24"]),
        countries(&["DE"]),
        systems("debian:12"),
        expires(NOW),
    ] {
        let policy = policy(1, &[later.clone(), unmet]);
        assert_eq!(next(&policy, NOW), None);
    }
}

/// One condition, by the sentence that describes it.
fn naive(condition: &Condition, subject: &Subject, now: UnixTime) -> bool {
    match condition {
        Condition::Time(Times(windows)) => windows.iter().any(|window| window.holds(now)),
        Condition::PublicAddress(_) => subject.client.public_address.is_some(),
        Condition::Country(_) => subject.client.country.is_some(),
        Condition::ClientOs(_) => subject.client.os.is_some(),
        Condition::Verified(_) => subject.verified,
        Condition::Expires(Expires { at }) => now < *at,
    }
}

/// The subject after everything but these facts has changed.
fn changed_but(facts: &[Fact], subject: &Subject) -> Subject {
    let mut changed = Subject {
        groups: subject.groups.clone(),
        verified: !subject.verified,
        client: match subject.client.country {
            Some(_) => ClientFacts::default(),
            None => facts_of_a_client(),
        },
    };
    for fact in facts {
        match fact {
            Fact::Time => {}
            Fact::Verified => changed.verified = subject.verified,
            Fact::PublicAddress => changed.client.public_address = subject.client.public_address,
            Fact::Country => changed.client.country = subject.client.country,
            Fact::OperatingSystem => changed.client.os.clone_from(&subject.client.os),
        }
    }
    changed
}

fn facts_of_a_client() -> ClientFacts {
    ClientFacts {
        public_address: Some(IpAddr::from([192, 0, 2, 1])),
        country: Some("DE".parse().unwrap()),
        os: Some(OperatingSystem {
            id: Some("debian".to_owned()),
            ..OperatingSystem::linux()
        }),
    }
}

proptest! {
    #[test]
    fn a_condition_looks_at_the_facts_alone_that_it_needs(
        condition in condition(),
        verified: bool,
        known: bool,
        steps in 0_u32..300,
        later in 0_u32..300,
    ) {
        let subject = Subject {
            verified,
            client: if known { facts_of_a_client() } else { ClientFacts::default() },
            ..member()
        };
        let needs = condition.needs();
        let policies = [policy(1, &[condition])];
        let at = |subject: &Subject, steps: u32| {
            evaluate(&policies, resource(1), subject, BASE.saturating_add(STEP * steps))
        };
        let decision = at(&subject, steps);
        prop_assert_eq!(&decision, &at(&changed_but(needs, &subject), steps));
        if !needs.contains(&Fact::Time) {
            prop_assert_eq!(&decision, &at(&subject, later));
        }
    }

    #[test]
    fn decisions_are_those_of_the_sentences_and_change_only_when_announced(
        policies in prop::collection::vec(any_policy(), 0..6),
        verified: bool,
        known: bool,
        start in 0_u32..200,
    ) {
        let subject = Subject {
            groups: [group(0), group(1)].into(),
            verified,
            client: if known { facts_of_a_client() } else { ClientFacts::default() },
        };
        let decided = |now| evaluate(&policies, resource(1), &subject, now);
        let start = BASE.saturating_add(STEP * start);
        let change = next_change(&policies, resource(1), &subject, start);
        prop_assert!(change.is_none_or(|change| change > start));
        let first = decided(start);
        for step in 0..150 {
            let now = start.saturating_add(STEP * step);
            let decision = decided(now);
            let allows = policies.iter().any(|policy| {
                !policy.disabled
                    && policy.resource == resource(1)
                    && subject.groups.contains(&policy.group)
                    && policy.conditions.iter().all(|condition| naive(condition, &subject, now))
            });
            prop_assert_eq!(decision.is_allow(), allows);
            // Until the announced change nothing but the opening times in reasons changes.
            if change.is_none_or(|change| now < change) {
                prop_assert_eq!(decision.is_allow(), first.is_allow());
                if let Decision::Allow { .. } = decision {
                    prop_assert_eq!(&decision, &first);
                }
            }
            if let Decision::Allow { until: Some(until), .. } = first
                && now < until
            {
                prop_assert!(decision.is_allow(), "allowed until {:?}", until);
            }
        }
    }
}
