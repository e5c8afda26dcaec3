//! A gateway in an open session, the portal's signatures, and packets of clients: for the targets `grant` and
//! `gateway_dns`.

use crate::signer::{Signer, decode, encode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_base::{BootTime, UnixTime};
use culvert_gateway_core::{Gateway, Options, Output, PeerUpdate};
use culvert_policy::gate::{Frame, Gate, GateTable, PeerKey, Seed, Verdict};
use culvert_wire::messages::FromGateway;
use culvert_wire::{Cipher, PublicKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The portal's clock at the gateway's first millisecond: 15 January 2027.
pub(crate) const NOW_UNIX_MS: u64 = 1_800_000_000_000;

/// The gateway's first millisecond.
pub(crate) const NOW_MS: u64 = 1_000;

const ID: &str = "00000000000000000000000001";
pub(crate) const MACHINES_V4: &str = "100.64.0.0/11";
pub(crate) const MACHINES_V6: &str = "fd00:2021:1111::/112";
pub(crate) const NAMES_V4: &str = "100.96.0.0/11";
pub(crate) const NAMES_V6: &str = "fd00:2021:1111:8000::/107";
pub(crate) const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);
pub(crate) const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, 9);

/// The gateway of every run.
pub(crate) fn gateway_id() -> String {
    format!("gw_{ID}")
}

pub(crate) fn portal() -> Signer {
    Signer::new(7)
}

/// Claims of a grant that is good now.
pub(crate) fn claims(target: &Value) -> Value {
    json!({
        "grant": format!("grt_{ID}"),
        "client": format!("cli_{ID}"),
        "client_key": STANDARD.encode([4; 32]),
        "client_ipv4": CLIENT_V4,
        "client_ipv6": CLIENT_V6,
        "gateway": gateway_id(),
        "resource": format!("res_{ID}"),
        "target": target,
        "filters": [{"protocol": "any"}],
        "cipher": "chacha20poly1305",
        "iat": "2027-01-15T08:00:00Z",
        "exp": "2027-01-15T09:00:00Z",
    })
}

/// PASETO version 4, purpose "public", without footer.
pub(crate) fn token(payload: &[u8]) -> String {
    let signature = portal().sign(&signed(payload, &[]));
    format!("v4.public.{}", encode(&[payload, &signature].concat()))
}

/// The payload, if the portal signed this token.
pub(crate) fn payload_of(token: &str) -> Option<Vec<u8>> {
    let (body, footer) = match token.strip_prefix("v4.public.")?.split_once('.') {
        Some((body, footer)) => (decode(body)?, decode(footer)?),
        None => (decode(token.strip_prefix("v4.public.")?)?, Vec::new()),
    };
    let (payload, signature) = body.split_last_chunk::<64>()?;
    let signed = signed(payload, &footer);
    portal()
        .has_signed(&signed, signature)
        .then(|| payload.to_vec())
}

/// "m2" of PASETO version 4, "Sign": PAE(h, m, f, i) without implicit assertion.
fn signed(payload: &[u8], footer: &[u8]) -> Vec<u8> {
    let parts = [b"v4.public.", payload, footer, b""];
    let mut bytes = (parts.len() as u64).to_le_bytes().to_vec();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

/// A client as the data plane knows it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) gate_key: PeerKey,
    pub(crate) addresses: [IpAddr; 2],
}

/// A gateway in an open session, and its data plane.
pub(crate) struct Granting {
    gateway: Gateway,
    seq: u64,
    now_ms: u64,
    table: Arc<GateTable>,
    pub(crate) peers: BTreeMap<PublicKey, Peer>,
    /// The gateway's answers about grants: which grant, and whether it is accepted.
    pub(crate) said: Vec<(String, bool)>,
    pub(crate) asked: usize,
}

impl Granting {
    pub(crate) fn new() -> Self {
        let options = Options {
            machine: "machine".to_owned(),
            name: "gateway".to_owned(),
            version: "0".to_owned(),
            public_key: PublicKey::from_bytes([9; 32]),
            ciphers: vec![Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm],
        };
        let mut granting = Self {
            gateway: Gateway::new(options, Vec::new(), [1; 32], BootTime::from_millis(NOW_MS)),
            seq: 0,
            now_ms: NOW_MS,
            table: Arc::default(),
            peers: BTreeMap::new(),
            said: Vec::new(),
            asked: 0,
        };
        let now = granting.now();
        granting.gateway.handle_timeout(now);
        let unix = UnixTime::from_millis(NOW_UNIX_MS);
        granting.gateway.handle_connected(unix, now);
        granting.execute();
        granting.hear(json!({
            "type": "welcome",
            "protocol": 1,
            "gateway": gateway_id(),
            "interface": {"ipv4": "100.64.0.1", "ipv6": "fd00:2021:1111::1"},
            "ranges": {
                "machines_ipv4": MACHINES_V4,
                "machines_ipv6": MACHINES_V6,
                "names_ipv4": NAMES_V4,
                "names_ipv6": NAMES_V6,
            },
            "grant_keys": [STANDARD.encode(portal().public())],
            "grants": [],
            "draining": false,
        }));
        assert!(granting.gateway.is_connected(), "the welcome is a good one");
        granting
    }

