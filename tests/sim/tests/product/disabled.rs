//! A client whose owner is disabled has no access, goes on running, and has access again soon after its owner is
//! enabled.

use crate::scene::{EVERY_MS, Scene, TRIP_MS, application, first_answer_ms, last_ms};
use crate::seeds;
use culvert_sim::access::{Machine, Tally, rows};

/// Nothing passes this long after the owner is disabled, in milliseconds (`docs/access.md`, "Gateway").
const CUT_MS: u64 = 1_000;

/// A client has access again this long after its owner is enabled, in milliseconds (`docs/client.md`).
const RETURN_MS: u64 = 30_000;

/// Disables the owner of one of two clients for up to ten minutes. The portal or the client may start anew meanwhile.
fn disabled(seed: u64, is_traced: bool) -> Tally {
    let mut world = Scene::new(2, 1).world(seed, is_traced);
    let victim = application(&mut world, 0, 1);
    let other = application(&mut world, 1, 1);
    world.run_ms(5_000 + seed % 997);
    let disabled_ms = world.now_ms();
    world.commit(vec![rows::actor_row(1, true)]);
    world.run_ms(1_000 + seed * 7_919 % 300_000);
    match seed % 3 {
        0 => {}
        1 => {
            world.kill_portal(false);
            world.start_portal();
        }
        _ => {
            world.kill(Machine::Client(0), false);
            world.start(Machine::Client(0));
        }
    }
    world.run_ms(60_000 + seed * 104_729 % 240_000);
    assert!(world.is_up(Machine::Client(0)), "it goes on running");
    let cut_ms = last_ms(world.log(victim));
    assert!(
        cut_ms <= disabled_ms + CUT_MS,
        "disabled at {disabled_ms} ms: what was sent at {cut_ms} ms was answered"
    );

    let enabled_ms = world.now_ms();
    world.commit(vec![rows::actor_row(1, false)]);
    world.run_ms(RETURN_MS + 5_000);
    let back_ms = first_answer_ms(world.log(victim), enabled_ms);
    assert!(
        back_ms.is_some_and(|back_ms| back_ms <= enabled_ms + RETURN_MS),
        "enabled at {enabled_ms} ms, back at {back_ms:?}"
    );
    let log = world.log(other);
    assert!(last_ms(log) + EVERY_MS + TRIP_MS >= world.now_ms());
    world.tally().clone()
}

#[test]
fn a_client_waits_while_its_owner_is_disabled_and_returns_within_half_a_minute() {
    seeds::run(60, disabled);
}
