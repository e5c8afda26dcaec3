//! Packets that wait.

use super::play::{Granting, Play, resource, resource_id, to};
use culvert_client_core::{MAX_HELD_BYTES, MAX_HELD_PER_RESOURCE, PacketFacts, PacketRefusal};
use culvert_policy::Service;
use culvert_wire::messages::{ReasonCode, ToClient};
use culvert_wire::model::{Filter, PortRange};

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
            resource: resource(number, &address),
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
        .view(play.now(), play.unix())
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
    let expected = [1, 2, 3].map(|number| (number, PacketRefusal::Unreachable));
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

/// A resource at 10.0.0.1 that has one port of TCP.
fn at_port(number: u8, port: u16) -> ToClient {
    let mut resource = resource(number, "10.0.0.1");
    let ports = vec![PortRange {
        first: port,
        last: port,
    }];
    resource.filters = vec![Filter::Tcp { ports }].into();
    ToClient::ResourceSet { resource }
}

/// A client with access to port 80 of 10.0.0.1.
fn with_port_80() -> Play {
    let mut play = Play::open(&[]);
    play.hear(at_port(1, 80));
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play
}

#[test]
fn a_packet_that_gateway_and_resources_forbid_is_refused_without_asking() {
    let mut play = with_port_80();
    play.refused_packet(2, to("10.0.0.1", 81), PacketRefusal::Prohibited);
    assert_eq!(play.refused, [(2, PacketRefusal::Prohibited)]);
    assert!(play.said.is_empty(), "{:?}", play.said);
}

#[test]
fn a_packet_that_the_gateway_forbids_and_a_newer_resource_allows_is_asked_for_and_goes_on() {
    let mut play = with_port_80();
    play.hear(at_port(2, 6007));
    play.said.clear();
    play.refused_packet(2, to("10.0.0.1", 6007), PacketRefusal::Prohibited);
    assert!(play.refused.is_empty());
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(2));
    // It is asked once, whatever comes meanwhile.
    play.refused_packet(3, to("10.0.0.1", 6007), PacketRefusal::Prohibited);
    assert!(play.said.is_empty());
    play.grant(request, 2, Granting::through(1, 2));
    assert_eq!(play.resumed, [2, 3]);
}

#[test]
fn what_the_portal_denies_after_the_gateway_has_refused_it_fails() {
    let mut play = with_port_80();
    play.hear(at_port(2, 6007));
    play.said.clear();
    play.refused_packet(2, to("10.0.0.1", 6007), PacketRefusal::Prohibited);
    let (request, ..) = play.take_request();
    play.deny(request, 2, ReasonCode::NoAccess);
    assert_eq!(play.refused, [(2, PacketRefusal::Prohibited)]);
}

#[test]
fn a_packet_of_which_the_gateway_quotes_a_part_does_not_go_on_but_is_asked_for() {
    let mut play = with_port_80();
    play.hear(at_port(2, 6007));
    play.said.clear();
    let facts = PacketFacts {
        is_whole: false,
        ..to("10.0.0.1", 6007)
    };
    play.refused_packet(2, facts, PacketRefusal::Prohibited);
    let (request, ..) = play.take_request();
    play.grant(request, 2, Granting::through(1, 2));
    assert!(play.resumed.is_empty() && play.refused.is_empty());
}

#[test]
fn a_gateway_that_refuses_what_is_granted_gets_no_packet_back() {
    let mut play = with_port_80();
    play.refused_packet(2, to("10.0.0.1", 80), PacketRefusal::Prohibited);
    assert!(play.resumed.is_empty() && play.refused.is_empty());
    assert!(play.said.is_empty());
    play.refused_packet(3, to("10.0.0.1", 80), PacketRefusal::Unreachable);
    assert_eq!(play.refused, [(3, PacketRefusal::Unreachable)]);
}

#[test]
fn facts_are_read_from_the_start_of_a_packet_as_a_gateway_quotes_it() {
    let mut quoted = vec![0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 17, 0, 0];
    quoted.extend([100, 64, 0, 9, 10, 0, 0, 1]);
    quoted.extend([0x9c, 0x40, 0, 53, 5, 200, 0, 0]);
    assert_eq!(PacketFacts::of(&quoted, 50), None);
    let facts = PacketFacts::of_quoted(&quoted, 50).unwrap();
    assert!(!facts.is_whole);
    assert_eq!(facts.service, Some(Service::Udp(53)));
    assert_eq!(facts.destination, to("10.0.0.1", 53).destination);
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
