//! A message that comes twice, or not when it should, changes nothing but the session of whoever is to
//! blame.

use crate::scene::{Scene, TRIP_MS, allow, application, longest_gap_ms};
use crate::seeds;
use culvert_sim::access::{Machine, Tally, Weather};

fn repeated(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(2, 1).world(seed, is_traced);
    for client in [0, 1] {
        application(&mut world, client, 1);
    }
    // The last message is `grant_accepted`, `request_access`, or `load` by now.
    world.run_ms(100 + seed % 3_001);
    for machine in [Machine::Gateway(0), Machine::Client(0)] {
        world.repeat(machine);
        world.run_ms(seed % 61);
        world.repeat(machine);
    }
    world.run_ms(20_000);
    // A session that broke off is back, and with it all access.
    world.check_recovery();
    world.check_bounds();
    world.tally().clone()
}

#[test]
fn what_a_machine_says_twice_changes_nothing() {
    seeds::run(60, repeated);
}

fn misled(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(2, 1).world(seed, is_traced);
    let applications = [0, 1].map(|client| application(&mut world, client, 1));
    world.run_ms(5_000 + seed % 1_009);
    let from_ms = world.now_ms();
    let machine = [Machine::Gateway(0), Machine::Client(0)][usize::from(seed % 2 == 1)];
    world.mislead(machine);
    world.run_ms(15_000);
    for id in applications {
        let gap_ms = longest_gap_ms(world.log(id), from_ms, world.now_ms());
        // The portal calls a gateway lost that breaks off, and its clients ask again.
        let most_ms = match machine {
            Machine::Gateway(_) => 5_000,
            Machine::Client(_) => TRIP_MS,
        };
        assert!(gap_ms <= most_ms, "{id:?} heard nothing for {gap_ms} ms");
    }
    world.check_recovery();
    world.tally().clone()
}

#[test]
fn what_a_machine_hears_twice_makes_it_come_back() {
    seeds::run(40, misled);
}

fn disordered(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(3, 2).bare(seed, is_traced);
    world.set_weather(Weather {
        control_ms: 1..300,
        data_ms: 1..300,
        loss_per_mille: 50,
        copies_per_mille: 500,
    });
    let clients = 0..3;
    let applications: Vec<_> = clients
        .map(|client| application(&mut world, client, 1))
        .collect();
    allow(&mut world);
    world.run_ms(30_000);
    for id in applications {
        let log = world.log(id);
        let answered = u64::try_from(log.answered.len()).unwrap_or(u64::MAX);
        assert!(answered <= log.sent, "more answers than questions");
        assert!(
            answered * 2 > log.sent,
            "{answered} of {} were answered",
            log.sent
        );
    }
    assert!(
        world.tally().delivered <= world.tally().sent,
        "a packet was delivered twice"
    );
    world.check_bounds();
    world.tally().clone()
}

#[test]
fn packets_that_come_twice_and_in_no_order_are_delivered_once() {
    seeds::run(30, disordered);
}
