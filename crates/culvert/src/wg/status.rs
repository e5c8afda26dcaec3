//! The JSON form of an interface's status, for `culvert wg show` and the metrics.
//!
//! One line of this JSON is the answer to `culvert_status=1`. Within [`SCHEMA_VERSION`] fields are
//! added, never removed or given another meaning. No field is a secret.

use culvert_engine as engine;
use culvert_uapi::cipher_name;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the form below.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// An interface at one moment. Every counter counts from the start of its process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// [`SCHEMA_VERSION`].
    pub(crate) schema_version: u32,
    /// Version of the program that serves the interface.
    pub(crate) version: String,
    /// Name of the interface.
    pub(crate) interface: String,
    /// Milliseconds since the start: the difference of two is what rates are taken over.
    pub(crate) uptime_ms: u64,
    /// Base64, as `wg` writes keys.
    pub(crate) public_key: Option<String>,
    /// UDP port.
    pub(crate) listen_port: u16,
    /// 0 is none.
    pub(crate) fwmark: u32,
    /// True if the link is up.
    pub(crate) is_up: bool,
    /// The reason why the sockets could not be opened, if the interface is up all the same.
    #[serde(default)]
    pub(crate) down_because: Option<String>,
    /// Its own datagrams came back into the interface: why, and the fix.
    #[serde(default)]
    pub(crate) loop_problem: Option<String>,
    /// MTU of the interface.
    pub(crate) mtu_bytes: u16,
    /// Cipher of peers without one of their own.
    pub(crate) cipher: String,
    /// Offloads and the like.
    pub(crate) offloads: Vec<Offload>,
    /// One entry per worker.
    pub(crate) workers: Vec<Worker>,
    /// Handshake messages.
    pub(crate) handshakes: Handshakes,
    /// Times all sessions began anew because this machine may be a copy: cloned, restored or asleep.
    #[serde(default)]
    pub(crate) generation_changes: u64,
    /// Everything that can be dropped, zero counts included.
    pub(crate) drops: Vec<Drops>,
    /// In the order of their public keys.
    pub(crate) peers: Vec<Peer>,
}

/// The state of an optional mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offload {
    /// For example `tso4`.
    pub(crate) name: String,
    /// True if it is in use.
    pub(crate) is_on: bool,
    /// The reason why it is not in use.
    pub(crate) off_because: Option<String>,
}

/// The counters of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Worker {
    /// Turns of its loop.
    pub(crate) turns: u64,
    /// Times it slept for want of work.
    pub(crate) sleeps: u64,
    /// Times it paused under a stream of UDP packets.
    #[serde(default)]
    pub(crate) pauses: u64,
    /// Times it polled for the answer to a priority packet rather than sleep.
    #[serde(default, alias = "looks")]
    pub(crate) busy_polls: u64,
    /// Those of them in which something arrived.
    #[serde(default, alias = "looks_answered")]
    pub(crate) busy_polls_answered: u64,
    /// Priority datagrams that it carried in without ending its turn first.
    #[serde(default, alias = "attended")]
    pub(crate) mid_turn: u64,
    /// Times it decided to stay on the processor that it ran on.
    #[serde(default, alias = "stays")]
    pub(crate) pinned: u64,
    /// Frames read from the TUN; a superframe counts once.
    pub(crate) tun_frames_received: u64,
    /// Frames written to the TUN; a superframe counts once.
    pub(crate) tun_frames_sent: u64,
    /// UDP send calls.
    pub(crate) udp_sends: u64,
    /// UDP receive calls that returned something.
    pub(crate) udp_receives: u64,
    /// Frames that left in the batch of one before them.
    #[serde(default)]
    pub(crate) frames_joined: u64,
    /// Receive calls that failed for another reason than that nothing was there.
    #[serde(default)]
    pub(crate) udp_receive_failures: u64,
    /// Times the UDP socket was full.
    pub(crate) udp_blocked: u64,
    /// Times another worker's batch had to leave first.
    pub(crate) turn_waits: u64,
    /// Sends repeated datagram by datagram.
    pub(crate) segmentation_refused: u64,
    /// Superframes that the TUN refused.
    pub(crate) superframe_refused: u64,
    /// ICMP messages written to the TUN.
    pub(crate) icmp_sent: u64,
    pub(crate) queue_marked: u64,
    /// Congestion marks taken over from outer headers.
    pub(crate) congestion_marked: u64,
    /// Packets per frame read from the TUN.
    pub(crate) cut: Batches,
    /// Records per send.
    pub(crate) sealed: Batches,
    /// Records per received buffer.
    pub(crate) received: Batches,
    /// Packets per frame written to the TUN.
    pub(crate) coalesced: Batches,
}

