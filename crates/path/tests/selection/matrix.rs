//! Every pair of NATs: the path is direct wherever RFC 4787 says it can be.

use crate::nat::{Behaviour, Filtering, Mapping};
use crate::scene::{FRIENDLY, all_homes, behind, seconds};
use crate::world::{CLIENT, Home, World, ms};

/// The behaviour of NATs one behind the other: each filters, and one that is symmetric makes the whole so.
fn whole(home: &Home) -> Option<Behaviour> {
    let strictest = |one: Behaviour, other: Behaviour| Behaviour {
        mapping: match (one.mapping, other.mapping) {
            (Mapping::EndpointIndependent, Mapping::EndpointIndependent) => one.mapping,
            _ => Mapping::Symmetric,
        },
        filtering: match one.filtering as u8 >= other.filtering as u8 {
            true => one.filtering,
            false => other.filtering,
        },
    };
    home.nats.iter().copied().reduce(strictest)
}

/// RFC 4787: hole punching works where both NATs map independently of the endpoint, and where only one does if that
/// one lets in other ports of an address.
fn can_be_direct(one: &Home, other: &Home) -> bool {
    if one.blocks_udp || other.blocks_udp {
        return false;
    }
    let (Some(one), Some(other)) = (whole(one), whole(other)) else {
        return true;
    };
    let is_easy = |nat: Behaviour| nat.mapping == Mapping::EndpointIndependent;
    let lets_in = |nat: Behaviour| nat.filtering != Filtering::AddressAndPortDependent;
    match (is_easy(one), is_easy(other)) {
        (true, true) => true,
        (true, false) => lets_in(one),
        (false, true) => lets_in(other),
        (false, false) => false,
    }
}

#[test]
fn every_pair_of_homes_is_connected_and_directly_wherever_it_can_be() {
    let homes = all_homes();
    let (mut pairs, mut direct) = (0, 0);
    for (number, client) in homes.iter().enumerate() {
        for gateway in &homes {
            let seed = pairs;
            let mut world = World::new([client.clone(), gateway.clone()], 1, seed);
            world.run(seconds(8));
            let expected = can_be_direct(client, gateway);
            assert_eq!(
                world.is_direct(),
                expected,
                "{number}: {client:?} to {gateway:?}"
            );
            assert_eq!(
                world.is_by_tls(),
                client.blocks_udp,
                "{client:?} to {gateway:?}"
            );
            world.sends_data = false;
            world.run(seconds(1));
            let (sent, answered) = world.traffic();
            // Nothing was lost on the way from the relay to the direct path.
            assert_eq!(
                usize::try_from(sent).unwrap(),
                answered,
                "{client:?} to {gateway:?}"
            );
            assert!(sent > 100, "{client:?} to {gateway:?}");
            pairs += 1;
            direct += u64::from(expected);
        }
    }
    assert_eq!(pairs, 44 * 44);
    assert!(direct > 500, "{direct}");
}

#[test]
fn a_direct_path_is_found_within_a_second_and_taken_once() {
    for seed in 0..200 {
        let mut world = World::new([behind(&[FRIENDLY]), behind(&[FRIENDLY])], 2, seed);
        world.run(ms(1_500));
        assert!(world.is_direct(), "seed {seed}");
        world.run(seconds(120));
        assert_eq!(world.chosen.len(), 1, "seed {seed}: {:?}", world.chosen);
    }
}

#[test]
fn two_homes_behind_one_provider_that_does_not_hairpin_are_connected_by_the_relay() {
    let gateway = Home {
        nats: vec![FRIENDLY],
        shares_outermost: true,
        ..Home::default()
    };
    let mut world = World::new([behind(&[FRIENDLY, FRIENDLY]), gateway], 1, 1);
    world.run(seconds(10));
    assert!(!world.is_direct());
    let (sent, answered) = world.traffic();
    assert!(sent > 100 && answered > 100);
}

#[test]
fn two_machines_of_one_network_meet_there() {
    let gateway = Home {
        shares_outermost: true,
        ..Home::default()
    };
    let mut world = World::new([behind(&[FRIENDLY]), gateway], 1, 1);
    world.run(seconds(3));
    assert!(world.is_direct());
    let path = world.ends[CLIENT].selection.path().unwrap();
    assert_eq!(path.address, world.ends[crate::world::GATEWAY].address);
}

/// Losses delay what they cannot prevent.
#[test]
fn with_losses_the_same_pairs_are_direct_in_the_end() {
    for seed in 0..300 {
        let mut world = World::new([behind(&[FRIENDLY]), behind(&[FRIENDLY])], 2, seed);
        world.loss_per_mille = 200;
        // Six rounds of four datagrams, of which none gets through but once in ten thousand pairs; then once a second.
        world.run(seconds(130));
        // The path may just have been left since three of its datagrams were lost.
        for _ in 0..10 {
            if !world.is_direct() {
                world.run(seconds(1));
            }
        }
        assert!(world.is_direct(), "seed {seed}");
    }
}