    const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    /// Hands the gateway a grant over its connection to the portal.
    pub(crate) fn grant(&mut self, token: &str, names: &Value) {
        self.hear(json!({
            "type": "grant",
            "token": token,
            "preshared_key": STANDARD.encode([5; 32]),
            "names": names,
        }));
    }

    fn hear(&mut self, mut message: Value) {
        self.seq += 1;
        message["epoch"] = json!(1);
        message["seq"] = json!(self.seq);
        self.gateway.handle_text(&message.to_string(), self.now());
        self.execute();
    }

    pub(crate) fn resolved(&mut self, name: &str, resolution: culvert_gateway_core::Resolution) {
        let name = name.parse().expect("a name");
        self.gateway.handle_resolved(&name, resolution, self.now());
        self.execute();
    }

    pub(crate) fn pass(&mut self, span_ms: u64) {
        self.now_ms += span_ms;
        self.gateway.handle_timeout(self.now());
        self.execute();
    }

    fn execute(&mut self) {
        while let Some(output) = self.gateway.poll_output() {
            match output {
                Output::Engine { peers, table } => {
                    peers.iter().for_each(|update| self.update(update));
                    self.table = table;
                }
                Output::ToPortal(FromGateway::GrantAccepted { grant, .. }) => {
                    self.said.push((grant.to_string(), true));
                }
                Output::ToPortal(FromGateway::GrantRefused { grant, reason }) => {
                    assert!(reason.text.len() < 1_000, "{reason:?}");
                    self.said.push((grant.to_string(), false));
                }
                Output::Resolve(_) => self.asked += 1,
                _ => {}
            }
        }
    }

    fn update(&mut self, update: &PeerUpdate) {
        match update {
            PeerUpdate::Remove(key) => drop(self.peers.remove(key)),
            PeerUpdate::Set {
                key,
                gate_key,
                ipv4,
                ipv6,
                ..
            } => {
                let peer = Peer {
                    gate_key: *gate_key,
                    addresses: [(*ipv4).into(), (*ipv6).into()],
                };
                self.peers.insert(*key, peer);
            }
        }
    }

    /// The destination to which a packet of the peer for `to` is forwarded; none if it is dropped.
    pub(crate) fn send(&self, peer: &Peer, to: IpAddr) -> Option<IpAddr> {
        let mut packet = datagram(peer.addresses, to);
        let mut gate = Gate::with_max_flows(Seed::new([3; 32]), 1);
        let frame = Frame::packet(&mut packet);
        match gate.admit_from_client(&self.table, self.now(), peer.gate_key, frame) {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => Some(destination(&packet)),
            Verdict::Drop(_) => None,
        }
    }
}

/// True for an address of this machine, of the local link with its metadata services, or of a group.
pub(crate) fn is_never_forwarded(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_unspecified()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unspecified()
                // Of the link, and of the site (RFC 3879).
                || matches!(v6.segments()[0] & 0xffc0, 0xfe80 | 0xfec0)
                || v6.to_ipv4_mapped().is_some()
        }
    }
}

/// True for an address in the ranges of machines or of names.
pub(crate) fn is_of_the_tunnel(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1]),
        IpAddr::V6(v6) => match v6.segments() {
            // `MACHINES_V6` and `NAMES_V6`.
            [0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, _] => true,
            [0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, sixth, _] => sixth < 0x20,
            _ => false,
        },
    }
}

fn datagram(from: [IpAddr; 2], to: IpAddr) -> Vec<u8> {
    let mut packet = Vec::new();
    match (from, to) {
        ([IpAddr::V4(from), _], IpAddr::V4(to)) => {
            packet.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        ([_, IpAddr::V6(from)], IpAddr::V6(to)) => {
            packet.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        other => panic!("{other:?}"),
    }
    packet.extend([0x0F, 0xA0, 0x01, 0xBB, 0, 8, 0x12, 0x34]);
    packet
}

fn destination(packet: &[u8]) -> IpAddr {
    match packet[0] >> 4 {
        4 => <[u8; 4]>::try_from(&packet[16..20])
            .expect("four octets")
            .into(),
        _ => <[u8; 16]>::try_from(&packet[24..40])
            .expect("sixteen octets")
            .into(),
    }
}
