//! Reading, writing and inspecting the configuration's values.

use culvert_policy::conditions::{Countries, PublicAddresses, Times, Verified};
use culvert_policy::{
    Applications, Condition, ConditionError, Conditions, Country, DnsRuleError, DnsRules,
    DnsServer, DnsZone, DomainName, Filter, Filters, MAX_CONDITION_PREFIXES, MAX_COUNTRIES,
    MAX_DNS_SERVERS, MAX_DNS_ZONES, MAX_SEARCH_DOMAINS, MAX_SEARCH_LEN, MAX_WILDCARDS, MAX_WINDOWS,
    NamePattern, Ports, Prefix, PrefixError, ResourceName, Target, TargetError, TimeOfDay, Weekday,
    Weekdays, Within, Zone,
};
use std::fmt::{Debug, Display};
use std::str::FromStr;

/// Asserts that what is read is shown as it is written, to people and in logs.
fn shown<T: FromStr<Err: Debug> + Display + Debug>(text: &str) {
    let value: T = text.parse().unwrap();
    assert_eq!(value.to_string(), text);
    assert_eq!(format!("{value:?}"), text);
}

#[test]
fn values_are_shown_as_they_are_written() {
    shown::<DomainName>("db.corp.example");
    shown::<NamePattern>("*.corp.example");
    shown::<Prefix>("10.0.0.0/8");
    shown::<Ports>("443");
    shown::<Ports>("8000-8100");
    shown::<Country>("DE");
    shown::<TimeOfDay>("09:30");
    shown::<Zone>("Europe/Berlin");
    shown::<DnsZone>("corp.example");
    shown::<DnsZone>(".");
    shown::<DnsServer>("10.0.0.53");
    for (target, text) in [
        (Target::Network("10.0.0.0/8".parse().unwrap()), "10.0.0.0/8"),
        (Target::Address("fd00::1".parse().unwrap()), "fd00::1"),
        (Target::Name("**.example".parse().unwrap()), "**.example"),
    ] {
        assert_eq!(target.to_string(), text);
        assert_eq!(format!("{target:?}"), text);
    }
    assert_eq!(ResourceName::new(" Wiki ").unwrap().to_string(), "Wiki");
}

#[test]
fn rules_about_applications_are_told_in_words() {
    let names = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for (rule, text) in [
        (Applications::only(names(&[])), "no program"),
        (
            Applications::only(names(&["backup", "git"])),
            "only programs of backup, git",
        ),
        (Applications::except(names(&[])), "every program"),
        (
            Applications::except(names(&["browser"])),
            "every program but those of browser",
        ),
    ] {
        assert_eq!(rule.unwrap().to_string(), text);
    }
}

#[test]
fn a_country_is_two_letters() {
    for text in ["de", "DE", "dE"] {
        assert_eq!(text.parse::<Country>().unwrap().as_str(), "DE");
    }
    for text in ["", "d", "deu", "d1", "1d", "--", "é"] {
        let error = text.parse::<Country>().unwrap_err();
        let sentence = format!("`{text}` is no country: write two letters of ISO 3166, as DE");
        assert_eq!(error, ConditionError::Entry(sentence));
    }
}

