//! Frames of a TUN that carry numbered packets of flows.

use culvert_base::frames::VNET_HEADER_BYTES;
use culvert_packet::VnetHeader;
use culvert_packet::ecn::Ecn;
use culvert_packet::ip::{IpView, Protocol};
use etherparse::PacketBuilder;
use std::net::Ipv4Addr;

/// Bytes of the numbers at the beginning of a packet's payload: flow and packet.
const NUMBERS_LEN: usize = 12;

/// Bytes of the headers of IPv4 and TCP.
const TCP_HEADERS_LEN: usize = 40;

/// Payload of a TCP segment: with its headers it fills an interface of 1,420 bytes.
pub(crate) const SEGMENT_LEN: usize = 1_380;

/// A flow, by its ends as the packet has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) source: Ipv4Addr,
    pub(crate) source_port: u16,
    pub(crate) destination: Ipv4Addr,
    pub(crate) destination_port: u16,
}

impl Ends {
    /// The same in the other direction.
    pub(crate) const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }
}

fn payload(flow: u32, number: u64, len: usize) -> Vec<u8> {
    let mut payload = flow.to_be_bytes().to_vec();
    payload.extend(number.to_be_bytes());
    payload.resize(len.max(NUMBERS_LEN), 0);
    payload
}

/// A frame with one UDP packet.
pub(crate) fn udp(ends: Ends, flow: u32, number: u64, len: usize, ecn: Ecn) -> Vec<u8> {
    let step = PacketBuilder::ipv4(ends.source.octets(), ends.destination.octets(), 64);
    let step = step.udp(ends.source_port, ends.destination_port);
    let mut packet = Vec::new();
    step.write(&mut packet, &payload(flow, number, len))
        .expect("a vector takes everything");
    culvert_packet::ecn::set(&mut packet, ecn);
    [&[0; VNET_HEADER_BYTES][..], &packet].concat()
}

/// A frame with a TCP packet that opens a connection.
pub(crate) fn syn(ends: Ends) -> Vec<u8> {
    let step = PacketBuilder::ipv4(ends.source.octets(), ends.destination.octets(), 64);
    let mut header = etherparse::TcpHeader::new(ends.source_port, ends.destination_port, 0, 64_000);
    header.syn = true;
    let mut packet = Vec::new();
    step.tcp_header(header)
        .write(&mut packet, &[])
        .expect("a vector takes everything");
    [&[0; VNET_HEADER_BYTES][..], &packet].concat()
}

/// The sequence number of the segment with this number.
fn sequence_of(number: u64) -> u32 {
    (number as u32)
        .wrapping_mul(SEGMENT_LEN as u32)
        .wrapping_add(1)
}

/// A superframe of so many TCP segments, the first of which has this number.
pub(crate) fn tcp(ends: Ends, flow: u32, first: u64, segments: usize) -> Vec<u8> {
    let step = PacketBuilder::ipv4(ends.source.octets(), ends.destination.octets(), 64);
    let sequence = sequence_of(first);
    let mut header =
        etherparse::TcpHeader::new(ends.source_port, ends.destination_port, sequence, 64_000);
    header.ack = true;
    header.acknowledgment_number = 1;
    let segments = (0..segments as u64).flat_map(|at| payload(flow, first + at, SEGMENT_LEN));
    let segments: Vec<u8> = segments.collect();
    let mut packet = Vec::new();
    step.tcp_header(header)
        .write(&mut packet, &segments)
        .expect("a vector takes everything");
    let mut vnet = [0; VNET_HEADER_BYTES];
    if segments.len() > SEGMENT_LEN {
        // Flags: the checksum is to be finished; kind: TCP over IPv4.
        vnet[..2].copy_from_slice(&[1, 1]);
        for (at, value) in [(2, TCP_HEADERS_LEN), (4, SEGMENT_LEN), (6, 20), (8, 16)] {
            let value = u16::try_from(value).expect("headers and segments are short");
            vnet[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
    }
    [&vnet[..], &packet].concat()
}

/// The contents of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Numbered packets of a flow, in their order, and whether the first is marked for congestion.
    Packets {
        flow: u32,
        numbers: Vec<u64>,
        is_marked: bool,
    },
    /// A TCP packet that opens a connection.
    Opening,
    /// An ICMP message.
    Icmp,
}

/// Reads a frame. `None` where it is none of ours, or where a TCP segment stands at another place of its stream.
pub(crate) fn read(frame: &[u8]) -> Option<Contents> {
    let (vnet, packet) = frame.split_first_chunk::<VNET_HEADER_BYTES>()?;
    VnetHeader::parse(vnet).ok()?;
    let gso_size = usize::from(u16::from_le_bytes([vnet[4], vnet[5]]));
    let ip = IpView::parse(packet).ok();
    let header_len = usize::from(packet.first()? & 0xf) * 4;
    let transport = packet.get(header_len..)?;
    let mut sequence = None;
    let payload = match Protocol(*packet.get(9)?) {
        Protocol::UDP => transport.get(8..)?,
        Protocol::TCP => {
            if transport.get(13)? & 2 != 0 {
                return Some(Contents::Opening);
            }
            sequence = Some(u32::from_be_bytes(*transport.get(4..)?.first_chunk()?));
            transport.get(usize::from(transport.get(12)? >> 4) * 4..)?
        }
        _ => return Some(Contents::Icmp),
    };
    let each = if gso_size == 0 {
        payload.len()
    } else {
        gso_size
    };
    let mut flow = None;
    let mut numbers = Vec::new();
    for segment in payload.chunks(each) {
        let (its_flow, rest) = segment.split_first_chunk::<4>()?;
        let its_flow = u32::from_be_bytes(*its_flow);
        if *flow.get_or_insert(its_flow) != its_flow {
            return None;
        }
        let number = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        if let Some(at) = &mut sequence {
            if *at != sequence_of(number) {
                return None;
            }
            *at = at.wrapping_add(segment.len() as u32);
        }
        numbers.push(number);
    }
    Some(Contents::Packets {
        flow: flow?,
        numbers,
        is_marked: ip.is_some_and(|ip| ip.ecn() == Ecn::Ce),
    })
}
