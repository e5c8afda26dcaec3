//! A plain WireGuard device asks one gateway for names, also for those of resources at its other sites (ADR 0061).

use crate::world::{SITE, World, actor, client, gateway, network, policy, resource};
use culvert_hub::limits::{MAX_NAME_ASKS, NAME_ANSWER_MS, STANDING_REVIEW_MS};
use culvert_ids::SiteId;
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    FromGateway, GatewayFeature, NAME_ASK_BURST, NameElsewhere, Ranges, SiteAnswer, ToGateway,
    WantedName,
};
use culvert_wire::model::{Filter, TargetKind};
use std::net::IpAddr;

const OTHER_SITE: SiteId = SiteId::from_bytes([0x77; 16]);
const PATTERN: &str = "*.corp.example";
const DB: &str = "db.corp.example";
const FOUND: SiteAnswer = SiteAnswer::Found {
    ipv4: true,
    ipv6: false,
};

fn set_names(world: &mut World, number: u16, site: SiteId, pattern: &str) {
    let mut row = network(number, site, pattern, vec![Filter::Any]);
    row.target.kind = TargetKind::Dns;
    world.set(row);
}

/// Device 1 asks gateway 1 for names; resource 1, a network, is there. Resource 2, by name, is at the site of gateway 2. Both
/// gateways are of this version, and are yet to come.
fn world() -> World {
    let mut world = World::simple();
    world.set_gateway(2, OTHER_SITE);
    set_names(&mut world, 2, OTHER_SITE, PATTERN);
    world.set_policy(2, 1, 2, Vec::new());
    for number in [1, 2] {
        let gateway = world.gateways.get_mut(&gateway(number)).unwrap();
        gateway.features = vec![GatewayFeature::PlainDns, GatewayFeature::SiteNames];
    }
    world.edit_client(1, |row| {
        row.gateways = vec![gateway(1), gateway(2)];
        row.name_shares = true;
    });
    world
}

fn served() -> World {
    let mut world = world();
    world.join_gateway(1);
    world.join_gateway(2);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    world.forget_messages();
    world
}

/// The name with addresses of a share.
fn wanted(world: &World, name: &str, place: u8) -> WantedName {
    let [v4, v6] = world.account().settings.ranges.name_share(place).unwrap();
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (v4.address(), v6.address()) else {
        panic!("{v4} {v6}");
    };
    WantedName {
        name: name.to_owned(),
        ipv4: (u32::from(v4) + 9).into(),
        ipv6: (u128::from(v6) + 9).into(),
    }
}

/// Gateway `from` asks for a name of resource 2 with addresses of share `place`.
fn ask(world: &mut World, from: u16, ask: u64, name: &str, place: u8) {
    let name = wanted(world, name, place);
    let question = FromGateway::AskName {
        ask,
        client: client(1),
        resource: resource(2),
        name,
    };
    world.gateway_says(from, question);
}

/// The questions that gateway `to` was told to resolve.
fn questions(world: &World, to: u16) -> Vec<(u64, WantedName)> {
    let messages = world.to_gateways.iter();
    let questions = messages.filter_map(|(gateway, message)| match message {
        ToGateway::ResolveName {
            ask, client, name, ..
        } if *gateway == self::gateway(to) => {
            assert_eq!(*client, self::client(1));
            Some((*ask, name.clone()))
        }
        _ => None,
    });
    questions.collect()
}

fn answer(world: &mut World, by: u16, ask: u64, answer: SiteAnswer) {
    world.gateway_says(by, FromGateway::NameAnswered { ask, answer });
}

/// The answers that gateway `to` was told.
fn answers(world: &World, to: u16) -> Vec<(u64, SiteAnswer)> {
    let messages = world.to_gateways.iter();
    let answers = messages.filter_map(|(gateway, message)| match message {
        ToGateway::NameAnswered { ask, answer } if *gateway == self::gateway(to) => {
            Some((*ask, answer.clone()))
        }
        _ => None,
    });
    answers.collect()
}

/// The last word to a gateway on the names of device 1 at other sites: its own place, and the patterns with theirs.
fn told(world: &World, to: u16) -> Option<(u8, Vec<(String, u8)>)> {
    let messages = world.to_gateways.iter().rev();
    let mut told = messages.filter_map(|(gateway, message)| match message {
        ToGateway::NamesElsewhere {
            client,
            place,
            names,
        } if *gateway == self::gateway(to) && *client == self::client(1) => {
            let of = |it: &NameElsewhere| (it.pattern.clone(), it.place);
            Some((*place, names.iter().map(of).collect()))
        }
        _ => None,
    });
    told.next()
}

fn is_denied(answer: &SiteAnswer, words: &str) -> bool {
    matches!(answer, SiteAnswer::Denied { text } if text.contains(words))
}

