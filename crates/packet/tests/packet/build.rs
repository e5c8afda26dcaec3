//! Builds packets byte by byte, with a checksum of its own, so that nothing under test is used.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const URG: u8 = 0x20;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;

/// A TCP segment or UDP datagram in an IP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// TOS or traffic class.
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) id: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) hop_limit: u8,
    pub(crate) ip_options: Vec<u8>,
    pub(crate) ports: (u16, u16),
    pub(crate) transport: Transport,
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp(Tcp),
    Udp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<u8>,
}

impl Spec {
    pub(crate) fn tcp4(payload: Vec<u8>) -> Self {
        Self {
            source: IpAddr::from([10, 1, 2, 3]),
            destination: IpAddr::from([10, 4, 5, 6]),
            traffic_class: 0,
            flow_label: 0,
            id: 1000,
            dont_fragment: true,
            hop_limit: 64,
            ip_options: Vec::new(),
            ports: (40_000, 443),
            transport: Transport::Tcp(Tcp {
                sequence: 5000,
                acknowledgment: 77,
                flags: ACK,
                window: 512,
                urgent: 0,
                options: Vec::new(),
            }),
            payload,
        }
    }

    pub(crate) fn tcp6(payload: Vec<u8>) -> Self {
        Self::tcp4(payload).over_v6()
    }

    pub(crate) fn udp4(payload: Vec<u8>) -> Self {
        Self {
            transport: Transport::Udp,
            ..Self::tcp4(payload)
        }
    }

    pub(crate) fn udp6(payload: Vec<u8>) -> Self {
        Self::udp4(payload).over_v6()
    }

    pub(crate) fn over_v6(self) -> Self {
        Self {
            source: IpAddr::from([0xFD00, 1, 2, 3, 4, 5, 6, 7]),
            destination: IpAddr::from([0xFD00, 8, 9, 10, 11, 12, 13, 14]),
            ..self
        }
    }

    pub(crate) fn tcp(&mut self) -> &mut Tcp {
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp,
            Transport::Udp => panic!("a TCP segment"),
        }
    }

    /// The same with its TCP header changed.
    pub(crate) fn with_tcp(mut self, change: impl FnOnce(&mut Tcp)) -> Self {
        change(self.tcp());
        self
    }

    /// The packet that follows this one in its train, with another payload.
    pub(crate) fn followed_by(&self, payload: Vec<u8>) -> Self {
        let mut next = Self {
            id: self.id.wrapping_add(1),
            payload,
            ..self.clone()
        };
        if let Transport::Tcp(tcp) = &mut next.transport {
            tcp.sequence = tcp.sequence.wrapping_add(self.payload.len() as u32);
        }
        next
    }

    pub(crate) fn ip_header_len(&self) -> usize {
        match self.source {
            IpAddr::V4(_) => 20 + self.ip_options.len(),
            IpAddr::V6(_) => 40,
        }
    }

    pub(crate) fn header_len(&self) -> usize {
        self.ip_header_len()
            + match &self.transport {
                Transport::Tcp(tcp) => 20 + tcp.options.len(),
                Transport::Udp => 8,
            }
    }

    /// The packet, with right lengths and checksums.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let transport = self.transport_bytes();
        let mut packet = self.ip_header(transport.len());
        packet.extend(transport);
        packet
    }

    fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Tcp(_) => 6,
            Transport::Udp => 17,
        }
    }

    fn ip_header(&self, transport_len: usize) -> Vec<u8> {
        let mut header = Vec::new();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total_len = (self.ip_header_len() + transport_len) as u16;
                header.push(0x40 | (self.ip_header_len() / 4) as u8);
                header.push(self.traffic_class);
                header.extend(total_len.to_be_bytes());
                header.extend(self.id.to_be_bytes());
                header.extend([if self.dont_fragment { 0x40 } else { 0 }, 0]);
                header.extend([self.hop_limit, self.protocol(), 0, 0]);
                header.extend(source.octets());
                header.extend(destination.octets());
                header.extend(&self.ip_options);
                let sum = !naive_sum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
                header.extend(word.to_be_bytes());
                header.extend((transport_len as u16).to_be_bytes());
                header.extend([self.protocol(), self.hop_limit]);
                header.extend(source.octets());
                header.extend(destination.octets());
            }
            _ => panic!("one version"),
        }
        header
    }

    fn transport_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        let field = match &self.transport {
            Transport::Tcp(tcp) => {
                bytes.extend(tcp.sequence.to_be_bytes());
                bytes.extend(tcp.acknowledgment.to_be_bytes());
                bytes.push((((20 + tcp.options.len()) / 4) << 4) as u8);
                bytes.push(tcp.flags);
                bytes.extend(tcp.window.to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(tcp.urgent.to_be_bytes());
                bytes.extend(&tcp.options);
                16
            }
            Transport::Udp => {
                bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                6
            }
        };
        bytes.extend(&self.payload);
        let mut sum = !naive_sum(&[self.pseudo_header(bytes.len()), bytes.clone()].concat());
        if self.transport == Transport::Udp && sum == 0 {
            sum = 0xFFFF;
        }
        bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub(crate) fn pseudo_header(&self, transport_len: usize) -> Vec<u8> {
        let mut pseudo = Vec::new();
        for address in [self.source, self.destination] {
            match address {
                IpAddr::V4(address) => pseudo.extend(address.octets()),
                IpAddr::V6(address) => pseudo.extend(address.octets()),
            }
        }
        pseudo.extend((transport_len as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, self.protocol()]);
        pseudo
    }
}

