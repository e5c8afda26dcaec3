//! Changes of a running device, and its configuration.

use crate::store::DescriptorStore;
use culvert_aead::Suite;
use culvert_base::UnixTime;
use culvert_base::{AllowedIpChange, Prefix, TrafficSlot};
use culvert_datapath::{Inside, Mechanisms, ServiceRoutes, Unrouted};
use culvert_policy::gate::{GateTable, InboundRules, PeerKey};
use culvert_session::{PresharedKey, PrivateKey, PublicKey};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::Waker;
use std::time::Duration;

/// The settings that a device starts with. Those that may change while it runs are in [`Change`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the interface, or a pattern such as `wg%d`.
    pub interface: String,
    /// Packet workers, 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// MTU that the interface starts with, in bytes.
    pub mtu: u16,
    /// The mechanisms that make the road fast.
    pub mechanisms: Mechanisms,
    /// Suite of peers that are not given one of their own.
    pub suite: Suite,
    /// The receiver of packets that no peer has a route for, or that their peer refuses, instead of their sender: the
    /// channel's bound is how many wait, and what finds it full is dropped.
    pub unrouted: Option<SyncSender<Unrouted>>,
    /// Is woken when messages about paths may wait ([`Device::next_path_message`](crate::Device::next_path_message)).
    /// Without it, such messages are dropped as unknown.
    pub path_messages: Option<Waker>,
    /// The judge of packets.
    pub gate: GateKind,
    /// UDP port that the device starts with; 0 lets the kernel choose.
    pub listen_port: u16,
    /// `SO_MARK` of what leaves that it starts with; 0 is none.
    pub mark: u32,
    /// True if sockets whose datagrams come back into the interface are bound to the interface by which they should
    /// leave. Not for a host whose rules refuse packets outside the tunnel: there the rules are to keep datagrams out.
    pub bind_when_looped: bool,
    /// The store that keeps interface and sockets over a restart of the process. Those of an earlier process that
    /// are there and fit are taken over.
    pub store: Option<Arc<dyn DescriptorStore>>,
}

/// The judge of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateKind {
    /// None but allowed IPs: plain WireGuard.
    Open,
    /// A gateway's: it judges every packet by a table of grants. Until there is one, nothing passes.
    Gateway {
        /// True if packets that it lets pass leave this machine under one address for all peers.
        masquerades: bool,
    },
    /// A client's: nothing comes in but answers to what left. Until the device knows its own addresses ([`Change::inside`]),
    /// nothing comes in at all.
    Client,
}

/// The most candidates of one peer: a gateway with eight interfaces of two families, and its relays.
pub const MAX_CANDIDATES: usize = 20;

/// Queues per worker that flows are spread over, so that a flow rarely stands behind another's
/// backlog: with eight, two flows share a queue with probability 1/8.
pub const BULK_QUEUES_PER_WORKER: usize = 8;

/// The kernel allows a TUN 256 queues: two are priority queues, and each worker takes
/// [`BULK_QUEUES_PER_WORKER`] of the others.
pub const MAX_WORKERS: usize =
    (culvert_tun::MAX_QUEUES - culvert_base::frames::RESERVED_QUEUES) / BULK_QUEUES_PER_WORKER;

/// A change of the configuration, applied whole or not at all.
#[derive(Debug, Default)]
pub struct Change {
    /// `Some(None)` takes the key away.
    pub private_key: Option<Option<PrivateKey>>,
    /// 0 lets the kernel choose.
    pub listen_port: Option<u16>,
    /// `SO_MARK` of what leaves; 0 is none.
    pub mark: Option<u32>,
    /// Suite of peers that are not given one of their own.
    pub suite: Option<Suite>,
    /// True if all peers that are there are removed first, those that this change names too.
    pub replace_peers: bool,
    /// In the order in which they were asked for; one key may appear more than once.
    pub peers: Vec<PeerChange>,
    /// Packets that had no route before this change. They go on under it, ahead of what comes after
    /// them, so that no flow is reordered. Of more than 1000 at once the last may be dropped.
    pub resume: Vec<Unrouted>,
    /// The Unix time at the zero of [`crate::boot_time`], by which handshakes are stamped from here on instead of by the
    /// wall clock.
    pub stamp_epoch: Option<UnixTime>,
    /// Routes that are for some services alone, from here on.
    pub service_routes: Option<ServiceRoutes>,
    /// The grants of each client from here on. Its instants are those of [`crate::boot_time`].
    pub gate: Option<Arc<GateTable>>,
    /// At a client: what resources may begin at its host from here on.
    pub inbound: Option<InboundRules>,
    /// The addresses of this end in the tunnel, whose packets ICMP errors of any source may be about.
    pub inside: Option<Inside>,
}

