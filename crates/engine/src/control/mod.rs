//! The control thread: handshakes, timers, configuration, the host's network events.
//!
//! It alone owns the [`Handshaker`] and the configuration, and it alone publishes snapshots. It never
//! touches a data packet: what must be sealed it asks a worker for.

mod configure;
mod handshake_queue;
mod looping;
mod machine;
mod messages;
mod network;
mod path_mtu;
mod report;
mod shared;

use machine::Machine;
use messages::Outgoing;
pub(crate) use network::limit_superframes;
pub(crate) use shared::Shared;

use crate::clock;
use crate::configuration::{Change, Configuration};
use crate::entropy::SystemEntropy;
use crate::error::EngineError;
use crate::flows::{TakenFlows, WaitingFlows};
use crate::sockets::{View, WorkerSockets};
use crate::status::{ForeignSource, Status};
use crate::store::StoredDescriptors;
use culvert_base::{BootTime, Prefix};
use culvert_datapath::{
    AllowedIps, Command, Counter, EndedFlow, Event, HandshakeMessage, Inside, Peer, Receiving,
    ReceivingKeys, Road, SWEEP_INTERVAL, Sending, ServiceRoutes, Snapshot, WorkerCounters,
};
use culvert_packet::Accept;
use culvert_path::MtuSearch;
use culvert_policy::gate::GateTable;
use culvert_session::{
    Clock, Destination, DropReason, Handshaker, Output, PROMPT_KEEPALIVE_TIMEOUT, PeerId,
    PrivateKey, Suite,
};
use culvert_tun::LinkWatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the control thread sleeps at most: paths are looked at again at this interval.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How long the control thread pauses where the kernel has no memory for a moment.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

/// A question or an order from outside, with where to put the answer.
pub(crate) enum Request {
    Apply(Box<Change>, SyncSender<Result<(), EngineError>>),
    Configuration(SyncSender<Configuration>),
    Status(SyncSender<Box<Status>>),
    Flows {
        with_lasting: bool,
        answer: SyncSender<TakenFlows>,
    },
}

/// What the control thread counts.
#[derive(Debug, Default)]
pub(crate) struct ControlCounters {
    /// Handshake messages refused, by [`DropReason::position`].
    pub(crate) handshake_drops: [Counter; DropReason::ALL.len()],
    /// Initiations, responses and cookie replies sent.
    pub(crate) handshakes_sent: Counter,
    /// Handshake messages accepted.
    pub(crate) handshakes_received: Counter,
    /// Handshake messages that could not be sent.
    pub(crate) send_failures: Counter,
    /// Snapshots published.
    pub(crate) snapshots: Counter,
}

/// A peer as the control thread knows it.
struct PeerState {
    shared: Arc<Peer>,
    /// The sending key as workers have it: kept over snapshots, since it holds whose turn it is.
    sending: Option<Arc<Sending>>,
    /// `None` follows the device.
    suite: Option<Suite>,
    /// Where the peer may be besides its endpoint.
    candidates: Vec<SocketAddr>,
    /// Its part of [`Control::ranges`].
    ranges: BTreeSet<Prefix>,
    mtu_search: MtuSearch,
    /// The search's entry in [`Control::measurements`].
    mtu_due: Option<BootTime>,
}

pub(crate) struct Control {
    shared: Arc<Shared>,
    requests: Receiver<Request>,
    handshaker: Handshaker,
    machine: Machine,
    tun: culvert_tun::Device,
    watch: LinkWatch,
    options: crate::Options,
    worker_counters: Vec<Arc<WorkerCounters>>,
    counters: ControlCounters,
    /// By the number of [`PeerId`].
    peers: Vec<Option<PeerState>>,
    ranges: BTreeMap<Prefix, PeerId>,
    routes: Arc<AllowedIps<PeerId>>,
    service_routes: Option<Arc<ServiceRoutes>>,
    private_key: Option<PrivateKey>,
    suite: Suite,
    /// As configured: 0 lets the kernel choose at link up.
    listen_port: u16,
    mark: u32,
    sockets: Option<Arc<[WorkerSockets]>>,
    /// [`WorkerSockets::open`] of the sockets given up: alive until the last of them is closed.
    retired_sockets: Weak<()>,
    /// The reason for having no priority sockets, where the kernel refused them.
    priority_off: Option<String>,
    /// Sockets of the store's were forgotten: until they are closed, their port is taken.
    has_forgotten: bool,
    is_up: bool,
    /// Why the sockets could not be opened when the link came up.
    down_because: Option<String>,
    /// Kinds of superframes that the TUN has refused to a worker, and not taken since.
    refused_superframes: Accept,
    mtu: u16,
    /// Something changed that workers must see.
    is_dirty: bool,
    /// Until when senders must show a cookie.
    under_load_until: BootTime,
    /// Handshakes that were refused because of their network's rate.
    rate_notice: messages::RateNotice,
    /// The interface lives in another network namespace, from where no events reach us.
    is_moved: bool,
    /// Addresses or routes changed since the peers' paths were last looked at.
    paths_stale: bool,
    paths_checked: BootTime,
    looping: looping::Looping,
    /// The last sender of packets that do not belong into the tunnel, and the time of the last one.
    foreign_source: Option<(ForeignSource, BootTime)>,
    /// Deadlines of searches for path MTUs, at most one of each peer.
    measurements: BTreeSet<(BootTime, PeerId)>,
    /// The grants of each client.
    gate: Option<Arc<GateTable>>,
    inside: Option<Inside>,
    gates_swept: BootTime,
    ended_flows: WaitingFlows,
    /// What is to be sent once the workers have the keys for the answers.
    outgoing: Vec<Outgoing>,
}

