//! Splitting packets for a path that is narrower than their protocol promises.

use crate::build::Spec;
use culvert_packet::ip::IpView;
use culvert_packet::{Fragments, checksum};
use proptest::prelude::*;

const V6_FRAGMENT: u8 = 44;

/// Puts fragments together as RFC 791 and RFC 8200 have it. Returns the whole packet.
fn reassemble(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut first_header = Vec::new();
    let mut expected = 0;
    for (index, fragment) in fragments.iter().enumerate() {
        let is_last = index + 1 == fragments.len();
        let (header_len, offset, more) = if fragment[0] >> 4 == 4 {
            assert!(checksum::Sum::of(&fragment[..20]).is_valid());
            let field = u16::from_be_bytes([fragment[6], fragment[7]]);
            (20, usize::from(field & 0x1fff) * 8, field & 0x2000 != 0)
        } else {
            assert_eq!(fragment[6], V6_FRAGMENT);
            let field = u16::from_be_bytes([fragment[42], fragment[43]]);
            (48, usize::from(field & !7), field & 1 != 0)
        };
        let view = IpView::parse(fragment).expect("a packet");
        assert_eq!(view.total_len(), fragment.len());
        assert_eq!(offset, expected);
        assert_eq!(more, !is_last);
        if index == 0 {
            first_header = fragment[..header_len].to_vec();
        }
        whole.extend_from_slice(&fragment[header_len..]);
        expected = whole.len();
    }
    let mut packet = first_header;
    if packet[0] >> 4 == 4 {
        packet[6..8].fill(0);
        packet.extend_from_slice(&whole);
        let len = u16::try_from(packet.len()).expect("a short packet");
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::Sum::of(&packet[..20]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[6] = packet[40];
        packet.truncate(40);
        packet.extend_from_slice(&whole);
        let len = u16::try_from(whole.len()).expect("a short packet");
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    }
    packet
}

fn split(packet: &[u8], longest: usize) -> Option<Vec<Vec<u8>>> {
    let plan = Fragments::plan(packet, longest, 0x1234_5678)?;
    let fragments = (0..plan.count()).map(|index| {
        let mut fragment = vec![0xaa; plan.len(index)];
        plan.write(index, &mut fragment);
        fragment
    });
    Some(fragments.collect())
}

/// A datagram that may be split.
fn datagram(is_v4: bool, payload: Vec<u8>) -> Vec<u8> {
    let spec = Spec::udp4(payload);
    if is_v4 {
        Spec {
            dont_fragment: false,
            ..spec
        }
        .bytes()
    } else {
        spec.over_v6().bytes()
    }
}

proptest! {
    #[test]
    fn fragments_fit_and_are_put_together_to_the_packet(
        is_v4: bool,
        payload in proptest::collection::vec(any::<u8>(), 1..3000),
        longest in 68..1500_usize,
    ) {
        let packet = datagram(is_v4, payload);
        let fragments = split(&packet, longest).expect("it may be split");
        for (index, fragment) in fragments.iter().enumerate() {
            prop_assert!(fragment.len() <= longest);
            // One send carries records of one length, and a shorter last one.
            prop_assert!(index + 1 == fragments.len() || fragment.len() == fragments[0].len());
        }
        prop_assert_eq!(reassemble(&fragments), packet);
    }

    #[test]
    fn a_fragment_is_split_again(
        is_v4: bool,
        payload in proptest::collection::vec(any::<u8>(), 1500..3000),
        longest in 68..1200_usize,
    ) {
        let packet = datagram(is_v4, payload);
        let mut fragments = Vec::new();
        for fragment in split(&packet, 1280).expect("it may be split") {
            fragments.extend(split(&fragment, longest).expect("it may be split again"));
        }
        prop_assert_eq!(reassemble(&fragments), packet);
    }

    #[test]
    fn any_bytes_are_split_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        version in prop_oneof![Just(4_u8), Just(6)],
        longest in 0..1500_usize,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | 5;
        }
        if let Some(fragments) = split(&bytes, longest) {
            prop_assert!(fragments.iter().all(|fragment| fragment.len() <= longest));
        }
    }
}

#[test]
fn a_packet_whose_sender_forbids_it_is_not_split() {
    let packet = Spec::udp4(vec![1; 1300]).bytes();
    assert!(IpView::parse(&packet).unwrap().dont_fragment());
    assert!(split(&packet, 1200).is_none());
}

#[test]
fn a_length_without_room_for_a_part_is_refused() {
    assert!(split(&datagram(true, vec![1; 100]), 27).is_none());
    assert!(split(&datagram(false, vec![1; 100]), 55).is_none());
    assert_eq!(split(&datagram(false, vec![1; 8]), 56).unwrap().len(), 2);
}
