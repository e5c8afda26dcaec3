//! A resource that only some applications may reach is only for clients that see to that.

use crate::world::{ACCOUNT, SITE, World, client, network, resource};
use culvert_store::{Account, AccountSettings, Resource, Stamp};
use culvert_wire::messages::{ClientFeature, ReasonCode, ToClient};
use culvert_wire::model::{Applications, Filter, ToldApplications};

fn only(name: &str) -> Applications {
    Applications::Only(vec![name.to_owned()])
}

fn ruled(applications: Applications) -> Resource {
    Resource {
        applications,
        ..network(1, SITE, "10.0.1.0/24", vec![Filter::Any])
    }
}

fn account(applications: Applications) -> Account {
    Account {
        id: ACCOUNT,
        name: "corp".to_owned(),
        settings: AccountSettings {
            applications,
            ..AccountSettings::default()
        },
        stamp: Stamp::default(),
    }
}

/// A client that is connected, and whether it keeps rules.
fn connected(keeps: bool) -> World {
    let mut world = World::simple();
    if keeps {
        let features = &mut world.clients.entry(client(1)).or_default().features;
        features.push(ClientFeature::Applications);
    }
    world.join_gateway(1);
    world.join_client(1);
    world
}

/// The rule that the client was told, if it knows the resource.
fn told(world: &World) -> Option<ToldApplications> {
    let resources = &world.clients[&client(1)].resources;
    let found = resources.get(&resource(1));
    found.map(|resource| resource.applications.clone())
}

#[test]
fn a_client_that_keeps_rules_is_told_of_them_and_keeps_its_grants() {
    let mut world = connected(true);
    world.ask(1, 1);
    world.set(ruled(only("backup")));
    assert_eq!(told(&world), Some(ToldApplications::Known(only("backup"))));
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.set(ruled(Applications::Any));
    assert_eq!(told(&world), Some(ToldApplications::default()));
}

#[test]
fn an_older_client_loses_a_resource_that_gets_a_rule_and_gets_it_back_without_one() {
    let mut world = connected(false);
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.set(ruled(only("backup")));
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.revocations(), [ReasonCode::ConditionNotMet]);
    assert_eq!(told(&world), None);
    world.ask(1, 1);
    assert_eq!(world.grants_of(1), 0, "nor does it get one by asking");
    let explained = world.hub.explain(client(1), resource(1), world.now);
    let explained = explained.unwrap();
    assert!(!explained.is_allow());
    assert!(explained.barred.unwrap().text.contains("update it"));
    world.set(ruled(Applications::Any));
    assert_eq!(told(&world), Some(ToldApplications::default()));
    world.ask(1, 1);
    assert_eq!(world.grants_of(1), 1);
}

#[test]
fn an_older_client_is_not_welcomed_with_it() {
    let mut world = World::simple();
    world.set(ruled(only("backup")));
    world.join_gateway(1);
    world.join_client(1);
    assert_eq!(told(&world), None);
}

#[test]
fn the_accounts_rule_holds_for_every_resource_beside_its_own() {
    let mut world = connected(true);
    world.set(ruled(Applications::Except(vec!["browser".to_owned()])));
    let both = Applications::Only(vec!["backup".to_owned(), "browser".to_owned()]);
    world.set(account(both));
    assert_eq!(told(&world), Some(ToldApplications::Known(only("backup"))));
    // A later change of the resource is under it too.
    world.set(ruled(Applications::Any));
    let both = Applications::Only(vec!["backup".to_owned(), "browser".to_owned()]);
    assert_eq!(told(&world), Some(ToldApplications::Known(both)));
    world.set(account(Applications::Any));
    assert_eq!(told(&world), Some(ToldApplications::default()));
}

#[test]
fn an_account_whose_rule_cannot_be_read_lets_no_program_pass() {
    let mut world = connected(true);
    world.set(account(only("no name")));
    let nobody = Applications::Only(Vec::new());
    assert_eq!(told(&world), Some(ToldApplications::Known(nobody)));
    assert_eq!(world.hub.status().faults, 1);
}

#[test]
fn a_grant_from_before_a_restart_ends_where_the_rule_may_be_newer() {
    // As the grant is older than the rule, an older client may have it.
    let mut world = connected(true);
    world.ask(1, 1);
    world.pass(120_000);
    let mut row = ruled(only("backup"));
    row.stamp.updated = world.now;
    world.rows.insert(row.id.into(), row.into());
    world.restart();
    assert!(world.saved.is_empty());

    // The rule is older than the grant, so the holder of the grant enforces the rule.
    let mut world = connected(true);
    world.set(ruled(only("backup")));
    world.pass(120_000);
    world.ask(1, 1);
    world.restart();
    assert_eq!(world.saved.len(), 1);
}

#[test]
fn while_a_client_is_away_a_new_rule_is_kept_from_it_no_longer_than_it_is_known_to_keep_rules() {
    let mut world = connected(true);
    world.ask(1, 1);
    let session = world.clients[&client(1)].session.unwrap();
    world.hub.handle_left(session, world.now);
    world.set(ruled(only("backup")));
    assert_eq!(world.saved.len(), 1, "it hears of it when it is back");
    world.join_client(1);
    let welcomed = world.to_clients.iter().rev().find_map(|(_, message)| {
        let ToClient::Welcome { resources, .. } = message else {
            return None;
        };
        Some(resources[0].applications.clone())
    });
    assert_eq!(welcomed, Some(ToldApplications::Known(only("backup"))));
}
