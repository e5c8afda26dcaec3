//! Checking the transport checksum of a packet.

use super::sum::Sum;
use crate::ip::{IpView, Protocol};

/// The state of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumState {
    /// It is right.
    Right,
    /// It is wrong, or a length field of the transport header lies.
    Wrong,
    /// There is none that could be checked: an IPv4 UDP datagram without one, a fragment, a
    /// source-routed packet, or a transport this crate does not know.
    Unknown,
}

/// Checks the transport checksum (TCP, UDP, ICMP, ICMPv6) of a packet.
#[must_use]
pub fn verify_transport(packet: &IpView<'_>) -> ChecksumState {
    if packet.is_fragment() || packet.is_source_routed() {
        return ChecksumState::Unknown;
    }
    let protocol = packet.protocol();
    let transport = packet.transport();
    let covered = match protocol {
        Protocol::TCP | Protocol::ICMP | Protocol::ICMPV6 => transport,
        Protocol::UDP => {
            let [_, _, _, _, high, low, sum @ ..] = transport else {
                return ChecksumState::Wrong;
            };
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            if len < 8 || len > transport.len() {
                return ChecksumState::Wrong;
            }
            if sum[..2] == [0, 0] {
                return if packet.is_v4() {
                    ChecksumState::Unknown
                } else {
                    ChecksumState::Wrong
                };
            }
            &transport[..len]
        }
        _ => return ChecksumState::Unknown,
    };
    let sum = Sum::of(covered).plus(match protocol {
        Protocol::ICMP => Sum::ZERO,
        _ => packet.pseudo_header(covered.len()),
    });
    if sum.is_valid() {
        ChecksumState::Right
    } else {
        ChecksumState::Wrong
    }
}
