//! Addresses that stand for names.

use crate::packets::{ACK, SYN, echo, other, other_with, tcp, tcp_with, udp, udp_with};
use crate::setup::{CLIENT, CLIENT_V6, NAME, NAME_V6, Setup, grant, named};
use culvert_packet::{Cut, Gso, VnetHeader};
use culvert_policy::gate::{DropReason, End};
use proptest::prelude::*;

const RESOLVED: &str = "10.9.9.9";
const RESOLVED_V6: &str = "fd09::9";
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;
/// Client, the address that stands for a name, and what the name stands for.
const ENDS: [(&str, &str, &str); 2] = [(CLIENT, NAME, RESOLVED), (CLIENT_V6, NAME_V6, RESOLVED_V6)];

fn setup() -> Setup {
    Setup::new(vec![named(
        1,
        &[(NAME, RESOLVED), (NAME_V6, RESOLVED_V6)],
        &["any"],
    )])
}

#[test]
fn packets_go_to_what_the_name_stands_for_and_answers_come_from_the_name() {
    for (client, name, resolved) in ENDS {
        let mut setup = setup();
        for build in [tcp, udp] {
            let sent = setup.send(&build((client, 5000), (name, 443))).unwrap();
            assert_eq!(sent, build((client, 5000), (resolved, 443)));
            let answer = setup
                .answer(&build((resolved, 443), (client, 5000)))
                .unwrap();
            assert_eq!(answer, build((name, 443), (client, 5000)));
        }
        let sent = setup.send(&echo(client, name, 9, false)).unwrap();
        assert_eq!(sent, echo(client, resolved, 9, false));
        let answer = setup.answer(&echo(resolved, client, 9, true)).unwrap();
        assert_eq!(answer, echo(name, client, 9, true));
        let sent = setup.send(&other(client, name, 47)).unwrap();
        assert_eq!(sent, other(client, resolved, 47));
        let answer = setup.answer(&other(resolved, client, 47)).unwrap();
        assert_eq!(answer, other(name, client, 47));
        let flow = setup.gate.flows().next().unwrap();
        assert_eq!(
            (flow.visible.to_string(), flow.remote.to_string()),
            (name.to_owned(), resolved.to_owned())
        );
    }
}

#[test]
fn what_a_name_stands_for_is_not_reached_by_its_address() {
    let mut setup = setup();
    setup.assert_refuses(&tcp((CLIENT, 5000), (RESOLVED, 443)), DropReason::NoGrant);
    // Nor does an answer that claims the name's own address pass.
    assert!(setup.send(&tcp((CLIENT, 5000), (NAME, 443))).is_ok());
    setup.assert_no_answer(&tcp((NAME, 443), (CLIENT, 5000)), DropReason::NotAFlow);
}

#[test]
fn a_udp_checksum_of_zero_stays_zero() {
    for (client, name, resolved) in ENDS {
        let mut setup = setup();
        let without = |from, to| {
            let mut packet = udp(from, to);
            let at = if client == CLIENT { 26 } else { 46 };
            packet[at..at + 2].fill(0);
            packet
        };
        let sent = setup.send(&without((client, 1), (name, 2))).unwrap();
        assert_eq!(sent, without((client, 1), (resolved, 2)));
    }
}