#[test]
fn each_list_of_a_condition_may_be_as_long_as_its_bound() {
    let window = || crate::time::window("mon 09:00-17:00 UTC");
    let prefix = |number: usize| {
        let (high, low) = (number / 256, number % 256);
        format!("10.{high}.{low}.0/24").parse().unwrap()
    };
    let country = |number: usize| {
        let letters = [number / 26, number % 26].map(|letter| b'A' + letter as u8);
        let text = String::from_utf8(letters.to_vec()).unwrap();
        text.parse::<Country>().unwrap()
    };
    /// A condition with so many entries.
    type OfLength = Box<dyn Fn(usize) -> Condition>;
    let lists: [(usize, OfLength); 3] = [
        (
            MAX_WINDOWS,
            Box::new(move |count| Times((0..count).map(|_| window()).collect()).into()),
        ),
        (
            MAX_CONDITION_PREFIXES,
            Box::new(move |count| PublicAddresses((0..count).map(prefix).collect()).into()),
        ),
        (
            MAX_COUNTRIES,
            Box::new(move |count| Countries((0..count).map(country).collect()).into()),
        ),
    ];
    for (max, list) in lists {
        assert!(Conditions::new(vec![list(max)]).is_ok());
        let count = max + 1;
        let error = Conditions::new(vec![list(count)]).unwrap_err();
        assert_eq!(error, ConditionError::TooMany { count, max });
        let error = Conditions::new(vec![list(0)]).unwrap_err();
        assert_eq!(error, ConditionError::Empty);
    }
    assert!(Conditions::default().is_empty());
    let asked = Conditions::new(vec![Verified.into()]).unwrap();
    assert!(!asked.is_empty());
}

#[test]
fn rules_about_names_may_be_as_long_as_their_bounds() {
    let domains = |count: usize| -> Vec<DomainName> {
        let texts = (0..count).map(|number| format!("d{number}.example"));
        texts.map(|text| text.parse().unwrap()).collect()
    };
    assert!(DnsRules::new(domains(MAX_SEARCH_DOMAINS), vec![]).is_ok());
    let count = MAX_SEARCH_DOMAINS + 1;
    let error = DnsRules::new(domains(count), vec![]).unwrap_err();
    assert_eq!(error, DnsRuleError::TooManySearch { count });

    // Two names and the space between them fill the line to its last byte, or exceed it by one.
    let of_len = |len: usize, end: &str| -> DomainName {
        let mut text = "a.".repeat(len / 2);
        text.truncate(len - 1);
        (text + end).parse().unwrap()
    };
    let search = |second_len: usize| {
        let search = vec![of_len(199, "y"), of_len(second_len, "z")];
        DnsRules::new(search, vec![])
    };
    assert!(search(MAX_SEARCH_LEN - 200).is_ok());
    let len = MAX_SEARCH_LEN + 1;
    let error = search(len - 200).unwrap_err();
    assert_eq!(error, DnsRuleError::SearchLength { len });

    let zone: DnsZone = "corp.example".parse().unwrap();
    let servers = |count: usize| -> Vec<DnsServer> {
        let texts = (1..=count).map(|number| format!("10.0.0.{number}"));
        texts.map(|text| text.parse().unwrap()).collect()
    };
    let with = |count: usize| DnsRules::new(vec![], vec![(zone.clone(), servers(count))]);
    assert!(with(MAX_DNS_SERVERS).is_ok());
    let count = MAX_DNS_SERVERS + 1;
    let error = DnsRuleError::TooManyServers {
        zone: zone.clone(),
        count,
    };
    assert_eq!(with(count).unwrap_err(), error);

    let zones = |count: usize| {
        let texts = (0..count).map(|number| format!("z{number}.example"));
        let zones = texts.map(|text| (text.parse().unwrap(), servers(1)));
        DnsRules::new(vec![], zones.collect())
    };
    assert!(zones(MAX_DNS_ZONES).is_ok());
    let count = MAX_DNS_ZONES + 1;
    let error = zones(count).unwrap_err();
    assert_eq!(error, DnsRuleError::TooManyZones { count });
}

#[test]
fn a_zone_has_a_domain_unless_it_is_all() {
    let zone: DnsZone = "Corp.Example.".parse().unwrap();
    assert_eq!(zone.domain().map(DomainName::as_str), Some("corp.example"));
    assert_eq!(".".parse::<DnsZone>().unwrap().domain(), None);
}

#[test]
fn ports_are_from_the_first_to_the_last() {
    let ports: Ports = "8000-8100".parse().unwrap();
    assert_eq!((ports.first(), ports.last()), (8000, 8100));
    assert_eq!((Ports::one(22).first(), Ports::one(22).last()), (22, 22));
}

