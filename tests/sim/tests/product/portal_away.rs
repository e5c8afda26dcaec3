//! A portal that is away for a minute takes nothing from those who have access, and those who have
//! none get it soon after its return.

use crate::scene::{Scene, TRIP_MS, application, first_answer_ms, longest_gap_ms};
use crate::seeds;
use culvert_sim::access::Tally;

const AWAY_MS: u64 = 60_000;

/// Within how long new access is there after the portal's return.
const SOON_MS: u64 = 5_000;

fn away(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(3, 2).world(seed, is_traced);
    let existing: Vec<_> = (0..3)
        .map(|client| application(&mut world, client, 1))
        .collect();
    world.run_ms(5_000 + seed % 1_009);
    let killed_ms = world.now_ms();
    world.kill_portal(seed % 2 == 1);
    world.run_ms(AWAY_MS / 2);
    // Somebody waits since the middle, and somebody begins to wait when it is there again.
    let waiting = application(&mut world, 0, 2);
    world.run_ms(AWAY_MS / 2);
    let back_ms = world.now_ms();
    world.start_portal();
    let late = application(&mut world, 1, 2);
    world.run_ms(90_000);
    for id in existing {
        let gap_ms = longest_gap_ms(world.log(id), killed_ms, world.now_ms());
        assert!(
            gap_ms <= TRIP_MS,
            "{id:?} had access and heard nothing for {gap_ms} ms"
        );
    }
    for id in [waiting, late] {
        let answer_ms = first_answer_ms(world.log(id), killed_ms);
        assert!(
            answer_ms.is_some_and(|at_ms| at_ms <= back_ms + SOON_MS),
            "{id:?} got access at {answer_ms:?} ms; the portal came back at {back_ms} ms"
        );
    }
    world.tally().clone()
}

#[test]
fn a_minute_without_a_portal_cuts_nothing_and_new_access_comes_within_five_seconds_of_its_return() {
    seeds::run(60, away);
}
