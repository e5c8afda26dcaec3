//! Packets that wait.

use super::play::{Granting, Play, to};
use culvert_client::core::{MAX_HELD_BYTES, MAX_HELD_PER_RESOURCE, PacketFacts, Refusal};
use culvert_wire::messages::ToClient;

#[test]
fn the_oldest_packet_gives_way() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let count = u32::try_from(MAX_HELD_PER_RESOURCE).unwrap() + 3;
    for number in 0..count {
        play.packet(number, to("10.0.0.1", 80));
    }
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(1, 1));
    assert_eq!(play.resumed, (3..count).collect::<Vec<_>>());
    assert_eq!(play.client.counters().packets_displaced, 3);
}

#[test]
fn packets_that_wait_have_bounded_memory() {
    let mut play = Play::open(&[]);
    for number in 1..=100_u8 {
        let address = format!("10.0.0.{number}");
        play.hear(ToClient::ResourceSet {
            resource: super::play::resource(number, &address),
        });
        for _ in 0..40 {
            let facts = PacketFacts {
                size_bytes: 65_000,
                ..to(&address, 80)
            };
            play.packet(1, facts);
        }
    }
    let held: usize = play
        .client
        .view(play.now_ms, play.unix_ms())
        .resources
        .iter()
        .map(|resource| resource.held_packets)
        .sum();
    assert!(held > 0 && held * 65_000 <= MAX_HELD_BYTES, "{held}");
}

#[test]
fn a_packet_to_nowhere_is_unreachable() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.packet(1, to("192.0.2.1", 80));
    play.packet(2, to("100.96.0.77", 80));
    play.packet(3, to("fd00:2021:1111::77", 80));
    let expected = [1, 2, 3].map(|number| (number, Refusal::Unreachable));
    assert_eq!(play.refused, expected);
    assert!(play.said.is_empty());
}

#[test]
fn a_packet_that_crossed_the_grant_goes_on() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.packet(2, to("10.0.0.1", 80));
    assert_eq!(play.resumed, [2]);
    assert!(play.said.is_empty());
}

#[test]
fn a_fragment_without_ports_asks_like_any_packet() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let facts = PacketFacts {
        service: None,
        ..to("10.0.0.1", 0)
    };
    play.packet(1, facts);
    play.take_request();
}

#[test]
fn facts_are_read_from_a_packet() {
    let syn = {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend([100, 64, 0, 9, 10, 0, 0, 1]);
        packet.extend([0x9c, 0x40, 0x01, 0xbb]);
        packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        packet
    };
    let facts = PacketFacts::of(&syn, 50).unwrap();
    assert_eq!(
        facts,
        PacketFacts {
            size_bytes: 50,
            ..to("10.0.0.1", 443)
        }
    );
    let mut later_fragment = syn;
    later_fragment[7] = 1;
    assert_eq!(PacketFacts::of(&later_fragment, 50).unwrap().service, None);
    assert_eq!(PacketFacts::of(&[], 0), None);
}
