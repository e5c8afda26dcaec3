//! Datagrams of this device that came back into its own TUN: what carries the tunnel must not go through it.
//!
//! A host that leads everything into the tunnel keeps the tunnel's datagrams out by their mark, or by their port. If
//! neither works, such as behind a firewall that changes marks on output, every datagram would come back larger than it
//! left, without end. They are dropped here instead, and the control thread is told.

use crate::event::PATH_MESSAGE_PREFIX;
use crate::snapshot::Snapshot;
use culvert_base::LocalAddress;
use culvert_packet::ip::IpView;
use culvert_session::parse::{MessageType, message_type};
use std::net::SocketAddr;

/// Peers whose endpoint a packet is compared with. A host with more is a server, which leads nothing of its own into the
/// tunnel; the bound keeps a flood of packets that resemble ours from stopping the worker.
const MAX_COMPARED: usize = 1024;

const PROTOCOL_UDP: u8 = 17;
const NEXT_HEADER_FRAGMENT: u8 = 44;
const UDP_HEADER_LEN: usize = 8;
const IPV6_HEADER_LEN: usize = 40;
const FRAGMENT_HEADER_LEN: usize = 8;

/// True for a packet from UDP port `port`. Most packets are asked no more.
pub(crate) fn is_from_port(packet: &[u8], port: u16) -> bool {
    port != 0 && udp_header(packet).is_some_and(|udp| udp[..2] == port.to_be_bytes())
}

/// The destination of a packet from our port, if this device sent it: it is a message of ours from an address of this host, to
/// the endpoint of a peer where it is data. Nobody else of this host can have the port; a packet that is forwarded can.
#[cold]
pub(crate) fn loops_to(
    snapshot: &Snapshot,
    packet: &[u8],
    is_own_address: impl FnOnce(LocalAddress) -> bool,
) -> Option<SocketAddr> {
    let udp = udp_header(packet)?;
    let datagram = udp.get(UDP_HEADER_LEN..)?;
    let message = message_type(datagram);
    let view = IpView::parse(packet).ok()?;
    let port = u16::from_be_bytes([udp[2], udp[3]]);
    let to = SocketAddr::new(view.destination(), port);
    let is_expected = match message {
        // These go to every address at which a peer may be.
        Some(MessageType::Initiation | MessageType::Response | MessageType::CookieReply) => true,
        Some(MessageType::Data) => is_endpoint(snapshot, to),
        None => datagram.starts_with(&PATH_MESSAGE_PREFIX),
    };
    let source = LocalAddress {
        ip: view.source(),
        interface: 0,
    };
    (is_expected && is_own_address(source)).then_some(to)
}

fn is_endpoint(snapshot: &Snapshot, to: SocketAddr) -> bool {
    let peers = snapshot.peers.iter().take(MAX_COMPARED);
    peers
        .filter_map(|peer| peer.endpoint())
        .any(|endpoint| endpoint.address.ip() == to.ip() && endpoint.address.port() == to.port())
}

