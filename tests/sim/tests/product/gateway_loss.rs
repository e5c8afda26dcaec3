//! A gateway that dies takes nobody along for longer than five seconds.

use crate::scene::{Scene, TRIP_MS, application, longest_gap_ms};
use crate::seeds;
use culvert_sim::access::{Machine, Tally};

/// Within how long packets flow again.
const AGAIN_MS: u64 = 5_000;

fn killed(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(3, 2).world(seed, is_traced);
    let clients = 0..3;
    let applications: Vec<_> = clients
        .map(|client| application(&mut world, client, 1))
        .collect();
    world.run_ms(5_000 + seed % 1_009);
    let at_ms = world.now_ms();
    for id in &applications {
        let gap_ms = longest_gap_ms(world.log(*id), at_ms - 3_000, at_ms);
        assert!(gap_ms <= TRIP_MS, "nothing flows before: {gap_ms} ms");
    }
    let gateway = usize::from(seed % 2 == 1);
    let what = match seed / 2 % 3 {
        0 => {
            world.kill(Machine::Gateway(gateway), false);
            "the process is killed"
        }
        1 => {
            world.kill(Machine::Gateway(gateway), true);
            "the host is gone"
        }
        _ => {
            (0..3).for_each(|client| world.cut_data(client, gateway));
            "no packet reaches it"
        }
    };
    world.run_ms(30_000);
    for id in applications {
        let gap_ms = longest_gap_ms(world.log(id), at_ms, world.now_ms());
        assert!(
            gap_ms <= AGAIN_MS,
            "{what}: {id:?} heard nothing for {gap_ms} ms"
        );
    }
    world.tally().clone()
}

#[test]
fn when_a_gateway_is_killed_packets_flow_through_another_within_five_seconds() {
    seeds::run(90, killed);
}
