//! The result of an independent parser for a packet.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// Asserts that `etherparse` accepts the packet as exactly filling its bytes, and finds every
/// checksum right.
pub(crate) fn assert_accepted(packet: &[u8]) {
    let sliced = SlicedPacket::from_ip(packet).expect("a well-formed packet");
    let transport = sliced.transport.expect("a transport header");
    match sliced.net.expect("an IP header") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(usize::from(header.total_len()), packet.len());
            let expected = header.to_header().calc_header_checksum();
            assert_eq!(header.header_checksum(), expected, "the header checksum");
            assert_v4_transport(&transport, header.source(), header.destination());
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            assert_eq!(usize::from(header.payload_length()) + 40, packet.len());
            assert_v6_transport(&transport, header.source(), header.destination());
        }
        NetSlice::Arp(_) => panic!("an IP packet"),
    }
}

fn assert_v4_transport(transport: &TransportSlice<'_>, from: [u8; 4], to: [u8; 4]) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(Ok(tcp.checksum()), tcp.calc_checksum_ipv4(from, to));
        }
        TransportSlice::Udp(udp) => {
            let expected = udp
                .to_header()
                .calc_checksum_ipv4_raw(from, to, udp.payload());
            assert_eq!(Ok(udp.checksum()), expected);
        }
        TransportSlice::Icmpv4(icmp) => {
            let expected = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(icmp.checksum(), expected);
        }
        _ => panic!("TCP, UDP or ICMP"),
    }
}

fn assert_v6_transport(transport: &TransportSlice<'_>, from: [u8; 16], to: [u8; 16]) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(Ok(tcp.checksum()), tcp.calc_checksum_ipv6(from, to));
        }
        TransportSlice::Udp(udp) => {
            let expected = udp
                .to_header()
                .calc_checksum_ipv6_raw(from, to, udp.payload());
            assert_eq!(Ok(udp.checksum()), expected);
        }
        TransportSlice::Icmpv6(icmp) => assert!(icmp.is_checksum_valid(from, to)),
        _ => panic!("TCP, UDP or ICMPv6"),
    }
}