/// What [`Control`] is made of.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) tun: culvert_tun::Device,
    pub(crate) watch: LinkWatch,
    pub(crate) options: crate::Options,
    pub(crate) worker_counters: Vec<Arc<WorkerCounters>>,
    pub(crate) seed: [u8; 32],
}

impl Control {
    pub(crate) fn new(parts: Parts) -> Self {
        let mut handshaker = Handshaker::new(parts.seed);
        handshaker.set_entropy(Box::new(SystemEntropy));
        if parts.options.gated {
            // Clients take a gateway's silence for its death.
            handshaker.set_keepalive_timeout(PROMPT_KEEPALIVE_TIMEOUT);
        }
        Self {
            handshaker,
            machine: Machine::new(),
            suite: parts.options.suite,
            mtu: parts.options.mtu,
            listen_port: parts.options.listen_port,
            mark: parts.options.mark,
            shared: parts.shared,
            requests: parts.requests,
            tun: parts.tun,
            watch: parts.watch,
            options: parts.options,
            worker_counters: parts.worker_counters,
            counters: ControlCounters::default(),
            peers: Vec::new(),
            ranges: BTreeMap::new(),
            routes: Arc::new(AllowedIps::new(&BTreeMap::new())),
            service_routes: None,
            private_key: None,
            sockets: None,
            retired_sockets: Weak::new(),
            priority_off: None,
            has_forgotten: false,
            is_up: false,
            down_because: None,
            refused_superframes: Accept::NONE,
            is_dirty: true,
            is_moved: false,
            under_load_until: BootTime::ZERO,
            rate_notice: messages::RateNotice::default(),
            paths_stale: false,
            paths_checked: clock::now(),
            looping: looping::Looping::default(),
            foreign_source: None,
            measurements: BTreeSet::new(),
            gate: None,
            inside: None,
            gates_swept: clock::now(),
            ended_flows: WaitingFlows::default(),
            outgoing: Vec::new(),
        }
    }

