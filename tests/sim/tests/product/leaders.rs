//! Three portals on one database, of which the leader is killed, paused, or cut off, again and again.
//!
//! Each decision of a hub, and each write of grants, is compared with the history of leaders where it happens
//! (`culvert_sim::access`). After another portal has begun to lead, no hub decides, and no grant is written.

use crate::scene::{Scene, TRIP_MS, application, first_answer_ms, longest_gap_ms};
use crate::seeds;
use culvert_sim::Random;
use culvert_sim::access::{Strike, Tally, World};
use std::sync::Mutex;

const PORTALS: usize = 3;

/// Strikes of a run. Each has a client that wants its first access then.
const STRIKES: u16 = 8;

/// Runs whose strikes are 100 kills of the leader, and as many other things.
const RUNS: u64 = 25;

/// Clients that have access all the time.
const OLD: u16 = 2;

/// The time within which there is new access after a leader was killed.
const SOON_MS: u64 = 5_000;

/// The time in which all portals and machines have found each other again.
const CALM_MS: u64 = 30_000;

/// A cut between portals that lasts less is noticed by none of them.
const SILENCE_MS: u64 = 11_000;

/// The longest time for which a flow hears nothing whose grant the next leader does not know.
const UNWRITTEN_MS: u64 = 5_000;

/// The time after which a change of the configuration makes no hub sign grants anew.
const SETTLED_MS: u64 = 90_000;

/// The time for which a leader is paused.
const PAUSE_MS: u64 = 30_000;

/// A world with three portals, some of whose clients have access.
fn world(seed: u64, is_traced: bool) -> World {
    let mut scene = Scene::new(OLD + STRIKES, 2);
    scene.portals = PORTALS;
    scene.world(seed, is_traced)
}

fn leader(world: &World) -> usize {
    world
        .leader()
        .unwrap_or_else(|| panic!("nobody leads at {} ms", world.now_ms()))
}

/// New access of a client that had none, within a time.
fn finds_access(world: &mut World, client: u16, within_ms: u64) {
    let from_ms = world.now_ms();
    let wanted = application(world, usize::from(client), 2);
    world.run_ms(within_ms);
    let answer_ms = first_answer_ms(world.log(wanted), from_ms);
    assert!(
        answer_ms.is_some(),
        "client {client} wanted access at {from_ms} ms, and has none {within_ms} ms later"
    );
}

/// One thing that happens to the leader, until all is well again. Returns the longest time for which a flow may hear nothing.
fn strike(world: &mut World, random: &mut Random, client: u16, number: u16) -> u64 {
    let portal = leader(world);
    // Half of all are kills.
    match if number.is_multiple_of(2) {
        0
    } else {
        1 + random.below(5)
    } {
        0 => {
            world.strike(portal, Strike::Kill);
            finds_access(world, client, SOON_MS);
            world.run_ms(random.below(8_000));
            world.strike(portal, Strike::Start);
        }
        1 => {
            world.strike(portal, Strike::Pause);
            // Machines that had reached it notice after a silence of 12 s.
            world.run_ms(PAUSE_MS / 2 + random.below(4_000));
            finds_access(world, client, SOON_MS);
            world.run_ms(PAUSE_MS / 2);
            world.strike(portal, Strike::Resume);
        }
        2 => {
            world.strike(portal, Strike::CutDatabase(true));
            world.run_ms(random.below(4_000));
            finds_access(world, client, 2 * SOON_MS);
            world.run_ms(random.below(30_000));
            world.strike(portal, Strike::CutDatabase(false));
            world.run_ms(CALM_MS);
            // A grant of its last second and a half has not reached the database, and the next leader knows nothing of it.
            return UNWRITTEN_MS;
        }
        3 => {
            let other = (portal + 1) % PORTALS;
            world.strike(other, Strike::Kill);
            finds_access(world, client, SOON_MS);
            world.strike(other, Strike::Start);
        }
        4 => {
            // Nobody can renew a lease, and nobody takes one: the same leader goes on.
            for portal in 0..PORTALS {
                world.strike(portal, Strike::CutDatabase(true));
            }
            world.run_ms(random.below(60_000));
            for portal in 0..PORTALS {
                world.strike(portal, Strike::CutDatabase(false));
            }
            world.run_ms(2_000);
            finds_access(world, client, SOON_MS);
        }
        _ => {
            let cut_ms = random.below(30_000);
            world.strike(portal, Strike::CutOff(true));
            world.run_ms(cut_ms);
            // It leads on: the database is the one that says who does.
            assert_eq!(leader(world), portal);
            world.strike(portal, Strike::CutOff(false));
            world.run_ms(CALM_MS);
            finds_access(world, client, SOON_MS);
            // A leader that hears nothing of a gateway for 12 s takes it for gone, as one portal does. Its clients ask for another
            // one, which may be behind the cut too.
            return match cut_ms < SILENCE_MS {
                true => TRIP_MS,
                false => u64::MAX,
            };
        }
    }
    world.run_ms(CALM_MS);
    TRIP_MS
}

#[derive(Default)]
struct Total {
    epochs: u64,
    decisions: u64,
    held: u64,
    fenced: u64,
    written: u64,
}

#[test]
fn a_hundred_kills_and_other_ends_of_leaders_grant_nothing_twice_and_cut_no_flow() {
    let total = Mutex::new(Total::default());
    let one = |seed: u64, is_traced: bool| -> Tally {
        let mut world = world(seed, is_traced);
        let mut random = Random::new(seed ^ 0x1ead_e250);
        world.run_ms(SETTLED_MS);
        let old: Vec<_> = (0..usize::from(OLD))
            .map(|client| application(&mut world, client, 1))
            .collect();
        world.run_ms(5_000 + seed % 1_009);
        for number in 0..STRIKES {
            let from_ms = world.now_ms();
            let most_ms = strike(&mut world, &mut random, OLD + number, number);
            for id in &old {
                let gap_ms = longest_gap_ms(world.log(*id), from_ms, world.now_ms());
                assert!(
                    gap_ms <= most_ms,
                    "{id:?} had access and heard nothing for {gap_ms} ms since {from_ms} ms"
                );
            }
        }
        let leads = world.leads();
        let mut total = total.lock().unwrap();
        total.epochs += leads.epochs;
        total.decisions += leads.decisions;
        total.held += leads.held;
        total.fenced += leads.fenced;
        total.written += leads.written;
        world.tally().clone()
    };
    let (_, runs) = seeds::run(RUNS, one);
    let total = total.into_inner().unwrap();
    // At the least the kills, one in two strikes, were each followed by another leader.
    assert!(
        total.epochs >= runs * u64::from(STRIKES) / 2,
        "{}",
        total.epochs
    );
    assert!(total.decisions > 0 && total.written > 0);
    // Leaders whose lease was over had something to decide on, and did not.
    assert!(runs < RUNS || total.held > 0);
    eprintln!(
        "{runs} runs: {} epochs, {} decisions, {} held back, {} writes, {} refused by the fence",
        total.epochs, total.decisions, total.held, total.written, total.fenced
    );
}