#[test]
fn a_checksum_that_comes_to_zero_is_sent_as_all_ones() {
    // Some payload makes the translated checksum 0, which UDP writes as 0xFFFF (RFC 768).
    for (client, name, resolved) in ENDS {
        let mut setup = setup();
        let plain = udp_with((client, 1), (resolved, 2), &[0, 0]);
        let at = plain.len() - 4;
        let payload = [plain[at], plain[at + 1]];
        let expected = udp_with((client, 1), (resolved, 2), &payload);
        assert_eq!(
            expected[at..at + 2],
            [0xFF, 0xFF],
            "the payload does what it is made for"
        );
        let sent = setup
            .send(&udp_with((client, 1), (name, 2), &payload))
            .unwrap();
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut setup = setup();
    let mut packet = tcp((CLIENT, 1), (NAME, 2));
    packet[40] ^= 0x5A;
    let mut expected = tcp((CLIENT, 1), (RESOLVED, 2));
    expected[40] ^= 0x5A;
    assert_eq!(setup.send(&packet).unwrap(), expected);
}

#[test]
fn what_is_behind_a_packet_is_not_taken_for_its_checksum() {
    // DCCP and UDP-Lite have checksums, which are not looked for where the packet is too short.
    for (client, name, resolved) in ENDS {
        for protocol in [DCCP, UDP_LITE] {
            let cut = |from, to| {
                let mut packet = other(from, to, protocol);
                let header_len = if client == CLIENT { 20 } else { 40 };
                let (at, len) = if client == CLIENT { (2, 20) } else { (4, 0) };
                packet[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
                packet[header_len..].fill(0xA5);
                packet
            };
            let mut setup = setup();
            let sent = setup.send(&cut(client, name)).unwrap();
            let header_len = if client == CLIENT { 20 } else { 40 };
            assert_eq!(sent[header_len..], cut(client, resolved)[header_len..]);
        }
    }
}

#[test]
fn a_flow_keeps_its_address_while_new_ones_follow_the_name() {
    let mut setup = setup();
    assert!(setup.send(&tcp((CLIENT, 1), (NAME, 443))).is_ok());
    setup.set(vec![named(1, &[(NAME, "10.8.8.8")], &["any"])]);
    let old = setup.send(&tcp((CLIENT, 1), (NAME, 443))).unwrap();
    assert_eq!(old, tcp((CLIENT, 1), (RESOLVED, 443)));
    let answer = setup.answer(&tcp((RESOLVED, 443), (CLIENT, 1))).unwrap();
    assert_eq!(answer, tcp((NAME, 443), (CLIENT, 1)));
    let new = setup.send(&tcp((CLIENT, 2), (NAME, 443))).unwrap();
    assert_eq!(new, tcp((CLIENT, 2), ("10.8.8.8", 443)));
}

#[test]
fn an_address_that_stands_for_another_resource_begins_new_flows() {
    let mut setup = setup();
    assert!(setup.send(&tcp((CLIENT, 1), (NAME, 443))).is_ok());
    setup.set(vec![named(2, &[(NAME, "10.8.8.8")], &["any"])]);
    setup.assert_no_answer(&tcp((RESOLVED, 443), (CLIENT, 1)), DropReason::NotAFlow);
    assert_eq!(setup.ended()[0].ended, Some(End::Replaced));
    let sent = setup.send(&tcp((CLIENT, 1), (NAME, 443))).unwrap();
    assert_eq!(sent, tcp((CLIENT, 1), ("10.8.8.8", 443)));
}

#[test]
fn two_names_of_one_address_are_told_apart_by_another_port() {
    const OTHER: &str = "100.96.0.2";
    let mappings = [(NAME, RESOLVED), (OTHER, RESOLVED)];
    for build in [tcp, udp] {
        let mut setup = Setup::new(vec![
            named(1, &mappings, &["any"]),
            grant(2, "10.0.0.0/8", &["any"]),
        ]);
        let first = setup.send(&build((CLIENT, 5000), (NAME, 443))).unwrap();
        assert_eq!(first, build((CLIENT, 5000), (RESOLVED, 443)));
        // The second name, and the address itself, from the same port of the client.
        for (visible, number) in [(OTHER, 1), (RESOLVED, 2)] {
            let sent = setup.send(&build((CLIENT, 5000), (visible, 443))).unwrap();
            let port = u16::from_be_bytes([sent[20], sent[21]]);
            assert!(port >= 1024 && port != 5000, "{number}: {port}");
            assert_eq!(sent, build((CLIENT, port), (RESOLVED, 443)));
            let answer = setup
                .answer(&build((RESOLVED, 443), (CLIENT, port)))
                .unwrap();
            assert_eq!(answer, build((visible, 443), (CLIENT, 5000)));
            // It stays the same.
            let again = setup.send(&build((CLIENT, 5000), (visible, 443))).unwrap();
            assert_eq!(again, sent);
        }
        let answer = setup
            .answer(&build((RESOLVED, 443), (CLIENT, 5000)))
            .unwrap();
        assert_eq!(answer, build((NAME, 443), (CLIENT, 5000)));
        assert_eq!(setup.gate.flow_count(), 3);
    }
}

#[test]
fn two_pings_of_one_address_are_told_apart_by_another_identifier() {
    let others = [("100.96.0.2", 24), ("fd00:1::2", 44)];
    for ((client, name, resolved), (other, at)) in ENDS.into_iter().zip(others) {
        let mappings = [(name, resolved), (other, resolved)];
        let mut setup = Setup::new(vec![named(1, &mappings, &["icmp"])]);
        assert!(setup.send(&echo(client, name, 9, false)).is_ok());
        let sent = setup.send(&echo(client, other, 9, false)).unwrap();
        let identifier = u16::from_be_bytes([sent[at], sent[at + 1]]);
        assert_ne!(identifier, 9);
        assert_eq!(sent, echo(client, resolved, identifier, false));
        let answer = setup
            .answer(&echo(resolved, client, identifier, true))
            .unwrap();
        assert_eq!(answer, echo(other, client, 9, true));
    }
}

#[test]
fn udp_lite_and_dccp_get_the_checksum_of_the_other_address() {
    for (client, name, resolved) in ENDS {
        for protocol in [UDP_LITE, DCCP] {
            // All of the payload is covered, or none.
            for covered in [27, 8] {
                let build =
                    |from, to| with_coverage(from, to, protocol, covered, b"payload of odd size");
                let mut setup = setup();
                let sent = setup.send(&build(client, name));
                assert_eq!(sent, Ok(build(client, resolved)), "{protocol}");
                let answer = setup.answer(&build(resolved, client));
                assert_eq!(answer, Ok(build(name, client)), "{protocol}");
            }
        }
    }
}

#[test]
fn a_checksum_of_udp_lite_that_comes_to_zero_is_sent_as_all_ones() {
    for (client, name, resolved) in ENDS {
        let build = |from, to, payload: &[u8]| with_coverage(from, to, UDP_LITE, 10, payload);
        let checksum = |packet: &[u8]| packet[packet.len() - 4..][..2].to_vec();
        let payload = checksum(&build(client, resolved, &[0, 0]));
        let expected = build(client, resolved, &payload);
        assert_eq!(
            checksum(&expected),
            [0xFF, 0xFF],
            "the payload does what it is made for"
        );
        let sent = setup().send(&build(client, name, &payload));
        assert_eq!(sent, Ok(expected));
    }
}

#[test]
fn a_protocol_without_ports_has_one_flow_to_an_address() {
    const OTHER: &str = "100.96.0.2";
    let mappings = [(NAME, RESOLVED), (OTHER, RESOLVED)];
    let mut setup = Setup::new(vec![named(1, &mappings, &["any"])]);
    assert!(setup.send(&other(CLIENT, NAME, 47)).is_ok());
    setup.assert_refuses(&other(CLIENT, OTHER, 47), DropReason::NoPortLeft);
}

#[test]
fn a_partial_checksum_is_that_of_the_new_pseudo_header() {
    for (client, name, resolved) in ENDS {
        let mut setup = setup();
        assert!(setup.send(&tcp((client, 5000), (name, 443))).is_ok());
        let payload: Vec<u8> = (0..3000).map(|number| number as u8).collect();
        let frame = |from, to| {
            // A superframe as the kernel hands it over: the field holds the pseudo-header's sum,
            // which is what the checksum of an otherwise empty packet is the complement of.
            let mut frame = tcp_with(from, to, ACK, &payload);
            let start = frame.len() - payload.len() - 20;
            let mut rest = frame[start..].to_vec();
            let field = u16::from_be_bytes([rest[16], rest[17]]);
            rest[16..18].fill(0);
            let body = sum(&rest);
            let pseudo = sum(&[(!field).to_be_bytes(), (!body).to_be_bytes()].concat());
            frame[start + 16..start + 18].copy_from_slice(&pseudo.to_be_bytes());
            (frame, start)
        };
        let (answer, start) = frame((resolved, 443), (client, 5000));
        let translated = setup.answer_partial(&answer, 3).unwrap();
        assert_eq!(translated, frame((name, 443), (client, 5000)).0);
        // Cut into packets, it is what a host with the name's address would have sent.
        let vnet = VnetHeader {
            needs_checksum: true,
            gso: if client == CLIENT {
                Gso::Tcp4
            } else {
                Gso::Tcp6
            },
            gso_size: 1000,
            checksum_start: start as u16,
            checksum_offset: 16,
            ..VnetHeader::default()
        };
        let cut = Cut::plan(&vnet, &translated).unwrap();
        assert_eq!(cut.segments(), 3);
        let mut segment = vec![0; cut.segment_len(0)];
        cut.write_segment(&translated, 0, &mut segment);
        let mut expected = tcp_with((name, 443), (client, 5000), ACK, &payload[..1000]);
        if client == CLIENT {
            expected[4..6].copy_from_slice(&segment[4..6]);
            expected[10..12].copy_from_slice(&segment[10..12]);
        }
        assert_eq!(segment, expected);
    }
}

/// A packet of UDP-Lite (RFC 3828 §3.1) or DCCP (RFC 4340 §5.1), whose checksum is over the
/// pseudo-header and this many bytes. Of DCCP the field for their number holds something else here,
/// which translation does not look at.
fn with_coverage(from: &str, to: &str, protocol: u8, covered: usize, payload: &[u8]) -> Vec<u8> {
    let mut transport = [&[0x13, 0x88, 0x01, 0xBB, 0, covered as u8, 0, 0], payload].concat();
    let mut packet = other_with(from, to, protocol, &transport);
    let start = packet.len() - transport.len();
    let addresses = if start == 20 { 12..20 } else { 8..40 };
    let len = (transport.len() as u32).to_be_bytes();
    let pseudo_header = [&packet[addresses], &len, &[0, protocol]].concat();
    transport.truncate(covered);
    let field = match !sum(&[pseudo_header, transport].concat()) {
        0 if protocol == UDP_LITE => 0xFFFF,
        field => field,
    };
    packet[start + 6..start + 8].copy_from_slice(&field.to_be_bytes());
    packet
}

/// RFC 1071, straight from the text.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

proptest! {
    #[test]
    fn every_packet_is_the_one_that_would_have_been_sent_to_the_other_address(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        client_port in 1_u16..,
        remote_port in 1_u16..,
        flags in prop_oneof![Just(ACK), Just(SYN)],
        family in 0_usize..2,
    ) {
        let (client, name, resolved) = ENDS[family];
        let mut setup = setup();
        let (near, far) = ((name, remote_port), (resolved, remote_port));
        let client = (client, client_port);
        let sent = setup.send(&tcp_with(client, near, flags, &payload)).unwrap();
        prop_assert_eq!(sent, tcp_with(client, far, flags, &payload));
        let answer = setup.answer(&tcp_with(far, client, flags, &payload)).unwrap();
        prop_assert_eq!(answer, tcp_with(near, client, flags, &payload));
        let sent = setup.send(&udp_with(client, near, &payload)).unwrap();
        prop_assert_eq!(sent, udp_with(client, far, &payload));
        let answer = setup.answer(&udp_with(far, client, &payload)).unwrap();
        prop_assert_eq!(answer, udp_with(near, client, &payload));
    }
}
