//! Strangers: what they replay, forge and send from elsewhere moves nothing.

use crate::scene::{direct, relayed, seconds};
use crate::world::{CLIENT, GATEWAY, ms};
use std::net::SocketAddr;

fn stranger(host: u8) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, host], 9))
}

#[test]
fn answers_that_come_again_from_elsewhere_prove_nothing() {
    let mut world = relayed(1, 3);
    for round in 0..50 {
        world.run(ms(200));
        for (source, end, bytes) in world.overheard.clone() {
            // From where it came, and from somewhere else.
            world.inject(source, end, bytes.clone());
            world.inject(stranger(round), end, bytes);
        }
        world.overheard.clear();
    }
    world.run(seconds(5));
    // Each choice is checked by the world. There was none.
    assert_eq!(world.chosen, []);
}

/// A stranger that sees everything and is faster than the ends becomes no path: what it repeats does not come from where
/// the probe went.
#[test]
fn probes_and_answers_that_overtake_their_originals_prove_nothing() {
    for seed in 0..50 {
        let mut world = relayed(2, seed);
        world.repeated_by = Some(stranger(1));
        let now = world.now;
        world.ends[CLIENT].selection.handle_network_changed(now);
        world.run(seconds(60));
        world.relays[0].is_dead = true;
        world.run(seconds(20));
        // The world checks each choice. The relay that is left is the only one.
        assert!(world.chosen.len() <= 1, "{:?}", world.chosen);
        assert!(!world.is_direct());
    }
}

#[test]
fn no_change_of_any_byte_is_taken_for_a_probe() {
    let mut world = direct(4);
    world.overheard.clear();
    world.ends[CLIENT]
        .selection
        .handle_network_changed(world.now);
    world.run(ms(500));
    let overheard = std::mem::take(&mut world.overheard);
    let now = world.now;
    assert!(overheard.len() > 4);
    for (source, end, bytes) in overheard {
        for byte in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[byte] ^= 1;
            let message = culvert_relay_core::Message::parse(&changed);
            let selection = &mut world.ends[end].selection;
            let taken =
                message.is_some_and(|message| selection.handle_message(&message, source, now));
            assert!(!taken, "byte {byte}");
        }
    }
}

/// A probe that is recorded and sent again and again, as if by others.
#[test]
fn a_flood_of_recorded_probes_is_answered_64_times_a_second_at_most() {
    let mut world = direct(5);
    let probe = world
        .overheard
        .iter()
        .find(|(_, end, bytes)| *end == GATEWAY && bytes[3] == 9);
    let bytes = probe.unwrap().2.clone();
    world.sends_data = false;
    world.run(seconds(1));
    let now = world.now;
    let selection = &mut world.ends[GATEWAY].selection;
    let mut sent = 0;
    for number in 0..10_000_u32 {
        let source = SocketAddr::from(([198, 18, (number >> 8) as u8, number as u8], 9));
        let message = culvert_relay_core::Message::parse(&bytes).unwrap();
        selection.handle_message(&message, source, now);
        while selection.poll_output().is_some() {
            sent += 1;
        }
    }
    assert!(sent <= 64, "{sent}");
    assert!(selection.candidates().len() <= culvert_path::CANDIDATES_MAX);
}
