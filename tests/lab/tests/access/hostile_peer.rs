//! A gateway in the hands of somebody else: it has the real one's key and secret, holds a session with the client, and sends
//! any bytes through it.
//!
//! The real gateway goes on beside it, so that the portal takes it for healthy and the client keeps its grants. Datagrams that
//! come to its port are handed to this peer, and none of its own leave.

use crate::common::SOON;
use crate::kept_grants::kept_secret;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_base::{BootTime, PresharedKey, PublicKey};
use culvert_lab::product::{Client, Product};
use culvert_lab::wait_until;
use culvert_session::parse::{DataHeader, MessageType, message_type};
use culvert_session::{
    Clock, DATA_HEADER_LEN, DATA_OVERHEAD, Destination, Handshaker, Output, PeerId, PrivateKey,
    Suite, Tai64n, Transport,
};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The port of this peer; to the client it is the gateway's.
const PORT: u16 = 51_821;
/// A wait for one datagram.
const TURN: Duration = Duration::from_millis(200);
/// More than any datagram of the lab has.
const BUFFER_LEN: usize = 65_536;

/// The hostile gateway.
pub(crate) struct HostilePeer {
    socket: UdpSocket,
    shaker: Handshaker,
    client: PeerId,
    endpoint: Option<SocketAddr>,
    keys: Option<Arc<Transport>>,
    begun: Instant,
}

