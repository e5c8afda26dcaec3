//! Reporting what the device does.

use super::handshakes::Handshakes;
use super::path_mtu::measured_mtu;
use super::peer_facts::{PeerFacts, StatusReport};
use super::peers::PeerState;
use super::thread::Control;
use crate::clock;
use crate::status::{
    BatchStatus, DropStatus, FeatureStatus, HandshakeStatus, PathMessageStatus, PeerStatus, Status,
    WatchedPeer, WorkerStatus,
};
use culvert_base::BootTime;
use culvert_datapath::Gates;
use culvert_datapath::Mechanism;
use culvert_datapath::{BatchSizes, Counter, Dropped, WorkerCounters};
use culvert_packet::Accept;
use culvert_policy::gate::Evicted;
use culvert_session::DropReason;
use culvert_tun::{BoundState, Feature, SteeringState};
use culvert_udp::Features;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Control {
    /// The state of the device. Of the peers, it costs this thread those that have changed since the last report.
    pub(super) fn status(&mut self) -> StatusReport {
        let at = clock::now();
        let handshakes = &self.handshakes;
        let peers = self
            .peers
            .refreshed_facts(|state| peer_facts(state, handshakes));
        StatusReport {
            at,
            status: self.device_status(at),
            peers,
        }
    }

    fn device_status(&self, now: BootTime) -> Status {
        let (path_messages_sent, path_messages_failed) = self.workers.shared().path_messages();
        Status {
            at: Duration::from_nanos(now.as_nanos()),
            interface: self.link.tun().name().to_owned(),
            public_key: self.handshakes.handshaker.public_key(),
            listen_port: self.sockets.bound_port(),
            mark: self.sockets.mark(),
            is_up: self.link.is_up(),
            down_because: self.link.down_because().map(str::to_owned),
            loop_problem: self.sockets.loop_problem(now),
            foreign_source: self.paths.foreign_source(now),
            mtu: self.link.mtu(),
            suite: self.handshakes.suite(),
            features: self.features(),
            workers: self.workers.counters().iter().map(|c| worker(c)).collect(),
            handshakes: HandshakeStatus {
                sent: self.counters.handshakes_sent.read(),
                received: self.counters.handshakes_received.read(),
                send_failures: self.counters.send_failures.read(),
                snapshots: self.counters.snapshots.read(),
            },
            path_messages: PathMessageStatus {
                sent: path_messages_sent,
                send_failures: path_messages_failed,
            },
            generation_changes: self.machine.changes(),
            drops: self.drops(),
            flows: self.flow_count(now),
            flows_evicted: self.flows_evicted(),
            peers: Vec::new(),
        }
    }

    fn flow_count(&self, now: BootTime) -> Option<usize> {
        let shared = self.workers.shared();
        let at_client = shared.client_gate.as_deref();
        let at_client = at_client.map(|gate| gate.flow_count(now));
        at_client.or(shared.gates.as_deref().map(Gates::flow_count))
    }

    fn flows_evicted(&self) -> Option<Evicted> {
        let shared = self.workers.shared();
        let at_client = shared.client_gate.as_deref().map(|gate| Evicted {
            full: gate.displaced(),
            ..Evicted::default()
        });
        at_client.or(shared.gates.as_deref().map(Gates::evicted))
    }

    /// True if data to some peer has been unanswered for a time in `span`. Idle peers are not looked at.
    pub(super) fn has_silent_peer(&self, span: &Range<Duration>) -> bool {
        let now = clock::now();
        let mut watched = self.handshakes.handshaker.watched();
        watched.any(|id| {
            let Some(state) = self.peers.get(id) else {
                return false;
            };
            let unanswered = state.shared.activity.unanswered_since();
            unanswered.is_some_and(|since| span.contains(&now.saturating_since(since)))
        })
    }

    /// The watched peers that have moved or had a handshake since the last call. It costs this thread those alone.
    pub(super) fn take_watched(&self) -> Vec<WatchedPeer> {
        let changed = self.workers.shared().watch.take();
        let states = changed.into_iter().filter_map(|id| self.peers.get(id));
        let watched = states.filter_map(|state| {
            let last_handshake = self.handshakes.handshaker.last_handshake(state.shared.id)?;
            Some(WatchedPeer {
                public_key: state.shared.public_key,
                endpoint: state.shared.endpoint()?.address,
                last_handshake: last_handshake.to_unix(),
            })
        });
        watched.collect()
    }

    fn features(&self) -> Vec<FeatureStatus> {
        let offloads = self.link.tun().offloads();
        let tun = [
            ("checksum", offloads.checksum),
            ("tso4", offloads.tso4),
            ("tso6", offloads.tso6),
            ("tso_ecn", offloads.tso_ecn),
            ("uso4", offloads.uso4),
            ("uso6", offloads.uso6),
        ];
        let tun = tun.into_iter().map(|(name, feature)| FeatureStatus {
            name,
            off_because: match feature {
                Feature::On => None,
                Feature::Off(reason) => Some(reason.to_string()),
            },
        });
        let steering = FeatureStatus {
            name: "steering",
            off_because: match self.link.tun().steering() {
                SteeringState::On(_) => None,
                SteeringState::NotAsked => self.left_out(Mechanism::Steering),
                SteeringState::Off(reason) => Some(reason.to_string()),
            },
        };
        let bound = FeatureStatus {
            name: "queue_bound",
            off_because: match self.link.tun().bound() {
                BoundState::On => None,
                BoundState::NotAsked => self.left_out(Mechanism::QueueBound),
                BoundState::Off(reason) => Some(reason.to_string()),
            },
        };
        let segmentation = FeatureStatus {
            name: "udp_segmentation",
            off_because: self.socket_lacks(Mechanism::Segmentation, |has| has.segmentation),
        };
        let receive_offload = FeatureStatus {
            name: "udp_receive_offload",
            off_because: self.socket_lacks(Mechanism::ReceiveOffload, |has| has.receive_offload),
        };
        let priority = FeatureStatus {
            name: Mechanism::Priority.name(),
            off_because: self
                .left_out(Mechanism::Priority)
                .or_else(|| self.sockets.priority_off().map(str::to_owned)),
        };
        let coalescing = FeatureStatus {
            name: Mechanism::Coalescing.name(),
            off_because: self
                .left_out(Mechanism::Coalescing)
                .or_else(|| self.refused_superframes()),
        };
        // Those that have no state but being left out are told where they are.
        let silent = [
            Mechanism::SuperframeLimit,
            Mechanism::Batching,
            Mechanism::SendLimit,
            Mechanism::InterruptModeration,
            Mechanism::Affinity,
        ];
        let left_out = silent.into_iter().filter_map(|mechanism| {
            Some(FeatureStatus {
                name: mechanism.name(),
                off_because: Some(self.left_out(mechanism)?),
            })
        });
        tun.chain([steering, bound, segmentation, receive_offload, priority])
            .chain(Some(coalescing).filter(|coalescing| coalescing.off_because.is_some()))
            .chain(left_out)
            .collect()
    }

    /// The superframes that the TUN has refused: their packets are written one by one since.
    fn refused_superframes(&self) -> Option<String> {
        let Accept {
            tcp4,
            tcp6,
            udp4,
            udp6,
        } = self.link.refused_superframes();
        let kinds = [
            (tcp4, "TCP over IPv4"),
            (tcp6, "TCP over IPv6"),
            (udp4, "UDP over IPv4"),
            (udp6, "UDP over IPv6"),
        ];
        let refused = kinds.iter().filter(|(is_refused, _)| *is_refused);
        let names: Vec<_> = refused.map(|&(_, name)| name).collect();
        (!names.is_empty())
            .then(|| format!("the kernel refused superframes of {}", names.join(", ")))
    }

    fn left_out(&self, mechanism: Mechanism) -> Option<String> {
        let has = self.link.mechanisms().has(mechanism);
        (!has).then(|| "by configuration".to_owned())
    }

    /// The reason for which a mechanism of the sockets is off.
    fn socket_lacks(
        &self,
        mechanism: Mechanism,
        is_offered: impl FnOnce(Features) -> bool,
    ) -> Option<String> {
        let left_out = self.left_out(mechanism);
        if left_out.is_some() {
            return left_out;
        }
        let Some(pair) = self.sockets.first() else {
            return Some("the link is down".to_owned());
        };
        let socket = pair.v4.as_ref().or(pair.v6.as_ref())?;
        (!is_offered(socket.features())).then(|| "not offered by this kernel".to_owned())
    }

    fn drops(&self) -> Vec<DropStatus> {
        let road = Dropped::ALL.iter().map(|&drop| DropStatus {
            stage: drop.stage(),
            reason: drop.reason(),
            count: self
                .workers
                .counters()
                .iter()
                .map(|c| c.dropped(drop))
                .sum(),
        });
        let handshakes = DropReason::ALL.iter().map(|reason| DropStatus {
            stage: "handshake",
            reason: reason.name(),
            count: self.counters.handshake_drops[reason.position()].read(),
        });
        let gate = culvert_policy::gate::DropReason::ALL
            .iter()
            .map(|&reason| DropStatus {
                stage: "gate",
                reason: reason.name(),
                count: self.dropped_by_gate(reason),
            });
        let shared = self.workers.shared();
        let gate = gate.filter(|_| shared.gates.is_some() || shared.client_gate.is_some());
        road.chain(handshakes).chain(gate).collect()
    }

    fn dropped_by_gate(&self, reason: culvert_policy::gate::DropReason) -> u64 {
        let counters = self.workers.counters().iter();
        let dropped: u64 = counters.map(|it| it.dropped_by_gate(reason)).sum();
        let is_fragment = reason == culvert_policy::gate::DropReason::Fragment;
        if !is_fragment {
            return dropped;
        }
        let shared = self.workers.shared();
        let gates = shared.gates.as_deref();
        let at_client = shared.client_gate.as_deref();
        let lost_at_client = at_client.map_or(0, |gate| {
            gate.sweep(clock::now());
            gate.fragments_lost()
        });
        dropped + lost_at_client + gates.map_or(0, Gates::fragments_lost)
    }
}

