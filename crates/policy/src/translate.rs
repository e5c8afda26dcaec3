//! Replaces addresses and ports of a packet in place, and mends its checksums.
//!
//! Checksums are updated by the changed fields (RFC 1624), never computed anew. A packet that was
//! damaged on its way stays recognisably damaged, and a superframe of 64 KiB costs as much as a
//! packet of 40 bytes.

use crate::gate::{Heading, Kind, Quotation};
use culvert_packet::checksum::Sum;
use culvert_packet::ip::{IpVersion, Protocol};

/// The content of a packet's transport checksum field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum.
    #[default]
    Complete,
    /// The sum of the pseudo-header alone, to be completed by whoever cuts or sends the frame
    /// (`needs_checksum` of [`culvert_packet::VnetHeader`]).
    Partial,
}

/// The values to put into a packet's headers. Each is of the packet's own family, IPv4 addresses in
/// the low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewrite {
    pub(crate) source: Option<u128>,
    pub(crate) destination: Option<u128>,
    /// Of ICMP queries and answers the identifier, whichever of the two ports is given.
    pub(crate) source_port: Option<u16>,
    pub(crate) destination_port: Option<u16>,
}

const ICMP_CHECKSUM: usize = 2;
const ICMP_IDENTIFIER: usize = 4;
const TCP_CHECKSUM: usize = 16;
/// Of UDP, and in the same place of UDP-Lite (RFC 3828) and DCCP (RFC 4340 §5.1).
const UDP_CHECKSUM: usize = 6;

const UDP_LITE: Protocol = Protocol(136);
const DCCP: Protocol = Protocol(33);

/// Rewrites a packet, whole or a fragment, whose headings were read from it.
pub(crate) fn rewrite(packet: &mut [u8], heading: &Heading, change: &Rewrite, checksum: Checksum) {
    rewrite_headers(&mut packet[..heading.len], heading, change, checksum);
}

/// Rewrites an ICMP error and what it quotes.
pub(crate) fn rewrite_error(
    packet: &mut [u8],
    heading: &Heading,
    change: &Rewrite,
    quotation: &Quotation,
    quoted_change: &Rewrite,
    checksum: Checksum,
) {
    let packet = &mut packet[..heading.len];
    let quoted = &mut packet[quotation.start..];
    let quoted = rewrite_headers(
        quoted,
        &quotation.heading,
        quoted_change,
        Checksum::Complete,
    );
    rewrite_headers(packet, heading, change, checksum);
    // The quotation is what the error's own checksum covers.
    if checksum == Checksum::Complete {
        update(packet, heading.transport + ICMP_CHECKSUM, quoted, false);
    }
}

/// Rewrites the headers of `packet`, which ends where it says; returns by how much the sum of its bytes changed.
fn rewrite_headers(
    packet: &mut [u8],
    heading: &Heading,
    change: &Rewrite,
    checksum: Checksum,
) -> Sum {
    let mut addresses = Sum::ZERO;
    let (source_at, destination_at) = match heading.version {
        IpVersion::V4 => (12, 16),
        IpVersion::V6 => (8, 24),
    };
    for (at, new) in [
        (source_at, change.source),
        (destination_at, change.destination),
    ] {
        if let Some(new) = new {
            addresses = addresses.plus(replace_address(packet, at, heading.version, new));
        }
    }
    let mut total = addresses;
    if heading.version == IpVersion::V4 {
        total = total.plus(update(packet, 10, addresses, false));
    }
    let Some(place) = Transport::of(heading, packet.len()) else {
        return total;
    };
    let mut covered = if place.has_pseudo_header {
        addresses
    } else {
        Sum::ZERO
    };
    for (at, new) in [
        (place.source_port, change.source_port),
        (place.destination_port, change.destination_port),
    ] {
        if let (Some(at), Some(new)) = (at, new) {
            let delta = replace(packet, at, new.to_be_bytes());
            total = total.plus(delta);
            if checksum == Checksum::Complete {
                covered = covered.plus(delta);
            }
        }
    }
    let field = match place.checksum {
        Some(at)
            if place.is_never_zero
                && packet[at..at + 2] == [0, 0]
                && checksum == Checksum::Complete =>
        {
            None
        }
        field => field,
    };
    let Some(at) = field else { return total };
    total.plus(match checksum {
        Checksum::Complete => update(packet, at, covered, place.is_never_zero),
        Checksum::Partial => {
            let sum = Sum::of(&packet[at..at + 2]).plus(covered);
            replace(packet, at, sum.folded().to_be_bytes())
        }
    })
}

