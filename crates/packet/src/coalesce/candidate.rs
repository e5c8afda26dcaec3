//! A packet as the coalescer sees it.

use super::accept::Accept;
use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpVersion, Protocol, array};
use crate::{tcp, udp};

/// A packet of a known flow: TCP or UDP straight behind a plain IP header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) version: IpVersion,
    pub(super) transport: Transport,
    /// Bytes of transport payload.
    pub(super) payload_len: usize,
    /// True if it can be part of a group at all.
    joinable: bool,
    /// True if nothing may follow it in a group: PSH or FIN.
    last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp { header_len: usize, sequence: u32 },
    Udp,
}

/// VXLAN, Geneve, and the port VXLAN had before it was assigned one. A superframe of these would
/// be cut by outer header only, and the kernel's tunnel devices refuse it.
const ENCAPSULATION_PORTS: [u16; 3] = [4789, 6081, 8472];

impl Candidate {
    /// Bytes ahead of the payload.
    pub(super) fn header_len(&self) -> usize {
        self.ip_header_len() + self.transport.header_len()
    }

    pub(super) fn ip_header_len(&self) -> usize {
        match self.version {
            IpVersion::V4 => IPV4_HEADER_LEN,
            IpVersion::V6 => IPV6_HEADER_LEN,
        }
    }

    pub(super) fn is_joinable(&self) -> bool {
        self.joinable
    }

    /// True if others may join a group that it starts.
    pub(super) fn may_lead(&self) -> bool {
        self.joinable && !self.last
    }

    /// True if it ends the group of which it is a member, and whose first payload is `stride`
    /// bytes: `tcp_gro_receive` flushes after a shorter segment and after PSH or FIN.
    pub(super) fn ends_train(&self, stride: usize) -> bool {
        self.last || self.payload_len < stride
    }
}

impl Transport {
    pub(super) fn header_len(self) -> usize {
        match self {
            Self::Tcp { header_len, .. } => header_len,
            Self::Udp => udp::HEADER_LEN,
        }
    }

    pub(super) fn protocol(self) -> Protocol {
        match self {
            Self::Tcp { .. } => Protocol::TCP,
            Self::Udp => Protocol::UDP,
        }
    }
}

/// Finds out what `packet` is. `None` for all but those of a known flow: fragments, options, extension headers, other
/// protocols, and packets whose lengths disagree with each other.
pub(super) fn classify(packet: &[u8], accept: Accept) -> Option<Candidate> {
    let (version, protocol, transport) = match packet {
        // Version 4 and a header without options; a whole datagram, so neither "more fragments",
        // nor an offset, nor the reserved bit.
        [0x45, ..] if packet.len() >= IPV4_HEADER_LEN => {
            let total_len = u16::from_be_bytes(array(packet, 2));
            let fragment = u16::from_be_bytes(array(packet, 6));
            if usize::from(total_len) != packet.len() || fragment & 0xBFFF != 0 {
                return None;
            }
            (IpVersion::V4, packet[9], &packet[IPV4_HEADER_LEN..])
        }
        [first, ..] if first >> 4 == 6 && packet.len() >= IPV6_HEADER_LEN => {
            let payload_len = u16::from_be_bytes(array(packet, 4));
            if IPV6_HEADER_LEN + usize::from(payload_len) != packet.len() {
                return None;
            }
            (IpVersion::V6, packet[6], &packet[IPV6_HEADER_LEN..])
        }
        _ => return None,
    };
    match Protocol(protocol) {
        Protocol::TCP => tcp_candidate(version, transport, accept),
        Protocol::UDP => udp_candidate(version, transport, accept),
        _ => None,
    }
}

fn tcp_candidate(version: IpVersion, segment: &[u8], accept: Accept) -> Option<Candidate> {
    let header_len = tcp::header_len(segment)?;
    let flags = segment[tcp::FLAGS];
    let payload_len = segment.len() - header_len;
    let accepted = match version {
        IpVersion::V4 => accept.tcp4,
        IpVersion::V6 => accept.tcp6,
    };
    // URG, SYN and RST never merge in the kernel either, and CWR, which only a first segment may
    // carry there, is once in a round trip. ECE merges with its like.
    let plain = flags & !(tcp::PSH | tcp::FIN | tcp::ECE) == tcp::ACK;
    Some(Candidate {
        version,
        transport: Transport::Tcp {
            header_len,
            sequence: u32::from_be_bytes(array(segment, tcp::SEQUENCE)),
        },
        payload_len,
        joinable: accepted && plain && payload_len > 0,
        last: flags & (tcp::PSH | tcp::FIN) != 0,
    })
}

fn udp_candidate(version: IpVersion, datagram: &[u8], accept: Accept) -> Option<Candidate> {
    if datagram.len() < udp::HEADER_LEN {
        return None;
    }
    let accepted = match version {
        IpVersion::V4 => accept.udp4,
        IpVersion::V6 => accept.udp6,
    };
    let field = |offset| u16::from_be_bytes(array(datagram, offset));
    let encapsulation =
        ENCAPSULATION_PORTS.contains(&field(0)) || ENCAPSULATION_PORTS.contains(&field(2));
    // "requires non zero csum, for symmetry with GSO" (`udp_gro_receive_segment`), which also
    // leaves datagrams alone that are padded behind their own length.
    let whole = usize::from(field(udp::LENGTH)) == datagram.len() && field(udp::CHECKSUM) != 0;
    let payload_len = datagram.len() - udp::HEADER_LEN;
    Some(Candidate {
        version,
        transport: Transport::Udp,
        payload_len,
        joinable: accepted && whole && !encapsulation && payload_len > 0,
        last: false,
    })
}
