//! A superframe in the making.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::candidate::{Candidate, Transport};
use crate::checksum::{Sum, pseudo_v4, pseudo_v6};
use crate::ip::{IPV6_HEADER_LEN, IpVersion, array};
use crate::{Gso, MAX_PACKET_LEN, VnetHeader, tcp, udp};

/// The most datagrams in a superframe of UDP: kernels before 6.9 accept no more from a TUN
/// (`UDP_MAX_SEGMENTS` was 64), later ones coalesce no more themselves (`UDP_GRO_CNT_MAX`).
pub const MAX_UDP_GROUP_PACKETS: usize = 64;

/// Packets of one flow that become one frame. Its first packet's headers are read where they lie in
/// the buffer.
#[derive(Debug)]
pub(super) struct Group {
    /// Index of its first packet.
    pub(super) first: usize,
    /// Index of its last packet.
    pub(super) last: usize,
    /// The start of its first packet in the buffer.
    start: usize,
    /// Its first packet; `None` for one of no known flow, which stays alone.
    lead: Option<Candidate>,
    packets: usize,
    /// Length of the frame, headers included.
    total_len: usize,
    /// TCP flags of the packets that joined.
    later_tcp_flags: u8,
    /// True if the first packet's checksums were found right; they are checked once a second packet
    /// joins.
    lead_is_right: bool,
}

impl Group {
    /// A group of one: packet number `packet`, which starts at `start`.
    pub(super) fn new(packet: usize, start: usize, lead: Option<&Candidate>) -> Self {
        Self {
            first: packet,
            last: packet,
            start,
            lead: lead.copied(),
            packets: 1,
            total_len: lead.map_or(0, |lead| lead.header_len() + lead.payload_len),
            later_tcp_flags: 0,
            lead_is_right: false,
        }
    }

    /// Payload bytes of its first packet, which all others have but the last.
    pub(super) fn stride(&self) -> usize {
        self.lead.map_or(0, |lead| lead.payload_len)
    }

    /// TCP flags of its packets behind the first.
    pub(super) const fn later_tcp_flags(&self) -> u8 {
        self.later_tcp_flags
    }

    /// True if `packet` is of this group's flow: addresses, protocol and ports.
    #[inline]
    pub(super) fn is_flow_of(&self, buffer: &[u8], packet: &[u8], candidate: &Candidate) -> bool {
        let Some(lead) = &self.lead else { return false };
        let first = &buffer[self.start..];
        lead.version == candidate.version
            && lead.transport.protocol() == candidate.transport.protocol()
            && match lead.version {
                // Addresses and, behind a header without options, the ports.
                IpVersion::V4 => array::<12>(first, 12) == array::<12>(packet, 12),
                IpVersion::V6 => array::<36>(first, 8) == array::<36>(packet, 8),
            }
    }

    /// True if `packet`, of whatever kind, may be of the same two hosts in the same direction.
    /// Bytes that are no IP packet may be of any hosts.
    pub(super) fn is_between_hosts_of(&self, buffer: &[u8], packet: &[u8]) -> bool {
        let Some(lead) = &self.lead else { return true };
        let first = &buffer[self.start..];
        match packet.first().map(|byte| byte >> 4) {
            Some(4) if packet.len() >= 20 => {
                lead.version == IpVersion::V4 && array::<8>(first, 12) == array::<8>(packet, 12)
            }
            Some(6) if packet.len() >= 40 => {
                lead.version == IpVersion::V6 && array::<32>(first, 8) == array::<32>(packet, 8)
            }
            _ => true,
        }
    }

    /// Takes `packet`, which is of this flow, into the group if it continues it: says whether.
    pub(super) fn try_join(&mut self, buffer: &[u8], packet: &[u8], joining: &Candidate) -> bool {
        let Some(lead) = self.lead else { return false };
        let first = &buffer[self.start..self.start + lead.header_len() + lead.payload_len];
        let continues = joining.is_joinable()
            && joining.payload_len <= lead.payload_len
            && self.total_len + joining.payload_len <= MAX_PACKET_LEN
            && self.ip_header_continues(first, packet, &lead)
            && match (lead.transport, joining.transport) {
                (Transport::Tcp { .. }, Transport::Tcp { .. }) => {
                    self.tcp_header_continues(first, packet, &lead, joining)
                }
                (Transport::Udp, Transport::Udp) => self.packets < MAX_UDP_GROUP_PACKETS,
                _ => false,
            };
        if !continues {
            return false;
        }
        // A superframe's checksum vouches for all of it: a packet whose own is wrong must not
        // come under it.
        self.lead_is_right = self.lead_is_right || checksums_are_right(first, &lead);
        if !self.lead_is_right || !checksums_are_right(packet, joining) {
            return false;
        }
        if let Transport::Tcp { .. } = joining.transport {
            self.later_tcp_flags |= packet[joining.ip_header_len() + tcp::FLAGS];
        }
        self.packets += 1;
        self.total_len += joining.payload_len;
        true
    }