/// The packet that the bytes of a [`Spec`] were turned into, with its checksums made right for
/// exactly the bytes there are, whatever its length fields say.
pub(crate) fn repaired(mut packet: Vec<u8>) -> Vec<u8> {
    let v4 = packet[0] >> 4 == 4;
    let (start, protocol) = if v4 { (20, packet[9]) } else { (40, packet[6]) };
    let mut covered = packet[if v4 { 12 } else { 8 }..start].to_vec();
    covered.extend(((packet.len() - start) as u32).to_be_bytes());
    covered.extend([0, 0, 0, protocol]);
    let field = start + if protocol == 6 { 16 } else { 6 };
    packet[field..field + 2].fill(0);
    covered.extend(&packet[start..]);
    let sum = !naive_sum(&covered);
    packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    if v4 {
        packet[10..12].fill(0);
        let sum = !naive_sum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// RFC 1071, word by word.
pub(crate) fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Bytes that differ from place to place.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 31 + index / 256) as u8)
        .collect()
}

/// Any train of TCP over either version: its first packet, as a strategy. The payload is empty.
pub(crate) fn any_tcp() -> impl Strategy<Value = Spec> {
    let tcp = (
        any::<u32>(),
        any::<u32>(),
        any::<u16>(),
        any::<bool>(),
        vec(any::<u8>(), 0..=10),
    );
    (any_udp(), tcp).prop_map(
        |(spec, (sequence, acknowledgment, window, ece, words))| Spec {
            transport: Transport::Tcp(Tcp {
                sequence,
                acknowledgment,
                flags: ACK | if ece { ECE } else { 0 },
                window,
                urgent: 0,
                options: words.iter().flat_map(|&word| [word; 4]).collect(),
            }),
            ..spec
        },
    )
}

/// Any flow of UDP over either version, without payload and without options.
pub(crate) fn any_udp() -> impl Strategy<Value = Spec> {
    let ip = (
        any::<bool>(),
        any::<u8>(),
        0_u32..1 << 20,
        any::<u16>(),
        any::<bool>(),
        1_u8..,
    );
    // No encapsulation ports.
    let ports = (any::<u16>(), 1_u16..1024);
    (ip, ports).prop_map(
        |((v6, traffic_class, flow_label, id, df, hop_limit), ports)| {
            let spec = Spec {
                traffic_class,
                flow_label,
                id,
                dont_fragment: df,
                hop_limit,
                ports,
                ..Spec::udp4(Vec::new())
            };
            if v6 { spec.over_v6() } else { spec }
        },
    )
}