#[test]
fn the_gateway_that_a_device_asks_knows_which_names_are_elsewhere_as_long_as_they_are_permitted() {
    let mut world = world();
    let other_sites = |place| (0, vec![(PATTERN.to_owned(), place)]);
    world.join_gateway(1);
    assert_eq!(
        told(&world, 1),
        Some(other_sites(1)),
        "though gateway 2 is away"
    );
    world.forget_messages();
    world.join_gateway(2);
    assert_eq!(told(&world, 2), None);
    // Again when it comes back, and whenever they are others.
    world.forget_messages();
    world.break_off_gateway(1);
    world.join_gateway(1);
    assert_eq!(told(&world, 1), Some(other_sites(1)));
    world.forget_messages();
    world.pass(2 * STANDING_REVIEW_MS);
    assert_eq!(told(&world, 1), None, "it knows");
    set_names(&mut world, 3, OTHER_SITE, "www.corp.example");
    world.set_policy(3, 1, 3, Vec::new());
    let (_, names) = told(&world, 1).unwrap();
    assert_eq!(names.len(), 2);
    world.remove(policy(3));
    assert_eq!(told(&world, 1), Some(other_sites(1)));
    world.remove(policy(2));
    assert_eq!(told(&world, 1), Some((0, vec![])));
    world.check();
}

#[test]
fn a_gateway_that_has_lost_its_grants_makes_the_other_one_ask_again() {
    let mut world = served();
    world.leave_gateway(2);
    world.gateways.get_mut(&gateway(2)).unwrap().held.clear();
    world.join_gateway(2);
    assert_eq!(world.holds(2), 1);
    assert!(told(&world, 1).is_some(), "its names there are gone");
    world.check();
}

#[test]
fn a_name_is_resolved_by_the_gateway_with_the_grant_and_the_answer_comes_back() {
    let mut world = served();
    for (number, said) in [
        (7, FOUND),
        (8, SiteAnswer::Missing),
        (9, SiteAnswer::Unanswered),
    ] {
        world.forget_messages();
        ask(&mut world, 1, number, DB, 1);
        let asked = questions(&world, 2);
        assert_eq!(asked[0].1, wanted(&world, DB, 1));
        assert_eq!(answers(&world, 1), []);
        answer(&mut world, 2, asked[0].0, said.clone());
        assert_eq!(answers(&world, 1), [(number, said)]);
        // An answer counts once.
        answer(&mut world, 2, asked[0].0, FOUND);
        assert_eq!(answers(&world, 1).len(), 1);
    }
    world.check();
}

