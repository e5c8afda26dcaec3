//! Worlds that several tests begin with.

use crate::nat::{BEHAVIOURS, Behaviour, Filtering, Mapping};
use crate::world::{Home, World, ms};
use std::time::Duration;

pub(crate) const FRIENDLY: Behaviour = Behaviour {
    mapping: Mapping::EndpointIndependent,
    filtering: Filtering::AddressAndPortDependent,
};

pub(crate) const SYMMETRIC: Behaviour = Behaviour {
    mapping: Mapping::Symmetric,
    filtering: Filtering::AddressAndPortDependent,
};

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn behind(nats: &[Behaviour]) -> Home {
    Home {
        nats: nats.to_vec(),
        ..Home::default()
    }
}

/// A network that passes TCP only.
pub(crate) fn without_udp() -> Home {
    Home {
        blocks_udp: true,
        ..Home::default()
    }
}

/// Both ends behind NATs that hole punching opens, with two relays, after they have found a direct path.
pub(crate) fn direct(seed: u64) -> World {
    let mut world = World::new([behind(&[FRIENDLY]), behind(&[FRIENDLY])], 2, seed);
    world.run(seconds(3));
    assert!(world.is_direct());
    world
}

/// Both ends behind NATs that no hole punching opens.
pub(crate) fn relayed(relays: usize, seed: u64) -> World {
    let mut world = World::new([behind(&[SYMMETRIC]), behind(&[SYMMETRIC])], relays, seed);
    world.run(seconds(3));
    assert!(!world.is_direct());
    world
}

/// No NAT, one, two, and a network that blocks UDP.
pub(crate) fn all_homes() -> Vec<Home> {
    let mut homes = vec![behind(&[])];
    homes.extend(BEHAVIOURS.iter().map(|one| behind(&[*one])));
    for inner in BEHAVIOURS {
        homes.extend(BEHAVIOURS.iter().map(|outer| behind(&[inner, *outer])));
    }
    homes.push(without_udp());
    homes
}

/// The longest time for which the client had no answer, from `since` on.
pub(crate) fn longest_gap(world: &World, since: culvert_base::BootTime) -> Duration {
    let received = world.ends[crate::world::CLIENT].received.iter();
    let times = received.map(|(at, _)| *at).filter(|at| *at >= since);
    let (mut longest, mut last) = (Duration::ZERO, since);
    for at in times.chain([world.now]) {
        longest = longest.max(at.saturating_since(last));
        last = at;
    }
    longest
}

/// The time that data takes through the slower relay and back, and the data's own interval.
pub(crate) const RELAYED_ROUND_TRIP: Duration = ms(200);