/// The UDP header of a packet and what follows it, where the packet is not a later fragment.
fn udp_header(packet: &[u8]) -> Option<&[u8]> {
    let header_len = match packet.first()? >> 4 {
        4 => {
            let is_first = packet.get(6)? & 0x1f == 0 && *packet.get(7)? == 0;
            (is_first && packet.get(9) == Some(&PROTOCOL_UDP))
                .then_some(usize::from(packet[0] & 0xf) * 4)?
        }
        6 => match *packet.get(6)? {
            PROTOCOL_UDP => IPV6_HEADER_LEN,
            NEXT_HEADER_FRAGMENT => {
                let fragment = packet.get(IPV6_HEADER_LEN..)?;
                let offset = u16::from_be_bytes(*fragment.get(2..)?.first_chunk()?) >> 3;
                (fragment[0] == PROTOCOL_UDP && offset == 0)
                    .then_some(IPV6_HEADER_LEN + FRAGMENT_HEADER_LEN)?
            }
            _ => return None,
        },
        _ => return None,
    };
    let udp = packet.get(header_len..)?;
    (udp.len() >= UDP_HEADER_LEN).then_some(udp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;
    use culvert_session::{PeerId, PublicKey};
    use std::sync::Arc;

    const PORT: u16 = 51_820;
    const PEER: ([u8; 4], u16) = ([192, 0, 2, 1], 51_821);

    /// A snapshot with a peer at [`PEER`].
    fn snapshot() -> Snapshot {
        let peer = Peer::new(PeerId(0), PublicKey::from_bytes([1; 32]), Arc::default());
        peer.set_endpoint(PEER.into());
        let mut snapshot = crate::testing::snapshot(1420);
        snapshot.peers.insert(peer.id, Arc::new(peer));
        snapshot
    }

    /// An IPv4 packet of UDP that holds `message`.
    fn packet(source: [u8; 4], to: ([u8; 4], u16), message: &[u8]) -> Vec<u8> {
        let len = u8::try_from(28 + message.len()).unwrap();
        let mut packet = vec![0x45, 0, 0, len, 0, 0, 0, 0, 64, PROTOCOL_UDP, 0, 0];
        packet.extend(source);
        packet.extend(to.0);
        packet.extend(PORT.to_be_bytes());
        packet.extend(to.1.to_be_bytes());
        packet.extend([0, len - 20, 0, 0]);
        packet.extend(message);
        packet
    }

    const OURS: [u8; 4] = [127, 0, 0, 1];
    const DATA: [u8; 32] = {
        let mut data = [0; 32];
        data[0] = 4;
        data
    };
    const INITIATION: [u8; 4] = [1, 0, 0, 0];

    fn found(packet: &[u8]) -> Option<SocketAddr> {
        is_from_port(packet, PORT)
            .then(|| {
                loops_to(&snapshot(), packet, |address| {
                    address.ip == std::net::IpAddr::from(OURS)
                })
            })
            .flatten()
    }

    #[test]
    fn data_from_our_port_to_a_peer_and_handshakes_to_wherever_a_peer_may_be_are_our_own() {
        assert_eq!(found(&packet(OURS, PEER, &DATA)), Some(PEER.into()));
        let candidate = ([192, 0, 2, 9], 7);
        let initiation = packet(OURS, candidate, &INITIATION);
        assert_eq!(found(&initiation), Some(candidate.into()));
    }

    #[test]
    fn what_resembles_our_datagrams_goes_on() {
        let forwarded = [10, 99, 99, 99];
        let foreign = ([192, 0, 2, 9], PEER.1);
        for other in [
            packet(forwarded, PEER, &DATA),
            packet(OURS, foreign, &DATA),
            packet(OURS, PEER, b"no WireGuard"),
            packet(OURS, PEER, &[]),
        ] {
            assert_eq!(found(&other), None);
        }
        let ours = packet(OURS, PEER, &DATA);
        assert!(!is_from_port(&ours, PORT + 1));
        assert!(!is_from_port(&ours, 0));
        let mut later_fragment = ours.clone();
        later_fragment[7] = 1;
        assert_eq!(found(&later_fragment), None);
        for len in 0..ours.len() {
            assert!(!is_from_port(&ours[..len.min(27)], PORT));
            let _no_panic = found(&ours[..len]);
        }
    }

    #[test]
    fn the_first_fragment_of_a_datagram_over_ipv6_is_recognised() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 48, NEXT_HEADER_FRAGMENT, 64];
        packet.extend([0; 32]);
        packet.extend([PROTOCOL_UDP, 0, 0, 1, 0, 0, 0, 9]);
        packet.extend(PORT.to_be_bytes());
        packet.extend([0; 38]);
        assert!(is_from_port(&packet, PORT));
        packet[42] = 1;
        assert!(!is_from_port(&packet, PORT), "a later one has no header");
        packet[6] = PROTOCOL_UDP;
        assert!(!is_from_port(&packet, PORT), "another header is there");
    }
}