/// The facts of a peer, for reports until it changes.
fn peer_facts(state: &PeerState, handshakes: &Handshakes) -> PeerFacts {
    let id = state.shared.id;
    let last_handshake = handshakes.handshaker.last_handshake(id);
    PeerFacts {
        shared: Arc::clone(&state.shared),
        allowed_ips: state.ranges.iter().copied().collect(),
        suite: state.suite.unwrap_or(handshakes.suite()),
        has_preshared_key: handshakes.preshared_key(id).is_some(),
        keepalive: handshakes.handshaker.keepalive(id),
        last_handshake: last_handshake.map(culvert_session::Tai64n::to_unix),
        measured_len: state.mtu_search.measured(),
    }
}

/// The report with the list of all peers. It takes a microsecond for each of them, so the control thread leaves it to
/// whoever asked.
pub(crate) fn complete_status(report: StatusReport) -> Status {
    let StatusReport { at, status, peers } = report;
    let mut peers: Vec<PeerStatus> = peers.iter().map(|facts| peer_status(facts, at)).collect();
    peers.sort_unstable_by_key(|peer| peer.public_key);
    Status { peers, ..status }
}

fn peer_status(facts: &PeerFacts, now: BootTime) -> PeerStatus {
    let peer = &facts.shared;
    let endpoint = peer.endpoint();
    // A worker may have marked something since.
    let since = |at: Option<BootTime>| at.map(|at| now.saturating_since(at));
    let measured = endpoint.zip(facts.measured_len);
    PeerStatus {
        public_key: peer.public_key,
        endpoint: endpoint.map(|to| to.address),
        heard_elsewhere: peer.heard_elsewhere(),
        source: endpoint.and_then(|to| to.source).map(|source| source.ip),
        allowed_ips: facts.allowed_ips.to_vec(),
        suite: facts.suite,
        has_preshared_key: facts.has_preshared_key,
        keepalive: facts.keepalive,
        last_handshake: facts.last_handshake,
        // Ahead of the next: what is unanswered then is so in spite of all that had come by now.
        last_received: since(peer.activity.last_received()),
        unanswered_for: since(peer.activity.unanswered_since()),
        rx_bytes: peer.rx_bytes.load(Ordering::Relaxed),
        tx_bytes: peer.tx_bytes.load(Ordering::Relaxed),
        is_segmentation_refused: peer.is_segmentation_off(now),
        path_mtu: Some(peer.path_mtu.load(Ordering::Relaxed)).filter(|&mtu| mtu != 0),
        measured_mtu: measured.map(|(to, len)| measured_mtu(to.address, len)),
        round_trip: peer.round_trip(),
    }
}

