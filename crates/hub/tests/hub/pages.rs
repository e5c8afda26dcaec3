//! A gateway with more grants than one message names.

use crate::world::{Manner, SITE, World, client, client_token, gateway, resource};
use culvert_hub::limits::MAX_GRANTS_PER_GATEWAY;
use culvert_ids::GrantId;
use culvert_wire::Timestamp;
use culvert_wire::messages::{FromGateway, GRANTS_PER_PAGE, GatewayFeature, ToClient, ToGateway};
use std::ops::RangeInclusive;

/// Clients with as many grants each as one may ask for at once.
const CLIENTS: u16 = 290;
const RESOURCES: u16 = 60;

/// A gateway, resources behind it, and clients that may use them. Nobody is connected.
fn rows(clients: u16) -> World {
    let mut world = World::new();
    world.set_gateway(1, SITE);
    for number in 1..=RESOURCES {
        world.set_network(number, SITE);
        world.set_policy(number, 1, number, Vec::new());
    }
    for number in 1..=clients {
        world.set_actor(number, false);
        world.add_member(number, 1);
        world.set_client(number, number);
    }
    world
}

/// The same, and all are connected.
fn connected(clients: u16) -> World {
    let mut world = rows(clients);
    for number in 1..=clients {
        world.join_client(number);
    }
    world.join_gateway(1);
    world
}

fn ask_for_all(world: &mut World, clients: RangeInclusive<u16>) {
    for number in clients {
        for resource in 1..=RESOURCES {
            world.ask(number, resource);
        }
    }
}

/// 17,400 grants through one gateway, which is more than a page.
fn crowded() -> World {
    let mut world = rows(CLIENTS);
    take_pages(&mut world);
    world.join_gateway(1);
    for number in 1..=CLIENTS {
        world.join_client(number);
        ask_for_all(&mut world, number..=number);
    }
    assert_eq!(world.holds(1), usize::from(CLIENTS * RESOURCES));
    world.forget_messages();
    world
}

fn take_pages(world: &mut World) {
    let gateway = world.gateways.get_mut(&gateway(1)).unwrap();
    gateway.features = vec![GatewayFeature::GrantPages];
}

fn held(world: &World) -> Vec<GrantId> {
    world.gateways[&gateway(1)].held.keys().copied().collect()
}

/// The lengths of the lists of grants that the gateway was told, and whether more were to follow.
fn lists(world: &World) -> Vec<(usize, bool)> {
    let lists = world
        .to_gateways
        .iter()
        .filter_map(|(_, message)| match message {
            ToGateway::Welcome {
                grants,
                more_grants,
                ..
            } => Some((grants.len(), *more_grants)),
            ToGateway::GrantsRetained { grants, more } => Some((grants.len(), *more)),
            _ => None,
        });
    lists.collect()
}

#[test]
fn a_gateway_that_comes_back_keeps_more_grants_than_one_message_names() {
    let mut world = crowded();
    let all = held(&world);
    world.interrupt_gateway(1);
    // One is gone from its memory, and one ended while it was away.
    let lost = all[GRANTS_PER_PAGE + 5];
    world
        .gateways
        .get_mut(&gateway(1))
        .unwrap()
        .held
        .remove(&lost);
    world.remove(crate::world::policy(RESOURCES));
    world.forget_messages();
    world.join_gateway_in_pages(1, GRANTS_PER_PAGE);
    let left = usize::from(CLIENTS * (RESOURCES - 1));
    assert_eq!(
        lists(&world),
        [(GRANTS_PER_PAGE, true), (left - GRANTS_PER_PAGE, false)]
    );
    let status = world.hub.status();
    assert_eq!(held(&world).len(), status.grants);
    assert_eq!(status.grants, left - 1, "the one that it lost");
    assert!(!held(&world).contains(&lost));
    let is_told = |(_, message): &(_, ToClient)| matches!(message, ToClient::AccessRevoked { grant, .. } if *grant == lost);
    assert_eq!(
        world.to_clients.iter().filter(|told| is_told(told)).count(),
        1
    );
}

#[test]
fn what_comes_into_force_before_the_last_page_stays() {
    let mut world = crowded();
    world.interrupt_gateway(1);
    let held: Vec<GrantId> = held(&world);
    let session = {
        // The first page alone.
        let rest = world.gateways.get_mut(&gateway(1)).unwrap();
        rest.session = None;
        world.join_gateway_in_pages(1, held.len() - 1)
    };
    // The page of one has come: all is known.
    assert_eq!(world.hub.status().grants, held.len());
    world.interrupt_gateway(1);
    let gateway_row = world.gateways.get_mut(&gateway(1)).unwrap();
    let forgotten = held[held.len() - 1];
    gateway_row.held.remove(&forgotten);
    assert_ne!(world.join_gateway_in_pages(1, 10_000), session);
    assert_eq!(world.hub.status().grants, held.len() - 1);
    // Another last page means nothing.
    let ignored = world.hub.status().counters.ignored;
    let (grants, more) = (Vec::new(), false);
    world.gateway_says(1, FromGateway::GrantsHeld { grants, more });
    assert_eq!(world.hub.status().counters.ignored, ignored + 1);
    assert_eq!(world.hub.status().grants, held.len() - 1);
}

