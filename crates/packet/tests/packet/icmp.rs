//! Errors towards the inside, and when there must be none.

use std::net::IpAddr;

use culvert_packet::icmp::{Unreachable, packet_too_big, unreachable};
use culvert_packet::ip::{IpView, Protocol};

use crate::build::{Spec, payload};
use crate::oracle::assert_accepted;

fn too_big(original: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0xA5; 1280];
    let len = packet_too_big(original, 1380, &mut out)?;
    out.truncate(len);
    Some(out)
}

/// An ICMP or ICMPv6 packet of a type.
fn icmp(v6: bool, kind: u8) -> Vec<u8> {
    let spec = if v6 {
        Spec::udp6(payload(40))
    } else {
        Spec::udp4(payload(40))
    };
    let mut packet = spec.bytes();
    if v6 {
        packet[6] = 58;
        packet[40] = kind;
    } else {
        packet[9] = 1;
        packet[20] = kind;
    }
    packet
}

#[test]
fn an_ipv4_sender_is_told_the_mtu() {
    let spec = Spec::tcp4(payload(1400));
    let error = too_big(&spec.bytes()).expect("an error");
    assert_accepted(&error);
    let view = IpView::parse(&error).expect("a packet");
    assert_eq!(
        (view.source(), view.destination()),
        (spec.destination, spec.source)
    );
    assert_eq!(view.protocol(), Protocol::ICMP);
    assert_eq!(error[1], 0xC0, "internetwork control");
    assert_eq!(error[4..9], [0, 0, 0x40, 0, 64], "an atomic datagram");
    assert_eq!(error.len(), 576);
    assert_eq!(error[20..22], [3, 4]);
    assert_eq!(error[24..28], 1380_u32.to_be_bytes());
    assert_eq!(error[28..], spec.bytes()[..548]);
}

#[test]
fn an_ipv6_sender_is_told_the_mtu() {
    let spec = Spec::udp6(payload(1400));
    let error = too_big(&spec.bytes()).expect("an error");
    assert_accepted(&error);
    let view = IpView::parse(&error).expect("a packet");
    assert_eq!(
        (view.source(), view.destination()),
        (spec.destination, spec.source)
    );
    assert_eq!(view.protocol(), Protocol::ICMPV6);
    assert_eq!(error.len(), 1280);
    assert_eq!(error[40..42], [2, 0]);
    assert_eq!(error[44..48], 1380_u32.to_be_bytes());
    assert_eq!(error[48..], spec.bytes()[..1232]);
}

#[test]
fn a_short_packet_is_quoted_whole_and_without_its_padding() {
    for spec in [Spec::tcp4(payload(30)), Spec::tcp6(payload(31))] {
        let packet = spec.bytes();
        let error = too_big(&[packet.as_slice(), &[0; 9]].concat()).expect("an error");
        assert_accepted(&error);
        assert_eq!(error[spec.ip_header_len() + 8..], packet);
    }
}

#[test]
fn a_packet_that_may_be_fragmented_is_not_too_big() {
    let mut spec = Spec::udp4(payload(1400));
    spec.dont_fragment = false;
    assert_eq!(too_big(&spec.bytes()), None);
    let mut out = [0; 1280];
    assert!(unreachable(&spec.bytes(), Unreachable::Host, &mut out).is_some());
}

#[test]
fn unreachable_has_the_codes_of_both_versions() {
    for (kind, v4, v6) in [
        (Unreachable::NoRoute, 0, 0),
        (Unreachable::Host, 1, 3),
        (Unreachable::Prohibited, 13, 1),
        (Unreachable::Port, 3, 4),
    ] {
        let mut out = [0; 1280];
        let len = unreachable(&Spec::tcp4(payload(9)).bytes(), kind, &mut out).expect("an error");
        assert_accepted(&out[..len]);
        assert_eq!(out[20..28], [&[3, v4], &out[22..24], &[0; 4]].concat());
        let len = unreachable(&Spec::tcp6(payload(9)).bytes(), kind, &mut out).expect("an error");
        assert_accepted(&out[..len]);
        assert_eq!(out[40..48], [&[1, v6], &out[42..44], &[0; 4]].concat());
    }
}

#[test]
fn there_is_no_error_about_an_error() {
    for kind in [3, 4, 5, 11, 12] {
        assert_eq!(too_big(&icmp(false, kind)), None, "ICMP type {kind}");
    }
    for kind in [1, 2, 3, 4, 127, 137] {
        assert_eq!(too_big(&icmp(true, kind)), None, "ICMPv6 type {kind}");
    }
    for kind in [0, 8] {
        assert!(too_big(&icmp(false, kind)).is_some(), "ICMP type {kind}");
    }
    for kind in [128, 129] {
        assert!(too_big(&icmp(true, kind)).is_some(), "ICMPv6 type {kind}");
    }
}

#[test]
fn an_icmp_packet_without_a_type_might_be_an_error() {
    let mut packet = icmp(false, 8);
    packet[3] = 20;
    assert_eq!(too_big(&packet[..20]), None);
    let mut packet = icmp(true, 128);
    packet[5] = 0;
    assert_eq!(too_big(&packet[..40]), None);
}

#[test]
fn there_is_no_error_about_a_later_fragment() {
    let mut packet = Spec::udp4(payload(1400)).bytes();
    packet[6..8].copy_from_slice(&[0x40, 1]);
    assert_eq!(too_big(&packet), None);
    packet[6..8].copy_from_slice(&[0x60, 0]);
    assert!(too_big(&packet).is_some(), "the first fragment");
}

#[test]
fn there_is_no_error_unless_both_ends_are_single_hosts() {
    let addresses = [
        ("0.0.0.0", Spec::udp4(payload(40))),
        ("127.0.0.1", Spec::udp4(payload(40))),
        ("224.0.0.5", Spec::udp4(payload(40))),
        ("240.0.0.1", Spec::udp4(payload(40))),
        ("255.255.255.255", Spec::udp4(payload(40))),
        ("::", Spec::udp6(payload(40))),
        ("::1", Spec::udp6(payload(40))),
        ("ff02::1", Spec::udp6(payload(40))),
    ];
    for (address, spec) in addresses {
        let address: IpAddr = address.parse().expect("an address");
        let mut from = spec.clone();
        from.source = address;
        assert_eq!(too_big(&from.bytes()), None, "from {address}");
        let mut to = spec;
        to.destination = address;
        assert_eq!(too_big(&to.bytes()), None, "to {address}");
    }
}

#[test]
fn too_short_a_buffer_gets_no_error() {
    for spec in [Spec::tcp4(payload(1400)), Spec::tcp6(payload(1400))] {
        let needed = too_big(&spec.bytes()).expect("an error").len();
        let mut out = vec![0; needed - 1];
        assert_eq!(packet_too_big(&spec.bytes(), 1380, &mut out), None);
    }
}
