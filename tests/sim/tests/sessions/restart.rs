//! An end loses its keys.

use crate::{A, B, RECOVERY_MAX, millis, seconds};
use culvert_sim::World;
use proptest::prelude::*;

/// §6.4: nothing heard for Keepalive-Timeout + Rekey-Timeout (and jitter) after sending.
#[test]
fn the_other_end_notices_within_fifteen_seconds() {
    for seed in 0..10 {
        let mut world = World::new(seed, 2);
        world.start_traffic((A, B), 1, millis(100), seconds(60));
        world.run(seconds(10));
        world.restart(B);
        let restarted = world.now();
        world.run(millis(15_334 + 10_000 + 100));
        let back = world.model.first_delivery(B, restarted);
        // The keepalives of B were up to ten seconds apart, so A's patience may have begun before.
        let outage = back.expect("it recovers").saturating_since(restarted);
        assert!(outage <= millis(15_334 + 100), "seed {seed}: {outage:?}");
        let recovered = world.now();
        world.run(seconds(40));
        assert_eq!(world.model.missing(recovered), [], "seed {seed}");
    }
}

#[test]
fn the_end_that_lost_its_keys_is_back_at_once_when_it_has_something_to_say() {
    let mut world = World::new(1, 2);
    world.start_traffic((A, B), 1, millis(100), seconds(60));
    world.run(seconds(10));
    world.restart(B);
    world.send(B, A, 1);
    // Initiation, response, and the packet that confirms the keys.
    world.run(millis(60));
    let back = world.now();
    world.run(seconds(60));
    assert_eq!(world.model.missing(back), []);
}

#[test]
fn an_end_with_a_persistent_keepalive_is_back_at_once() {
    let mut world = World::new(2, 2);
    world.set_keepalive(B, A, seconds(25));
    world.start_traffic((A, B), 1, millis(100), seconds(60));
    world.run(seconds(10));
    world.restart(B);
    world.run(millis(60));
    let back = world.now();
    world.run(seconds(60));
    assert_eq!(world.model.missing(back), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_number_of_restarts_of_either_end_is_survived(
        seed in any::<u64>(),
        restarts in proptest::collection::vec((any::<bool>(), 0u64..200_000), 1..8),
    ) {
        let mut world = World::new(seed, 2);
        let lasting: u64 = restarts.iter().map(|(_, pause)| pause).sum();
        let lasting = millis(lasting) + RECOVERY_MAX + seconds(20);
        world.start_traffic((A, B), 1, millis(300), lasting);
        world.start_traffic((B, A), 1, millis(300), lasting);
        for (which, pause) in restarts {
            world.run(millis(pause));
            world.restart(if which { A } else { B });
        }
        world.run(RECOVERY_MAX);
        let recovered = world.now();
        world.run(seconds(30));
        prop_assert_eq!(world.model.missing(recovered), []);
    }
}
