//! In an account that requires verified gateways, packets flow through those alone, and end within a second.

use crate::scene::{Scene, TRIP_MS, application, longest_gap_ms};
use crate::seeds;
use culvert_sim::access::{Tally, World, rows};
use culvert_wire::Timestamp;

/// Within how long packets flow through another gateway: the client hears that the old one is lost, asks
/// again, and shakes hands.
const AGAIN_MS: u64 = 3 * TRIP_MS;

fn verify(world: &mut World, gateway: usize, on: bool) {
    let at = Timestamp::from_unix_ms(world.portal_unix_ms());
    let row = world.config().gateway_of(gateway).cloned();
    let mut row = row.expect("it enrolled");
    row.verified = on.then_some(at);
    world.commit(vec![rows::set(row)]);
}

fn require(world: &mut World, is_required: bool) {
    let account = world.config().requiring_verified_gateways(is_required);
    world.commit(vec![rows::set(account)]);
}

fn grants_through(world: &World, gateway: usize) -> usize {
    let row = world.config().gateway_of(gateway).expect("it enrolled");
    let grants = world.config().grants();
    let through = grants.values().filter(|grant| grant.gateway == row.id);
    through.count()
}

fn one_by_one(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(3, 2).world(seed, is_traced);
    let applications: Vec<_> = (0..3)
        .map(|client| application(&mut world, client, 1))
        .collect();
    world.run_ms(5_000 + seed % 1_009);
    // Nobody is verified: all of it ends, and nothing begins anew.
    require(&mut world, true);
    world.run_ms(5_000);
    assert_eq!(world.config().grants().len(), 0);
    let nothing_ms = world.now_ms();
    world.run_ms(10_000);
    for id in &applications {
        let gap_ms = longest_gap_ms(world.log(*id), nothing_ms, world.now_ms());
        assert!(gap_ms >= 9_000, "{id:?} was answered through nobody");
    }
    let verified = usize::from(seed % 2 == 1);
    verify(&mut world, verified, true);
    // "A 'no' stands for up to ten seconds before the portal is asked again".
    world.run_ms(15_000);
    assert_eq!(grants_through(&world, 1 - verified), 0);
    let from_ms = world.now_ms();
    verify(&mut world, 1 - verified, true);
    world.run_ms(1_000);
    verify(&mut world, verified, false);
    world.run_ms(10_000);
    assert_eq!(grants_through(&world, verified), 0);
    for id in applications {
        let gap_ms = longest_gap_ms(world.log(id), from_ms, world.now_ms());
        assert!(gap_ms <= AGAIN_MS, "{id:?} heard nothing for {gap_ms} ms");
    }
    world.tally().clone()
}

#[test]
fn packets_flow_through_verified_gateways_alone_and_move_on_when_that_ends() {
    seeds::run(40, one_by_one);
}
