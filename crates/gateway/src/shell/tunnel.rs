//! The data plane: the core's updates as changes of the engine's device.

use crate::GatewayError;
use crate::settings::Settings;
use crate::status::DropStatus;
use culvert_aead::Suite;
use culvert_base::Prefix;
use culvert_base::{UnixTime, whole_millis};
use culvert_datapath::{Mechanisms, PathMessage};
use culvert_engine::{
    AllowedIpChange, Change, Device, EngineError, GateKind, Options, PeerChange, PeerStatus,
    TakenFlows,
};
use culvert_gateway_core::{HeardDevice, PeerUpdate};
use culvert_host::{SourceAddress, WakeUp};
use culvert_policy::gate::{Evicted, GateTable};
use culvert_session::PrivateKey;
use culvert_wire::Cipher;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Messages about paths that are taken in one turn of the event loop.
const PATH_MESSAGES_PER_TURN: usize = 256;

/// The engine's device.
pub(crate) struct Tunnel {
    device: Arc<Device>,
    /// Woken when messages about paths may wait.
    pub(crate) path_messages: WakeUp,
    /// Told when the device has ended, and why where it failed.
    pub(crate) ended: oneshot::Receiver<Option<EngineError>>,
}

/// The traffic that the device has carried and dropped so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrafficCounts {
    pub(crate) bytes: u64,
    pub(crate) flows: usize,
    pub(crate) flows_evicted: Evicted,
    pub(crate) peers: Vec<PeerTraffic>,
    /// By stage and reason, where it is not zero.
    pub(crate) drops: Vec<DropStatus>,
    /// The number of times that all sessions of clients began anew, because the machine may be a
    /// copy.
    pub(crate) generation_changes: u64,
    /// Messages to relays, and probes, that were sent, and those that could not be.
    pub(crate) path_messages: (u64, u64),
}

/// The device's counters and state of one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerTraffic {
    pub(crate) key: culvert_wire::PublicKey,
    pub(crate) endpoint: Option<SocketAddr>,
    pub(crate) handshake: Option<UnixTime>,
    pub(crate) heard_ms_ago: Option<u64>,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_bytes: u64,
}

impl Tunnel {
    /// Makes the interface, down, with a key, a port and a mark; or takes over the one that an earlier process left.
    /// Nothing passes it yet.
    pub(crate) fn start(settings: &Settings, key: PrivateKey) -> Result<Self, GatewayError> {
        let path_messages = WakeUp::default();
        let device = Arc::new(Device::start(Options {
            interface: settings.interface.as_str().to_owned(),
            workers: settings.workers,
            mtu: settings.mtu,
            mechanisms: Mechanisms::ALL,
            suite: Suite::ChaCha20Poly1305,
            unrouted: None,
            path_messages: Some(path_messages.waker()),
            gate: GateKind::Gateway {
                masquerades: settings.source == SourceAddress::Masquerade,
            },
            listen_port: settings.listen_port,
            mark: settings.routing.mark.get(),
            bind_when_looped: false,
            store: settings.store.clone(),
        })?);
        device.apply(Change {
            private_key: Some(Some(key)),
            ..Change::default()
        })?;
        let (end, ended) = oneshot::channel();
        let watched = Arc::clone(&device);
        std::thread::Builder::new()
            .name("gateway-device".to_owned())
            .spawn(move || {
                // Nobody listens where the gateway ended first.
                let _unheard = end.send(watched.wait().err());
            })
            .map_err(GatewayError::system("start a thread"))?;
        Ok(Self {
            device,
            path_messages,
            ended,
        })
    }

    /// Stamps handshakes by the boot-time clock, which showed zero at that Unix time.
    pub(crate) fn stamp_from(&self, epoch: UnixTime) -> Result<(), EngineError> {
        self.device.apply(Change {
            stamp_epoch: Some(epoch),
            ..Change::default()
        })
    }

    /// Carries out updates, and puts a table in force.
    pub(crate) fn apply(
        &self,
        peers: Vec<PeerUpdate>,
        table: Arc<GateTable>,
    ) -> Result<(), EngineError> {
        self.device.apply(Change {
            peers: peers.into_iter().map(peer_change).collect(),
            gate: Some(table),
            ..Change::default()
        })
    }

