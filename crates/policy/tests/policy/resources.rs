//! The choice among several resources.

use culvert_base::UnixTime;
use culvert_ids::{ResourceId, SiteId};
use culvert_policy::{
    Applications, DomainName, Filter, Filters, MatchOrder, NamePattern, Ports, Prefix, Resource,
    ResourceName, Resources, Service, Target, TargetError,
};
use proptest::prelude::*;
use std::net::IpAddr;

fn resource(number: u64, target: Target) -> Resource {
    Resource {
        id: id(number),
        site: SiteId::new(UnixTime::EPOCH, [0; 10]),
        target,
        inbound: Filters::none(),
        filters: Filters::any(),
        applications: Applications::ANY,
        name: ResourceName::new("a resource").unwrap(),
    }
}

fn id(number: u64) -> ResourceId {
    ResourceId::new(UnixTime::from_millis(number), [7; 10])
}

fn network(text: &str) -> Target {
    Target::Network(text.parse().unwrap())
}

fn address(text: &str) -> Target {
    Target::Address(text.parse().unwrap())
}

fn names(text: &str) -> Target {
    Target::Name(text.parse().unwrap())
}

/// The set of these targets, numbered from 1, with the first one the oldest.
fn set(targets: impl IntoIterator<Item = Target>) -> Resources {
    let numbered = (1..).zip(targets);
    Resources::new(numbered.map(|(number, target)| resource(number, target))).unwrap()
}

fn at(set: &Resources, text: &str) -> Option<ResourceId> {
    let found = set.for_address(text.parse().unwrap());
    found.map(|resource| resource.id)
}

fn named(set: &Resources, text: &str) -> Option<ResourceId> {
    let found = set.for_name(&text.parse().unwrap());
    found.map(|resource| resource.id)
}

#[test]
fn the_longer_prefix_wins() {
    let set = set([
        network("0.0.0.0/0"),
        network("10.0.0.0/8"),
        network("10.1.0.0/16"),
        address("10.1.2.3"),
        network("fd00::/16"),
        address("fd00::1"),
    ]);
    for (probe, wins) in [
        ("9.9.9.9", 1),
        ("10.2.0.0", 2),
        ("10.1.2.4", 3),
        ("10.1.2.3", 4),
        ("fd00::2", 5),
        ("fd00::1", 6),
    ] {
        assert_eq!(at(&set, probe), Some(id(wins)), "{probe}");
    }
    assert_eq!(at(&set, "fe80::1"), None);
}

#[test]
fn of_two_alike_the_older_wins() {
    let set = set([
        network("10.1.2.3/32"),
        address("10.1.2.3"),
        names("*.a.example"),
        names("*.a.example"),
    ]);
    assert_eq!(at(&set, "10.1.2.3"), Some(id(1)));
    assert_eq!(named(&set, "x.a.example"), Some(id(3)));
}

#[test]
fn the_more_specific_pattern_wins() {
    let mut set = set([
        names("**.example"),
        names("**.corp.example"),
        names("*.corp.example"),
        names("db.corp.example"),
        names("*.*.example"),
        names("db.**.example"),
    ]);
    for (probe, wins) in [
        ("a.example", 1),
        ("a.b.corp.example", 2),
        ("web.corp.example", 3),
        ("db.corp.example", 4),
        ("a.b.example", 5),
        ("db.x.y.example", 6),
        // Two literal labels beat one, `*` or not.
        ("db.x.example", 6),
    ] {
        assert_eq!(named(&set, probe), Some(id(wins)), "{probe}");
    }
    assert_eq!(named(&set, "example"), None);
    // An address that loses its best match falls to the next.
    for (gone, wins) in [(4, 3), (3, 2), (2, 6), (6, 5), (5, 1)] {
        assert!(set.remove(id(gone)).is_some());
        assert_eq!(
            named(&set, "db.corp.example"),
            Some(id(wins)),
            "without {gone}"
        );
    }
}

#[test]
fn a_name_without_wildcards_wins_over_more_literal_labels() {
    let set = set([names("a.b.*.d.e"), names("*.b.c.d.e"), names("a.b.c.d.e")]);
    assert_eq!(named(&set, "a.b.c.d.e"), Some(id(3)));
    assert_eq!(named(&set, "a.b.x.d.e"), Some(id(1)));
}

#[test]
fn one_host_may_be_several_resources_with_other_ports() {
    let mut ssh = resource(2, address("10.0.0.1"));
    ssh.filters = Filters::new([Filter::Tcp(Ports::one(22))]).unwrap();
    let mut web = resource(3, address("10.0.0.1"));
    web.filters = Filters::new([Filter::Tcp(Ports::one(443))]).unwrap();
    let around = resource(1, network("10.0.0.0/8"));
    let set = Resources::new([around, web, ssh]).unwrap();
    let found = set.for_address([10, 0, 0, 1].into()).unwrap();
    assert_eq!(found.id, id(2));
    let all: Vec<_> = set
        .with_same_target(found)
        .map(|resource| resource.id)
        .collect();
    assert_eq!(all, [id(2), id(3)]);
    let service = |port| {
        set.for_service(found, Service::Tcp(port))
            .map(|resource| resource.id)
    };
    assert_eq!(service(22), Some(id(2)));
    assert_eq!(service(443), Some(id(3)));
    // The wider resource allows everything, and is not asked: the specific one decides.
    assert_eq!(service(80), None);
}

