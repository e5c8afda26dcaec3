//! The data plane: the core's updates as changes of the engine's device, and the device's state as
//! reports to the core.

use crate::status::DropStatus;
use crate::{ClientError, Settings};
use culvert_base::Prefix;
use culvert_base::{BootTime, Traffic, UnixTime};
use culvert_client_core::{PacketRefusal, Peer, PeerReport, PeerUpdate};
use culvert_datapath::{Inside, Mechanisms, PathMessage, ServiceRoutes, Unrouted};
use culvert_engine::{
    AllowedIpChange, Change, Device, EngineError, ForeignSource, GateKind, Options, PeerChange,
};
use culvert_host::{Connection, InterfaceName, WakeUp, connections_from};
use culvert_packet::ip::Protocol;
use culvert_policy::RoutedServices;
use culvert_policy::gate::InboundRules;
use culvert_session::{PrivateKey, Suite};
use culvert_wire::messages::Interface;
use culvert_wire::{Cipher, PublicKey};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Packets without a route that wait to be looked at. The core takes one in microseconds; at most
/// that many of 64 KiB are 16 MiB, and a burst of first packets fits.
const MAX_WAITING_PACKETS: usize = 256;

/// Messages about paths that are taken in one turn of the event loop.
const PATH_MESSAGES_PER_TURN: usize = 64;

/// The core gives a peer as many candidates as the engine takes.
const _: () = assert!(culvert_path::TARGETS_MAX <= culvert_engine::MAX_CANDIDATES);

/// A gateway that has nothing to send back is heard in time even where one of its keepalives is lost.
const _: () = assert!(
    2 * culvert_session::PROMPT_KEEPALIVE_TIMEOUT.as_millis() < culvert_path::LISTEN.as_millis()
);

/// The interval of keepalives to a gateway by which flows may begin here: shorter than NATs forget UDP for (RFC 4787 REQ-5, two
/// minutes; many take 30 s).
const KEEP_OPEN: Duration = Duration::from_secs(25);

/// The time that the kernel may take to remove the interface; it takes milliseconds, more under load.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between two checks that the interface has gone.
const GONE_POLL: Duration = Duration::from_millis(10);

/// The engine's device with its events.
pub(crate) struct Tunnel {
    device: Arc<Device>,
    /// Packets without a route.
    pub(crate) unrouted: mpsc::Receiver<Unrouted>,
    /// Woken when messages about paths may wait.
    pub(crate) path_messages: WakeUp,
    /// Told when the device has ended, and why where it failed.
    pub(crate) ended: oneshot::Receiver<Option<EngineError>>,
}

