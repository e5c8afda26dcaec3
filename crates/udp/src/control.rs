//! Control messages beside a datagram, written and read as bytes.
//!
//! Each is `struct cmsghdr` (length, level, type), its data, and padding to the size of a machine word, in the machine's
//! byte order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use culvert_base::LocalAddress;

const WORD_BYTES: usize = size_of::<usize>();
/// Length as a word, then level and type as ints.
const HEADER_BYTES: usize = WORD_BYTES + 8;

/// Bytes of `struct in6_pktinfo`: address and interface.
const PACKET_INFO_V6_BYTES: usize = 20;
/// Bytes of `struct in_pktinfo`: interface, the local address, the header's destination address.
const PACKET_INFO_V4_BYTES: usize = 12;

/// Room for the messages of one datagram in either direction: packet information, traffic class and segment size, and
/// as much again for what a later kernel might add unasked.
pub(crate) const CONTROL_BYTES: usize =
    2 * (space(PACKET_INFO_V6_BYTES) + space(size_of::<i32>()) + space(size_of::<i32>()));

const fn space(data_bytes: usize) -> usize {
    HEADER_BYTES + data_bytes.next_multiple_of(WORD_BYTES)
}

/// A buffer for control messages, aligned as the kernel's headers in it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer {
    bytes: [u8; CONTROL_BYTES],
    length: usize,
}

impl ControlBuffer {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; CONTROL_BYTES],
            length: 0,
        }
    }

    /// The messages written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// All of the room, for the kernel to write to.
    pub(crate) fn room(&mut self) -> &mut [u8; CONTROL_BYTES] {
        &mut self.bytes
    }

    /// The first `length` bytes of the room, as the kernel left them.
    pub(crate) fn filled(&self, length: usize) -> &[u8] {
        &self.bytes[..length.min(CONTROL_BYTES)]
    }

    /// Asks for the datagrams to be cut every `stride` bytes.
    pub(crate) fn push_segment_size(&mut self, stride: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &stride.to_ne_bytes());
    }

    /// Asks for a traffic class: DSCP, and ECN in the low two bits.
    pub(crate) fn push_class(&mut self, to: IpAddr, class: u8) {
        let class = i32::from(class).to_ne_bytes();
        match to {
            IpAddr::V4(_) => self.push(libc::IPPROTO_IP, libc::IP_TOS, &class),
            IpAddr::V6(_) => self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
        }
    }

    /// Asks for `source` as the source address.
    ///
    /// The interface is left to the routing table, so that a datagram follows a route that has moved instead of leaving
    /// by the interface of long ago. A link-local address means nothing without its interface and so comes with it.
    pub(crate) fn push_source(&mut self, source: LocalAddress) {
        match source.ip.to_canonical() {
            IpAddr::V4(ip) => {
                let mut info = [0; PACKET_INFO_V4_BYTES];
                info[4..8].copy_from_slice(&ip.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(ip) => {
                let interface = if ip.is_unicast_link_local() {
                    source.interface
                } else {
                    0
                };
                let mut info = [0; PACKET_INFO_V6_BYTES];
                info[..16].copy_from_slice(&ip.octets());
                info[16..].copy_from_slice(&interface.to_ne_bytes());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let start = self.length;
        let end = start + space(data.len());
        let message = &mut self.bytes[start..end];
        message[..WORD_BYTES].copy_from_slice(&(HEADER_BYTES + data.len()).to_ne_bytes());
        message[WORD_BYTES..WORD_BYTES + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD_BYTES + 4..HEADER_BYTES].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_BYTES..HEADER_BYTES + data.len()].copy_from_slice(data);
        self.length = end;
    }
}

/// The low two bits of the traffic class are ECN (RFC 3168 §5).
pub(crate) const ECN_BITS: u8 = 0b11;

/// Packet information that the kernel adds to a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Told {
    pub(crate) segment_size: Option<usize>,
    /// DSCP, and ECN in the low two bits.
    pub(crate) class: u8,
    pub(crate) local: Option<LocalAddress>,
}

/// Reads the control messages of a received datagram; unknown ones are skipped, a length that lies ends the reading.
pub(crate) fn read(mut messages: &[u8]) -> Told {
    let mut told = Told::default();
    while let Some((level, kind, data, rest)) = split_first(messages) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                told.segment_size = i32_at(data, 0).and_then(|bytes| usize::try_from(bytes).ok());
            }
            // IP_TOS comes as one byte, IPV6_TCLASS as an int.
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                told.class = data.first().copied().unwrap_or(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                told.class = i32_at(data, 0).map_or(0, |class| class.to_le_bytes()[0]);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => told.local = read_info_v4(data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => told.local = read_info_v6(data),
            _ => {}
        }
        messages = rest;
    }
    told
}

fn split_first(messages: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(*messages.first_chunk()?);
    let level = i32_at(messages, WORD_BYTES)?;
    let kind = i32_at(messages, WORD_BYTES + 4)?;
    let data = messages.get(HEADER_BYTES..length)?;
    // The last message may lack its padding.
    let rest = messages
        .get(length.next_multiple_of(WORD_BYTES)..)
        .unwrap_or_default();
    Some((level, kind, data, rest))
}

/// `ipi_spec_dst`, the address to answer from: for a unicast datagram the one it came to.
fn read_info_v4(data: &[u8]) -> Option<LocalAddress> {
    let interface = i32_at(data, 0)?.cast_unsigned();
    let ip: [u8; 4] = *data.get(4..)?.first_chunk()?;
    Some(LocalAddress {
        ip: Ipv4Addr::from(ip).into(),
        interface,
    })
}

fn read_info_v6(data: &[u8]) -> Option<LocalAddress> {
    let ip: [u8; 16] = *data.first_chunk()?;
    let interface = i32_at(data, 16)?.cast_unsigned();
    Some(LocalAddress {
        ip: IpAddr::V6(Ipv6Addr::from(ip)).to_canonical(),
        interface,
    })
}

fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
