//! A gateway that drains loses its clients to others one by one, and no flow is cut.

use crate::scene::{Scene, TRIP_MS, application, longest_gap_ms};
use crate::seeds;
use culvert_ids::GatewayId;
use culvert_sim::access::{Tally, World, rows};

const LIFETIME_S: u32 = 60;
const LIFETIME_MS: u64 = 60_000;

/// Flows that have gone through the old gateway until its grant ended begin anew through the new one:
/// a handshake, and a packet.
const CHANGE_MS: u64 = 3 * TRIP_MS;

/// By itself, or since an administrator wants it.
fn drain(world: &mut World, gateway: usize, is_own_wish: bool) {
    if is_own_wish {
        world.drain_gateway(gateway, true);
        return;
    }
    let mut row = world
        .config()
        .gateway_of(gateway)
        .cloned()
        .expect("it enrolled");
    row.draining = true;
    world.commit(vec![rows::set(row)]);
}

fn id_of(world: &World, gateway: usize) -> GatewayId {
    world.config().gateway_of(gateway).expect("it enrolled").id
}

fn grants_through(world: &World, gateway: usize) -> usize {
    let id = id_of(world, gateway);
    let grants = world.config().grants();
    grants.values().filter(|grant| grant.gateway == id).count()
}

fn with_another(seed: u64, is_traced: bool) -> Tally {
    let mut scene = Scene::new(4, 2);
    scene.grant_lifetime_s = LIFETIME_S;
    let mut world = scene.world(seed, is_traced);
    let mut applications: Vec<_> = (0..3)
        .map(|client| application(&mut world, client, 1))
        .collect();
    world.run_ms(5_000 + seed % 1_009);
    let drained = usize::from(grants_through(&world, 1) > 0 && seed % 2 == 1);
    let from_ms = world.now_ms();
    drain(&mut world, drained, (seed / 2).is_multiple_of(2));
    world.run_ms(1_000);
    let held = grants_through(&world, drained);
    let late = application(&mut world, 3, 1);
    world.run_ms(2_000);
    assert!(
        grants_through(&world, drained) <= held,
        "it took a new client"
    );
    let late_gap_ms = longest_gap_ms(world.log(late), world.now_ms() - 1_000, world.now_ms());
    assert!(late_gap_ms <= TRIP_MS, "a new client got nowhere");
    // Nobody renews there, and what there was runs out.
    world.run_ms(2 * LIFETIME_MS);
    assert_eq!(grants_through(&world, drained), 0, "it has not drained");
    applications.push(late);
    for id in applications {
        let gap_ms = longest_gap_ms(world.log(id), from_ms + 3_000, world.now_ms());
        assert!(gap_ms <= CHANGE_MS, "{id:?} heard nothing for {gap_ms} ms");
    }
    world.tally().clone()
}

#[test]
fn a_gateway_that_drains_hands_its_clients_over_and_takes_no_new_ones() {
    seeds::run(40, with_another);
}

fn alone(seed: u64, is_traced: bool) -> Tally {
    let mut scene = Scene::new(2, 1);
    scene.grant_lifetime_s = LIFETIME_S;
    let mut world = scene.world(seed, is_traced);
    let applications: Vec<_> = (0..2)
        .map(|client| application(&mut world, client, 1))
        .collect();
    world.run_ms(5_000 + seed % 1_009);
    let from_ms = world.now_ms();
    drain(&mut world, 0, seed.is_multiple_of(2));
    world.run_ms(3 * LIFETIME_MS);
    for id in applications {
        let gap_ms = longest_gap_ms(world.log(id), from_ms, world.now_ms());
        assert!(gap_ms <= TRIP_MS, "{id:?} heard nothing for {gap_ms} ms");
    }
    world.tally().clone()
}

#[test]
fn a_gateway_that_drains_and_is_the_only_one_goes_on_with_what_it_has() {
    seeds::run(20, alone);
}
