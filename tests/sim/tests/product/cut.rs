//! Access that is no longer allowed ends within a second, with the flows that live, and without any
//! other access.

use crate::scene::{
    EVERYBODY, START_MS, Scene, TRIP_MS, allow_under, application, edit_token, forbid, last_ms,
    leave, longest_gap_ms, portal_now,
};
use crate::seeds;
use culvert_sim::access::{ApplicationId, START_UNIX_MS, Tally, World, rows, window};
use culvert_wire::Timestamp;
use culvert_wire::model::{Condition, Filter, WrittenExpires, WrittenVerified};

/// Within how long after a change nothing passes that it forbids (`docs/access.md`, "Gateway").
const CUT_MS: u64 = 1_000;

/// The delay with which a gateway ends a grant by itself. It knows the portal's clock in full
/// seconds, and as late as messages arrive.
const ALONE_MS: u64 = 1_500;

type Change = fn(&mut World);

/// Changes that take access from the first client alone.
const FROM_ONE: [(&str, Change); 6] = [
    ("the membership is removed", |world| leave(world, 1)),
    ("the actor is disabled", |world| {
        world.commit(vec![rows::actor_row(1, true)]);
    }),
    ("the token is revoked", |world| {
        edit_token(world, 1, |token, now| token.revoked = Some(now));
    }),
    ("the token has expired", |world| {
        edit_token(world, 1, |token, now| token.expires = Some(now));
    }),
    ("the client is revoked", |world| {
        let mut row = world.config().client_of(0).cloned().expect("it enrolled");
        row.revoked = Some(portal_now(world));
        world.commit(vec![rows::set(row)]);
    }),
    (
        "the membership is removed while the client is cut off",
        |world| {
            world.cut_control(culvert_sim::access::Machine::Client(0));
            leave(world, 1);
        },
    ),
];

/// Changes that take resource 1 from everybody.
const FROM_ALL: [(&str, Change); 6] = [
    ("the policy is removed", forbid),
    ("the policy is disabled", |world| {
        world.commit(vec![rows::disabled_policy_row(1, EVERYBODY, 1)]);
    }),
    ("a condition is added", |world| {
        allow_under(world, Condition::Verified(WrittenVerified {}));
    }),
    ("the resource allows nothing", |world| {
        world.commit(vec![rows::resource_row(1, 1, "10.1.2.0/24", Vec::new())]);
    }),
    ("the resource allows another port", |world| {
        let filters = vec![rows::tcp(&[443]), Filter::Icmp];
        world.commit(vec![rows::resource_row(1, 1, "10.1.2.0/24", filters)]);
    }),
    ("the resource is elsewhere", |world| {
        let row = rows::resource_row(1, 1, "10.1.3.0/24", vec![Filter::Any]);
        world.commit(vec![row]);
    }),
];

/// Everything that was answered was sent before the end; and it went on until then.
fn assert_cut(world: &World, id: ApplicationId, what: &str, end_ms: u64, most_ms: u64) {
    let last_ms = last_ms(world.log(id));
    assert!(
        last_ms + TRIP_MS >= end_ms,
        "{what} at {end_ms} ms: it ended at {last_ms} ms"
    );
    assert!(
        last_ms <= end_ms + most_ms,
        "{what} at {end_ms} ms: what was sent at {last_ms} ms was answered"
    );
}

fn assert_undisturbed(world: &World, id: ApplicationId, what: &str, from_ms: u64) {
    let gap_ms = longest_gap_ms(world.log(id), from_ms, world.now_ms());
    assert!(
        gap_ms <= TRIP_MS,
        "{what}: another heard nothing for {gap_ms} ms"
    );
}

fn changed(seed: u64, is_traced: bool) -> Tally {
    let cases = FROM_ONE.len() + FROM_ALL.len();
    let case = usize::try_from(seed).unwrap_or(0) % cases;
    let is_for_one = case < FROM_ONE.len();
    let (what, change) = match is_for_one {
        true => FROM_ONE[case],
        false => FROM_ALL[case - FROM_ONE.len()],
    };
    let mut world = Scene::new(2, 2).world(seed, is_traced);
    let victim = application(&mut world, 0, 1);
    // Another client, or another resource of the same one.
    let other = match is_for_one {
        true => application(&mut world, 1, 1),
        false => application(&mut world, 0, 2),
    };
    world.run_ms(5_000 + seed % 997);
    let end_ms = world.now_ms();
    change(&mut world);
    world.run_ms(15_000);
    assert_cut(&world, victim, what, end_ms, CUT_MS);
    assert_undisturbed(&world, other, what, end_ms);
    world.tally().clone()
}

#[test]
fn a_change_cuts_what_it_forbids_within_a_second_and_nothing_else() {
    seeds::run(120, changed);
}

fn over_in_time(seed: u64, is_traced: bool) -> Tally {
    let is_portal_away = seed % 2 == 1;
    let mut scene = Scene::new(1, 1);
    scene.skew_ms = [0, START_MS / 2][usize::try_from(seed / 2 % 2).unwrap_or(0)];
    let mut world = scene.bare(seed, is_traced);
    let now_ms = world.portal_unix_ms();
    let (what, end_unix_ms) = match seed / 4 % 3 {
        0 => {
            let end_ms = now_ms + 20_000 + seed % 9_973;
            let at = Timestamp::from_unix_ms(end_ms);
            allow_under(&mut world, Condition::Expires(WrittenExpires { at }));
            ("the policy expires", end_ms)
        }
        1 => {
            // At least one full minute is left of the window.
            let minute = now_ms.saturating_sub(START_UNIX_MS) / 60_000;
            allow_under(&mut world, window(minute, minute + 2));
            ("the window closes", START_UNIX_MS + (minute + 2) * 60_000)
        }
        _ => {
            let end_ms = now_ms + 20_000 + seed % 9_973;
            world.commit(vec![rows::policy_row(1, EVERYBODY, 1, Vec::new())]);
            edit_token(&mut world, 1, |token, _| {
                token.expires = Some(Timestamp::from_unix_ms(end_ms));
            });
            ("the token expires", end_ms)
        }
    };
    let end_ms = world.now_ms() + (end_unix_ms - now_ms);
    let victim = application(&mut world, 0, 1);
    world.run_ms(end_ms - world.now_ms() - 5_000);
    if is_portal_away {
        world.kill_portal(seed % 4 == 1);
    }
    world.run_ms(15_000);
    let most_ms = if is_portal_away { ALONE_MS } else { CUT_MS };
    assert_cut(&world, victim, what, end_ms, most_ms);
    world.tally().clone()
}

#[test]
fn access_that_time_ends_is_cut_within_a_second_of_it_and_without_a_portal_too() {
    seeds::run(96, over_in_time);
}
