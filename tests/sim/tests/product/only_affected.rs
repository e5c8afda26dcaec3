//! One change among many resources and clients is told to those whom it concerns.
//!
//! The world holds every change against whom it may concern (`World::commit`); here it is held against
//! numbers as well.

use crate::seeds;
use culvert_sim::access::{Layout, Tally, World, rows};
use culvert_wire::model::Filter;

const CLIENTS: u16 = 40;
const RESOURCES: u16 = 200;

/// Members of each group: each client is in one, and may use the group's share of the resources.
const GROUPS: u16 = 8;
const MEMBERS: u64 = 5;

fn one_change(seed: u64, is_traced: bool) -> Tally {
    let layout = Layout {
        clients: (1..=CLIENTS).collect(),
        gateways: vec![1, 1],
        grant_lifetime_s: 300,
        skew_ms: 0,
    };
    let mut world = World::new(seed, layout);
    if is_traced {
        world.trace();
    }
    let mut edits = vec![rows::gateway_token_row(1)];
    for of in 1..=CLIENTS {
        edits.push(rows::actor_row(of, false));
        edits.push(rows::client_token_row(of));
        edits.push(rows::membership_row(of, 1 + of % GROUPS));
    }
    for number in 1..=RESOURCES {
        let address = format!("10.{}.{}.0/24", number / 100, number % 100);
        edits.push(rows::resource_row(number, 1, &address, vec![Filter::Any]));
        edits.push(rows::policy_row(
            number,
            1 + number % GROUPS,
            number,
            Vec::new(),
        ));
    }
    world.commit(edits);
    world.start_all();
    world.run_ms(15_000);
    let changed = 1 + u16::try_from(seed % u64::from(RESOURCES)).unwrap_or(0);
    // The policy goes; another group gets it; it comes back. Nobody uses the resource.
    let told = |world: &mut World, edit| {
        let before = world.tally().messages;
        world.commit(vec![edit]);
        world.tally().messages - before
    };
    let group = 1 + changed % GROUPS;
    let other = 1 + group % GROUPS;
    let went = told(
        &mut world,
        rows::remove(culvert_sim::access::policy(changed)),
    );
    assert_eq!(went, MEMBERS);
    let others = told(
        &mut world,
        rows::policy_row(changed, other, changed, Vec::new()),
    );
    assert_eq!(others, MEMBERS);
    let moved = told(
        &mut world,
        rows::policy_row(changed, group, changed, Vec::new()),
    );
    assert_eq!(moved, 2 * MEMBERS, "one group loses it, and one gets it");
    world.tally().clone()
}

#[test]
fn one_change_among_many_resources_and_clients_is_told_to_the_affected_alone() {
    seeds::run(10, one_change);
}
