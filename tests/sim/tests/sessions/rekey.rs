//! A session is renewed every two minutes, and nobody notices.

use crate::{A, B, millis, seconds};
use culvert_session::Role;
use culvert_sim::{Conditions, World};

/// A world in which A has initiated a session with B.
fn world_with_session(seed: u64) -> World {
    let mut world = World::new(seed, 2);
    world.send(A, B, 1);
    world.run(seconds(1));
    world
}

/// 590 s of traffic, then time for what is under way.
fn traffic_for_590_seconds(world: &mut World) {
    let start = world.now();
    world.run(seconds(591));
    assert_eq!(world.model.missing(start), []);
    assert!(world.model.sent() > 10_000);
    // The first handshake, and one every 120 s under the traffic that calls for it.
    assert_eq!(world.node(A).counters.handshakes, 5);
    assert_eq!(world.node(B).counters.handshakes, 5);
    for node in [A, B] {
        assert_eq!(world.node(node).counters.not_opened, 0);
        assert_eq!(world.node(node).counters.unknown_index, 0);
        assert_eq!(world.node(node).counters.dropped_staged, 0);
    }
}

#[test]
fn a_rekey_under_load_loses_no_packet_in_either_direction() {
    let mut world = world_with_session(1);
    world.start_traffic((A, B), 4, millis(20), seconds(590));
    world.start_traffic((B, A), 3, millis(17), seconds(590));
    let start = world.now();
    traffic_for_590_seconds(&mut world);
    assert_eq!(
        world.model.longest_delay(start),
        millis(20),
        "no packet waited for a handshake"
    );
}

#[test]
fn nor_does_it_where_the_network_reorders() {
    let mut world = world_with_session(2);
    world.network.set_conditions(Conditions {
        delay: millis(1)..millis(90),
        ..Conditions::perfect(millis(0))
    });
    world.start_traffic((A, B), 4, millis(20), seconds(590));
    world.start_traffic((B, A), 3, millis(17), seconds(590));
    traffic_for_590_seconds(&mut world);
}

#[test]
fn nor_does_it_where_one_end_only_sends() {
    let mut world = world_with_session(3);
    world.start_traffic((A, B), 4, millis(20), seconds(590));
    traffic_for_590_seconds(&mut world);
}

#[test]
fn an_initiator_that_only_receives_renews_before_the_keys_expire() {
    let mut world = world_with_session(4);
    let start = world.now();
    world.start_traffic((B, A), 4, millis(20), seconds(590));
    world.run(seconds(591));
    assert_eq!(world.model.missing(start), []);
    let peer = world.node(A).peer_of(B);
    let keys = world.node(A).shaker.sending(peer);
    assert_eq!(keys.map(|keys| keys.role()), Some(Role::Initiator));
    assert_eq!(
        world.model.longest_delay(start),
        millis(20),
        "no packet waited for a handshake"
    );
}

#[test]
fn packets_wait_for_the_first_handshake_and_no_longer() {
    let mut world = World::new(5, 2);
    let start = world.now();
    world.send(A, B, 100);
    world.run(seconds(1));
    assert_eq!(world.model.missing(start), []);
    assert_eq!(
        world.model.longest_delay(start),
        millis(60),
        "initiation, response, data"
    );
}

#[test]
fn an_idle_session_is_not_renewed_and_falls_silent() {
    let mut world = World::new(6, 2);
    world.send(A, B, 1);
    world.run(seconds(590));
    for node in [A, B] {
        let node = world.node(node);
        assert_eq!(node.counters.handshakes, 1);
        assert!(node.counters.keepalives <= 1);
        assert_eq!(node.shaker.indices_in_use(), 0, "the keys are wiped");
        assert_eq!(node.shaker.next_timeout(), None);
    }
}