    /// Serves until the device is stopped or its interface is deleted.
    ///
    /// # Errors
    /// Those of the system that leave nothing to serve.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        self.shared.stop();
        self.close();
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        self.read_link();
        while !self.shared.is_stopping() {
            if self.is_dirty {
                self.publish();
            }
            self.sleep()?;
            self.shared.control_awake();
            let clock = clock::clock();
            if !self.read_network_events()? {
                tracing::info!("the interface was deleted");
                break;
            }
            self.check_machine(clock)?;
            self.serve_requests(clock);
            self.serve_events(clock)?;
            self.answer_handshakes(clock);
            self.handshaker.handle_timeout(clock);
            self.carry_out();
            self.check_paths(clock.now);
            self.measure_paths(clock.now);
            self.sweep_gates(clock.now);
        }
        Ok(())
    }

    /// Has the store let go of everything, unless it is left to the next process. The interface is deleted, since the
    /// store takes a moment.
    fn close(&self) {
        let Some(store) = &self.options.store else {
            return;
        };
        if self.shared.is_leaving() {
            return;
        }
        for kept in StoredDescriptors::ALL {
            store.forget(kept);
        }
        if let Err(error) = self.tun.delete() {
            tracing::debug!(%error, "the interface is not deleted");
        }
    }

    fn sleep(&self) -> io::Result<()> {
        if self.shared.waiting_handshakes() > 0 {
            return Ok(());
        }
        let now = clock::now();
        let longest = match self.shared.gates {
            Some(_) => SWEEP_INTERVAL,
            None => LONGEST_SLEEP,
        };
        let due = [self.handshaker.next_timeout(), self.next_measurement()];
        let wait = due
            .into_iter()
            .flatten()
            .map(|at| at.saturating_since(now))
            .fold(longest, Duration::min);
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut waited = vec![
            PollFd::new(self.shared.control_waker(), PollFlags::IN),
            PollFd::new(&self.watch, PollFlags::IN),
        ];
        let uevents = self.machine.uevents();
        waited.extend(uevents.map(|uevents| PollFd::new(uevents, PollFlags::IN)));
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(rustix::io::Errno::NOMEM | rustix::io::Errno::AGAIN) => {
                std::thread::sleep(MEMORY_PAUSE);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends flows that no packet ends, and logs and keeps those that have ended.
    fn sweep_gates(&mut self, now: BootTime) {
        let (Some(gates), Some(table)) = (&self.shared.gates, &self.gate) else {
            return;
        };
        if !now.has_passed(self.gates_swept, SWEEP_INTERVAL) {
            return;
        }
        self.gates_swept = now;
        let ended = &mut self.ended_flows;
        gates.sweep(table, now, |record| {
            tracing::debug!("a flow has ended: {}", EndedFlow(record));
            ended.push(record);
        });
    }

    /// Records of flows since the last time; none without gates.
    fn take_flows(&mut self, with_lasting: bool) -> TakenFlows {
        let gates = self.shared.gates.as_ref();
        gates.map_or_else(TakenFlows::default, |gates| {
            self.ended_flows.take(gates, with_lasting)
        })
    }

    fn serve_requests(&mut self, clock: Clock) {
        while let Ok(request) = self.requests.try_recv() {
            // A requester that has gone away needs no answer.
            match request {
                Request::Apply(change, answer) => {
                    let result = self.apply(*change, clock);
                    self.carry_out();
                    let _gone = answer.send(result);
                }
                Request::Configuration(answer) => {
                    let _gone = answer.send(self.configuration());
                }
                Request::Status(answer) => {
                    let _gone = answer.send(Box::new(self.status()));
                }
                Request::Flows {
                    with_lasting,
                    answer,
                } => {
                    let _gone = answer.send(self.take_flows(with_lasting));
                }
            }
        }
    }

    fn serve_events(&mut self, clock: Clock) -> io::Result<()> {
        while let Some(event) = self.shared.next_event() {
            match event {
                Event::HandshakeWanted(peer) => {
                    if let Some(state) = self.peer(peer) {
                        let wanted = &state.shared.handshake_wanted;
                        wanted.store(false, Ordering::Release);
                        self.handshaker.handle_wanted(peer, clock);
                    }
                }
                Event::Confirmed(peer, index) => {
                    self.handshaker.handle_confirmed(peer, index, clock);
                }
                Event::PerhapsCopied { generation, change } => {
                    self.hear_of_copy(generation, change, clock)?;
                }
                Event::FullSizeLeft(peer) => self.handle_full_size(peer, clock.now),
                Event::MtuAnswered(peer, probe) => {
                    self.handle_mtu_answer(peer, probe, clock.now);
                }
                Event::SegmentationRefused(peer, len) => self.learn_path(peer, len),
                Event::Looped(to) => self.leave_loop(to, clock.now),
                Event::ForeignSource(source) => self.hear_of_foreign(source, clock.now),
                Event::SuperframesTaken(kinds) => {
                    tracing::info!(?kinds, "the TUN takes superframes again");
                    self.refused_superframes = self.refused_superframes.without(kinds);
                }
                Event::SuperframesRefused(kinds) => {
                    if self.refused_superframes.or(kinds) != self.refused_superframes {
                        tracing::warn!(
                            ?kinds,
                            "the TUN refused superframes: such packets are written one by one for a while"
                        );
                    }
                    self.refused_superframes = self.refused_superframes.or(kinds);
                }
            }
            self.take_in(None);
        }
        self.send_out();
        // A worker may wait for the key that has been confirmed.
        if self.is_dirty {
            self.publish();
        }
        Ok(())
    }

    /// Carries out what the handshaker wants.
    fn carry_out(&mut self) {
        self.take_in(None);
        self.send_out();
    }

    /// Takes in what the handshaker wants, for the message `cause` where there is one: what changes what is known at once,
    /// while what is to be sent waits for [`Self::send_out`], so that many messages need one snapshot.
    fn take_in(&mut self, cause: Option<&HandshakeMessage>) {
        while let Some(output) = self.handshaker.poll_output() {
            let local_of = |to| cause.filter(|c| c.source == to).and_then(|c| c.local);
            match output {
                Output::KeysChanged { peer } => self.take_keys(peer),
                Output::Send { peer, datagram, to } => self.send_later(Outgoing::Handshake {
                    peer,
                    datagram,
                    to: match to {
                        Destination::Peer => None,
                        Destination::Reply(address) => Some(culvert_base::Destination {
                            address,
                            source: local_of(address),
                        }),
                    },
                }),
                Output::SendKeepalive { peer } => self.send_later(Outgoing::Keepalive(peer)),
                Output::SendCookieReply { datagram, to } => {
                    self.send_later(Outgoing::CookieReply {
                        datagram,
                        to: culvert_base::Destination {
                            address: to,
                            source: local_of(to),
                        },
                    });
                }
                Output::Roamed { peer, to } => {
                    let local = local_of(to);
                    if let Some(state) = self.peer(peer) {
                        state.shared.roam(to, local);
                    }
                }
                Output::ForgetSource { peer } => {
                    if let Some(state) = self.peer(peer) {
                        state.shared.forget_source();
                    }
                }
                Output::DropStaged { peer } => {
                    for worker in 0..self.shared.workers() {
                        self.shared.command(worker, Command::DropStaged(peer));
                    }
                }
                Output::HandshakeCompleted {
                    peer, round_trip, ..
                } => {
                    if let Some(state) = self.peer(peer) {
                        state.shared.note_round_trip(round_trip);
                        tracing::debug!(peer = ?state.shared.public_key, ?round_trip, "handshake completed");
                    }
                }
            }
        }
    }

    /// Takes over the peer's sending key from the handshaker.
    fn take_keys(&mut self, id: PeerId) {
        let sending = self.handshaker.sending(id);
        if let Some(state) = self.peers.get_mut(id.slot()).and_then(Option::as_mut) {
            let same = match (&state.sending, &sending) {
                (Some(old), Some(new)) => Arc::ptr_eq(&old.transport, new),
                (None, None) => true,
                _ => false,
            };
            if !same {
                state.sending = sending.map(|transport| Arc::new(Sending::new(transport)));
            }
        }
        self.is_dirty = true;
    }

    /// Replaces what the workers see.
    fn publish(&mut self) {
        let mut receiving = ReceivingKeys::default();
        let peers: Vec<Option<Road>> = self
            .peers
            .iter()
            .map(|state| {
                let state = state.as_ref()?;
                let unconfirmed = self.handshaker.unconfirmed(state.shared.id);
                for transport in self.handshaker.receiving(state.shared.id) {
                    let index = transport.local_index();
                    let keys = Receiving {
                        transport,
                        peer: Arc::clone(&state.shared),
                        is_unconfirmed: unconfirmed == Some(index),
                    };
                    receiving.insert(index, keys);
                }
                Some(Road {
                    peer: Arc::clone(&state.shared),
                    sending: state.sending.clone(),
                })
            })
            .collect();
        let path = Snapshot {
            routes: Arc::clone(&self.routes),
            peers,
            receiving,
            port: self.sockets.as_ref().map_or(0, |_| self.bound_port()),
            mtu: self.mtu,
            service_routes: self.service_routes.clone(),
            gate: self.gate.clone(),
            inside: self.inside,
            wall_offset: self.machine.wall_offset(),
        };
        self.shared.published.publish(View {
            path: Arc::new(path),
            sockets: self.sockets.clone(),
        });
        self.counters.snapshots.add(1);
        self.is_dirty = false;
        self.shared.wake_workers(u64::MAX);
    }

    fn peer(&self, id: PeerId) -> Option<&PeerState> {
        self.peers.get(id.slot())?.as_ref()
    }

    fn peer_mut(&mut self, id: PeerId) -> Option<&mut PeerState> {
        self.peers.get_mut(id.slot())?.as_mut()
    }

    fn peers(&self) -> impl Iterator<Item = &PeerState> {
        self.peers.iter().flatten()
    }

    /// The port bound, or the one that will be.
    fn bound_port(&self) -> u16 {
        let pair = self.sockets.as_ref().map(|all| &all[0]);
        let socket = pair.and_then(|pair| pair.v4.as_ref().or(pair.v6.as_ref()));
        socket.map_or(self.listen_port, culvert_udp::Socket::local_port)
    }
}

/// The family of an address, for messages.
fn family(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
