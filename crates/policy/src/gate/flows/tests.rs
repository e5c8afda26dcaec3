//! Tests of the table itself: hashes, ports, looks in turn.

use super::*;
use crate::gate::heading::Heading;
use culvert_base::{BootTime, UnixTime};
use culvert_ids::{GrantId, ResourceId};
use culvert_packet::ip::{IpVersion, Protocol};
use std::collections::BTreeSet;

const NOW: BootTime = BootTime::from_millis(1_000_000);

fn seed(last: u64) -> Seed {
    Seed([0x1234_5678_9ABC_DEF1, 0xF00D, 0x0123_4567_89AB_CDEF, last])
}

fn flows() -> Flows {
    Flows::new(seed(0xBEEF), 1000)
}

fn key(client: u128, remote: u128, ports: (u16, u16)) -> FlowKey {
    FlowKey::of_client(&Heading {
        version: IpVersion::V6,
        protocol: Protocol::TCP,
        source: client,
        destination: remote,
        source_port: ports.0,
        destination_port: ports.1,
        ..Heading::NONE
    })
}

fn flow(near: FlowKey, far: FlowKey) -> Flow {
    let (grant, resource) = (
        GrantId::new(UnixTime::from_millis(1), [1; 10]),
        ResourceId::new(UnixTime::from_millis(1), [2; 10]),
    );
    Flow::new(near, far, PeerKey(1), grant, resource, NOW)
}

/// Computed by another program, with integers of any length.
#[test]
fn a_hash_is_two_products_of_addresses_and_seed_multiplied() {
    let flows = flows();
    let key = key(0xFD00 << 112 | 1, 0xFD01 << 112 | 2, (40_000, 443));
    assert_eq!(flows.hash(&key), 0x36D9_18CA_585C_704B);
    assert_eq!(flows.hash_datagram(&datagram(7)), 0x1307_4AF8_708B_BA8A);
}

/// As many of 64 bits as a good hash changes: fewer than 8 or more than 56 happen once in 10^10 times.
fn changes_about_half(one: u64, other: u64) -> bool {
    (8..=56).contains(&(one ^ other).count_ones())
}

#[test]
fn each_bit_of_a_flow_changes_half_of_its_hash() {
    let flows = flows();
    let hash = |client, remote, ports| flows.hash(&key(client, remote, ports));
    let (client, remote, ports) = (0xFD00 << 112 | 1, 0xFD01 << 112 | 2, (40_000, 443));
    let sound = hash(client, remote, ports);
    for bit in 0..128 {
        let changed = hash(client ^ 1 << bit, remote, ports);
        assert!(changes_about_half(sound, changed), "the client's bit {bit}");
        let changed = hash(client, remote ^ 1 << bit, ports);
        assert!(
            changes_about_half(sound, changed),
            "the resource's bit {bit}"
        );
    }
    for bit in 0..16 {
        let changed = hash(client, remote, (ports.0 ^ 1 << bit, ports.1));
        assert!(
            changes_about_half(sound, changed),
            "the first port's bit {bit}"
        );
        let changed = hash(client, remote, (ports.0, ports.1 ^ 1 << bit));
        assert!(
            changes_about_half(sound, changed),
            "the second port's bit {bit}"
        );
    }
}

#[test]
fn each_bit_of_the_seed_changes_half_of_a_hash() {
    let Seed(words) = seed(0xBEEF);
    let key = key(0xFD00 << 112 | 1, 0xFD01 << 112 | 2, (40_000, 443));
    let datagram = datagram(1);
    let hashes = |words| {
        let flows = Flows::new(Seed(words), 1);
        [flows.hash(&key), flows.hash_datagram(&datagram)]
    };
    let sound = hashes(words);
    for bit in 0..256 {
        let mut words = words;
        words[bit / 64] ^= 1 << (bit % 64);
        for (sound, changed) in sound.into_iter().zip(hashes(words)) {
            assert!(changes_about_half(sound, changed), "bit {bit}");
        }
    }
}

fn datagram(identification: u32) -> DatagramKey {
    DatagramKey {
        source: 0xFD00 << 112 | 1,
        destination: 0xFD01 << 112 | 2,
        identification,
        version: IpVersion::V6,
        protocol: None,
        is_of_client: true,
    }
}

#[test]
fn each_bit_of_a_datagram_changes_half_of_its_hash() {
    let flows = flows();
    let sound = flows.hash_datagram(&datagram(1));
    let changes = |what: &str, key: DatagramKey| {
        let changed = flows.hash_datagram(&key);
        assert!(changes_about_half(sound, changed), "{what}");
    };
    for bit in 0..128 {
        let key = datagram(1);
        let source = key.source ^ 1 << bit;
        changes(&format!("source, {bit}"), DatagramKey { source, ..key });
        let destination = key.destination ^ 1 << bit;
        changes(
            &format!("destination, {bit}"),
            DatagramKey { destination, ..key },
        );
    }
    for bit in 0..32 {
        changes(&format!("identification, {bit}"), datagram(1 ^ 1 << bit));
    }
}

