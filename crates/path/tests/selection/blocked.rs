//! Networks that block UDP: TLS streams to relays instead, and UDP again once it passes.

use crate::scene::{FRIENDLY, behind, direct, longest_gap, relayed, seconds, without_udp};
use crate::world::{CLIENT, GATEWAY, World, ms};
use culvert_path::TLS_LEFT_OPEN;

/// The time within which a network that blocks UDP is recognised.
const RECOGNISED: std::time::Duration = ms(3_000);

/// The time without an answer for data until TLS carries it: the other end looks for another path meanwhile.
const REPLACED: std::time::Duration = ms(4_000);

/// The longest time between two questions whether UDP passes again, and an answer.
const ASKED_AGAIN: std::time::Duration = ms(16_500);

fn stream_count(world: &World, end: usize) -> usize {
    world.ends[end].streams.iter().flatten().count()
}

#[test]
fn an_end_whose_network_blocks_udp_is_connected_within_three_seconds() {
    for seed in 0..50 {
        for blocked in [[true, false], [false, true], [true, true]] {
            let home = |blocks| {
                if blocks {
                    without_udp()
                } else {
                    behind(&[FRIENDLY])
                }
            };
            let mut world = World::new(blocked.map(home), 2, seed);
            let begun = world.now;
            world.run(RECOGNISED);
            let first = world.ends[CLIENT].received.first().map(|(at, _)| *at);
            let first = first.unwrap_or_else(|| panic!("seed {seed}, {blocked:?}"));
            assert!(first.saturating_since(begun) < RECOGNISED);
            world.run(seconds(60));
            assert!(!world.is_direct());
            assert_eq!(world.is_by_tls(), blocked[CLIENT]);
            for end in [CLIENT, GATEWAY] {
                let streams = if blocked[end] { 2 } else { 0 };
                assert_eq!(
                    stream_count(&world, end),
                    streams,
                    "seed {seed}, {blocked:?}"
                );
            }
        }
    }
}

#[test]
fn udp_that_is_blocked_in_the_middle_is_replaced_within_three_seconds_and_wins_when_it_is_back() {
    for seed in 0..60 {
        for blocked in [[true, false], [false, true], [true, true]] {
            let is_direct = seed % 2 == 0;
            let mut world = if is_direct {
                direct(seed)
            } else {
                relayed(2, seed)
            };
            world.is_udp_blocked = blocked;
            let since = world.now;
            world.run(RECOGNISED);
            for end in [CLIENT, GATEWAY] {
                let is_recognised = world.is_registered_by_tls(end);
                assert_eq!(is_recognised, blocked[end], "seed {seed}, {blocked:?}");
            }
            world.run(seconds(20));
            assert_eq!(
                world.is_by_tls(),
                blocked[CLIENT],
                "seed {seed}, {blocked:?}"
            );
            let gap = longest_gap(&world, since);
            assert!(gap <= REPLACED, "seed {seed}, {blocked:?}: {gap:?}");

            world.is_udp_blocked = [false; 2];
            let since = world.now;
            world.run(ASKED_AGAIN);
            assert!(!world.is_by_tls(), "seed {seed}, {blocked:?}");
            world.run(TLS_LEFT_OPEN + seconds(1));
            for end in [CLIENT, GATEWAY] {
                assert_eq!(stream_count(&world, end), 0, "seed {seed}, {blocked:?}");
            }
            let gap = longest_gap(&world, since);
            assert!(gap <= ms(400), "seed {seed}, {blocked:?}: {gap:?}");
            world.run(seconds(120));
            assert_eq!(world.is_direct(), is_direct, "seed {seed}, {blocked:?}");
        }
    }
}

/// As through a proxy that allows a connection for a minute.
#[test]
fn a_stream_that_breaks_off_is_opened_again_at_once() {
    for end in [CLIENT, GATEWAY] {
        let mut world = World::new([without_udp(), without_udp()], 1, 1);
        world.run(seconds(10));
        for _ in 0..5 {
            world.run(seconds(60));
            let since = world.now;
            world.break_streams(end);
            world.run(seconds(5));
            assert_eq!(stream_count(&world, end), 1);
            let gap = longest_gap(&world, since);
            assert!(gap <= seconds(2), "{end}: {gap:?}");
        }
    }
}

#[test]
fn udp_that_fails_again_soon_needs_no_new_stream() {
    let mut world = World::new([without_udp(), behind(&[])], 1, 1);
    world.run(seconds(5));
    let stream = world.ends[CLIENT].streams.clone();
    world.is_udp_blocked = [false; 2];
    world.run(ASKED_AGAIN);
    assert!(!world.is_by_tls());
    world.is_udp_blocked = [true, false];
    world.run(RECOGNISED);
    assert!(world.is_by_tls());
    assert_eq!(world.ends[CLIENT].streams, stream);
}

/// Nothing passes for a while: it is tried less and less often, and found again.
#[test]
fn a_network_that_passes_neither_is_tried_again() {
    let mut world = World::new([without_udp(), behind(&[])], 1, 1);
    world.is_tls_blocked = [true, false];
    world.run(seconds(300));
    assert_eq!(world.chosen, []);
    world.is_tls_blocked = [false; 2];
    world.run(seconds(63));
    assert!(world.traffic().1 > 0);
}
