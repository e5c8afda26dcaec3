//! The account's rule about access that ended, as clients hear it.

use crate::world::{World, client};
use culvert_store::EndedAccess;
use culvert_wire::messages::{ClientFeature, ToClient};

fn set(world: &mut World, rule: EndedAccess) {
    let mut account = world.account();
    account.settings.ended_access = rule;
    world.set(account);
}

/// The rules that clients were told since the last call.
fn told(world: &mut World) -> Vec<bool> {
    let said = std::mem::take(&mut world.to_clients);
    let told = said.into_iter().filter_map(|(_, message)| match message {
        ToClient::Welcome {
            releases_ended_access: releases,
            ..
        }
        | ToClient::EndedAccessSet { releases } => Some(releases),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_client_hears_the_rule_about_ended_access_with_its_welcome_and_when_it_changes() {
    let mut world = World::simple();
    let features = &mut world.clients.entry(client(1)).or_default().features;
    features.push(ClientFeature::EndedAccess);
    world.join_client(1);
    assert_eq!(told(&mut world), [false]);
    set(&mut world, EndedAccess::Release);
    assert_eq!(told(&mut world), [true]);
    set(&mut world, EndedAccess::Release);
    assert_eq!(told(&mut world), [false; 0]);
    world.join_client(1);
    assert_eq!(told(&mut world), [true]);
    set(&mut world, EndedAccess::Refuse);
    assert_eq!(told(&mut world), [false]);
}

#[test]
fn a_client_that_does_not_know_the_rule_about_ended_access_hears_of_no_change() {
    let mut world = World::simple();
    world.join_client(1);
    assert_eq!(told(&mut world), [false]);
    set(&mut world, EndedAccess::Release);
    assert_eq!(told(&mut world), [false; 0]);
}