#[test]
fn a_fold_is_both_halves_of_the_product() {
    assert_eq!(fold(3, 5), 15);
    assert_eq!(fold(1 << 63, 2), 1);
    assert_eq!(fold(u64::MAX, u64::MAX), u64::MAX);
    assert_eq!(fold(0x1_0000_0001, 0x1_0000_0001), 0x2_0000_0001 ^ 1);
}

#[test]
fn a_seed_is_not_shown() {
    assert_eq!(format!("{:?}", Seed::new([7; 32])), "Seed(…)");
}

#[test]
fn evictions_of_several_gates_add_up() {
    let evicted = |first| Evicted {
        own_share: first,
        full: first + 1,
        datagrams: first + 2,
        addresses: first + 3,
    };
    let mut sum = evicted(2);
    sum += evicted(10);
    let expected = Evicted {
        own_share: 12,
        full: 14,
        datagrams: 16,
        addresses: 18,
    };
    assert_eq!(sum, expected);
}

/// Enters a flow of a client for which there is room.
fn enter(flows: &mut Flows, flow: Flow) -> Place {
    let room = flows
        .room_for(flow.peer, Beginner::Client, flow.started)
        .unwrap();
    flows.insert(flow, room)
}

/// The ports by which flows to one resource are told apart that all look alike to the client.
fn far_ports(seed: Seed) -> Vec<u16> {
    let mut flows = Flows::new(seed, 1000);
    let near = key(1, 2, (5000, 443));
    let mut ports = Vec::new();
    while let Some(far) = flows.far_key(&near, 3) {
        ports.push(far.client_port());
        let near = key(1, 100 + ports.len() as u128, (5000, 443));
        enter(&mut flows, flow(near, far));
    }
    ports
}

#[test]
fn a_flow_that_looks_like_another_gets_one_of_64_ports_that_nobody_can_foresee() {
    let ports = far_ports(seed(0xBEEF_BEEF_BEEF_BEEF));
    assert_eq!(ports[0], 5000, "its own if it is free");
    assert_eq!(ports.len(), 1 + PORT_TRIES as usize);
    assert!(ports.iter().all(|port| u64::from(*port) >= FIRST_PORT));
    let distinct: BTreeSet<_> = ports.iter().collect();
    assert_eq!(distinct.len(), ports.len());
    let of_range = |part: u16| ports.iter().filter(|port| *port >> 14 == part).count();
    assert!((0..4).all(|part| of_range(part) > 5), "{ports:?}");
    assert_ne!(far_ports(seed(0xBEEF_BEEF_BEEF_BEED))[1..], ports[1..]);
}

#[test]
fn no_seed_leaves_a_single_port_to_try() {
    for last in [0, 1] {
        assert_eq!(far_ports(seed(last)).len(), 1 + PORT_TRIES as usize);
    }
}

#[test]
fn a_translated_flow_that_ended_is_found_by_neither_key() {
    let mut flows = flows();
    let plain = key(1, 2, (5000, 443));
    let (near, far) = (key(1, 3, (5000, 443)), key(1, 4, (6000, 443)));
    for (near, far) in [(plain, plain), (near, far)] {
        let place = enter(&mut flows, flow(near, far));
        assert_eq!(flows.find_near(&near), Some(place));
        assert_eq!(flows.find_far(&far), Some(place));
        flows.end(place, End::Idle);
        assert_eq!(flows.find_near(&near), None);
        assert_eq!(flows.find_far(&far), None);
    }
}

#[test]
fn each_look_begins_where_the_last_one_ended() {
    let mut flows = flows();
    let add = |flows: &mut Flows, count: u128| {
        for _ in 0..count {
            let key = key(1, 1 + flows.len() as u128, (5000, 443));
            enter(flows, flow(key, key));
        }
    };
    let look = |flows: &mut Flows| flows.next_places(6).collect::<Vec<_>>();
    assert_eq!(look(&mut flows), [0_u32; 0]);
    add(&mut flows, 10);
    assert_eq!(look(&mut flows), [0, 1, 2, 3, 4, 5]);
    assert_eq!(look(&mut flows), [6, 7, 8, 9, 0, 1]);
    add(&mut flows, 10);
    assert_eq!(look(&mut flows), [2, 3, 4, 5, 6, 7]);
}
