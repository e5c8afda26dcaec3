//! Plain WireGuard devices have what a policy permits, without asking, for as long as it does.

use crate::world::{
    Manner, SITE, World, actor, client, client_token, gateway, group, network, policy, resource,
};
use culvert_hub::limits::{MAX_STANDING_GRANTS, STANDING_RETRY_MS, STANDING_REVIEW_MS};
use culvert_ids::SiteId;
use culvert_store::{AccountSettings, Decision, PathRule};
use culvert_wire::messages::{GatewayFeature, ReasonCode, ToGateway};
use culvert_wire::model::{
    Applications, Condition, Filter, TargetKind, TimeWindow, Weekday, WrittenCountries,
    WrittenPublicAddresses, WrittenTimes, WrittenVerified,
};
use culvert_wire::{Cipher, PresharedKey, PublicKey, Timestamp};

const OTHER_SITE: SiteId = SiteId::from_bytes([0x77; 16]);

/// Actor 1 has device 1, whose file leads to gateway 1; the gateway is yet to come.
fn with_device() -> World {
    let mut world = World::simple();
    world.edit_client(1, |row| row.gateways = vec![gateway(1)]);
    world
}

/// Actor 1 has device 1, whose file leads to gateway 1 of the site and gateway 2 of another one. Resource 1 is at the first,
/// and resource 2 at the second.
fn with_two_gateways() -> World {
    let mut world = World::simple();
    world.set_gateway(2, OTHER_SITE);
    world.set(network(2, OTHER_SITE, "10.2.0.0/16", vec![Filter::Any]));
    world.set_policy(2, 1, 2, Vec::new());
    world.edit_client(1, |row| row.gateways = vec![gateway(1), gateway(2)]);
    world
}

/// The same, and the gateway has come.
fn served() -> World {
    let mut world = with_device();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    world.forget_messages();
    world
}

fn revoked(world: &World) -> usize {
    let messages = world.to_gateways.iter();
    let revoked = messages.filter(|(_, message)| matches!(message, ToGateway::Revoke { .. }));
    revoked.count()
}

/// Grant messages since the last look.
fn offered(world: &World) -> usize {
    let messages = world.to_gateways.iter();
    let offered = messages.filter(|(_, message)| matches!(message, ToGateway::Grant { .. }));
    offered.count()
}

#[test]
fn a_gateway_that_comes_has_the_grants_of_its_devices_without_being_asked() {
    let mut world = with_device();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    let held = world.gateways[&gateway(1)].held.values().next().unwrap();
    let claims = &held.claims;
    assert_eq!((claims.client, claims.resource), (client(1), resource(1)));
    assert_eq!(claims.cipher, Cipher::ChaCha20Poly1305);
    let keys = world
        .to_gateways
        .iter()
        .filter_map(|(_, message)| match message {
            ToGateway::Grant { preshared_key, .. } => Some(preshared_key.clone()),
            _ => None,
        });
    assert_eq!(keys.collect::<Vec<_>>(), [PresharedKey::NONE]);
    assert_eq!(world.log.last().unwrap().decision, Decision::Granted);
    world.check();
}

