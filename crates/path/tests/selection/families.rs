//! IPv6 beside IPv4: taken where it works, and no delay where it is announced and dead.

use crate::scene::{FRIENDLY, SYMMETRIC, behind, seconds};
use crate::world::{CLIENT, Home, Ipv6, World};
use culvert_base::BootTime;
use std::net::SocketAddr;

fn run(client: &Home, gateway: &Home, ipv6: Option<Ipv6>, seed: u64) -> World {
    let mut world = World::new([client.clone(), gateway.clone()], 1, seed);
    world.ipv6 = ipv6;
    world.run(seconds(10));
    world
}

/// The schedule that a user sees: the first answer, and each change of the path.
fn schedule(world: &World) -> (Option<BootTime>, Vec<(BootTime, SocketAddr)>) {
    let mut received = world.ends[CLIENT].received.iter();
    let first = received.find(|(_, number)| *number > 0);
    (first.map(|(at, _)| *at), world.chosen.clone())
}

#[test]
fn ipv6_that_drops_everything_delays_neither_the_first_packet_nor_a_direct_path() {
    let homes = [behind(&[]), behind(&[FRIENDLY]), behind(&[SYMMETRIC])];
    for seed in 0..20 {
        for client in &homes {
            for gateway in &homes {
                let plain = schedule(&run(client, gateway, None, seed));
                assert!(plain.0.is_some(), "{client:?} to {gateway:?}");
                let dead = schedule(&run(client, gateway, Some(Ipv6::Dead), seed));
                assert_eq!(dead, plain, "seed {seed}: {client:?} to {gateway:?}");
            }
        }
    }
}

#[test]
fn ipv6_that_works_is_taken_also_where_nats_of_ipv4_leave_no_direct_path() {
    for home in [behind(&[]), behind(&[FRIENDLY]), behind(&[SYMMETRIC])] {
        for seed in 0..20 {
            let world = run(&home, &home, Some(Ipv6::Works), seed);
            assert!(world.is_direct(), "seed {seed}: {home:?}");
            assert_eq!(world.chosen.len(), 1, "seed {seed}: {home:?}");
            assert!(world.chosen[0].1.is_ipv6(), "seed {seed}: {home:?}");
        }
    }
}
