//! Sessions recover from every treatment of datagrams once it stops.

use crate::{A, B, RECOVERY_MAX, millis, seconds};
use culvert_sim::{Conditions, World};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sessions_recover_when_the_network_does(
        seed in any::<u64>(),
        loss in 0u32..900,
        duplicates in 0u32..300,
        delay_max in 1u64..3_000,
        minutes in 1u64..12,
    ) {
        let mut world = World::new(seed, 2);
        world.network.set_conditions(Conditions {
            delay: millis(1)..millis(delay_max),
            loss_per_mille: loss,
            duplicate_per_mille: duplicates,
        });
        let lasting = seconds(60 * minutes) + RECOVERY_MAX + seconds(60);
        world.start_traffic((A, B), 2, millis(200), lasting);
        world.start_traffic((B, A), 1, millis(310), lasting);
        world.run(seconds(60 * minutes));
        world.network.set_conditions(Conditions::perfect(millis(20)));
        world.run(RECOVERY_MAX);
        let recovered = world.now();
        world.run(seconds(70));
        prop_assert_eq!(world.model.missing(recovered), []);
        for node in [A, B] {
            prop_assert!(world.node(node).shaker.indices_in_use() <= 4);
        }
    }

    #[test]
    fn a_little_loss_costs_only_what_was_lost(seed in any::<u64>()) {
        let mut world = World::new(seed, 2);
        world.send(A, B, 1);
        world.run(seconds(1));
        let start = world.now();
        world.network.set_conditions(Conditions {
            delay: millis(10)..millis(30),
            loss_per_mille: 20,
            duplicate_per_mille: 20,
        });
        world.start_traffic((A, B), 1, millis(50), seconds(400));
        world.start_traffic((B, A), 1, millis(50), seconds(400));
        world.run(seconds(401));
        // 2 % of 16,000 packets are 320; the standard deviation is 18.
        let missing = world.model.missing(start).len();
        prop_assert!((200..440).contains(&missing), "{} missing", missing);
    }
}

#[test]
fn an_outage_of_an_hour_is_survived() {
    let mut world = World::new(7, 2);
    world.start_traffic((A, B), 1, millis(500), seconds(3720));
    world.run(seconds(60));
    world.network.set_conditions(Conditions {
        loss_per_mille: 1000,
        ..Conditions::perfect(millis(20))
    });
    world.run(seconds(3600));
    world
        .network
        .set_conditions(Conditions::perfect(millis(20)));
    // Attempts never stop while there is data: the next comes within 5.4 s.
    world.run(seconds(6));
    let recovered = world.now();
    world.run(seconds(60));
    assert_eq!(world.model.missing(recovered), []);
}