impl HostilePeer {
    /// Takes the place of a gateway that the client uses to reach `behind`, and begins a session with the client.
    pub(crate) fn take_over(product: &Product, gateway: usize, behind: &str) -> Result<Self> {
        let (client, gateway) = (&product.client, &product.gateways[gateway]);
        let status = client.status()?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let used = status["gateways"].as_array().into_iter().flatten();
        let mut used = used.filter(|used| used["name"] == gateway.name.as_str());
        let used = used.next().context("the client does not use the gateway")?;
        let endpoint: SocketAddr = text(&used["endpoint"]).context("no gateway")?.parse()?;
        let suite = match text(&used["cipher"]).context("no cipher")?.as_str() {
            "aes256gcm" => Suite::Aes256Gcm,
            _ => Suite::ChaCha20Poly1305,
        };
        let key = text(&status["public_key"]).context("no key")?;
        // The gateway writes it down once it has granted.
        let stored = || kept_secret(gateway);
        wait_until("the gateway to keep its grant", SOON, || stored().is_some())?;
        let secret = stored().context("the gateway keeps no grant")?;
        let private_key = PrivateKey::from_bytes(key_in(&gateway.state_dir().join("private.key"))?);

        let own_port = endpoint.port();
        gateway.namespace.shell(&format!(
            "nft 'table inet hostile {{
                chain in {{ type filter hook prerouting priority -310; udp dport {own_port} udp dport set {PORT}; }}
                chain out {{ type filter hook output priority -310; udp sport {own_port} drop; udp sport {PORT} udp sport set {own_port}; }}
            }}'"
        ))?;
        let socket = gateway
            .namespace
            .inside(|| Ok(UdpSocket::bind(("::", PORT))?))?;
        socket.set_read_timeout(Some(TURN))?;
        let mut peer = Self {
            socket,
            // The test proves nothing about the choice of its own keys.
            shaker: Handshaker::new([7; 32]),
            client: PeerId(0),
            endpoint: None,
            keys: None,
            begun: Instant::now(),
        };
        let clock = peer.clock();
        peer.shaker.set_private_key(Some(private_key), clock);
        peer.shaker.set_up(true, clock);
        peer.client = peer.shaker.add_peer(PublicKey::from_bytes(key_of(&key)?))?;
        peer.shaker
            .set_preshared_key(peer.client, PresharedKey::from(key_of(&secret)?));
        peer.shaker.set_suite(peer.client, suite);
        peer.begin_session(client, behind)?;
        Ok(peer)
    }

    /// Hears from the client, and shakes hands with it. A packet of the client has shown where it is.
    fn begin_session(&mut self, client: &Client, behind: &str) -> Result<()> {
        let ping = format!("ping -c 1 -W 1 {behind}");
        let deadline = Instant::now() + SOON;
        while self.keys.is_none() {
            anyhow::ensure!(Instant::now() < deadline, "the client shakes no hands");
            if self.endpoint.is_none() {
                let _nobody_answers = client.namespace.outcome(&ping)?;
            } else {
                let clock = self.clock();
                self.shaker.handle_wanted(self.client, clock);
                self.execute()?;
            }
            let _none_yet = self.receive()?;
        }
        Ok(())
    }

    /// The packet in the next datagram of the client, if one comes within a moment and has one.
    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let mut buffer = vec![0; BUFFER_LEN];
        let Ok((len, source)) = self.socket.recv_from(&mut buffer) else {
            let clock = self.clock();
            self.shaker.handle_timeout(clock);
            self.execute()?;
            return Ok(None);
        };
        self.endpoint = Some(source);
        let datagram = &mut buffer[..len];
        if message_type(datagram) != Some(MessageType::Data) {
            let clock = self.clock();
            let _refused = self.shaker.handle_datagram(datagram, source, false, clock);
            self.execute()?;
            return Ok(None);
        }
        let clock = self.clock();
        let now = clock.now;
        let receiver = DataHeader::parse(datagram).map(|header| header.receiver);
        let keys: Vec<_> = self.shaker.receiving(self.client).collect();
        let mut keys = keys.into_iter();
        let Some(keys) = keys.find(|keys| Some(keys.local_index()) == receiver) else {
            return Ok(None);
        };
        let opened = keys.open_batch(datagram, len, now);
        let (is_opened, index) = (!opened.opened().is_empty(), keys.local_index());
        if is_opened && keys.confirm(now) {
            self.shaker.handle_confirmed(self.client, index, clock);
            self.execute()?;
        }
        if !is_opened || len == DATA_OVERHEAD {
            return Ok(None);
        }
        let end = len - (DATA_OVERHEAD - DATA_HEADER_LEN);
        Ok(Some(datagram[DATA_HEADER_LEN..end].to_vec()))
    }

    /// Waits for a packet of the client of which something is true.
    pub(crate) fn wait_for(&mut self, is_it: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>> {
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            if let Some(packet) = self.receive()?.filter(|packet| is_it(packet)) {
                return Ok(packet);
            }
        }
        anyhow::bail!("the client has sent no such packet")
    }

    /// Seals these bytes as they are, and sends them to the client.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<()> {
        let clock = self.clock();
        let now = clock.now;
        let keys = self.keys.clone().context("no session")?;
        if keys.wants_rekey_on_send(now) {
            self.shaker.handle_wanted(self.client, clock);
            self.execute()?;
        }
        let reservation = keys.reserve(1, now).context("the key is used up")?;
        let len = packet.len() + DATA_OVERHEAD;
        let mut record = vec![0; len];
        record[DATA_HEADER_LEN..][..packet.len()].copy_from_slice(packet);
        keys.seal_batch(reservation, &mut record, len);
        let to = self.endpoint.context("the client is nowhere")?;
        self.socket.send_to(&record, to)?;
        Ok(())
    }

    fn execute(&mut self) -> Result<()> {
        while let Some(output) = self.shaker.poll_output() {
            match output {
                Output::Send { datagram, to, .. } => {
                    let to = match to {
                        Destination::Peer => self.endpoint,
                        Destination::Reply(to) => Some(to),
                    };
                    if let Some(to) = to {
                        self.socket.send_to(&datagram, to)?;
                    }
                }
                Output::KeysChanged { .. } => self.keys = self.shaker.sending(self.client),
                _ => {}
            }
        }
        Ok(())
    }

    fn clock(&self) -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.unwrap_or_default();
        // A device is never asked about the moment at which its clock began.
        let up = self.begun.elapsed() + Duration::from_secs(1_000);
        Clock {
            now: BootTime::from_nanos(u64::try_from(up.as_nanos()).unwrap_or(u64::MAX)),
            wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
        }
    }
}

fn key_in(file: &Path) -> Result<[u8; 32]> {
    key_of(&std::fs::read_to_string(file)?)
}

fn key_of(text: &str) -> Result<[u8; 32]> {
    let bytes = STANDARD.decode(text.trim())?;
    bytes.try_into().ok().context("a key has 32 bytes")
}
