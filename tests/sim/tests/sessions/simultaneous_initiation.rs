//! Both ends may initiate at the same moment.

use crate::{A, B, millis, seconds};
use culvert_session::Role;
use culvert_sim::{Conditions, World};
use proptest::prelude::*;

fn settled_roles(world: &World) -> [Role; 2] {
    [(A, B), (B, A)].map(|(node, peer)| {
        let node = world.node(node);
        let keys = node.shaker.sending(node.peer_of(peer));
        keys.expect("there is a session").role()
    })
}

#[test]
fn both_initiate_at_once_and_everything_arrives_in_one_and_a_half_round_trips() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2);
        let start = world.now();
        world.send(A, B, 10);
        world.send(B, A, 10);
        world.run(seconds(2));
        assert_eq!(world.model.missing(start), [], "seed {seed}");
        assert_eq!(world.model.longest_delay(start), millis(60), "seed {seed}");
        world.send(A, B, 1);
        world.send(B, A, 1);
        world.run(seconds(1));
        let roles = settled_roles(&world);
        assert_ne!(
            roles[0], roles[1],
            "seed {seed}: one end renews the session"
        );
    }
}

/// Both ends send for 400 s from about the same moment; returns how many sessions one end made.
fn nearly_simultaneous(seed: u64, offset_ms: u64, jitter_ms: u64) -> usize {
    let mut world = World::new(seed, 2);
    world.network.set_conditions(Conditions {
        delay: millis(20)..millis(20 + jitter_ms),
        ..Conditions::perfect(millis(20))
    });
    let start = world.now();
    world.start_traffic((A, B), 1, millis(7), seconds(400));
    world.run(millis(offset_ms));
    world.start_traffic((B, A), 1, millis(9), seconds(400));
    world.run(seconds(420));
    assert_eq!(world.model.missing(start), []);
    world.node(A).counters.handshakes
}

/// The path swaps a response and an initiation, so that one end sees two handshakes that crossed
/// and the other sees one after the other.
#[test]
fn ends_that_settled_on_each_others_session_renew_it_before_it_expires() {
    nearly_simultaneous(12_653_911_992_733_657_987, 15, 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nearly_simultaneous_initiations_lose_nothing_either(
        seed in any::<u64>(), offset_ms in 0u64..100, jitter_ms in 0u64..60,
    ) {
        let handshakes = nearly_simultaneous(seed, offset_ms, jitter_ms);
        // At 0 s, and then every 120 to 165 s; a crossing counts twice.
        prop_assert!((3..=8).contains(&handshakes), "{} handshakes", handshakes);
    }
}
