//! The pseudo-headers that the checksums of TCP, UDP and ICMPv6 cover.

use super::sum::Sum;
use crate::ip::Protocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The sum of the IPv4 pseudo-header; `len` is that of the transport header and its payload.
#[must_use]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: Protocol, len: usize) -> Sum {
    Sum::ZERO
        .plus_u32(source.to_bits())
        .plus_u32(destination.to_bits())
        .plus_u16(u16::from(protocol.0))
        .plus_u32(len as u32)
}

/// The sum of the IPv6 pseudo-header; `len` is that of the transport header and its payload.
#[must_use]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: Protocol, len: usize) -> Sum {
    Sum::of(&source.octets())
        .plus(Sum::of(&destination.octets()))
        .plus_u16(u16::from(protocol.0))
        .plus_u32(len as u32)
}