    /// Makes the group's first packet in `buffer` the head of its frame, and says what the kernel
    /// has to be told about it.
    pub(super) fn finish(&self, buffer: &mut [u8]) -> VnetHeader {
        let Some(lead) = self.lead.filter(|_| self.packets > 1) else {
            return VnetHeader::default();
        };
        let header = &mut buffer[self.start..self.start + lead.header_len()];
        let transport_start = lead.ip_header_len();
        let transport_len = self.total_len - transport_start;
        patch_ip(header, lead.version, self.total_len);
        let pseudo = pseudo_header(header, &lead, transport_len)
            .folded()
            .to_be_bytes();

        let transport = &mut header[transport_start..];
        let (gso, checksum_offset) = match (lead.transport, lead.version) {
            (Transport::Tcp { .. }, version) => {
                transport[tcp::FLAGS] |= self.later_tcp_flags & (tcp::FIN | tcp::PSH);
                let gso = match version {
                    IpVersion::V4 => Gso::Tcp4,
                    IpVersion::V6 => Gso::Tcp6,
                };
                (gso, tcp::CHECKSUM)
            }
            (Transport::Udp, _) => {
                transport[udp::LENGTH..][..2]
                    .copy_from_slice(&(transport_len as u16).to_be_bytes());
                (Gso::Udp, udp::CHECKSUM)
            }
        };
        transport[checksum_offset..][..2].copy_from_slice(&pseudo);
        VnetHeader {
            needs_checksum: true,
            gso,
            // Packets with CWR never join.
            ecn: false,
            header_len: lead.header_len() as u16,
            gso_size: lead.payload_len as u16,
            checksum_start: transport_start as u16,
            checksum_offset: checksum_offset as u16,
        }
    }

    /// The rules of `inet_gro_receive` and `ipv6_gro_receive`: everything but length, checksum
    /// and identification is equal.
    #[inline]
    fn ip_header_continues(&self, first: &[u8], packet: &[u8], lead: &Candidate) -> bool {
        match lead.version {
            IpVersion::V4 => {
                let dont_fragment = packet[6] & 0x40 != 0;
                let id = u16::from_be_bytes(array(first, 4)).wrapping_add(self.packets as u16);
                // TOS, then flags, then time to live.
                packet[1] == first[1]
                    && packet[6] == first[6]
                    && packet[8] == first[8]
                    && (dont_fragment || id == u16::from_be_bytes(array(packet, 4)))
            }
            // Version, traffic class and flow label; hop limit.
            IpVersion::V6 => array::<4>(packet, 0) == array::<4>(first, 0) && packet[7] == first[7],
        }
    }

    /// The rules of `tcp_gro_receive`. Stricter: the window and the urgent pointer must be equal
    /// too, as they would be lost; a sender of bulk data rarely changes its window.
    #[inline]
    fn tcp_header_continues(
        &self,
        first: &[u8],
        packet: &[u8],
        lead: &Candidate,
        joining: &Candidate,
    ) -> bool {
        let (
            Transport::Tcp {
                header_len,
                sequence: start,
            },
            Transport::Tcp { sequence, .. },
        ) = (lead.transport, joining.transport)
        else {
            return false;
        };
        let (first, packet) = (
            &first[lead.ip_header_len()..],
            &packet[lead.ip_header_len()..],
        );
        let so_far = self.total_len - lead.header_len();
        let train_end = tcp::FIN | tcp::PSH;
        sequence == start.wrapping_add(so_far as u32)
            // Acknowledgment, and data offset with the AE flag: the headers are equally long.
            && array::<5>(packet, tcp::ACKNOWLEDGMENT) == array::<5>(first, tcp::ACKNOWLEDGMENT)
            && (packet[tcp::FLAGS] ^ first[tcp::FLAGS]) & !train_end == 0
            && array::<2>(packet, tcp::WINDOW) == array::<2>(first, tcp::WINDOW)
            && packet[tcp::URGENT..header_len] == first[tcp::URGENT..header_len]
    }
}

/// True if the IPv4 header's checksum and the transport's are right.
fn checksums_are_right(packet: &[u8], candidate: &Candidate) -> bool {
    let (header, transport) = packet.split_at(candidate.ip_header_len());
    (candidate.version == IpVersion::V6 || Sum::of(header).is_valid())
        && pseudo_header(header, candidate, transport.len())
            .plus(Sum::of(transport))
            .is_valid()
}

fn pseudo_header(header: &[u8], candidate: &Candidate, transport_len: usize) -> Sum {
    let protocol = candidate.transport.protocol();
    match candidate.version {
        IpVersion::V4 => pseudo_v4(
            Ipv4Addr::from(array(header, 12)),
            Ipv4Addr::from(array(header, 16)),
            protocol,
            transport_len,
        ),
        IpVersion::V6 => pseudo_v6(
            Ipv6Addr::from(array(header, 8)),
            Ipv6Addr::from(array(header, 24)),
            protocol,
            transport_len,
        ),
    }
}

/// Puts a frame's length into the IP header.
fn patch_ip(header: &mut [u8], version: IpVersion, total_len: usize) {
    match version {
        IpVersion::V4 => {
            header[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
            header[10..12].fill(0);
            let sum = Sum::of(&header[..20]).checksum();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        IpVersion::V6 => {
            let payload_len = (total_len - IPV6_HEADER_LEN) as u16;
            header[4..6].copy_from_slice(&payload_len.to_be_bytes());
        }
    }
}
