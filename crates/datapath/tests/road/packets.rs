//! Packets and frames, built with their checksums by a library that the road does not use.

use culvert_packet::ecn::{self, Ecn};
use culvert_packet::{Gso, VNET_HEADER_LEN, VnetHeader};
use etherparse::{IpNumber, Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this end in the tunnel.
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
pub(crate) const HERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1));

/// Payload of a TCP segment that fills an interface of 1,420 bytes.
pub(crate) const SEGMENT: usize = 1380;

/// Bytes of the headers of IPv4 and TCP.
const HEADERS: usize = 40;

fn ip(from: IpAddr, to: IpAddr) -> PacketBuilderStep<etherparse::IpHeaders> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two families"),
    }
}

/// A packet of UDP from port 40,000 to port 53.
pub(crate) fn udp(from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    udp_between((from, 40_000), (to, 53), payload)
}

pub(crate) fn udp_between(from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = ip(from.0, to.0).udp(from.1, to.1);
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// The same, so that routers may fragment it.
pub(crate) fn udp_that_may_be_fragmented(from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from, to) else {
        panic!("fragments of IPv4");
    };
    let len = u16::try_from(8 + payload.len()).unwrap();
    let mut header = Ipv4Header::new(
        len,
        64,
        IpNumber::UDP,
        source.octets(),
        destination.octets(),
    )
    .unwrap();
    header.dont_fragment = false;
    let builder = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
    let mut packet = Vec::new();
    builder.udp(40_000, 53).write(&mut packet, payload).unwrap();
    packet
}

/// A packet of UDP that carries its number, with these congestion bits.
pub(crate) fn numbered(from: IpAddr, to: IpAddr, number: u32, len: usize, bits: Ecn) -> Vec<u8> {
    let mut payload = vec![0; len.max(4)];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut packet = udp(from, to, &payload);
    ecn::set(&mut packet, bits);
    packet
}

/// The number of such a packet.
pub(crate) fn number_of(packet: &[u8]) -> u32 {
    let headers = if packet[0] >> 4 == 4 { 28 } else { 48 };
    u32::from_be_bytes(packet[headers..headers + 4].try_into().unwrap())
}

/// A TCP segment at a place of its stream.
pub(crate) fn tcp(from: IpAddr, to: IpAddr, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = TcpHeader::new(40_000, 443, sequence, 64_000);
    header.ack = true;
    let mut packet = Vec::new();
    let builder = ip(from, to).tcp_header(header);
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// A TCP packet that opens a connection and names the segments that its sender takes.
pub(crate) fn syn(from: IpAddr, to: IpAddr, mss: u16) -> Vec<u8> {
    let mut header = TcpHeader::new(40_000, 443, 1, 64_000);
    header.syn = true;
    header
        .set_options(&[etherparse::TcpOptionElement::MaximumSegmentSize(mss)])
        .unwrap();
    let mut packet = Vec::new();
    ip(from, to)
        .tcp_header(header)
        .write(&mut packet, &[])
        .unwrap();
    packet
}

/// An echo request.
pub(crate) fn echo(from: IpAddr, to: IpAddr) -> Vec<u8> {
    const TEXT: &[u8] = b"are you there?";
    let mut packet = Vec::new();
    match from {
        IpAddr::V4(_) => ip(from, to)
            .icmpv4_echo_request(1, 2)
            .write(&mut packet, TEXT),
        IpAddr::V6(_) => ip(from, to)
            .icmpv6_echo_request(1, 2)
            .write(&mut packet, TEXT),
    }
    .unwrap();
    packet
}

/// "Host unreachable" about a packet.
pub(crate) fn host_unreachable(from: IpAddr, to: IpAddr, cause: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    match from {
        IpAddr::V4(_) => ip(from, to)
            .icmpv4_raw(3, 1, [0; 4])
            .write(&mut packet, cause),
        IpAddr::V6(_) => ip(from, to)
            .icmpv6_raw(1, 3, [0; 4])
            .write(&mut packet, cause),
    }
    .unwrap();
    packet
}

/// A frame with one packet.
pub(crate) fn frame(packet: &[u8]) -> Vec<u8> {
    [&[0; VNET_HEADER_LEN][..], packet].concat()
}

/// A frame with so many TCP segments of full size.
pub(crate) fn superframe(from: IpAddr, to: IpAddr, segments: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..segments * SEGMENT).map(|at| (at / 7) as u8).collect();
    let packet = tcp(from, to, 1, &payload);
    let vnet = VnetHeader {
        needs_checksum: true,
        gso: Gso::Tcp4,
        header_len: HEADERS as u16,
        gso_size: SEGMENT as u16,
        checksum_start: 20,
        checksum_offset: 16,
        ..VnetHeader::default()
    };
    let mut header = [0; VNET_HEADER_LEN];
    vnet.write(&mut header);
    [&header[..], &packet].concat()
}

/// The headers in front of a frame and the packet behind them.
pub(crate) fn split(frame: &[u8]) -> (VnetHeader, &[u8]) {
    let (vnet, packet) = frame.split_first_chunk::<VNET_HEADER_LEN>().unwrap();
    (VnetHeader::parse(vnet).unwrap(), packet)
}

/// The packet of a frame that is no superframe.
pub(crate) fn packet_of(frame: &[u8]) -> &[u8] {
    let (vnet, packet) = split(frame);
    assert_eq!(vnet.gso, Gso::None);
    packet
}

/// The type and code of an ICMP message.
pub(crate) fn icmp_of(packet: &[u8]) -> [u8; 2] {
    let header_len = if packet[0] >> 4 == 4 { 20 } else { 40 };
    [packet[header_len], packet[header_len + 1]]
}
