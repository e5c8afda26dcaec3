//! Ends move, and are followed; nobody else can move them.

use crate::{A, B, millis, seconds};
use culvert_sim::{World, address_of};

#[test]
fn an_end_that_moves_and_sends_is_followed_at_once() {
    let mut world = World::new(1, 2);
    world.send(A, B, 1);
    world.run(seconds(1));
    world.move_node(B, address_of(50));
    world.send(B, A, 1);
    world.run(seconds(1));
    assert_eq!(world.node(A).endpoint_of(B), Some(address_of(50)));
    let moved = world.now();
    world.send(A, B, 10);
    world.run(seconds(1));
    assert_eq!(world.model.missing(moved), []);
}

#[test]
fn an_end_that_moves_and_only_listens_is_found_when_its_keepalive_comes() {
    let mut world = World::new(2, 2);
    world.set_keepalive(B, A, seconds(25));
    world.run(seconds(1));
    world.start_traffic((A, B), 1, millis(100), seconds(120));
    world.run(seconds(10));
    world.move_node(B, address_of(50));
    // B hears nothing, so only its own timer can help.
    world.run(seconds(26));
    let found = world.now();
    world.run(seconds(100));
    assert_eq!(world.model.missing(found), []);
}

#[test]
fn a_handshake_moves_the_endpoint_too() {
    let mut world = World::new(3, 2);
    world.send(A, B, 1);
    world.run(seconds(1));
    world.move_node(A, address_of(50));
    world.run(seconds(200));
    // The keys have expired: the first packet brings a handshake from the new address.
    world.send(A, B, 1);
    world.run(seconds(1));
    assert_eq!(world.node(B).endpoint_of(A), Some(address_of(50)));
    assert_eq!(world.model.missing(world.now()), []);
}

#[test]
fn both_ends_may_move_one_after_the_other() {
    let mut world = World::new(4, 2);
    world.start_traffic((A, B), 1, millis(50), seconds(300));
    world.start_traffic((B, A), 1, millis(50), seconds(300));
    for number in 0..10 {
        world.run(seconds(10));
        let moving = if number % 2 == 0 { A } else { B };
        world.move_node(moving, address_of(50 + number));
    }
    world.run(seconds(1));
    let quiet_since = world.now();
    world.run(seconds(250));
    assert_eq!(world.model.missing(quiet_since), []);
}

#[test]
fn repeating_all_that_was_ever_said_from_elsewhere_moves_nobody() {
    let mut world = World::new(5, 2);
    world.network.record();
    world.start_traffic((A, B), 1, millis(50), seconds(130));
    world.start_traffic((B, A), 1, millis(50), seconds(130));
    world.run(seconds(131));
    let recording = world.network.take_recording();
    assert!(recording.len() > 5000);
    let now = world.now();
    for (_, to, bytes) in recording {
        world.network.send(address_of(66), to, bytes, now);
    }
    world.run(seconds(1));
    assert_eq!(world.node(A).endpoint_of(B), Some(address_of(1)));
    assert_eq!(world.node(B).endpoint_of(A), Some(address_of(0)));
    let after = world.now();
    world.send(A, B, 10);
    world.run(seconds(1));
    assert_eq!(world.model.missing(after), []);
}
