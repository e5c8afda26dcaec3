//! The internet checksum against a naive reference and an independent implementation.

use culvert_packet::checksum::{ChecksumState, Sum, update, verify_transport};
use culvert_packet::ip::IpView;
use etherparse::checksum::Sum16BitWords;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::build::{Spec, naive_sum, payload};

fn verdict(packet: &[u8]) -> ChecksumState {
    verify_transport(&IpView::parse(packet).expect("a packet"))
}

proptest! {
    #[test]
    fn the_sum_equals_the_reference(bytes in vec(any::<u8>(), 0..2000)) {
        prop_assert_eq!(Sum::of(&bytes).folded(), naive_sum(&bytes));
    }

    #[test]
    fn the_checksum_equals_that_of_etherparse(bytes in vec(any::<u8>(), 1..2000)) {
        let expected = Sum16BitWords::new().add_slice(&bytes).ones_complement().to_be();
        prop_assert_eq!(Sum::of(&bytes).checksum(), expected);
    }

    #[test]
    fn sums_of_parts_cut_at_even_offsets_add_up(
        bytes in vec(any::<u8>(), 0..600),
        cut in 0_usize..300,
    ) {
        let (head, tail) = bytes.split_at((cut * 2).min(bytes.len() & !1));
        let sum = Sum::of(head).plus(Sum::of(tail));
        prop_assert_eq!(sum.folded(), naive_sum(&bytes));
    }

    #[test]
    fn a_copy_is_equal_and_has_the_sum(bytes in vec(any::<u8>(), 0..600)) {
        let mut copy = vec![0; bytes.len()];
        prop_assert_eq!(Sum::of_copy(&bytes, &mut copy).folded(), naive_sum(&bytes));
        prop_assert_eq!(copy, bytes);
    }

    #[test]
    fn fields_are_summed_in_network_order(bytes in vec(any::<u8>(), 0..64), a: u16, b: u32) {
        let even = &bytes[..bytes.len() & !1];
        let whole = [even, &a.to_be_bytes(), &b.to_be_bytes()].concat();
        prop_assert_eq!(Sum::of(even).plus_u16(a).plus_u32(b).folded(), naive_sum(&whole));
    }

    #[test]
    fn an_updated_checksum_is_as_valid_as_a_new_one(
        mut bytes in vec(any::<u8>(), 20..=20),
        new: u16,
    ) {
        bytes[10..12].fill(0);
        let sum = !naive_sum(&bytes);
        let old = u16::from_be_bytes([bytes[4], bytes[5]]);
        bytes[4..6].copy_from_slice(&new.to_be_bytes());
        bytes[10..12].copy_from_slice(&update(sum, old, new).to_be_bytes());
        prop_assume!(bytes.iter().any(|&byte| byte != 0));
        prop_assert!(Sum::of(&bytes).is_valid());
    }

    #[test]
    fn a_flipped_bit_makes_a_transport_checksum_wrong(
        bit in 0_usize..8 * 120,
        v6: bool,
        udp: bool,
    ) {
        let mut spec = if udp { Spec::udp4(payload(100)) } else { Spec::tcp4(payload(100)) };
        if v6 {
            spec = spec.over_v6();
        }
        let mut packet = spec.bytes();
        prop_assert_eq!(verdict(&packet), ChecksumState::Right);
        let bit = spec.ip_header_len() * 8 + bit % ((packet.len() - spec.ip_header_len()) * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(verdict(&packet), ChecksumState::Wrong);
    }
}

#[test]
fn every_length_and_alignment_is_summed() {
    let bytes = payload(400);
    // Miri takes an hour for all of them.
    let step = if cfg!(miri) { 37 } else { 1 };
    for start in 0..8 {
        for end in (start..bytes.len()).step_by(step) {
            let part = &bytes[start..end];
            assert_eq!(Sum::of(part).folded(), naive_sum(part), "{start}..{end}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take an hour there")]
fn no_lane_overflows_however_long_the_input() {
    // One block more than a run of lanes takes, all ones.
    for len in [65_535, 65_536 * 64, 65_537 * 64, 65_538 * 64 + 3] {
        let bytes = vec![0xFF; len];
        assert_eq!(Sum::of(&bytes).folded(), naive_sum(&bytes), "{len}");
        // From two bytes before a cache line, and from one.
        for start in [62, 64] {
            let mut copy = vec![0; 128 + len];
            let to = copy.as_ptr().align_offset(64) + start;
            let sum = Sum::of_copy(&bytes, &mut copy[to..][..len]);
            assert_eq!(sum.folded(), naive_sum(&bytes), "{len} at {start}");
        }
    }
}

#[test]
fn a_udp_datagram_without_checksum_is_unknown_over_ipv4_and_wrong_over_ipv6() {
    let mut packet = Spec::udp4(payload(10)).bytes();
    packet[26..28].fill(0);
    assert_eq!(verdict(&packet), ChecksumState::Unknown);
    let mut packet = Spec::udp6(payload(10)).bytes();
    packet[46..48].fill(0);
    assert_eq!(verdict(&packet), ChecksumState::Wrong);
}

#[test]
fn a_datagram_that_claims_more_than_the_packet_holds_is_wrong() {
    for claimed in [0_u16, 7, 19, 0xFFFF] {
        let mut packet = Spec::udp4(payload(10)).bytes();
        packet[24..26].copy_from_slice(&claimed.to_be_bytes());
        assert_eq!(verdict(&packet), ChecksumState::Wrong, "{claimed}");
    }
}

#[test]
fn a_fragment_has_no_checksum_that_could_be_checked() {
    let mut packet = Spec::udp4(payload(16)).bytes();
    packet[6] = 0x20;
    assert_eq!(verdict(&packet), ChecksumState::Unknown);
}

#[test]
fn the_checksum_of_a_source_routed_packet_cannot_be_checked() {
    // It covers the last destination, which only the routing header names.
    let plain = Spec::udp6(payload(10)).bytes();
    let routing = [17, 0, 4, 1, 0, 0, 0, 0];
    let mut packet = [&plain[..40], &routing, &plain[40..]].concat();
    packet[5] += 8;
    packet[6] = 43;
    assert_eq!(verdict(&packet), ChecksumState::Unknown);
}
