//! The fields that the view of a packet shows, and the bytes that it refuses.

use std::net::IpAddr;

use culvert_packet::PacketError;
use culvert_packet::ecn::Ecn;
use culvert_packet::ip::{IpVersion, IpView, MAX_EXTENSION_HEADERS, Protocol};

use crate::build::{Spec, payload};

/// An IPv6 packet with `extensions`, each a next-header number and its body, ahead of 12 bytes
/// that claim to be `last`.
fn extended(extensions: &[(u8, Vec<u8>)], last: u8) -> Vec<u8> {
    let mut packet = Spec::udp6(Vec::new()).bytes();
    packet.truncate(40);
    packet[6] = extensions.first().map_or(last, |(number, _)| *number);
    for (index, (_, body)) in extensions.iter().enumerate() {
        packet.push(
            extensions
                .get(index + 1)
                .map_or(last, |(number, _)| *number),
        );
        packet.extend(body);
    }
    packet.extend([0x12, 0x34, 0x56, 0x78, 0, 12, 0, 0, 1, 2, 3, 4]);
    let payload_len = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
    packet
}

fn options(words: u8) -> Vec<u8> {
    let mut body = vec![0; usize::from(words) * 8 + 7];
    body[0] = words;
    body
}

fn fragment(offset_and_more: u16) -> Vec<u8> {
    let [high, low] = offset_and_more.to_be_bytes();
    vec![0, high, low, 0, 0, 0, 1]
}

#[test]
fn an_ipv4_packet_is_what_its_header_says() {
    let mut spec = Spec::tcp4(payload(100));
    spec.traffic_class = 0xB8 | 2;
    spec.ip_options = vec![1; 8];
    let bytes = spec.bytes();
    let view = IpView::parse(&bytes).expect("a packet");
    assert_eq!(view.version(), IpVersion::V4);
    assert_eq!(view.header_len(), 28);
    assert_eq!(view.total_len(), 28 + 20 + 100);
    assert_eq!(view.source(), spec.source);
    assert_eq!(view.destination(), spec.destination);
    assert_eq!(view.protocol(), Protocol::TCP);
    assert_eq!(view.ecn(), Ecn::Ect0);
    assert_eq!(view.dscp(), 46);
    assert_eq!(view.ports(), Some((40_000, 443)));
    assert!(view.dont_fragment());
    assert!(!view.is_fragment());
}

#[test]
fn a_packet_is_from_its_source_and_from_no_other_address() {
    for (spec, other) in [
        (Spec::tcp4(payload(100)), Spec::udp6(payload(100)).source),
        (Spec::udp6(payload(100)), Spec::tcp4(payload(100)).source),
    ] {
        let bytes = spec.bytes();
        let view = IpView::parse(&bytes).expect("a packet");
        assert!(view.is_from(spec.source));
        assert!(!view.is_from(spec.destination));
        assert!(!view.is_from(other));
    }
}

#[test]
fn an_ipv6_packet_is_what_its_header_says() {
    let mut spec = Spec::udp6(payload(100));
    spec.traffic_class = 0xB8 | 3;
    spec.flow_label = 0xFFFFF;
    let bytes = spec.bytes();
    let view = IpView::parse(&bytes).expect("a packet");
    assert_eq!(view.version(), IpVersion::V6);
    assert_eq!(view.header_len(), 40);
    assert_eq!(view.total_len(), 148);
    assert_eq!(
        (view.source(), view.destination()),
        (spec.source, spec.destination)
    );
    assert_eq!(view.protocol(), Protocol::UDP);
    assert_eq!((view.ecn(), view.dscp()), (Ecn::Ce, 46));
    assert_eq!(view.ports(), Some((40_000, 443)));
    assert!(view.dont_fragment());
}

#[test]
fn bytes_behind_the_total_length_are_not_part_of_the_packet() {
    for spec in [Spec::tcp4(payload(10)), Spec::tcp6(payload(10))] {
        let packet = spec.bytes();
        let padded = [packet.as_slice(), &[0; 15]].concat();
        let view = IpView::parse(&padded).expect("a padded packet");
        assert_eq!(view.bytes(), packet);
    }
}

#[test]
fn a_total_length_beyond_the_bytes_is_refused() {
    for spec in [Spec::tcp4(payload(10)), Spec::tcp6(payload(10))] {
        let mut packet = spec.bytes();
        packet.pop();
        assert!(matches!(
            IpView::parse(&packet),
            Err(PacketError::TotalLength { .. })
        ));
    }
}

#[test]
fn a_total_length_below_the_header_is_refused() {
    for claimed in [0_u16, 19] {
        let mut packet = Spec::tcp4(payload(10)).bytes();
        packet[2..4].copy_from_slice(&claimed.to_be_bytes());
        assert!(matches!(
            IpView::parse(&packet),
            Err(PacketError::TotalLength { .. })
        ));
    }
}

