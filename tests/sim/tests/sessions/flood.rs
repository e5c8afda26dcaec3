//! A flood of handshake messages stops nobody (§5.3).

use crate::{A, B, C, millis, seconds};
use culvert_session::{Clock, DropReason, Handshaker, Output, PrivateKey};
use culvert_sim::{World, address_of};

/// Enough addresses to use up what needs no cookie: each has one initiation a second of a hundred.
const MANY: usize = 149;

/// Initiations with a valid mac1, as anyone can make who knows the public key of `world`'s B.
fn initiations(world: &World, count: u8) -> Vec<Vec<u8>> {
    let clock: Clock = world.clock();
    let target = world.node(B).shaker.public_key().expect("it has a key");
    let made = (0..count).map(|number| {
        let mut stranger = Handshaker::new([number; 32]);
        stranger.set_private_key(Some(PrivateKey::from_bytes([number + 1; 32])), clock);
        stranger.set_up(true, clock);
        let peer = stranger
            .add_peer(target)
            .expect("it is somebody else's key");
        stranger.handle_wanted(peer, clock);
        match stranger.poll_output() {
            Some(Output::Send { datagram, .. }) => datagram.to_vec(),
            other => panic!("no initiation but {other:?}"),
        }
    });
    made.collect()
}

/// One initiation per millisecond to B for as long as `world` runs here, half of them damaged, of `addresses`.
fn run_under_flood(world: &mut World, lasting_millis: u64, flood: &[Vec<u8>], addresses: usize) {
    for number in 0..lasting_millis as usize {
        let mut bytes = flood[number % flood.len()].clone();
        if number % 2 == 0 {
            bytes[30] ^= 0x10;
        }
        let now = world.now();
        let source = address_of(100 + number % addresses);
        world.network.send(source, address_of(B.0), bytes, now);
        world.run(millis(1));
    }
}

#[test]
fn data_keeps_flowing_and_sessions_are_renewed_under_a_flood() {
    let mut world = World::new(1, 3);
    world.send(A, B, 1);
    world.run(seconds(1));
    world.start_traffic((A, B), 1, millis(20), seconds(140));
    world.start_traffic((B, A), 1, millis(20), seconds(140));
    world.run(seconds(110));
    let flood = initiations(&world, 64);
    let start = world.now();
    run_under_flood(&mut world, 20_000, &flood, MANY);
    world.run(seconds(20));
    assert_eq!(world.model.missing(start), []);
    assert_eq!(
        world.node(A).counters.handshakes,
        2,
        "renewed at 120 s, with a cookie"
    );
    let b = world.node(B);
    assert!(b.counters.refused[&DropReason::InvalidMac1] >= 10_000);
    // A hundred a second need none, and a hundred at once.
    assert!(b.counters.refused[&DropReason::CookieRequired] > 7_500);
    assert!(b.shaker.indices_in_use() <= 4, "a stranger costs no state");
}

#[test]
fn a_new_end_gets_in_through_the_flood_with_its_cookie() {
    let mut world = World::new(2, 3);
    world.run(seconds(1));
    let flood = initiations(&world, 64);
    run_under_flood(&mut world, 500, &flood, MANY);
    let start = world.now();
    world.send(C, B, 5);
    run_under_flood(&mut world, 6_000, &flood, MANY);
    // The first initiation earns the cookie, the retransmission after five seconds carries it.
    assert_eq!(world.model.missing(start), []);
    assert_eq!(world.node(C).counters.initiations, 2);
}

#[test]
fn a_new_end_gets_in_at_once_through_the_flood_of_a_few_addresses() {
    let mut world = World::new(3, 3);
    world.run(seconds(1));
    let flood = initiations(&world, 64);
    run_under_flood(&mut world, 2_000, &flood, 10);
    let start = world.now();
    world.send(C, B, 5);
    run_under_flood(&mut world, 1_000, &flood, 10);
    assert_eq!(world.model.missing(start), []);
    assert_eq!(world.node(C).counters.initiations, 1);
    let b = world.node(B);
    assert!(b.counters.refused[&DropReason::CookieRequired] > 1_000);
}
