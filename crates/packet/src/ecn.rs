//! Explicit congestion notification through a tunnel, RFC 6040.

use crate::checksum;

/// The two ECN bits of an IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not understand ECN.
    #[default]
    NotEct,
    /// ECN-capable, codepoint ECT(1).
    Ect1,
    /// ECN-capable, codepoint ECT(0).
    Ect0,
    /// Congestion was experienced.
    Ce,
}

impl Ecn {
    /// The codepoint in the low two bits of a TOS or traffic class; the other bits are ignored.
    #[must_use]
    pub const fn from_bits(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits, as the low bits of a TOS or traffic class.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// The action for the inner packet when it leaves the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decapsulation {
    /// Forward the inner packet as it is.
    Keep,
    /// Forward it marked ECT(1): the outer header carried the milder signal of RFC 6660.
    SetEct1,
    /// Forward it marked as having experienced congestion.
    SetCe,
    /// Drop it: loss is the only signal of congestion that its transport understands.
    Drop,
}

/// The ECN field of the outer header for an inner packet.
///
/// RFC 6040 §4.1, normal mode: the field is copied, CE included.
#[must_use]
pub const fn encapsulate(inner: Ecn) -> Ecn {
    inner
}

/// The action for an inner packet that arrived under `outer`: RFC 6040 §4.2, figure 4.
#[must_use]
pub const fn decapsulate(inner: Ecn, outer: Ecn) -> Decapsulation {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => Decapsulation::Drop,
        (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => Decapsulation::SetCe,
        (Ecn::Ect0, Ecn::Ect1) => Decapsulation::SetEct1,
        _ => Decapsulation::Keep,
    }
}

/// Marks an IP packet as having experienced congestion. The caller has parsed the packet; bytes
/// that are no IP packet are left as they are.
pub fn mark_ce(packet: &mut [u8]) {
    set(packet, Ecn::Ce);
}

/// Sets the ECN field of an IP packet and updates the IPv4 header checksum (RFC 1624). Transport
/// checksums do not cover the field. Bytes that are no IP packet are left as they are.
pub fn set(packet: &mut [u8], ecn: Ecn) {
    match packet {
        [first, tos, rest @ ..] if *first >> 4 == 4 && rest.len() >= 18 => {
            let old = u16::from_be_bytes([*first, *tos]);
            *tos = *tos & !3 | ecn.bits();
            let new = u16::from_be_bytes([*first, *tos]);
            let sum = u16::from_be_bytes([rest[8], rest[9]]);
            rest[8..10].copy_from_slice(&checksum::update(sum, old, new).to_be_bytes());
        }
        [first, second, rest @ ..] if *first >> 4 == 6 && rest.len() >= 38 => {
            // The traffic class straddles the first two bytes; its low two bits are bits 5 and 4
            // of the second.
            *second = *second & 0xCF | ecn.bits() << 4;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ecn::{Ce, Ect0, Ect1, NotEct};

    #[test]
    fn the_outer_header_copies_the_inner_field() {
        for ecn in [NotEct, Ect0, Ect1, Ce] {
            assert_eq!(encapsulate(ecn), ecn);
            assert_eq!(Ecn::from_bits(ecn.bits() | 0xB8), ecn);
        }
    }

    #[test]
    fn decapsulation_is_figure_4_of_rfc_6040() {
        use Decapsulation::{Drop, Keep, SetCe, SetEct1};
        let outers = [NotEct, Ect0, Ect1, Ce];
        let table = [
            (NotEct, [Keep, Keep, Keep, Drop]),
            (Ect0, [Keep, Keep, SetEct1, SetCe]),
            (Ect1, [Keep, Keep, Keep, SetCe]),
            (Ce, [Keep, Keep, Keep, Keep]),
        ];
        for (inner, row) in table {
            for (outer, expected) in outers.into_iter().zip(row) {
                assert_eq!(
                    decapsulate(inner, outer),
                    expected,
                    "{inner:?} in {outer:?}"
                );
            }
        }
    }

    #[test]
    fn marking_ipv4_keeps_dscp_and_the_header_checksum_right() {
        for tos in 0..=u8::MAX {
            let mut packet = [
                0x45, tos, 0, 20, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ];
            let sum = checksum::Sum::of(&packet).checksum();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            mark_ce(&mut packet);
            assert_eq!(packet[1], tos | 3);
            assert!(checksum::Sum::of(&packet).is_valid());
        }
    }

    #[test]
    fn marking_ipv6_touches_two_bits_only() {
        let mut packet = [0xFF; 40];
        packet[..4].copy_from_slice(&[0x6A, 0xBC, 0xDE, 0xF1]);
        set(&mut packet, Ect1);
        assert_eq!(packet[..4], [0x6A, 0x9C, 0xDE, 0xF1]);
        set(&mut packet, NotEct);
        assert_eq!(packet[..4], [0x6A, 0x8C, 0xDE, 0xF1]);
    }

    #[test]
    fn bytes_that_are_no_packet_are_left_alone() {
        for bytes in [
            &mut [][..],
            &mut [0x45][..],
            &mut [0x60; 39][..],
            &mut [0x55; 60][..],
        ] {
            let before = bytes.to_vec();
            mark_ce(bytes);
            assert_eq!(bytes, before);
        }
    }
}