    pub(crate) fn traffic(&self) -> Result<TrafficCounts, EngineError> {
        let status = self.device.status()?;
        let peers = status.peers.iter();
        let drops = status.drops.iter().filter(|drop| drop.count > 0);
        Ok(TrafficCounts {
            bytes: peers
                .clone()
                .map(|peer| peer.rx_bytes + peer.tx_bytes)
                .sum(),
            flows: status.flows.unwrap_or(0),
            flows_evicted: status.flows_evicted.unwrap_or_default(),
            generation_changes: status.generation_changes,
            path_messages: (
                status.path_messages.sent,
                status.path_messages.send_failures,
            ),
            peers: peers.map(peer_traffic).collect(),
            drops: drops
                .map(|drop| DropStatus {
                    stage: drop.stage.to_owned(),
                    reason: drop.reason.to_owned(),
                    count: drop.count,
                })
                .collect(),
        })
    }

    /// Messages of relays, and probes of clients, that have come: some of them where many wait.
    pub(crate) fn take_path_messages(&self) -> Vec<PathMessage> {
        let waiting = std::iter::from_fn(|| self.device.next_path_message());
        let taken: Vec<PathMessage> = waiting.take(PATH_MESSAGES_PER_TURN).collect();
        if taken.len() == PATH_MESSAGES_PER_TURN {
            self.path_messages.waker().wake();
        }
        taken
    }

    /// Sends a message to a relay, or a probe. One that does not leave is repeated by the core, or by the client.
    pub(crate) fn send_path_message(&self, datagram: &[u8], to: SocketAddr) {
        self.device.send_path_message(datagram, to, None);
    }

    /// Sends to the clients at one address by another one from now on.
    pub(crate) fn move_clients(&self, from: SocketAddr, to: SocketAddr) -> Result<(), EngineError> {
        self.device.move_endpoints(from, to)
    }

    /// True if data that was sent to some client has been unanswered for a time in `span`.
    pub(crate) fn has_silent_peer(&self, span: Range<Duration>) -> Result<bool, EngineError> {
        self.device.has_silent_peer(span)
    }

    /// Plain WireGuard devices that have moved or had a handshake since the last time.
    pub(crate) fn take_heard(&self) -> Result<Vec<HeardDevice>, EngineError> {
        let watched = self.device.take_watched()?.into_iter();
        let heard = watched.map(|peer| HeardDevice {
            key: peer.public_key,
            address: peer.endpoint.ip(),
            handshake: peer.last_handshake,
        });
        Ok(heard.collect())
    }

    /// Flows that have ended since the last time; with `with_lasting` those that last as well.
    pub(crate) fn take_flows(&self, with_lasting: bool) -> Result<TakenFlows, EngineError> {
        self.device.take_flows(with_lasting)
    }

    /// Ends the device; its interface goes.
    pub(crate) fn stop(&self) {
        self.device.stop();
    }

    /// Ends the device; its interface stays with the store for the next process.
    pub(crate) fn leave(&self) {
        self.device.leave();
    }
}

fn peer_traffic(peer: &PeerStatus) -> PeerTraffic {
    PeerTraffic {
        key: peer.public_key,
        endpoint: peer.endpoint,
        handshake: peer.last_handshake.map(UnixTime::after_epoch),
        heard_ms_ago: peer.last_received.map(whole_millis),
        rx_bytes: peer.rx_bytes,
        tx_bytes: peer.tx_bytes,
    }
}

fn peer_change(update: PeerUpdate) -> PeerChange {
    match update {
        PeerUpdate::Remove(key) => {
            let mut change = PeerChange::new(key);
            change.remove = true;
            change
        }
        PeerUpdate::Set {
            key,
            preshared_key,
            cipher,
            gate_key,
            ipv4,
            ipv6,
            device,
        } => {
            let mut change = PeerChange::new(key);
            change.preshared_key = Some(preshared_key);
            change.gate_key = Some(gate_key);
            change.watch = device.is_some();
            change.suite = Some(Some(match cipher {
                Cipher::ChaCha20Poly1305 => Suite::ChaCha20Poly1305,
                Cipher::Aes256Gcm => Suite::Aes256Gcm,
            }));
            change.replace_allowed_ips = true;
            let addresses = [IpAddr::V4(ipv4), IpAddr::V6(ipv6)];
            change.allowed_ips = addresses
                .map(|address| AllowedIpChange::Add(Prefix::host(address)))
                .into();
            change
        }
    }
}
