//! The internet checksum: RFC 1071, its incremental update (RFC 1624), the pseudo-headers of
//! IPv4 (RFC 9293 §3.1) and IPv6 (RFC 8200 §8.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ip::{IpView, Protocol};

#[cfg_attr(not(target_arch = "x86_64"), path = "checksum/base.rs")]
mod wide;

/// A ones' complement sum of 16-bit words, not yet folded, in the byte order of the machine: the
/// sum does not depend on it (RFC 1071 §2 B), so nothing is swapped until the end.
///
/// The sum of `n` bytes is below `n × 2^15 + 2^36`: a `u64` holds the sums of 2^40 bytes. Two of the same bytes may differ
/// before they are folded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`, an odd last byte being followed by a zero.
    ///
    /// A part that is added to another must begin at an even offset of the whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.len() < BLOCK {
            return Self(tail_sum(bytes));
        }
        Self(wide::sum(bytes).unwrap_or_else(|| sum_lanes(bytes)))
    }

    /// Copies `from` into `to` and returns the sum of what was copied.
    ///
    /// # Panics
    /// If the lengths differ.
    #[must_use]
    pub fn of_copy(from: &[u8], to: &mut [u8]) -> Self {
        assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
        let sum = wide::copy_and_sum(from, to).unwrap_or_else(|| {
            to.copy_from_slice(from);
            sum_lanes(to)
        });
        Self(sum)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Adds one 16-bit field.
    #[must_use]
    pub const fn plus_u16(self, field: u16) -> Self {
        Self(self.0 + field.to_be() as u64)
    }

    /// Adds one 32-bit field that begins at an even offset.
    #[must_use]
    pub const fn plus_u32(self, field: u32) -> Self {
        Self(self.0 + field.to_be() as u64)
    }

    /// The sum as the 16-bit field of a header, not complemented: what a partial checksum holds.
    #[must_use]
    pub const fn folded(self) -> u16 {
        let mut sum = (self.0 & 0xFFFF_FFFF) + (self.0 >> 32);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// The checksum to be stored: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum as UDP stores it (RFC 768): "If the computed checksum is zero, it is
    /// transmitted as all ones".
    #[must_use]
    pub const fn checksum_never_zero(self) -> u16 {
        match self.checksum() {
            0 => 0xFFFF,
            sum => sum,
        }
    }

    /// True if this, a sum over everything including the checksum field, shows no error.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xFFFF
    }
}

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

/// A header checksum after one of the 16-bit fields it covers changed from `old` to `new`:
/// RFC 1624, equation 3, `HC' = ~(~HC + ~m + m')`.
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO
        .plus_u16(!checksum)
        .plus_u16(!old)
        .plus_u16(new)
        .checksum()
}

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

/// Bytes per step of the wide loop: four 128-bit vectors, enough to hide the latency of the adds.
const BLOCK: usize = 64;
/// Blocks per run: a lane of `high` grows by at most 0xFFFF a block, so 65,537 blocks would just
/// fit a `u32`.
const RUN_BLOCKS: usize = 65_536;
const LANES: usize = BLOCK / 4;

/// Sixteen 32-bit lanes, each summing two 16-bit words a block. The obvious way widens both
/// words, four vector operations; this takes three, as all words' low halves follow from `all`:
/// modulo 2^32, `all = low + (high << 16)`, and `low` itself is below 2^32.
#[derive(Default)]
struct Lanes {
    all: [u32; LANES],
    high: [u32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<4>();
        for ((all, high), word) in self.all.iter_mut().zip(&mut self.high).zip(words) {
            let word = u32::from_ne_bytes(*word);
            *all = all.wrapping_add(word);
            *high += word >> 16;
        }
    }

    #[inline(always)]
    fn total(&self) -> u64 {
        let mut total = 0;
        for (all, high) in self.all.iter().zip(&self.high) {
            let low = all.wrapping_sub(high << 16);
            total += u64::from(low) + u64::from(*high);
        }
        total
    }
}

fn sum_lanes(bytes: &[u8]) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    let mut total = tail_sum(tail);
    for run in blocks.chunks(RUN_BLOCKS) {
        let mut lanes = Lanes::default();
        for block in run {
            lanes.add(block);
        }
        total += lanes.total();
    }
    total
}

/// The sum of fewer bytes than a block, or of a short header.
#[inline(always)]
fn tail_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total = 0;
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}