/// The distribution of packets per batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batches {
    /// Sum of all sizes.
    pub(crate) packets: u64,
    /// Element `i` counts batches of 2^i up to 2^(i+1)−1 packets; the last one also larger ones.
    pub(crate) counts_by_power_of_two: Vec<u64>,
}

impl Batches {
    /// The number of batches.
    pub(crate) fn count(&self) -> u64 {
        self.counts_by_power_of_two.iter().sum()
    }
}

/// One of the four places where packets travel together.
pub(crate) struct BatchKind {
    /// Its name, as in the JSON.
    pub(crate) name: &'static str,
    /// A worker's batches of this kind.
    pub(crate) of: fn(&Worker) -> &Batches,
}

/// In the order of the road: out, then in.
pub(crate) const BATCH_KINDS: [BatchKind; 4] = [
    BatchKind {
        name: "cut",
        of: |worker| &worker.cut,
    },
    BatchKind {
        name: "sealed",
        of: |worker| &worker.sealed,
    },
    BatchKind {
        name: "received",
        of: |worker| &worker.received,
    },
    BatchKind {
        name: "coalesced",
        of: |worker| &worker.coalesced,
    },
];

/// The outcomes of handshake messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Handshakes {
    /// Initiations, responses and cookie replies sent.
    pub(crate) sent: u64,
    /// Handshake messages accepted.
    pub(crate) received: u64,
    /// Handshake messages that could not be sent.
    pub(crate) send_failures: u64,
}

/// The reason and number of drops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drops {
    /// The stage of the packet path.
    pub(crate) stage: String,
    /// The reason of the drop.
    pub(crate) reason: String,
    /// The number of packets.
    pub(crate) count: u64,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Base64, as `wg` writes keys.
    pub(crate) public_key: String,
    /// The address at which it was last heard, or is believed to be.
    pub(crate) endpoint: Option<String>,
    /// Our address that answers go out from, where one is remembered.
    pub(crate) source: Option<String>,
    /// Ranges such as `10.0.0.0/8`.
    pub(crate) allowed_ips: Vec<String>,
    /// Cipher in force with this peer.
    pub(crate) cipher: String,
    /// True if there is a pre-shared key.
    pub(crate) has_preshared_key: bool,
    /// Persistent keepalive; none is off.
    pub(crate) keepalive_seconds: Option<u64>,
    /// Unix time of the latest handshake.
    pub(crate) last_handshake_unix_seconds: Option<u64>,
    /// Bytes sent to the peer, WireGuard's headers included.
    pub(crate) sent_bytes: u64,
    /// Bytes received from the peer, WireGuard's headers included.
    pub(crate) received_bytes: u64,
    /// True if datagrams go one by one because the path refuses segmented sends.
    pub(crate) is_segmentation_refused: bool,
    /// MTU of the path, where it is known to be too small for full-size packets.
    pub(crate) path_mtu_bytes: Option<u16>,
    /// The round-trip time of the path in microseconds, as measured by handshakes.
    pub(crate) round_trip_us: Option<u64>,
}