#[test]
fn ids_are_there_once() {
    let twice = [
        resource(1, address("10.0.0.1")),
        resource(1, address("10.0.0.2")),
    ];
    assert_eq!(
        Resources::new(twice).unwrap_err(),
        TargetError::Duplicate(id(1))
    );
}

#[test]
fn a_resource_that_moves_is_no_longer_found_where_it_was() {
    let mut set = set([address("10.0.0.1"), names("a.example")]);
    set.set(resource(1, names("b.example"))).unwrap();
    set.set(resource(2, address("10.0.0.2"))).unwrap();
    assert_eq!(at(&set, "10.0.0.1"), None);
    assert_eq!(named(&set, "a.example"), None);
    assert_eq!(named(&set, "b.example"), Some(id(1)));
    assert_eq!(at(&set, "10.0.0.2"), Some(id(2)));
    assert_eq!(set.len(), 2);
}

#[test]
fn names_of_resources_are_one_line() {
    assert_eq!(
        ResourceName::new("  Build server ").unwrap().as_str(),
        "Build server"
    );
    for text in ["", " ", "a\nb", "a\u{7}b", &"x".repeat(101)] {
        assert_eq!(ResourceName::new(text), Err(TargetError::ResourceName));
    }
}

fn target() -> impl Strategy<Value = Target> {
    // Few distinct labels and bits, so that targets overlap.
    let label = prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("*"), 1 => Just("**")];
    let pattern = prop::collection::vec(label, 1..6).prop_filter_map("no pattern", |labels| {
        labels
            .join(".")
            .parse::<NamePattern>()
            .ok()
            .map(Target::Name)
    });
    let range = (any::<bool>(), 0_u8..4, 0_u8..4, 0_u8..=32).prop_map(|(v4, a, b, len)| {
        let address: IpAddr = match v4 {
            true => [a << 6, 0, 0, b].into(),
            false => [u16::from(a) << 14, u16::from(b) << 14, 0, 0, 0, 0, 0, 0].into(),
        };
        Target::Network(Prefix::around(address, len).unwrap())
    });
    prop_oneof![pattern, range]
}

/// Matching as the sentence says it: label by label from the left, `**` taking one more or not.
fn fits(pattern: &[&str], name: &[&str]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (["**"], [_, ..]) => true,
        (["**", rest @ ..], [_, beyond @ ..]) => fits(rest, beyond) || fits(pattern, beyond),
        (["*", rest @ ..], [_, beyond @ ..]) => fits(rest, beyond),
        ([literal, rest @ ..], [label, beyond @ ..]) => literal == label && fits(rest, beyond),
        _ => false,
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split('.').collect()
}

proptest! {
    #[test]
    fn look_ups_find_what_a_search_through_everything_finds(
        targets in prop::collection::vec(target(), 1..40),
        changes in prop::collection::vec((0_u64..45, prop::option::of(target())), 0..20),
        probes in prop::collection::vec(prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..6), 20),
        addresses in prop::collection::vec((any::<bool>(), 0_u8..4, 0_u8..4), 20),
    ) {
        let mut set = set(targets);
        for (number, change) in changes {
            match change {
                Some(target) => drop(set.set(resource(number, target)).unwrap()),
                None => drop(set.remove(id(number))),
            }
        }
        for labels in probes {
            let name: DomainName = labels.join(".").parse().unwrap();
            let holds = |resource: &&Resource| {
                let pattern = resource.target.pattern();
                pattern.is_some_and(|pattern| {
                    let fits = fits(&split(pattern.as_str()), &labels);
                    assert_eq!(pattern.matches(&name), fits, "{pattern} {name}");
                    fits
                })
            };
            let naive = set.iter().filter(holds).min_by_key(|resource| MatchOrder::of(resource));
            prop_assert_eq!(set.for_name(&name), naive, "{}", name);
        }
        for (v4, a, b) in addresses {
            let address: IpAddr = match v4 {
                true => [a << 6, 0, 0, b].into(),
                false => [u16::from(a) << 14, u16::from(b) << 14, 0, 0, 0, 0, 0, 0].into(),
            };
            let holds = |resource: &&Resource| resource.target.prefix().is_some_and(|prefix| prefix.contains(address));
            let naive = set.iter().filter(holds).min_by_key(|resource| MatchOrder::of(resource));
            prop_assert_eq!(set.for_address(address), naive, "{}", address);
        }
        for resource in set.iter() {
            let naive: Vec<_> = set.iter().filter(|other| same_target(other, resource)).collect();
            prop_assert_eq!(set.with_same_target(resource).collect::<Vec<_>>(), naive);
        }
    }
}

fn same_target(a: &Resource, b: &Resource) -> bool {
    a.target.prefix() == b.target.prefix() && a.target.pattern() == b.target.pattern()
}

#[test]
fn a_set_counts_its_resources() {
    assert!(set([]).is_empty());
    let one = set([network("10.0.0.0/8")]);
    assert!(!one.is_empty());
    assert_eq!(one.len(), 1);
}