/// The part of a [`Change`] about one peer.
#[derive(Debug)]
pub struct PeerChange {
    /// The peer; it is added if it does not exist.
    pub public_key: PublicKey,
    /// Removes it instead.
    pub remove: bool,
    /// Skips the change where the peer does not exist.
    pub update_only: bool,
    /// All zero takes the key away.
    pub preshared_key: Option<PresharedKey>,
    /// The address at which the peer is believed to be.
    pub endpoint: Option<SocketAddr>,
    /// Further addresses of the peer: each handshake initiation goes to all of these, at most
    /// [`MAX_CANDIDATES`], besides the endpoint. The peer answers the first copy that it gets and
    /// refuses the others as replays, so the fastest path that works wins and becomes the endpoint.
    pub candidates: Option<Vec<SocketAddr>>,
    /// Begins a handshake now, however fresh the keys are: the path is in doubt, or a better one may
    /// have come up.
    pub begin_handshake: bool,
    /// By which number the gate's table knows the peer. One without it may reach nothing.
    pub gate_key: Option<PeerKey>,
    /// Tells its moves and handshakes from here on ([`crate::Device::take_watched`]).
    pub watch: bool,
    /// `Some(None)` switches it off.
    pub keepalive: Option<Option<Duration>>,
    /// `Some(None)` returns to the device's suite.
    pub suite: Option<Option<Suite>>,
    /// True if allowed IPs that this change does not name are removed.
    pub replace_allowed_ips: bool,
    /// Ranges to give to the peer (taken from another that has them) or to remove from it.
    pub allowed_ips: Vec<AllowedIpChange>,
    /// Of the ranges to give, those whose bytes are counted, and where. At a client alone.
    pub counted: BTreeMap<Prefix, TrafficSlot>,
}

impl PeerChange {
    /// A change of `public_key` that changes nothing yet.
    pub fn new(public_key: PublicKey) -> Self {
        Self {
            public_key,
            remove: false,
            update_only: false,
            preshared_key: None,
            endpoint: None,
            candidates: None,
            begin_handshake: false,
            gate_key: None,
            watch: false,
            keepalive: None,
            suite: None,
            replace_allowed_ips: false,
            allowed_ips: Vec::new(),
            counted: BTreeMap::new(),
        }
    }
}

/// The configuration as it stands, secrets included: for the configuration socket alone.
#[derive(Debug)]
pub struct Configuration {
    /// The device's key.
    pub private_key: Option<PrivateKey>,
    /// The port bound, or the one that will be at link up.
    pub listen_port: u16,
    /// 0 is none.
    pub mark: u32,
    /// The device's suite.
    pub suite: Suite,
    /// In the order of their public keys.
    pub peers: Vec<PeerConfiguration>,
}

/// One peer's part of a [`Configuration`].
#[derive(Debug)]
pub struct PeerConfiguration {
    /// Its public key.
    pub public_key: PublicKey,
    /// `None` where there is none.
    pub preshared_key: Option<PresharedKey>,
    /// The address from which it was last heard, or at which it is believed to be.
    pub endpoint: Option<SocketAddr>,
    /// `None` is off.
    pub keepalive: Option<Duration>,
    /// `None` follows the device.
    pub suite: Option<Suite>,
    /// Wall-clock time since the Unix epoch of the last completed handshake.
    pub last_handshake: Option<Duration>,
    /// Bytes received from the peer, headers of the tunnel included.
    pub rx_bytes: u64,
    /// Bytes sent to the peer, headers of the tunnel included.
    pub tx_bytes: u64,
    /// In the order of addresses.
    pub allowed_ips: Vec<Prefix>,
}
