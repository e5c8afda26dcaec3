//! Packets and DNS messages, byte by byte.

use culvert_packet::checksum::{ChecksumState, verify_transport};
use culvert_packet::ip::{IpView, Protocol};
use culvert_policy::Service;
use etherparse::PacketBuilder;
use std::net::IpAddr;

/// A packet as it is seen on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) service: Service,
    pub(crate) probe: u64,
}

/// A packet to a service that carries a number. For ICMP it is an echo request, and the port its
/// identifier.
pub(crate) fn probe(
    source: IpAddr,
    source_port: u16,
    destination: IpAddr,
    service: Service,
    number: u64,
) -> Vec<u8> {
    build(source, destination, service, source_port, None, number)
}

/// A resource's answer.
pub(crate) fn answer(to: &Seen) -> Vec<u8> {
    let port = to.source_port;
    build(
        to.destination,
        to.source,
        to.service,
        port,
        Some(()),
        to.probe,
    )
}

fn build(
    source: IpAddr,
    destination: IpAddr,
    service: Service,
    client_port: u16,
    is_answer: Option<()>,
    number: u64,
) -> Vec<u8> {
    const TTL: u8 = 64;
    let payload = number.to_be_bytes();
    let mut packet = Vec::with_capacity(80);
    let step = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), TTL)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), TTL)
        }
        _ => return packet,
    };
    let ports = |port: u16| match is_answer {
        None => (client_port, port),
        Some(()) => (port, client_port),
    };
    let written = match service {
        Service::Tcp(port) => {
            let (from, to) = ports(port);
            let mut header = etherparse::TcpHeader::new(from, to, 1, 1_024);
            header.ack = true;
            step.tcp_header(header).write(&mut packet, &payload)
        }
        Service::Udp(port) => {
            let (from, to) = ports(port);
            step.udp(from, to).write(&mut packet, &payload)
        }
        Service::Icmp | Service::Other(_) => match (source.is_ipv4(), is_answer) {
            (true, None) => step
                .icmpv4_echo_request(client_port, 1)
                .write(&mut packet, &payload),
            (true, Some(())) => step
                .icmpv4_echo_reply(client_port, 1)
                .write(&mut packet, &payload),
            (false, None) => step
                .icmpv6_echo_request(client_port, 1)
                .write(&mut packet, &payload),
            (false, Some(())) => step
                .icmpv6_echo_reply(client_port, 1)
                .write(&mut packet, &payload),
        },
    };
    written.expect("a vector takes everything");
    packet
}

/// Reads a packet of [`probe`] on its way to a resource; none where it is no such packet, or its
/// checksums do not hold.
pub(crate) fn read_probe(packet: &[u8]) -> Option<Seen> {
    read(packet, false)
}

/// Reads a packet of [`answer`] as the client gets it.
pub(crate) fn read_answer(packet: &[u8]) -> Option<Seen> {
    read(packet, true)
}

fn read(packet: &[u8], is_answer: bool) -> Option<Seen> {
    let ip = IpView::parse(packet).ok()?;
    if verify_transport(&ip) != ChecksumState::Right {
        return None;
    }
    let transport = ip.transport();
    let number = packet.get(packet.len().checked_sub(8)?..)?;
    let (client_port, service) = match ip.protocol() {
        Protocol::TCP | Protocol::UDP => {
            let (from, to) = ip.ports()?;
            let (client_port, port) = if is_answer { (to, from) } else { (from, to) };
            let service = match ip.protocol() {
                Protocol::TCP => Service::Tcp(port),
                _ => Service::Udp(port),
            };
            (client_port, service)
        }
        _ => {
            let identifier = transport.get(4..6)?;
            let identifier = u16::from_be_bytes(identifier.try_into().ok()?);
            (identifier, Service::Icmp)
        }
    };
    Some(Seen {
        source: ip.source(),
        destination: ip.destination(),
        source_port: client_port,
        service,
        probe: u64::from_be_bytes(number.try_into().ok()?),
    })
}

const HEADER_LEN: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;

/// A question for an address of a name.
pub(crate) fn query(id: u16, name: &str, is_ipv4: bool) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    // A question that wants recursion.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    let kind = if is_ipv4 { A } else { AAAA };
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The answer of a resolver that knows no name.
pub(crate) fn no_such_name(query: &[u8]) -> Vec<u8> {
    let mut bytes = query.to_vec();
    if let Some(flags) = bytes.get_mut(2..4) {
        flags.copy_from_slice(&[0x81, 0x83]);
    }
    bytes
}

/// The id of an answer, and the first address in it.
pub(crate) fn read_dns_answer(bytes: &[u8]) -> Option<(u16, Option<IpAddr>)> {
    let word = |at: usize| -> Option<u16> {
        let pair = bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes(pair.try_into().ok()?))
    };
    let id = word(0)?;
    let answers = word(6)?;
    let mut at = skip_name(bytes, HEADER_LEN)? + 4;
    for _ in 0..answers {
        at = skip_name(bytes, at)?;
        let (kind, len) = (word(at)?, usize::from(word(at + 8)?));
        let data = bytes.get(at + 10..at + 10 + len)?;
        at += 10 + len;
        let address: Option<IpAddr> = match kind {
            A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        };
        if address.is_some() {
            return Some((id, address));
        }
    }
    Some((id, None))
}

fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            len if len & 0xc0 == 0xc0 => return Some(at + 2),
            len => at += 1 + usize::from(len),
        }
    }
}