impl Status {
    /// The form of `status`, taken `uptime` after the start.
    pub(crate) fn new(status: &engine::Status, uptime: Duration) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interface: status.interface.clone(),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            public_key: status.public_key.map(|key| key.to_string()),
            listen_port: status.listen_port,
            fwmark: status.mark,
            is_up: status.is_up,
            down_because: status.down_because.clone(),
            loop_problem: status.loop_problem.clone(),
            mtu_bytes: status.mtu,
            cipher: cipher_name(status.suite).to_owned(),
            offloads: status.features.iter().map(offload).collect(),
            workers: status.workers.iter().map(worker).collect(),
            handshakes: Handshakes {
                sent: status.handshakes.sent,
                received: status.handshakes.received,
                send_failures: status.handshakes.send_failures,
            },
            generation_changes: status.generation_changes,
            drops: status.drops.iter().map(drops).collect(),
            peers: status.peers.iter().map(peer).collect(),
        }
    }
}

fn offload(feature: &engine::FeatureStatus) -> Offload {
    Offload {
        name: feature.name.to_owned(),
        is_on: feature.off_because.is_none(),
        off_because: feature.off_because.clone(),
    }
}

fn worker(worker: &engine::WorkerStatus) -> Worker {
    Worker {
        turns: worker.turns,
        sleeps: worker.sleeps,
        pauses: worker.pauses,
        busy_polls: worker.busy_polls,
        busy_polls_answered: worker.busy_polls_answered,
        mid_turn: worker.mid_turn,
        pinned: worker.pinned,
        tun_frames_received: worker.tun_frames_received,
        tun_frames_sent: worker.tun_frames_sent,
        udp_sends: worker.udp_sends,
        udp_receives: worker.udp_receives,
        frames_joined: worker.frames_joined,
        udp_receive_failures: worker.udp_receive_failures,
        udp_blocked: worker.udp_blocked,
        turn_waits: worker.turn_waits,
        segmentation_refused: worker.segmentation_refused,
        superframe_refused: worker.superframe_refused,
        icmp_sent: worker.icmp_sent,
        queue_marked: worker.queue_marked,
        congestion_marked: worker.congestion_marked,
        cut: batches(&worker.cut),
        sealed: batches(&worker.sealed),
        received: batches(&worker.received),
        coalesced: batches(&worker.coalesced),
    }
}

fn batches(batches: &engine::BatchStatus) -> Batches {
    Batches {
        packets: batches.packets,
        counts_by_power_of_two: batches.buckets.to_vec(),
    }
}

fn drops(drops: &engine::DropStatus) -> Drops {
    Drops {
        stage: drops.stage.to_owned(),
        reason: drops.reason.to_owned(),
        count: drops.count,
    }
}

fn peer(peer: &engine::PeerStatus) -> Peer {
    Peer {
        public_key: peer.public_key.to_string(),
        endpoint: peer.endpoint.map(|endpoint| endpoint.to_string()),
        source: peer.source.map(|source| source.to_string()),
        allowed_ips: peer.allowed_ips.iter().map(ToString::to_string).collect(),
        cipher: cipher_name(peer.suite).to_owned(),
        has_preshared_key: peer.has_preshared_key,
        keepalive_seconds: peer.keepalive.map(|interval| interval.as_secs()),
        last_handshake_unix_seconds: peer.last_handshake.map(|time| time.as_secs()),
        sent_bytes: peer.tx_bytes,
        received_bytes: peer.rx_bytes,
        is_segmentation_refused: peer.is_segmentation_refused,
        path_mtu_bytes: peer.path_mtu,
        round_trip_us: peer
            .round_trip
            .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_with_its_schema_version_first() {
        let status = Status {
            schema_version: SCHEMA_VERSION,
            interface: "wg0".to_owned(),
            ..Status::default()
        };
        let json = serde_json::to_string(&status).unwrap();
        assert!(json.starts_with(r#"{"schema_version":1,"#), "{json}");
        assert!(!json.contains('\n'));
        assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
    }
}
