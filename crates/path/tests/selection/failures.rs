//! Paths that die, in one direction or in both, NATs that forget, relays that end.

use crate::nat::BEHAVIOURS;
use crate::scene::{RELAYED_ROUND_TRIP, behind, direct, longest_gap, relayed, seconds};
use crate::world::{CLIENT, GATEWAY, World, ms, relay_id};
use culvert_base::Random;
use culvert_path::{KEEP_OPEN_EVERY, LEAVE_AFTER};

#[test]
fn a_direct_path_that_is_cut_is_left_for_the_relay_within_a_second_and_taken_again() {
    for seed in 0..100 {
        let mut world = direct(seed);
        world.deaf = [true, true];
        let cut = world.now;
        world.run(seconds(10));
        let (left, _) = world.chosen[1];
        // Some data was on its way.
        assert!(
            left.saturating_since(cut) <= LEAVE_AFTER + ms(150),
            "seed {seed}"
        );
        assert!(!world.is_direct(), "seed {seed}");
        let gap = longest_gap(&world, cut);
        assert!(
            gap <= LEAVE_AFTER + ms(150) + RELAYED_ROUND_TRIP,
            "seed {seed}: {gap:?}"
        );

        world.deaf = [false, false];
        world.run(seconds(3));
        assert!(world.is_direct(), "seed {seed}");
    }
}

/// Only one direction is cut, so one end still hears the other.
#[test]
fn a_path_that_leads_one_way_only_is_left_too() {
    for deaf in [CLIENT, GATEWAY] {
        for seed in 0..100 {
            let mut world = direct(seed);
            world.deaf[deaf] = true;
            let cut = world.now;
            world.run(seconds(10));
            assert!(!world.is_direct(), "seed {seed}");
            let gap = longest_gap(&world, cut);
            assert!(
                gap <= LEAVE_AFTER + ms(150) + RELAYED_ROUND_TRIP,
                "seed {seed}: {gap:?}"
            );
        }
    }
}

#[test]
fn a_path_that_never_led_both_ways_is_never_taken() {
    for deaf in [CLIENT, GATEWAY] {
        for seed in 0..50 {
            let mut world = World::new([behind(&[]), behind(&[])], 1, seed);
            world.deaf[deaf] = true;
            world.run(seconds(30));
            assert_eq!(world.chosen, [], "seed {seed}");
        }
    }
}

#[test]
fn a_relay_that_dies_is_left_for_the_other_within_a_second() {
    for seed in 0..100 {
        let mut world = relayed(2, seed);
        let before = world.ends[CLIENT].selection.path().unwrap();
        let used = usize::from(before.relay == Some(relay_id(1)));
        world.relays[used].is_dead = true;
        let died = world.now;
        world.run(seconds(20));
        let after = world.ends[CLIENT].selection.path().unwrap();
        assert_eq!(after.relay, Some(relay_id(1 - used)), "seed {seed}");
        let gap = longest_gap(&world, died);
        assert!(
            gap <= LEAVE_AFTER + ms(150) + RELAYED_ROUND_TRIP,
            "seed {seed}: {gap:?}"
        );
    }
}

/// Nothing is sent, so nobody notices by data.
#[test]
fn a_path_that_dies_while_nothing_is_sent_is_left_before_the_next_packet() {
    let mut world = direct(1);
    world.sends_data = false;
    world.run(seconds(5));
    world.deaf = [true, true];
    world.run(KEEP_OPEN_EVERY + seconds(5));
    assert!(!world.is_direct());
    world.sends_data = true;
    let sent = world.now;
    world.run(seconds(2));
    assert!(longest_gap(&world, sent) <= RELAYED_ROUND_TRIP + ms(100));
}

#[test]
fn an_idle_direct_path_is_kept_open_through_nats_that_forget() {
    let mut world = direct(1);
    world.sends_data = false;
    // Longer than NATs remember, shorter than the life of a session.
    world.run(seconds(170));
    let chosen = world.chosen.len();
    world.sends_data = true;
    let since = world.now;
    world.run(seconds(3));
    assert!(world.is_direct());
    assert_eq!(world.chosen.len(), chosen);
    assert!(longest_gap(&world, since) < ms(200));
}

#[test]
fn a_nat_that_forgets_costs_a_second_and_the_path_is_direct_again() {
    for nat in [0, 1] {
        for seed in 0..100 {
            let mut world = direct(seed);
            world.nats[nat].rebind();
            let since = world.now;
            world.run(seconds(20));
            let gap = longest_gap(&world, since);
            // Relays learn the new address with the next sign of life, 5 s at most here.
            assert!(
                gap <= seconds(5) + LEAVE_AFTER + ms(150) + RELAYED_ROUND_TRIP,
                "seed {seed}: {gap:?}"
            );
            assert!(world.is_direct(), "nat {nat}, seed {seed}");
        }
    }
}

/// Everything at once, in worlds drawn at random: a path is never believed before it is proven in both directions (the
/// world checks each choice), and the pair is connected once things are quiet.
#[test]
fn thousands_of_histories() {
    for seed in 0..2_000 {
        history(seed);
    }
}

fn history(seed: u64) {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut home = || {
        let nats = usize::try_from(random.up_to(2)).unwrap();
        let behaviours = (0..nats).map(|_| BEHAVIOURS[usize::try_from(random.up_to(5)).unwrap()]);
        behind(&behaviours.collect::<Vec<_>>())
    };
    let homes = [home(), home()];
    let relays = usize::try_from(random.up_to(1)).unwrap() + 1;
    let mut world = World::new(homes.clone(), relays, seed);
    world.loss_per_mille = random.up_to(100);
    world.run(seconds(2));
    for _ in 0..random.up_to(6) {
        match random.up_to(7) {
            0 => world.deaf[usize::try_from(random.up_to(1)).unwrap()] ^= true,
            1 => world.deaf = [true, true],
            2 => {
                let relay = usize::try_from(random.up_to(relays as u64 - 1)).unwrap();
                world.relays[relay].is_dead ^= true;
            }
            3 if !world.nats.is_empty() => {
                let nat = usize::try_from(random.up_to(world.nats.len() as u64 - 1)).unwrap();
                world.nats[nat].rebind();
            }
            4 => world.sends_data ^= true,
            5 => world.is_udp_blocked[usize::try_from(random.up_to(1)).unwrap()] ^= true,
            6 => world.break_streams(usize::try_from(random.up_to(1)).unwrap()),
            _ => {
                let now = world.now;
                world.ends[CLIENT].selection.handle_network_changed(now);
            }
        }
        world.run(ms(random.up_to(8_000)));
    }
    world.loss_per_mille = 0;
    world.deaf = [false, false];
    world.is_udp_blocked = [false; 2];
    world
        .relays
        .iter_mut()
        .for_each(|relay| relay.is_dead = false);
    world.sends_data = true;
    world.run(seconds(40));
    let since = world.now;
    world.run(seconds(5));
    let gap = longest_gap(&world, since);
    assert!(gap <= ms(300), "seed {seed}, {homes:?}: {gap:?}");
}