#[test]
fn filters_are_empty_where_they_allow_nothing() {
    assert!(Filters::none().is_empty());
    assert!(!Filters::any().is_empty());
    for filter in [
        Filter::Icmp,
        Filter::Tcp(Ports::one(80)),
        Filter::Udp(Ports::one(53)),
    ] {
        assert!(!Filters::new([filter]).unwrap().is_empty(), "{filter:?}");
    }
}

#[test]
fn a_pattern_says_whether_it_is_one_name_and_what_it_lies_below() {
    for (text, is_literal, domain) in [
        ("db.corp.example", true, Some("db.corp.example")),
        ("*.corp.example", false, Some("corp.example")),
        ("db.**.corp.example", false, Some("corp.example")),
        ("db.*", false, None),
    ] {
        let pattern: NamePattern = text.parse().unwrap();
        assert_eq!(pattern.is_literal(), is_literal, "{text}");
        let below = pattern.domain();
        assert_eq!(below.as_ref().map(DomainName::as_str), domain, "{text}");
    }
}

#[test]
fn a_pattern_has_few_wildcards_and_one_that_takes_many_labels() {
    let stars = |count: usize| format!("{}example", "*.".repeat(count));
    assert!(stars(MAX_WILDCARDS).parse::<NamePattern>().is_ok());
    let many = |count: usize| format!("**.{}example", "*.".repeat(count - 1));
    assert!(many(MAX_WILDCARDS).parse::<NamePattern>().is_ok());
    for text in [
        stars(MAX_WILDCARDS + 1),
        many(MAX_WILDCARDS + 1),
        "**.**.example".to_owned(),
        "**.a.**.example".to_owned(),
    ] {
        let error = text.parse::<NamePattern>().unwrap_err();
        assert_eq!(error, TargetError::Wildcards, "{text}");
    }
}

#[test]
fn a_range_of_one_address_is_a_host() {
    for (text, is_host) in [
        ("10.0.0.1/32", true),
        ("10.0.0.0/31", false),
        ("fd00::1/128", true),
        ("fd00::/32", false),
    ] {
        assert_eq!(text.parse::<Prefix>().unwrap().is_host(), is_host, "{text}");
    }
}

#[test]
fn the_ranges_of_a_name_are_told_in_order_and_each_once() {
    let ranges = ["192.0.2.0/24", "10.0.0.0/8", "10.0.0.0/8"].map(|it| it.parse().unwrap());
    let within = Within::new(ranges).unwrap();
    assert_eq!(within.ranges(), [ranges[1], ranges[0]]);
    assert_eq!(within.to_string(), "10.0.0.0/8, 192.0.2.0/24");
}

#[test]
fn an_error_repeats_the_first_64_characters_of_what_it_refuses() {
    let long = "ä".repeat(65);
    let error = long.parse::<Prefix>().unwrap_err();
    assert_eq!(error, PrefixError::Form("ä".repeat(64)));
}

#[test]
fn a_day_that_is_named_twice_is_in_the_week_once() {
    let days: Weekdays = [Weekday::Monday, Weekday::Friday, Weekday::Monday]
        .into_iter()
        .collect();
    assert!(days.iter().eq([Weekday::Monday, Weekday::Friday]));
}

#[test]
fn zones_are_alike_where_their_names_are() {
    let zone = |text: &str| text.parse::<Zone>().unwrap();
    assert_eq!(zone("europe/berlin"), zone("Europe/Berlin"));
    assert_ne!(zone("Europe/Paris"), zone("Europe/Berlin"));
}

#[test]
fn an_address_that_nothing_is_forwarded_to_is_no_server_of_all_clients() {
    for never in [
        "168.63.129.16",
        "100.100.100.200",
        "64:ff9b::7f00:1",
        "127.0.0.53",
    ] {
        let refused = never.parse::<DnsServer>();
        assert!(
            matches!(refused, Err(DnsRuleError::NotAServer { .. })),
            "{never}"
        );
    }
}
