//! The state and counters of a device, for people and for metrics: no secrets.

use culvert_base::Prefix;
use culvert_datapath::BatchSizes;
use culvert_policy::gate::Evicted;
use culvert_session::{PublicKey, Suite};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A device at one moment. Counters count from its start.
#[derive(Clone, Debug)]
pub struct Status {
    /// When this was: time since the machine was booted, sleep included. The spans of [`PeerStatus`]
    /// count back from here, so that one event has the same time in every report.
    pub at: Duration,
    /// Name of the interface.
    pub interface: String,
    /// The device's public key.
    pub public_key: Option<PublicKey>,
    /// The port bound, or the one that will be at link up.
    pub listen_port: u16,
    /// 0 is none.
    pub mark: u32,
    /// True if the link is up and the sockets are open.
    pub is_up: bool,
    /// The reason for which the sockets could not be opened, if the interface is up all the same.
    pub down_because: Option<String>,
    /// The device's own datagrams came back into its interface: a line that says why, and the fix.
    pub loop_problem: Option<String>,
    /// The sender of packets that were dropped within the last minute: its address is not this end's in the tunnel.
    pub foreign_source: Option<ForeignSource>,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Suite of peers that are not given one of their own.
    pub suite: Suite,
    /// Offloads and the like: what it is, whether it is in use, and why not.
    pub features: Vec<FeatureStatus>,
    /// One entry per worker.
    pub workers: Vec<WorkerStatus>,
    /// Handshake messages.
    pub handshakes: HandshakeStatus,
    /// Messages about paths.
    pub path_messages: PathMessageStatus,
    /// Times all sessions began anew because this machine may be a copy: cloned, restored or asleep.
    pub generation_changes: u64,
    /// Everything that was dropped, over all workers, zero counts included.
    pub drops: Vec<DropStatus>,
    /// Flows that the gate knows; `None` where there is no gate.
    pub flows: Option<usize>,
    /// Flows that made room for others; `None` where there is no gate.
    pub flows_evicted: Option<Evicted>,
    /// In the order of their public keys.
    pub peers: Vec<PeerStatus>,
}

/// A sender whose packets do not belong into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignSource {
    /// Its address.
    pub address: IpAddr,
    /// True for an address of this host: such packets answer somebody who came by another interface.
    pub is_of_this_host: bool,
}

/// The state of an optional mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureStatus {
    /// For example `tso4`.
    pub name: &'static str,
    /// `None` where it is in use, the reason where not.
    pub off_because: Option<String>,
}

/// Counters of one worker.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    /// Turns of its loop.
    pub turns: u64,
    /// Times it slept for want of work.
    pub sleeps: u64,
    /// Times it paused under a stream of UDP packets.
    pub pauses: u64,
    /// Times it polled for the answer to a priority packet rather than sleep.
    pub busy_polls: u64,
    /// Those of them in which something arrived.
    pub busy_polls_answered: u64,
    /// Priority datagrams that it carried in without ending its turn first.
    pub mid_turn: u64,
    /// Times it decided to stay on the processor that it ran on.
    pub pinned: u64,
    /// Frames read from the TUN.
    pub tun_frames_received: u64,
    /// Frames written to the TUN.
    pub tun_frames_sent: u64,
    /// Frames that left in the batch of one before them.
    pub frames_joined: u64,
    /// UDP send calls.
    pub udp_sends: u64,
    /// UDP receive calls that returned something.
    pub udp_receives: u64,
    /// Receive calls that failed for another reason than that nothing was there.
    pub udp_receive_failures: u64,
    /// Times the UDP socket was full.
    pub udp_blocked: u64,
    /// Times another worker's batch had to leave first.
    pub turn_waits: u64,
    /// Sends repeated datagram by datagram.
    pub segmentation_refused: u64,
    /// Superframes that the TUN refused.
    pub superframe_refused: u64,
    /// ICMP messages written to the TUN.
    pub icmp_sent: u64,
    /// Packets marked because their queue stood for too long.
    pub queue_marked: u64,
    /// Congestion marks taken over from outer headers.
    pub congestion_marked: u64,
    /// Packets per frame read from the TUN.
    pub cut: BatchStatus,
    /// Records per send.
    pub sealed: BatchStatus,
    /// Records per received buffer.
    pub received: BatchStatus,
    /// Packets per frame written to the TUN.
    pub coalesced: BatchStatus,
}

/// The sizes of batches, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStatus {
    /// Bucket `i` counts batches of 2^i up to 2^(i+1)−1 packets.
    pub buckets: [u64; BatchSizes::BUCKETS],
    /// Sum of all sizes.
    pub packets: u64,
}

/// Counters of handshake messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeStatus {
    /// Initiations, responses and cookie replies sent.
    pub sent: u64,
    /// Handshake messages accepted.
    pub received: u64,
    /// Handshake messages that could not be sent.
    pub send_failures: u64,
    /// Snapshots given to the workers.
    pub snapshots: u64,
}

/// Counters of messages about paths: those with relays, and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMessageStatus {
    /// Messages sent.
    pub sent: u64,
    /// Messages that could not be sent.
    pub send_failures: u64,
}

/// The number of drops for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStatus {
    /// The stage of the road.
    pub stage: &'static str,
    /// The reason of the drop.
    pub reason: &'static str,
    /// The number of times.
    pub count: u64,
}

/// The place of a watched peer, and its last handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedPeer {
    /// Its public key.
    pub public_key: PublicKey,
    /// The source of its last authenticated packet.
    pub endpoint: SocketAddr,
    /// The stamp of the last completed handshake. Two handshakes have two of them.
    pub last_handshake: Duration,
}

/// One peer, without its secrets.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its public key.
    pub public_key: PublicKey,
    /// The address from which it was last heard, or at which it is believed to be.
    pub endpoint: Option<SocketAddr>,
    /// The source of its last record, if the endpoint is pinned elsewhere.
    pub heard_elsewhere: Option<SocketAddr>,
    /// Our address that answers go out from, where one is remembered.
    pub source: Option<IpAddr>,
    /// In the order of addresses.
    pub allowed_ips: Vec<Prefix>,
    /// Suite in force.
    pub suite: Suite,
    /// True if there is a pre-shared key.
    pub has_preshared_key: bool,
    /// `None` is off.
    pub keepalive: Option<Duration>,
    /// Wall-clock time since the Unix epoch of the last completed handshake.
    pub last_handshake: Option<Duration>,
    /// The time since anything authentic came from the peer, to within a millisecond.
    pub last_received: Option<Duration>,
    /// For how long data has been sent to the peer without anything authentic coming back.
    pub unanswered_for: Option<Duration>,
    /// Bytes received from the peer, headers of the tunnel included.
    pub rx_bytes: u64,
    /// Bytes sent to the peer, headers of the tunnel included.
    pub tx_bytes: u64,
    /// True if datagrams go one by one because the path refuses segmented sends.
    pub is_segmentation_refused: bool,
    /// MTU of the path in bytes, where it is known to be too small for full-size records.
    pub path_mtu: Option<u16>,
    /// The longest packet that a probe proved to pass the path, in bytes with all headers.
    pub measured_mtu: Option<u16>,
    /// The round-trip time of the path, as handshakes tell.
    pub round_trip: Option<Duration>,
}