/// The device's part of the status.
#[derive(Default)]
pub(crate) struct Told {
    /// Everything that was dropped, by stage and reason, where the count is not zero.
    pub(crate) drops: Vec<DropStatus>,
    /// The number of times that all sessions began anew, because the machine may be a copy.
    pub(crate) generation_changes: u64,
    /// Messages to relays, and probes, that were sent, and those that could not be; flows that the gate knows, and those that
    /// made room for others.
    pub(crate) counters: [(&'static str, u64); 4],
    /// Problems, each a line with its fix.
    pub(crate) problems: Vec<String>,
}

impl Tunnel {
    /// Makes the interface, down, with a key and a mark; or takes over the one that an earlier process left.
    pub(crate) fn start(settings: &Settings, key: PrivateKey) -> Result<Self, ClientError> {
        let (packets, received) = sync_channel(MAX_WAITING_PACKETS);
        let path_messages = WakeUp::default();
        let device = Arc::new(Device::start(Options {
            interface: settings.interface.as_str().to_owned(),
            workers: settings.workers,
            mtu: settings.mtu,
            mechanisms: Mechanisms::ALL,
            suite: Suite::ChaCha20Poly1305,
            unrouted: Some(packets),
            path_messages: Some(path_messages.waker()),
            gate: GateKind::Client,
            listen_port: 0,
            mark: settings.routing.mark.get(),
            bind_when_looped: false,
            store: settings.store.clone(),
        })?);
        device.apply(Change {
            private_key: Some(Some(key)),
            ..Change::default()
        })?;
        let unrouted = forward(received)?;
        let (end, ended) = oneshot::channel();
        let watched = Arc::clone(&device);
        spawn("client-device", move || {
            // Nobody listens where the client ended first.
            let _unheard = end.send(watched.wait().err());
        })?;
        Ok(Self {
            device,
            unrouted,
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

    /// Carries out updates, and lets packets go on under them.
    pub(crate) fn apply(
        &self,
        peers: Vec<PeerUpdate>,
        services: Option<BTreeMap<Prefix, RoutedServices>>,
        inbound: Option<InboundRules>,
        resume: Vec<Unrouted>,
    ) -> Result<(), EngineError> {
        self.device.apply(Change {
            peers: peers.into_iter().map(peer_change).collect(),
            service_routes: services.map(ServiceRoutes::new),
            inbound,
            resume,
            ..Change::default()
        })
    }

    /// Tells the device its addresses in the tunnel: nothing else is sent from, and ICMP errors about packets of theirs pass
    /// from whatever router behind a gateway.
    pub(crate) fn set_inside(&self, interface: Interface) -> Result<(), EngineError> {
        self.adopt_connections(interface);
        self.device.apply(Change {
            inside: Some(Inside {
                v4: interface.ipv4,
                v6: interface.ipv6,
            }),
            ..Change::default()
        })
    }

    /// Connections outlast a restart of the client where the interface does, and a program that only receives sends nothing by
    /// which the gate would know them.
    fn adopt_connections(&self, interface: Interface) {
        let connections = connections_from(&[interface.ipv4.into(), interface.ipv6.into()]);
        for Connection {
            is_tcp,
            own,
            remote,
        } in connections
        {
            let protocol = match is_tcp {
                true => Protocol::TCP,
                false => Protocol::UDP,
            };
            self.device.adopt_flow(protocol, own, remote);
        }
    }

    /// Messages of relays, and probes, that have come: some of them where many wait.
    pub(crate) fn take_path_messages(&self) -> Vec<PathMessage> {
        let waiting = std::iter::from_fn(|| self.device.next_path_message());
        let taken: Vec<PathMessage> = waiting.take(PATH_MESSAGES_PER_TURN).collect();
        if taken.len() == PATH_MESSAGES_PER_TURN {
            self.path_messages.waker().wake();
        }
        taken
    }

    /// Sends a message to a relay, or a probe. One that does not leave is repeated by the core.
    pub(crate) fn send_path_message(&self, datagram: &[u8], to: SocketAddr) {
        self.device.send_path_message(datagram, to, None);
    }

    /// Sends to a peer there from now on.
    pub(crate) fn use_path(
        &self,
        key: PublicKey,
        address: Option<SocketAddr>,
    ) -> Result<(), EngineError> {
        self.device.pin_endpoint(key, address)
    }

    /// Sends the initiation that waits to one more address.
    pub(crate) fn repeat_initiation(
        &self,
        key: PublicKey,
        to: SocketAddr,
    ) -> Result<(), EngineError> {
        self.device.repeat_initiation(key, to)
    }

    /// Tells the senders of packets that they go nowhere.
    pub(crate) fn refuse(&self, packets: Vec<Unrouted>, refusal: PacketRefusal) {
        let refusal = match refusal {
            PacketRefusal::Prohibited => culvert_datapath::RouteRefusal::Prohibited,
            PacketRefusal::Unreachable => culvert_datapath::RouteRefusal::Unreachable,
        };
        self.device.refuse(packets, refusal);
    }

    /// The port of its sockets, while they are open.
    pub(crate) fn port(&self) -> Result<Option<u16>, EngineError> {
        Ok(port_of(self.device.status()?.as_ref()))
    }

    /// The device's peers, and the port of its sockets while they are open.
    pub(crate) fn reports(&self) -> Result<(Vec<PeerReport>, Option<u16>), EngineError> {
        let status = self.device.status()?;
        let now = BootTime::ZERO.saturating_add(status.at);
        let ago = |span: Duration| now.saturating_sub(span);
        let report = |peer: &culvert_engine::PeerStatus| PeerReport {
            key: peer.public_key,
            endpoint: peer.endpoint,
            handshake: peer.last_handshake.map(UnixTime::after_epoch),
            received: peer.last_received.map(ago),
            unanswered: peer.unanswered_for.map(ago),
            rx_bytes: peer.rx_bytes,
            tx_bytes: peer.tx_bytes,
            measured_mtu_bytes: peer.measured_mtu,
            heard_elsewhere: peer.heard_elsewhere,
        };
        let reports = status.peers.iter().map(report).collect();
        Ok((reports, port_of(&status)))
    }

    /// The bytes that were counted at the first `places` places.
    pub(crate) fn traffic(&self, places: usize) -> Vec<Traffic> {
        self.device.traffic(places)
    }

    /// The device's part of the status; nothing where it has ended.
    pub(crate) fn told(&self) -> Told {
        let Ok(status) = self.device.status() else {
            return Told::default();
        };
        let drops = status.drops.iter().filter(|drop| drop.count > 0);
        let foreign = status.foreign_source;
        let foreign = foreign.map(|source| foreign_problem(source, &status.interface, status.mark));
        let problems = [status.loop_problem, foreign];
        let told = drops.map(|drop| DropStatus {
            stage: drop.stage.to_owned(),
            reason: drop.reason.to_owned(),
            count: drop.count,
        });
        Told {
            drops: told.collect(),
            generation_changes: status.generation_changes,
            counters: [
                ("path_messages_sent", status.path_messages.sent),
                ("path_messages_unsent", status.path_messages.send_failures),
                ("flows", status.flows.unwrap_or(0) as u64),
                (
                    "flows_evicted_when_full",
                    status.flows_evicted.map_or(0, |evicted| evicted.full),
                ),
            ],
            problems: problems.into_iter().flatten().collect(),
        }
    }

    /// Ends the device, and waits until its interface has gone, so that the next one may have its name.
    pub(crate) async fn stop(mut self, interface: &InterfaceName) {
        self.device.stop();
        let gone = async {
            // The device's threads hold the interface; a service manager may hold it a moment longer.
            if !self.ended.is_terminated() {
                let _why = (&mut self.ended).await;
            }
            while interface.index().is_some() {
                sleep(GONE_POLL).await;
            }
        };
        if timeout(GONE_TIMEOUT, gone).await.is_err() {
            tracing::warn!(%interface, "the interface is still there");
        }
    }

    /// Ends the device; its interface stays with the store for the next process.
    pub(crate) fn leave(&self) {
        self.device.leave();
    }
}

fn port_of(status: &culvert_engine::Status) -> Option<u16> {
    status.is_up.then_some(status.listen_port)
}

/// The reason why a gateway did not let a packet pass; `None` if it had no route.
pub(crate) fn refused_by_gateway(packet: &Unrouted) -> Option<PacketRefusal> {
    packet.refused_by_peer().map(|refusal| match refusal {
        culvert_datapath::RouteRefusal::Prohibited => PacketRefusal::Prohibited,
        culvert_datapath::RouteRefusal::Unreachable => PacketRefusal::Unreachable,
    })
}

fn peer_change(update: PeerUpdate) -> PeerChange {
    match update {
        PeerUpdate::Set(peer) => set(*peer),
        PeerUpdate::BeginHandshake(key) => {
            let mut change = PeerChange::new(key);
            change.update_only = true;
            change.begin_handshake = true;
            change
        }
        PeerUpdate::Remove(key) => {
            let mut change = PeerChange::new(key);
            change.remove = true;
            change
        }
    }
}

fn set(peer: Peer) -> PeerChange {
    let mut change = PeerChange::new(peer.key);
    change.preshared_key = Some(peer.preshared_key);
    change.candidates = Some(peer.candidates);
    change.suite = Some(Some(match peer.cipher {
        Cipher::ChaCha20Poly1305 => Suite::ChaCha20Poly1305,
        Cipher::Aes256Gcm => Suite::Aes256Gcm,
    }));
    change.keepalive = Some(peer.is_kept_open.then_some(KEEP_OPEN));
    change.replace_allowed_ips = true;
    let ranges = peer.allowed_ips.into_iter();
    change.allowed_ips = ranges.map(AllowedIpChange::Add).collect();
    change.counted = peer.counted;
    change
}

/// The workers speak to a channel that blocks, the client listens to one that does not.
fn forward(received: Receiver<Unrouted>) -> Result<mpsc::Receiver<Unrouted>, ClientError> {
    // One packet is on its way between the two: the bound is that of the first channel.
    let (sender, receiver) = mpsc::channel(1);
    spawn("client-packets", move || {
        while let Ok(packet) = received.recv() {
            if sender.blocking_send(packet).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), ClientError> {
    let thread = thread::Builder::new().name(name.to_owned());
    let spawned = thread
        .spawn(body)
        .map_err(ClientError::system("start a thread"));
    spawned.map(drop)
}

/// The reason why packets from foreign sources do not go into the tunnel, and the command that
/// helps.
fn foreign_problem(source: ForeignSource, interface: &str, mark: u32) -> String {
    let ForeignSource {
        address,
        is_of_this_host,
    } = source;
    match is_of_this_host {
        true => format!(
            "answers from {address} went towards the tunnel and were dropped: they belong to connections that came by another \
             interface, to a published port of a container or to a program of this host. To let answers leave as the \
             questions came: `nft 'table inet culvert-answers {{ chain forwarded {{ type filter hook prerouting priority \
             mangle; ct direction reply meta mark set {mark:#x}; }}; chain own {{ type route hook output priority mangle; \
             ct direction reply meta mark set {mark:#x}; }}; }}'`"
        ),
        false => format!(
            "packets from {address}, for which this host forwards, went towards the tunnel and were dropped: they need this \
             host's address. To have them translated: `nft 'table inet culvert-guests {{ chain translated {{ type nat hook \
             postrouting priority srcnat; oifname \"{interface}\" masquerade; }}; }}'`"
        ),
    }
}
