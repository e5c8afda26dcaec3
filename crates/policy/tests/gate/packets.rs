//! Packets for the tests.

use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// An address and a port.
pub(crate) type End<'a> = (&'a str, u16);

fn ip(source: &str, destination: &str) -> PacketBuilderStep<etherparse::IpHeaders> {
    match (source.parse().unwrap(), destination.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ip_v4(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ip_v6(source, destination),
        _ => panic!("two families"),
    }
}

fn ip_v4(source: Ipv4Addr, destination: Ipv4Addr) -> PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
}

fn ip_v6(source: Ipv6Addr, destination: Ipv6Addr) -> PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ipv6(source.octets(), destination.octets(), 64)
}

pub(crate) fn tcp_with(from: End<'_>, to: End<'_>, flags: u8, payload: &[u8]) -> Vec<u8> {
    tcp_at(7, from, to, flags, payload)
}

/// At a place of its stream.
pub(crate) fn tcp_at(
    sequence: u32,
    from: End<'_>,
    to: End<'_>,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut header = TcpHeader::new(from.1, to.1, sequence, 4096);
    header.fin = flags & FIN != 0;
    header.syn = flags & SYN != 0;
    header.rst = flags & RST != 0;
    header.ack = flags & ACK != 0;
    let mut packet = Vec::new();
    let builder = ip(from.0, to.0).tcp_header(header);
    builder.write(&mut packet, payload).unwrap();
    packet
}

pub(crate) fn tcp(from: End<'_>, to: End<'_>) -> Vec<u8> {
    tcp_with(from, to, ACK, b"some payload of odd length.")
}

pub(crate) fn udp_with(from: End<'_>, to: End<'_>, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = ip(from.0, to.0).udp(from.1, to.1);
    builder.write(&mut packet, payload).unwrap();
    packet
}

pub(crate) fn udp(from: End<'_>, to: End<'_>) -> Vec<u8> {
    udp_with(from, to, b"some payload of odd length.")
}

/// An echo request, or the answer.
pub(crate) fn echo(from: &str, to: &str, identifier: u16, is_answer: bool) -> Vec<u8> {
    let kind = match (from.contains('.'), is_answer) {
        (true, false) => 8,
        (true, true) => 0,
        (false, false) => 128,
        (false, true) => 129,
    };
    let [high, low] = identifier.to_be_bytes();
    icmp(from, to, kind, 0, [high, low, 0, 1], b"ping")
}

/// ICMP of the addresses' family.
pub(crate) fn icmp(
    from: &str,
    to: &str,
    kind: u8,
    code: u8,
    rest: [u8; 4],
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::new();
    if from.contains('.') {
        let builder = ip(from, to).icmpv4_raw(kind, code, rest);
        builder.write(&mut packet, payload).unwrap();
    } else {
        let builder = ip(from, to).icmpv6_raw(kind, code, rest);
        builder.write(&mut packet, payload).unwrap();
    }
    packet
}

/// "Destination unreachable, port" about `cause`, with so much of it.
pub(crate) fn unreachable(from: &str, to: &str, cause: &[u8], quoted: usize) -> Vec<u8> {
    let (kind, code) = if from.contains('.') { (3, 3) } else { (1, 4) };
    icmp(
        from,
        to,
        kind,
        code,
        [0; 4],
        &cause[..quoted.min(cause.len())],
    )
}

/// A packet of a protocol without ports.
pub(crate) fn other(from: &str, to: &str, protocol: u8) -> Vec<u8> {
    other_with(from, to, protocol, b"whatever it carries")
}

pub(crate) fn other_with(from: &str, to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = ip(from, to);
    builder
        .write(&mut packet, IpNumber(protocol), payload)
        .unwrap();
    packet
}

/// The packet in two fragments, the first with so many bytes of payload.
pub(crate) fn fragments(packet: &[u8], first_len: usize, identification: u32) -> [Vec<u8>; 2] {
    if packet[0] >> 4 == 4 {
        let payload = &packet[20..];
        let part = |range: std::ops::Range<usize>, has_more: bool| {
            let (mut header, _) = Ipv4Header::from_slice(packet).unwrap();
            header.identification = identification as u16;
            header.dont_fragment = false;
            header.more_fragments = has_more;
            header.fragment_offset = IpFragOffset::try_new(range.start as u16 / 8).unwrap();
            header.total_len = (20 + range.len()) as u16;
            header.header_checksum = header.calc_header_checksum();
            [&header.to_bytes()[..], &payload[range]].concat()
        };
        [
            part(0..first_len, true),
            part(first_len..payload.len(), false),
        ]
    } else {
        let payload = &packet[40..];
        let part = |range: std::ops::Range<usize>, has_more: bool| {
            let place = range.start as u16 | u16::from(has_more);
            let mut header = vec![packet[6], 0];
            header.extend(place.to_be_bytes());
            header.extend(identification.to_be_bytes());
            with_extension(packet, 44, &header, &payload[range])
        };
        [
            part(0..first_len, true),
            part(first_len..payload.len(), false),
        ]
    }
}

/// An IPv6 packet with an extension header right behind the fixed one, and this behind it.
pub(crate) fn with_extension(packet: &[u8], kind: u8, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut longer = [&packet[..40], extension, payload].concat();
    longer[6] = kind;
    let len = (extension.len() + payload.len()) as u16;
    longer[4..6].copy_from_slice(&len.to_be_bytes());
    longer
}

/// The same with an extension header of eight bytes, all zero behind its first field.
pub(crate) fn with_empty_extension(packet: &[u8], kind: u8) -> Vec<u8> {
    let extension = [packet[6], 0, 0, 0, 0, 0, 0, 0];
    with_extension(packet, kind, &extension, &packet[40..])
}

/// An IPv4 packet with these options, padded to words.
pub(crate) fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut longer = [&packet[..20], &options, &packet[20..]].concat();
    longer[0] = 0x45 + (options.len() / 4) as u8;
    let len = longer.len() as u16;
    longer[2..4].copy_from_slice(&len.to_be_bytes());
    longer
}