#[test]
fn a_gateway_of_an_earlier_version_gets_and_keeps_as_many_as_one_message_names() {
    let mut world = crowded();
    world.interrupt_gateway(1);
    let gateway_row = world.gateways.get_mut(&gateway(1)).unwrap();
    gateway_row.features.clear();
    world.forget_messages();
    // It was put back to an earlier version, which kept what it could read.
    world.join_gateway(1);
    assert_eq!(lists(&world), [(GRANTS_PER_PAGE, false)]);
    assert_eq!(world.hub.status().grants, GRANTS_PER_PAGE);
    assert_eq!(held(&world).len(), GRANTS_PER_PAGE);
    let is_ended = |(_, message): &(_, ToClient)| matches!(message, ToClient::AccessRevoked { .. });
    let ended = world
        .to_clients
        .iter()
        .filter(|told| is_ended(told))
        .count();
    assert_eq!(ended, usize::from(CLIENTS * RESOURCES) - GRANTS_PER_PAGE);
    // It gets no more.
    world.forget_messages();
    world.set_network(200, SITE);
    world.set_policy(200, 1, 200, Vec::new());
    world.ask(1, 200);
    assert_eq!(world.hub.status().grants, GRANTS_PER_PAGE);
    const { assert!(GRANTS_PER_PAGE < MAX_GRANTS_PER_GATEWAY) };
}

#[test]
fn a_portal_between_that_does_not_know_pages_costs_the_grants_behind_the_first_alone() {
    let mut world = crowded();
    world.interrupt_gateway(1);
    world.forget_messages();
    let first: Vec<GrantId> = held(&world).into_iter().take(1_000).collect();
    let rest = world.gateways.get_mut(&gateway(1)).unwrap();
    rest.held.retain(|grant, _| first.contains(grant));
    let session = world.join_gateway_in_pages(1, 999);
    assert_eq!(world.hub.status().grants, 1_000);
    // The same where the second page does not arrive as one.
    world.interrupt_gateway(1);
    assert_ne!(world.join_gateway_unfinished(1, 999), session);
    let joined = world.gateways[&gateway(1)].session.unwrap();
    world
        .hub
        .handle_unknown(joined, "grants_held".to_owned(), world.now);
    world.drain();
    assert_eq!(world.hub.status().grants, 999);
}

#[test]
fn every_grant_of_a_full_gateway_is_revoked_at_once_without_ending_its_session() {
    let mut world = crowded();
    let session = world.gateways[&gateway(1)].session;
    let policies = (1..=RESOURCES).map(|number| (crate::world::policy(number).into(), None));
    world.apply(policies.collect());
    assert_eq!(world.hub.status().grants, 0);
    assert_eq!(held(&world).len(), 0);
    assert_eq!(world.gateways[&gateway(1)].session, session);
    assert_eq!(world.hub.status().counters.overflows, 0);
}

#[test]
fn a_storm_of_requests_waits_in_the_hub_and_one_client_holds_up_no_other() {
    let mut world = connected(100);
    world.manner(1, Manner::Silent);
    ask_for_all(&mut world, 1..=99);
    world.ask(100, 1);
    let offers = |world: &World| {
        let offers = world.to_gateways.iter();
        let offers = offers.filter(|(_, message)| matches!(message, ToGateway::Grant { .. }));
        offers.count()
    };
    let first = offers(&world);
    assert!((64..=1_024).contains(&first), "{first}");
    // The gateway answers one after the other; each answer makes room for one offer.
    let mut in_force_after = None;
    for answered in 0..2_000 {
        let offered = world.gateways[&gateway(1)].unanswered.first().copied();
        let Some(grant) = offered else { break };
        let names = Vec::new();
        world
            .gateways
            .get_mut(&gateway(1))
            .unwrap()
            .unanswered
            .remove(0);
        world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
        let is_served = !world.clients[&client(100)].grants.is_empty();
        if is_served && in_force_after.is_none() {
            in_force_after = Some(answered);
        }
        world.pass(1);
    }
    let in_force_after = in_force_after.expect("the last client has its grant");
    // All that was offered before, and one turn of each of the others.
    assert!(in_force_after <= first + 100, "{in_force_after}");
    assert_eq!(world.hub.status().counters.offers_timed_out, 0);
    assert!(
        world.clients[&client(100)]
            .grants
            .values()
            .any(|(on, _)| *on == resource(1))
    );
    // A request that is not offered in time is answered: the client need not wait for nothing.
    world.pass(20_000);
    assert!(
        world
            .clients
            .values()
            .all(|client| client.waiting.is_empty())
    );
    assert_eq!(world.hub.status().asks, 0);
}

#[test]
fn requests_that_wait_for_a_gateway_that_leaves_go_to_another() {
    let mut world = connected(20);
    world.manner(1, Manner::Silent);
    ask_for_all(&mut world, 1..=20);
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.leave_gateway(1);
    assert_eq!(world.holds(2), usize::from(20 * RESOURCES));
    assert_eq!(world.hub.status().asks, 0);
}

#[test]
fn an_access_that_ends_earlier_ends_in_time_however_many_requests_wait() {
    let mut world = connected(20);
    world.ask(1, 1);
    let first = held(&world);
    world.manner(1, Manner::Silent);
    // Its window is full, and the client wants the same again.
    ask_for_all(&mut world, 2..=20);
    world.ask(1, 1);
    // The access is to end in five minutes: there is time for that.
    let end_ms = world.now.unix_ms() + 300_000;
    let token = client_token(1);
    world.edit_token(token, |row| {
        row.expires = Some(Timestamp::from_unix_ms(end_ms));
    });
    assert_eq!(held(&world).len(), first.len() + offered(&world));
    // And now at once.
    let end_ms = world.now.unix_ms() + 2_000;
    world.edit_token(token, |row| {
        row.expires = Some(Timestamp::from_unix_ms(end_ms));
    });
    assert!(
        !held(&world).contains(&first[0]),
        "another one has taken its place"
    );
}

fn offered(world: &World) -> usize {
    world.gateways[&gateway(1)].unanswered.len()
}
