//! A change concerns those whom it concerns, however many others there are.

use crate::world::{SITE, World, a_policy, actor, client, network};
use culvert_store::Entity;
use culvert_wire::messages::ToClient;
use culvert_wire::model::Filter;
use std::collections::BTreeSet;

const RESOURCES: u16 = 10_000;
const CLIENTS: u16 = 1_000;

/// 1,000 clients of as many actors, ten to a group; 10,000 resources, a hundred to a group.
fn large() -> World {
    let mut world = World::new();
    world.set_gateway(1, SITE);
    let mut edits: Vec<(_, Option<Entity>)> = Vec::new();
    for number in 1..=RESOURCES {
        let address = format!("10.{}.{}.0/24", number / 256, number % 256);
        let resource = network(number, SITE, &address, vec![Filter::Any]);
        let policy = a_policy(number, number / 100, number, Vec::new());
        edits.push((resource.id.into(), Some(resource.into())));
        edits.push((policy.id.into(), Some(policy.into())));
    }
    world.apply(edits);
    for number in 1..=CLIENTS {
        world.set_actor(number, false);
        world.add_member(number, number / 10);
        world.set_client(number, number);
    }
    world.join_gateway(1);
    for number in 1..=CLIENTS {
        world.join_client(number);
    }
    world
}

fn told(world: &World) -> BTreeSet<culvert_ids::ClientId> {
    world.to_clients.iter().map(|(id, _)| *id).collect()
}

#[test]
fn one_policy_change_among_10000_resources_and_1000_clients_reaches_only_affected_sessions() {
    let mut world = large();
    for number in 1..=CLIENTS {
        // Each asks for the first resource of its group.
        world.ask(number, (number / 10 * 100 + 1).min(RESOURCES));
    }
    assert_eq!(world.hub.status().grants, usize::from(CLIENTS));
    world.forget_messages();
    // Group 42 loses a resource that its ten members have grants for.
    world.remove(crate::world::policy(4201));
    let members: BTreeSet<_> = (420..430).map(client).collect();
    assert_eq!(told(&world), members);
    assert_eq!(
        world.to_clients.len(),
        20,
        "each: revoked, and removed from the list"
    );
    assert_eq!(world.to_gateways.len(), 10);
    // A resource that nobody uses.
    world.forget_messages();
    world.remove(crate::world::policy(4250));
    assert_eq!(told(&world), members);
    assert_eq!((world.to_clients.len(), world.to_gateways.len()), (10, 0));
    // A membership concerns one client, and only by what the group has.
    world.forget_messages();
    world.add_member(7, 43);
    assert_eq!(told(&world), BTreeSet::from([client(7)]));
    assert_eq!(world.to_clients.len(), 100);
    // A change that no client can see sends no message.
    world.forget_messages();
    world.set(network(10_001, SITE, "172.16.0.0/24", vec![Filter::Any]));
    world.set_policy(10_001, 999, 10_001, Vec::new());
    world.set_actor(2_000, false);
    assert_eq!((world.to_clients.len(), world.to_gateways.len()), (0, 0));
    // A disabled actor takes its own client alone with it.
    world.forget_messages();
    world.set_actor(500, true);
    assert_eq!(told(&world), BTreeSet::from([client(500)]));
    assert_eq!(world.to_gateways.len(), 1);
    assert!(matches!(
        world.to_clients.last(),
        Some((_, ToClient::Refused { .. }))
    ));
    let Some(Entity::Actor(row)) = world.rows.get(&actor(500).into()) else {
        panic!();
    };
    assert!(row.disabled);
}
