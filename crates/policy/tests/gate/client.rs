//! A client's gate with a host behind it, for the tests.

use crate::packets::{ACK, SYN, echo, tcp_with, udp};
use culvert_base::BootTime;
use culvert_policy::gate::{
    ClientGate, DropReason, Frame, InboundRules, Later, PeerKey, Seed, TunnelAddresses, Verdict,
};
use std::net::IpAddr;

pub(crate) const HOME: &str = "100.64.0.9";
pub(crate) const HOME_V6: &str = "fd00::9";
/// Has `10.0.0.0/8` and `fd10::/16`.
pub(crate) const GATEWAY: PeerKey = PeerKey(1);
/// Has `192.168.0.0/16`.
pub(crate) const OTHER_GATEWAY: PeerKey = PeerKey(2);

pub(crate) const WEB: (&str, u16) = ("10.0.0.1", 443);
pub(crate) const WEB_V6: (&str, u16) = ("fd10::1", 443);
pub(crate) const DNS: (&str, u16) = ("10.0.0.2", 53);
pub(crate) const PINGED: &str = "10.0.0.3";
/// Behind the other gateway.
pub(crate) const OTHER_ADDRESS: (&str, u16) = ("192.168.7.7", 443);

pub(crate) const PORT: u16 = 40_000;
pub(crate) const UDP_PORT: u16 = 40_001;
pub(crate) const PING: u16 = 7;

/// A host, its gate, and the time.
pub(crate) struct Host {
    pub(crate) gate: ClientGate,
    /// The rights of others at it.
    pub(crate) rules: InboundRules,
    pub(crate) now_s: u64,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with_max_flows(1024)
    }

    pub(crate) fn with_max_flows(max_flows: usize) -> Self {
        Self {
            gate: ClientGate::with_max_flows(Seed::new([3; 32]), max_flows),
            rules: InboundRules::default(),
            now_s: 1_000,
        }
    }

    /// A host that speaks TCP with two servers over IPv4 and one over IPv6, asks a DNS server, and pings.
    pub(crate) fn busy() -> Self {
        let mut host = Self::new();
        for (from, to) in [
            ((HOME, PORT), WEB),
            ((HOME_V6, PORT), WEB_V6),
            ((HOME, PORT), OTHER_ADDRESS),
        ] {
            let peer = peer_of(to.0);
            host.send(&tcp_with(from, to, SYN, b""));
            let answer = tcp_with(to, from, SYN | ACK, b"");
            assert_eq!(host.hear(peer, &answer), Ok(()));
            host.send(&tcp_with(from, to, ACK, b"hello"));
        }
        host.send(&udp((HOME, UDP_PORT), DNS));
        host.send(&echo(HOME, PINGED, PING, false));
        host
    }

    pub(crate) const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_s * 1_000)
    }

    pub(crate) fn send(&mut self, packet: &[u8]) {
        self.gate.note_outbound(self.now(), packet);
    }

    /// The verdict on a packet of a peer.
    pub(crate) fn verdict(&mut self, peer: PeerKey, packet: &[u8], later: Later) -> Verdict {
        let home = TunnelAddresses {
            v4: HOME.parse().unwrap(),
            v6: HOME_V6.parse().unwrap(),
        };
        let mut packet = packet.to_vec();
        let frame = Frame {
            later,
            ..Frame::packet(&mut packet)
        };
        let is_peers = |address: IpAddr| peer_of(&address.to_string()) == peer;
        let now = self.now();
        self.gate
            .admit(now, peer, Some(home), Some(&self.rules), is_peers, &frame)
    }

    /// True if a packet of a peer comes in.
    pub(crate) fn hear(&mut self, peer: PeerKey, packet: &[u8]) -> Result<(), DropReason> {
        match self.verdict(peer, packet, Later::default()) {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => Ok(()),
            Verdict::Drop(reason) => Err(reason),
        }
    }
}

fn peer_of(address: &str) -> PeerKey {
    match address.starts_with("192.168.") {
        true => OTHER_GATEWAY,
        false => GATEWAY,
    }
}