fn worker(counters: &WorkerCounters) -> WorkerStatus {
    let read = Counter::read;
    WorkerStatus {
        turns: read(&counters.turns),
        sleeps: read(&counters.sleeps),
        pauses: read(&counters.pauses),
        busy_polls: read(&counters.busy_polls),
        busy_polls_answered: read(&counters.busy_polls_answered),
        mid_turn: read(&counters.mid_turn),
        pinned: read(&counters.pinned),
        tun_frames_received: read(&counters.tun_frames_received),
        tun_frames_sent: read(&counters.tun_frames_sent),
        frames_joined: read(&counters.frames_joined),
        udp_sends: read(&counters.udp_sends),
        udp_receives: read(&counters.udp_receives),
        udp_receive_failures: read(&counters.udp_receive_failures),
        udp_blocked: read(&counters.udp_blocked),
        turn_waits: read(&counters.turn_waits),
        segmentation_refused: read(&counters.segmentation_refused),
        superframe_refused: read(&counters.superframe_refused),
        icmp_sent: read(&counters.icmp_sent),
        queue_marked: read(&counters.queue_marked),
        congestion_marked: read(&counters.congestion_marked),
        cut: sizes(&counters.cut),
        sealed: sizes(&counters.sealed),
        received: sizes(&counters.received),
        coalesced: sizes(&counters.coalesced),
    }
}

fn sizes(sizes: &BatchSizes) -> BatchStatus {
    BatchStatus {
        buckets: sizes.read(),
        packets: sizes.packets.read(),
    }
}