#[test]
fn an_impossible_ipv4_header_length_is_refused() {
    for words in [0_u8, 4, 15] {
        let mut packet = Spec::udp4(payload(10)).bytes();
        packet[0] = 0x40 | words;
        assert_eq!(
            IpView::parse(&packet).map(|view| view.header_len()),
            Err(PacketError::HeaderLength(usize::from(words) * 4))
        );
    }
}

#[test]
fn a_truncated_fixed_header_is_refused() {
    for spec in [Spec::tcp4(Vec::new()), Spec::tcp6(Vec::new())] {
        let packet = spec.bytes();
        for len in 0..spec.ip_header_len() {
            assert!(matches!(
                IpView::parse(&packet[..len]),
                Err(PacketError::Truncated { .. })
            ));
        }
    }
}

#[test]
fn other_versions_are_refused() {
    for version in [0, 5, 7, 15] {
        let bytes = [version << 4; 60];
        assert!(matches!(IpView::parse(&bytes), Err(PacketError::Version(v)) if v == version));
    }
}

#[test]
fn ipv4_fragments_are_told_apart() {
    let mut packet = Spec::udp4(payload(16)).bytes();
    for (field, fragment, later) in [
        (0x0000_u16, false, false),
        (0x4000, false, false),
        (0x2000, true, false),
        (0x2001, true, true),
        (0x0001, true, true),
    ] {
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        let view = IpView::parse(&packet).expect("a packet");
        assert_eq!(view.is_fragment(), fragment, "{field:#x}");
        assert_eq!(view.is_later_fragment(), later, "{field:#x}");
        assert_eq!(view.ports().is_none(), later, "{field:#x}");
        assert_eq!(view.dont_fragment(), field == 0x4000);
    }
}

#[test]
fn extension_headers_are_walked_to_the_transport() {
    let authentication = [vec![1], vec![0; 10]].concat();
    let packet = extended(
        &[(0, options(0)), (60, options(2)), (51, authentication)],
        17,
    );
    let view = IpView::parse(&packet).expect("a packet");
    assert_eq!(view.protocol(), Protocol::UDP);
    assert_eq!(view.header_len(), 40 + 8 + 24 + 12);
    assert_eq!(view.ports(), Some((0x1234, 0x5678)));
    assert!(!view.is_source_routed());
}

#[test]
fn a_routing_header_is_noticed() {
    let packet = extended(&[(43, options(0))], 17);
    let view = IpView::parse(&packet).expect("a packet");
    assert!(view.is_source_routed());
    assert_eq!(view.protocol(), Protocol::UDP);
}

#[test]
fn ipv6_fragments_are_told_apart() {
    for (field, later) in [(0x0000_u16, false), (0x0001, false), (0x0008, true)] {
        let packet = extended(&[(44, fragment(field))], 17);
        let view = IpView::parse(&packet).expect("a packet");
        assert!(view.is_fragment());
        assert_eq!(view.is_later_fragment(), later);
        assert_eq!(view.ports().is_none(), later);
        assert_eq!(view.header_len(), 48);
    }
}

#[test]
fn nothing_behind_a_later_fragments_header_is_walked() {
    let packet = extended(&[(44, fragment(8))], 60);
    let view = IpView::parse(&packet).expect("a packet");
    assert_eq!((view.header_len(), view.protocol()), (48, Protocol(60)));
}

#[test]
fn the_walk_over_extension_headers_is_bounded() {
    let chain = |length| vec![(60, options(0)); length];
    let packet = extended(&chain(MAX_EXTENSION_HEADERS), 17);
    assert_eq!(
        IpView::parse(&packet).map(|view| view.protocol()),
        Ok(Protocol::UDP)
    );
    let packet = extended(&chain(MAX_EXTENSION_HEADERS + 1), 17);
    let view = IpView::parse(&packet).expect("a packet that can be routed");
    assert_eq!(view.protocol(), Protocol(60));
    assert_eq!(view.ports(), None);
}

#[test]
fn an_extension_header_longer_than_the_packet_ends_the_walk() {
    let mut packet = extended(&[(0, options(0))], 17);
    packet[41] = 200;
    let view = IpView::parse(&packet).expect("a packet that can be routed");
    assert_eq!((view.header_len(), view.protocol()), (40, Protocol(0)));
    assert_eq!(view.ports(), None);
    assert!(matches!(view.source(), IpAddr::V6(_)));
}

#[test]
fn ports_need_their_four_bytes() {
    let mut packet = Spec::udp4(Vec::new()).bytes();
    packet[3] = 23;
    assert_eq!(IpView::parse(&packet).map(|view| view.ports()), Ok(None));
}