/// The offsets of a transport header's fields, in bytes from the packet's start; none for fields
/// that it does not have.
struct Transport {
    source_port: Option<usize>,
    destination_port: Option<usize>,
    checksum: Option<usize>,
    has_pseudo_header: bool,
    /// True if a computed 0 is sent as all ones (RFC 768; RFC 3828 §3.1). A field of 0 then holds no
    /// checksum, and stays 0.
    is_never_zero: bool,
}

impl Transport {
    /// None where the packet has no transport header that is known.
    fn of(heading: &Heading, packet_len: usize) -> Option<Self> {
        if heading.kind == Kind::LaterFragment {
            return None;
        }
        // Packets quoted by errors may end anywhere.
        let field = |offset: usize| {
            let at = heading.transport + offset;
            (at + 2 <= packet_len).then_some(at)
        };
        let none = Self {
            source_port: None,
            destination_port: None,
            checksum: None,
            has_pseudo_header: true,
            is_never_zero: false,
        };
        // An identifier is one field for both directions; errors have none.
        let identifier = field(ICMP_IDENTIFIER).filter(|_| heading.kind != Kind::Error);
        Some(match (heading.protocol, heading.version) {
            (Protocol::TCP, _) => Self {
                source_port: field(0),
                destination_port: field(2),
                checksum: field(TCP_CHECKSUM),
                ..none
            },
            (Protocol::UDP, _) => Self {
                source_port: field(0),
                destination_port: field(2),
                checksum: field(UDP_CHECKSUM),
                is_never_zero: true,
                ..none
            },
            (UDP_LITE | DCCP, _) => Self {
                checksum: field(UDP_CHECKSUM),
                is_never_zero: heading.protocol == UDP_LITE,
                ..none
            },
            (Protocol::ICMP, IpVersion::V4) => Self {
                source_port: identifier,
                destination_port: identifier,
                checksum: field(ICMP_CHECKSUM),
                has_pseudo_header: false,
                ..none
            },
            (Protocol::ICMPV6, IpVersion::V6) => Self {
                source_port: identifier,
                destination_port: identifier,
                checksum: field(ICMP_CHECKSUM),
                ..none
            },
            _ => return None,
        })
    }
}

/// RFC 1624, equation 3: `HC' = ~(~HC + ~m + m')`, where `delta` is `~m + m'`. Returns by how much
/// the sum of the field itself changed.
fn update(packet: &mut [u8], at: usize, delta: Sum, never_zero: bool) -> Sum {
    let old = u16::from_be_bytes([packet[at], packet[at + 1]]);
    let sum = Sum::ZERO.plus_u16(!old).plus(delta);
    let new = match never_zero {
        true => sum.checksum_never_zero(),
        false => sum.checksum(),
    };
    replace(packet, at, new.to_be_bytes())
}

fn replace_address(packet: &mut [u8], at: usize, version: IpVersion, new: u128) -> Sum {
    match version {
        IpVersion::V4 => replace(packet, at, (new as u32).to_be_bytes()),
        IpVersion::V6 => replace(packet, at, new.to_be_bytes()),
    }
}

/// Puts `new` at an even offset and returns `~m + m'`.
fn replace<const N: usize>(packet: &mut [u8], at: usize, new: [u8; N]) -> Sum {
    let mut complement = [0; N];
    complement.copy_from_slice(&packet[at..at + N]);
    for byte in &mut complement {
        *byte = !*byte;
    }
    packet[at..at + N].copy_from_slice(&new);
    Sum::of(&complement).plus(Sum::of(&new))
}