#[test]
fn the_owner_s_tokens_are_nothing_to_a_device() {
    let mut world = served();
    world.remove(client_token(1));
    assert_eq!((world.holds(1), revoked(&world)), (1, 0));
    world.pass(2 * STANDING_REVIEW_MS);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn what_ends_a_client_s_access_ends_a_device_s_at_once() {
    type Cut = fn(&mut World);
    let cuts: [(&str, Cut); 8] = [
        ("policy", |world| world.remove(policy(1))),
        ("membership", |world| world.remove_member(1, 1)),
        ("owner", |world| world.set_actor(1, true)),
        ("device", |world| {
            world.edit_client(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
        }),
        ("deletion", |world| world.remove(client(1))),
        ("resource", |world| world.remove(resource(1))),
        ("condition", |world| {
            let verified = Condition::Verified(WrittenVerified {});
            world.set_policy(1, 1, 1, vec![verified]);
        }),
        ("applications", |world| {
            let mut row = network(1, SITE, "10.1.0.0/16", vec![Filter::Any]);
            row.applications = Applications::Only(vec!["backup".to_owned()]);
            world.set(row);
        }),
    ];
    for (what, cut) in cuts {
        let mut world = served();
        cut(&mut world);
        assert_eq!((world.holds(1), revoked(&world)), (0, 1), "{what}");
        assert!(world.saved.is_empty(), "{what}");
        assert_eq!(world.log[0].decision, Decision::Revoked, "{what}");
        world.pass(2 * STANDING_REVIEW_MS);
        assert_eq!(world.holds(1), 0, "{what}");
        world.check();
    }
}

#[test]
fn what_opens_access_gives_it_to_the_device_at_once() {
    type Open = fn(&mut World);
    let cases: [(&str, Open, Open); 3] = [
        (
            "membership",
            |world| world.remove_member(1, 1),
            |world| world.add_member(1, 1),
        ),
        (
            "owner",
            |world| world.set_actor(1, true),
            |world| world.set_actor(1, false),
        ),
        (
            "policy",
            |world| world.remove(policy(1)),
            |world| world.set_policy(1, 1, 1, Vec::new()),
        ),
    ];
    for (what, cut, open) in cases {
        let mut world = served();
        cut(&mut world);
        assert_eq!(world.holds(1), 0, "{what}");
        open(&mut world);
        assert_eq!(world.holds(1), 1, "{what}");
        world.check();
    }
}

#[test]
fn a_device_that_is_added_while_the_gateway_is_there_has_its_grants_at_once() {
    let mut world = World::connected();
    world.set_client(2, 1);
    assert_eq!(world.holds(1), 0);
    world.edit_client(2, |row| row.gateways = vec![gateway(1)]);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn standing_grants_are_renewed_before_they_end_and_for_as_long_as_the_policy_lasts() {
    let mut world = served();
    let lifetime_ms = 1_000 * u64::from(AccountSettings::default().grant_lifetime_s);
    // Each step is a minute: at every one of them, the gateway has a grant in force.
    for _ in 0..(5 * lifetime_ms / STANDING_REVIEW_MS) {
        world.pass(STANDING_REVIEW_MS);
        let mut held = world.gateways[&gateway(1)].held.values();
        assert!(held.any(|held| held.claims.exp > world.now));
        assert_eq!(world.holds(1), 1);
    }
    // Twice a lifetime, not at every look.
    let renewals = offered(&world);
    assert!((9..=11).contains(&renewals), "{renewals}");
    assert_eq!(revoked(&world), 0);
    world.check();
}

#[test]
fn a_gateway_that_lost_its_grants_gets_them_back_and_one_that_kept_them_none_twice() {
    let mut world = served();
    world.break_off_gateway(1);
    world.join_gateway(1);
    assert_eq!((world.holds(1), offered(&world)), (1, 0));
    world.forget_messages();
    world.leave_gateway(1);
    world.gateways.get_mut(&gateway(1)).unwrap().held.clear();
    world.pass(STANDING_REVIEW_MS);
    world.join_gateway(1);
    assert_eq!((world.holds(1), offered(&world)), (1, 1));
    world.check();
}

#[test]
fn a_portal_that_restarts_keeps_standing_grants_and_renews_them() {
    let mut world = with_device();
    // A grant that is about as old as its resource would be signed anew.
    world.pass(2 * STANDING_REVIEW_MS);
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    world.restart();
    world.forget_messages();
    world.join_gateway(1);
    assert_eq!(
        (world.holds(1), offered(&world), revoked(&world)),
        (1, 0, 0)
    );
    world.pass(1_000 * u64::from(AccountSettings::default().grant_lifetime_s));
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn an_offer_that_no_gateway_takes_is_made_again() {
    for manner in [Manner::Silent, Manner::Refuse(ReasonCode::TooMany)] {
        let mut world = with_device();
        world.join_gateway(1);
        world.remove(policy(1));
        world.manner(1, manner);
        world.set_policy(1, 1, 1, Vec::new());
        world.pass(STANDING_RETRY_MS / 2);
        assert_eq!(world.grants_of(1), 0);
        world.manner(1, Manner::Accept);
        world.pass(2 * STANDING_RETRY_MS);
        assert_eq!(world.holds(1), 1, "{manner:?}");
        world.check();
    }
}

#[test]
fn a_device_has_the_gateway_of_its_file_and_no_other() {
    let mut world = with_device();
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.pass(STANDING_REVIEW_MS);
    assert_eq!((world.holds(1), world.holds(2)), (0, 0));
    world.join_gateway(1);
    assert_eq!((world.holds(1), world.holds(2)), (1, 0));
    // Another file moves it.
    world.edit_client(1, |row| row.gateways = vec![gateway(2)]);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    world.check();
}

#[test]
fn each_gateway_of_a_file_has_the_grants_of_its_site() {
    let mut world = with_two_gateways();
    world.join_gateway(2);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    let held = world.gateways[&gateway(2)].held.values().next().unwrap();
    assert_eq!(held.claims.resource, resource(2));
    world.join_gateway(1);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    // The one keeps its grants while the other is away, and gets them back alone.
    world.forget_messages();
    world.leave_gateway(1);
    world.gateways.get_mut(&gateway(1)).unwrap().held.clear();
    world.pass(STANDING_REVIEW_MS);
    assert_eq!((world.holds(2), offered(&world)), (1, 0));
    world.join_gateway(1);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    assert_eq!((offered(&world), revoked(&world)), (1, 0));
    // A file without the second ends what was there.
    world.edit_client(1, |row| row.gateways = vec![gateway(1)]);
    assert_eq!((world.holds(1), world.holds(2)), (1, 0));
    world.check();
}

#[test]
fn all_gateways_of_a_device_together_have_as_many_grants_as_a_file_takes() {
    let mut world = with_two_gateways();
    for number in 3..=(MAX_STANDING_GRANTS as u16 + 10) {
        world.set_network(number, if number % 2 == 0 { OTHER_SITE } else { SITE });
        world.set_policy(number, 1, number, Vec::new());
    }
    world.join_gateway(2);
    assert_eq!(world.holds(2), MAX_STANDING_GRANTS / 2);
    world.join_gateway(1);
    let held = (world.holds(1), world.holds(2));
    assert_eq!(held, (MAX_STANDING_GRANTS / 2, MAX_STANDING_GRANTS / 2));
    world.check();
}

#[test]
fn a_deleted_gateway_of_a_file_leaves_the_others_as_they_are() {
    let mut world = with_two_gateways();
    world.join_gateway(1);
    world.join_gateway(2);
    world.forget_messages();
    // The store refuses this. A portal of an earlier version does not.
    world.remove(gateway(2));
    world.pass(2 * STANDING_REVIEW_MS);
    let to_first = |(to, message): &&(_, ToGateway)| {
        *to == gateway(1) && matches!(message, ToGateway::Revoke { .. } | ToGateway::Grant { .. })
    };
    assert_eq!(world.to_gateways.iter().filter(to_first).count(), 0);
    assert_eq!((world.holds(1), world.hub.status().grants), (1, 1));
    world.check();
}

#[test]
fn another_key_takes_the_place_of_the_first_at_once() {
    let mut world = served();
    let key = PublicKey::from_bytes([9; 32]);
    world.edit_client(1, |row| row.public_key = key);
    assert_eq!((world.holds(1), revoked(&world)), (1, 1));
    let mut held = world.gateways[&gateway(1)].held.values();
    assert_eq!(held.next().unwrap().claims.client_key, key);
    world.check();
}

#[test]
fn what_a_plain_device_cannot_use_is_refused_with_the_reason() {
    type Make = fn(&mut World);
    let cases: [(&str, Make); 5] = [
        ("no gateway of the resource's site", |world| {
            world.set(network(1, OTHER_SITE, "10.1.0.0/16", vec![Filter::Any]));
        }),
        ("answers no names", |world| {
            let mut row = network(1, SITE, "*.corp.example", vec![Filter::Any]);
            row.target.kind = TargetKind::Dns;
            world.set(row);
        }),
        ("some applications", |world| {
            let mut row = network(1, SITE, "10.1.0.0/16", vec![Filter::Any]);
            row.applications = Applications::Only(vec!["backup".to_owned()]);
            world.set(row);
        }),
        ("relays", |world| {
            let mut account = world.account();
            account.settings.paths = PathRule::Relayed;
            world.set(account);
        }),
        ("networks of the tunnel", |world| {
            let mut account = world.account();
            account.settings.ranges.machines_ipv4 = "10.20.0.0/17".to_owned();
            world.set(account);
        }),
    ];
    for (word, make) in cases {
        let mut world = served();
        make(&mut world);
        assert_eq!(world.holds(1), 0, "{word}");
        let explained = world.hub.explain(client(1), resource(1), world.now);
        let barred = explained.unwrap().barred.unwrap();
        assert!(barred.text.contains(word), "{word}: {}", barred.text);
    }
}

#[test]
fn conditions_that_need_what_nobody_reports_of_a_device_deny() {
    let countries = WrittenCountries {
        countries: vec!["DE".to_owned(), "FR".to_owned()],
    };
    let cidrs = WrittenPublicAddresses {
        cidrs: vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
    };
    for condition in [
        Condition::Country(countries),
        Condition::PublicAddress(cidrs),
    ] {
        let mut world = with_device();
        world.set_policy(1, 1, 1, vec![condition]);
        world.join_gateway(1);
        world.pass(2 * STANDING_REVIEW_MS);
        assert_eq!(world.holds(1), 0);
        let explained = world.hub.explain(client(1), resource(1), world.now);
        assert!(!explained.unwrap().is_allow());
        // An administrator's word on the key is as good as for any client.
        world.set_policy(1, 1, 1, vec![Condition::Verified(WrittenVerified {})]);
        world.edit_client(1, |row| row.verified = Some(Timestamp::from_unix_ms(1)));
        assert_eq!(world.holds(1), 1);
        world.check();
    }
}

#[test]
fn a_time_window_opens_and_closes_for_a_device() {
    let mut world = with_device();
    let all_days = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];
    let minute_of_day = world.now.unix_ms() / 60_000 % (24 * 60);
    let time = |minutes: u64| {
        let at = (minute_of_day + minutes) % (24 * 60);
        format!("{:02}:{:02}", at / 60, at % 60)
    };
    let window = TimeWindow {
        days: all_days.to_vec(),
        from: time(10),
        until: time(20),
    };
    let times = WrittenTimes {
        zone: "UTC".to_owned(),
        windows: vec![window],
    };
    world.set_policy(1, 1, 1, vec![Condition::Time(times)]);
    world.join_gateway(1);
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(world.holds(1));
        world.pass(60_000);
    }
    // It opens a minute late at most, and closes in time.
    assert_eq!(held[..10], [0; 10]);
    assert_eq!(held[11..20], [1; 9]);
    assert_eq!(held[21..], [0; 9]);
}

#[test]
fn a_device_has_as_many_standing_grants_as_a_file_takes() {
    let mut world = with_device();
    for number in 2..=(MAX_STANDING_GRANTS as u16 + 10) {
        world.set_network(number, SITE);
        world.set_policy(number, 1, number, Vec::new());
    }
    world.join_gateway(1);
    assert_eq!(world.holds(1), MAX_STANDING_GRANTS);
    // The places of those that end go to others.
    world.remove(policy(1));
    assert_eq!(world.holds(1), MAX_STANDING_GRANTS);
    world.check();
}

#[test]
fn nothing_is_asked_for_a_device_of_nobody() {
    let mut world = with_device();
    world.remove(actor(1));
    world.remove(group(1));
    world.join_gateway(1);
    world.pass(2 * STANDING_REVIEW_MS);
    assert_eq!((world.holds(1), offered(&world)), (0, 0));
}

/// The resource of [`with_device`] is one by name, and the gateway answers devices as far as `answers`.
fn with_names(answers: bool) -> World {
    let mut world = with_device();
    let mut row = network(1, SITE, "*.corp.example", vec![Filter::Any]);
    row.target.kind = TargetKind::Dns;
    world.set(row);
    if answers {
        let gateway = world.gateways.get_mut(&gateway(1)).unwrap();
        gateway.features.push(GatewayFeature::PlainDns);
    }
    world.join_gateway(1);
    world
}

#[test]
fn a_device_has_resources_by_name_where_its_gateway_answers_for_them() {
    let mut world = with_names(true);
    assert_eq!(world.holds(1), 1);
    let held = world.gateways[&gateway(1)].held.values().next().unwrap();
    assert!(held.claims.plain);
    assert_eq!(held.claims.target.target().address, "*.corp.example");
    let explained = world.hub.explain(client(1), resource(1), world.now);
    assert!(explained.unwrap().barred.is_none());
    assert!(world.hub.gateways().all(|gateway| gateway.answers_plain));
    // It is renewed, and ends, as any other.
    world.forget_messages();
    world.pass(STANDING_REVIEW_MS);
    assert_eq!(world.holds(1), 1);
    world.remove(policy(1));
    assert_eq!((world.holds(1), revoked(&world)), (0, 1));
    world.check();

    let world = with_names(false);
    assert_eq!(world.holds(1), 0);
    assert!(!world.hub.gateways().any(|gateway| gateway.answers_plain));
}

#[test]
fn a_device_finds_names_at_the_site_of_its_first_gateway_alone() {
    let mut world = with_two_gateways();
    for number in [1, 2] {
        let gateway = world.gateways.get_mut(&gateway(number)).unwrap();
        gateway.features.push(GatewayFeature::PlainDns);
        let site = if number == 1 { SITE } else { OTHER_SITE };
        let mut row = network(number, site, "*.corp.example", vec![Filter::Any]);
        row.target.kind = TargetKind::Dns;
        world.set(row);
    }
    world.join_gateway(1);
    world.join_gateway(2);
    assert_eq!((world.holds(1), world.holds(2)), (1, 0));
    let explained = world.hub.explain(client(1), resource(2), world.now);
    let barred = explained.unwrap().barred.unwrap();
    assert!(
        barred.text.contains("first gateway alone"),
        "{}",
        barred.text
    );
    // Another file has them in another order.
    world.edit_client(1, |row| row.gateways.reverse());
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    world.check();
}

#[test]
fn a_client_with_culvert_asks_no_gateway_for_names_as_a_device_does() {
    let mut world = World::connected();
    world.ask(1, 1);
    let mut held = world.gateways[&gateway(1)].held.values();
    assert!(!held.next().unwrap().claims.plain);
}