#[test]
fn only_the_devices_own_gateway_asks_and_only_for_names_that_its_file_leads_to() {
    type Make = fn(&mut World);
    let nothing: Make = |_| {};
    let cases: [(&str, u16, &str, u8, Make); 9] = [
        ("no policy", 2, DB, 1, nothing),
        ("no policy", 1, "db.other.example", 1, nothing),
        ("no policy", 1, "not a name", 1, nothing),
        ("does not lead", 1, DB, 0, nothing),
        ("does not lead", 1, DB, 2, nothing),
        ("no policy", 1, DB, 1, |world| {
            world.edit_client(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
        }),
        ("no policy", 1, DB, 1, |world| {
            world.edit_client(1, |row| row.name_shares = false);
        }),
        ("no policy", 1, DB, 1, |world| world.set_actor(1, true)),
        ("no policy", 1, DB, 1, |world| world.remove(actor(1))),
    ];
    for (words, from, name, place, make) in cases {
        let mut world = served();
        make(&mut world);
        ask(&mut world, from, 1, name, place);
        assert_eq!(questions(&world, 2), [], "{name} {place}");
        let answers = answers(&world, from);
        assert_eq!(answers.len(), 1, "{name} {place}");
        assert!(
            is_denied(&answers[0].1, words),
            "{name} {place}: {answers:?}"
        );
    }
    // Nobody asks for a client with Culvert.
    let mut world = served();
    world.edit_client(1, |row| row.gateways.clear());
    ask(&mut world, 1, 1, DB, 1);
    assert_eq!(questions(&world, 2), []);
}

#[test]
fn without_a_grant_in_force_nobody_is_asked() {
    let mut world = served();
    world.remove(policy(2));
    ask(&mut world, 1, 1, DB, 1);
    assert_eq!(answers(&world, 1), [(1, SiteAnswer::Unreachable)]);
    let mut world = served();
    world.leave_gateway(2);
    ask(&mut world, 1, 1, DB, 1);
    assert_eq!(answers(&world, 1), [(1, SiteAnswer::Unreachable)]);
    assert_eq!(questions(&world, 2), []);
    world.check();
}

#[test]
fn a_gateway_that_does_not_answer_in_time_or_is_another_one_is_not_believed() {
    let mut world = served();
    ask(&mut world, 1, 5, DB, 1);
    let (number, _) = questions(&world, 2)[0];
    answer(&mut world, 1, number, FOUND);
    assert_eq!(answers(&world, 1), [], "it was not asked");
    world.pass(NAME_ANSWER_MS);
    assert_eq!(answers(&world, 1), [(5, SiteAnswer::Unanswered)]);
    answer(&mut world, 2, number, FOUND);
    assert_eq!(answers(&world, 1).len(), 1, "it came too late");
    // Another session of the gateway that asked has other questions.
    ask(&mut world, 1, 6, DB, 1);
    let (number, _) = questions(&world, 2)[1];
    world.break_off_gateway(1);
    world.join_gateway(1);
    world.forget_messages();
    answer(&mut world, 2, number, FOUND);
    assert_eq!(answers(&world, 1), []);
    world.check();
}

#[test]
fn a_device_that_asks_without_end_takes_nothing_from_others() {
    let mut world = served();
    world.set_client(3, 1);
    world.edit_client(3, |row| {
        row.gateways = vec![gateway(1), gateway(2)];
        row.name_shares = true;
    });
    world.forget_messages();
    for number in 0..1_000 {
        ask(&mut world, 1, number, DB, 1);
    }
    let asked = questions(&world, 2);
    assert_eq!(asked.len(), NAME_ASK_BURST as usize);
    let refused = answers(&world, 1);
    assert_eq!(refused.len(), 1_000 - NAME_ASK_BURST as usize);
    assert!(refused.iter().all(|(_, it)| *it == SiteAnswer::Unreachable));
    const { assert!((NAME_ASK_BURST as usize) < MAX_NAME_ASKS / 5) };
    let name = wanted(&world, DB, 1);
    world.forget_messages();
    let question = FromGateway::AskName {
        ask: 1,
        client: client(3),
        resource: resource(2),
        name,
    };
    world.gateway_says(1, question);
    let to_second = world.to_gateways.iter();
    let resolved = to_second.filter(|(_, it)| matches!(it, ToGateway::ResolveName { .. }));
    assert_eq!(resolved.count(), 1);
    world.check();
}

#[test]
fn earlier_gateways_and_files_are_named_as_the_reason() {
    let features = |world: &mut World, number: u16, features: &[GatewayFeature]| {
        let gateway = world.gateways.get_mut(&gateway(number)).unwrap();
        gateway.features = features.to_vec();
    };
    type Make = fn(&mut World, &dyn Fn(&mut World, u16, &[GatewayFeature]));
    let cases: [(&str, Make); 4] = [
        ("give it a new key and file", |world, _| {
            world.edit_client(1, |row| row.name_shares = false);
        }),
        ("answers no names", |world, set| set(world, 1, &[])),
        ("knows nothing of the device's file", |world, set| {
            set(world, 1, &[GatewayFeature::PlainDns]);
        }),
        ("gateway of the resource's site", |world, set| {
            set(world, 2, &[GatewayFeature::PlainDns]);
        }),
    ];
    for (words, make) in cases {
        let mut world = world();
        make(&mut world, &features);
        world.join_gateway(1);
        world.join_gateway(2);
        world.pass(2 * STANDING_REVIEW_MS);
        assert_eq!((world.holds(1), world.holds(2)), (1, 0), "{words}");
        let explained = world.hub.explain(client(1), resource(2), world.now);
        let barred = explained.unwrap().barred.unwrap();
        assert!(barred.text.contains(words), "{words}: {}", barred.text);
        world.forget_messages();
        ask(&mut world, 1, 1, DB, 1);
        assert_eq!(questions(&world, 2), [], "{words}");
        world.check();
    }
}

#[test]
fn a_revoked_first_gateway_leaves_the_places_of_the_others() {
    let mut world = served();
    set_names(&mut world, 1, SITE, "*.lab.example");
    world.edit_gateway(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
    world.pass(STANDING_REVIEW_MS);
    // Gateway 2 answers now, at its place in the file.
    assert_eq!(told(&world, 2), Some((1, vec![])));
    assert_eq!(world.holds(2), 1);
    world.check();
}

/// The shares are those of the account's ranges.
#[test]
fn shares_follow_the_ranges_of_the_account() {
    let ranges = Ranges {
        machines_ipv4: "100.64.0.0/11".to_owned(),
        machines_ipv6: "fd00:2021:1111::/107".to_owned(),
        names_ipv4: "10.96.0.0/16".to_owned(),
        names_ipv6: "fd00:9::/112".to_owned(),
    };
    let mut world = served();
    let usual = wanted(&world, DB, 1);
    let mut account = world.account();
    account.settings.ranges = ranges;
    world.set(account);
    world.join_gateway(1);
    world.join_gateway(2);
    world.forget_messages();
    let question = FromGateway::AskName {
        ask: 1,
        client: client(1),
        resource: resource(2),
        name: usual,
    };
    world.gateway_says(1, question);
    assert!(is_denied(&answers(&world, 1)[0].1, "does not lead"));
    ask(&mut world, 1, 2, DB, 1);
    assert_eq!(questions(&world, 2).len(), 1);
}
