//! One end of the tunnel: a data path, the handshakes, and between them what the engine's control thread does.

use super::shell::{Leaving, SimShell};
use culvert_base::{BootTime, Prefix};
use culvert_datapath::{
    AllowedIps, Command, DataPath, Dropped, Event, Gates, Inside, KeyTable, Mechanisms, Options,
    Peer, PeerTable, Receiving, Rest, Route, Snapshot, WorkerCounters,
};
use culvert_packet::Accept;
use culvert_policy::gate::{DropReason, GateTable, PeerKey};
use culvert_session::{
    Clock, ClockOffset, Destination, Handshaker, Index, Output, PrivateKey, PublicKey, Tai64n,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// MTU of the interface, in bytes.
pub(crate) const MTU: u16 = 1420;

/// Turns of one instant: more would mean that a worker is never done.
const MAX_TURNS: usize = 10_000;

/// The parts of a machine.
pub(crate) struct Setup {
    pub(crate) address: SocketAddr,
    pub(crate) private_key: PrivateKey,
    pub(crate) peer_key: PublicKey,
    pub(crate) peer_endpoint: Option<SocketAddr>,
    /// The range that belongs to the peer.
    pub(crate) range: (IpAddr, u8),
    pub(crate) inside: Option<Inside>,
    /// Of a gateway.
    pub(crate) gate: Option<GateTable>,
    pub(crate) seed: [u8; 32],
}

/// One end of the tunnel.
pub(crate) struct Machine {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<WorkerCounters>,
    clock: Rc<Cell<BootTime>>,
    shaker: Handshaker,
    path: DataPath<SimShell>,
    peer: Arc<Peer>,
    /// The receiver indices in `keys`.
    receiving: Vec<Index>,
    keys: Arc<KeyTable>,
    routes: AllowedIps<Route>,
    inside: Option<Inside>,
    gate: Option<Arc<GateTable>>,
    is_dirty: bool,
    /// Handshake messages that are to be sent.
    handshakes: Vec<(SocketAddr, Vec<u8>)>,
}

impl Machine {
    pub(crate) fn new(setup: Setup, clock: Rc<Cell<BootTime>>) -> Self {
        let mut shaker = Handshaker::new(setup.seed);
        let at = clock_at(clock.get());
        shaker.set_private_key(Some(setup.private_key), at);
        shaker.set_up(true, at);
        let id = shaker
            .add_peer(setup.peer_key)
            .expect("a machine has one peer");
        let activity = shaker.activity(id).expect("the peer exists");
        let peer = Peer::new(id, setup.peer_key, activity);
        peer.set_gate_key(PeerKey(0));
        if let Some(endpoint) = setup.peer_endpoint {
            peer.set_endpoint(endpoint);
        }
        let prefix = Prefix::around(setup.range.0, setup.range.1).expect("a range");
        let counters: Arc<WorkerCounters> = Arc::default();
        let shell = SimShell::new(Rc::clone(&clock));
        let has_gate = setup.gate.is_some();
        let gates = has_gate.then(|| Arc::new(Gates::new([setup.seed], false)));
        let options = Options {
            worker: 0,
            queues: super::shell::QUEUES,
            credits: shell.credits(),
            has_priority: true,
            accept: Accept {
                tcp4: true,
                tcp6: true,
                udp4: true,
                udp6: true,
            },
            mechanisms: Mechanisms::ALL,
            counters: Arc::clone(&counters),
            gates,
            client_gate: None,
            identification: 7,
        };
        let path = DataPath::new(shell, options).expect("a shell in memory does not end");
        let mut machine = Self {
            address: setup.address,
            counters,
            clock,
            shaker,
            path,
            peer: Arc::new(peer),
            receiving: Vec::new(),
            keys: Arc::default(),
            routes: AllowedIps::new(&BTreeMap::from([(prefix, id.into())])),
            inside: setup.inside,
            gate: setup.gate.map(Arc::new),
            is_dirty: true,
            handshakes: Vec::new(),
        };
        machine.publish();
        machine
    }

    pub(crate) fn shell(&self) -> &SimShell {
        self.path.shell()
    }

    pub(crate) fn shell_mut(&mut self) -> &mut SimShell {
        self.path.shell_mut()
    }

    /// Sets the grants of clients from here on.
    pub(crate) fn set_gate(&mut self, table: GateTable) {
        self.gate = Some(Arc::new(table));
        self.is_dirty = true;
    }

    /// Does all that is to be done at this instant.
    pub(crate) fn run(&mut self) {
        for _ in 0..MAX_TURNS {
            self.control();
            let ready = self.path.shell().ready();
            self.path
                .take_ready(&ready)
                .and_then(|()| self.path.turn())
                .expect("a shell in memory does not end");
            self.control();
            let shell = self.path.shell();
            let has_arrived = shell.ready().lanes.contains(&true);
            let is_done = self.path.rest() != Rest::None && !has_arrived;
            if is_done && self.path.shell().commands.is_empty() {
                return;
            }
        }
        panic!("a worker is never done");
    }

    /// The datagrams that leave at this instant, handshake messages first.
    pub(crate) fn leave(&mut self) -> Vec<Leaving> {
        let handshakes = std::mem::take(&mut self.handshakes);
        let handshakes = handshakes.into_iter().map(|(to, bytes)| Leaving {
            to,
            class: culvert_base::datagrams::PRIORITY_CLASS,
            bytes,
        });
        let data = self.path.shell().leaving.borrow_mut().split_off(0);
        handshakes.chain(data).collect()
    }

    pub(crate) fn handle_timeout(&mut self) {
        let clock = self.clock();
        if self.shaker.next_timeout().is_some_and(|at| at <= clock.now) {
            self.shaker.handle_timeout(clock);
        }
    }

    /// Packets that were dropped, by whatever reason.
    pub(crate) fn dropped(&self) -> BTreeMap<&'static str, u64> {
        // An answer of the gateway itself is none of the packets that are followed.
        let own = Dropped::ALL
            .iter()
            .filter(|reason| **reason != Dropped::AnswerGone);
        let own = own.map(|reason| (reason.reason(), self.counters.dropped(*reason)));
        let by_gate = DropReason::ALL
            .iter()
            .map(|reason| (reason.name(), self.counters.dropped_by_gate(*reason)));
        let mut all = BTreeMap::new();
        for (reason, count) in own.chain(by_gate).filter(|(_, count)| *count > 0) {
            *all.entry(reason).or_default() += count;
        }
        all
    }

    fn clock(&self) -> Clock {
        clock_at(self.clock.get())
    }

    fn control(&mut self) {
        let clock = self.clock();
        let messages: Vec<_> = self
            .path
            .shell()
            .handshakes
            .borrow_mut()
            .drain(..)
            .collect();
        for message in messages {
            let datagram = message.datagram();
            // The tests of the handshakes count refusals.
            let _refused = self
                .shaker
                .handle_datagram(datagram, message.source, false, clock);
        }
        let events: Vec<_> = self.path.shell().events.borrow_mut().drain(..).collect();
        for event in events {
            match event {
                Event::HandshakeWanted(peer) => {
                    self.peer.handshake_wanted.store(false, Ordering::Release);
                    self.shaker.handle_wanted(peer, clock);
                }
                Event::Active(peer) => self.shaker.handle_active(peer, clock),
                Event::Confirmed(peer, index) => self.shaker.handle_confirmed(peer, index, clock),
                Event::PerhapsCopied { .. } => panic!("no clock jumps"),
                // There is one path, of full size.
                _ => {}
            }
        }
        self.execute();
        if self.is_dirty {
            self.publish();
        }
    }

    fn execute(&mut self) {
        while let Some(output) = self.shaker.poll_output() {
            match output {
                Output::KeysChanged { .. } => self.take_keys(),
                Output::Send { datagram, to, .. } => {
                    let to = match to {
                        Destination::Peer => self.peer.endpoint().map(|to| to.address),
                        Destination::Reply(to) => Some(to),
                    };
                    self.handshakes
                        .extend(to.map(|to| (to, datagram.as_bytes().to_vec())));
                }
                Output::SendCookieReply { datagram, to } => {
                    self.handshakes.push((to, datagram.as_bytes().to_vec()));
                }
                Output::SendKeepalive { peer } => {
                    let command = Command::Keepalive(peer);
                    self.path.shell_mut().commands.push_back(command);
                }
                Output::Roamed { to, .. } => self.peer.roam(to, None),
                Output::ForgetSource { .. } | Output::HandshakeCompleted { .. } => {}
                Output::DropStaged { peer } => {
                    let command = Command::DropStaged(peer);
                    self.path.shell_mut().commands.push_back(command);
                }
            }
        }
    }

    fn take_keys(&mut self) {
        let id = self.peer.id;
        for index in self.receiving.drain(..) {
            self.keys.remove(index);
        }
        for transport in self.shaker.receiving(id) {
            self.receiving.push(transport.local_index());
            self.keys.insert(Receiving {
                transport,
                peer: Arc::clone(&self.peer),
            });
        }
        let (current, awaited) = (self.shaker.sending(id), self.shaker.awaited(id));
        if self.peer.set_keys(current, awaited) {
            self.keys.note_change();
            let _no_other_worker = self.peer.take_waiting();
        }
    }

    fn publish(&mut self) {
        let mut peers = PeerTable::default();
        peers.insert(self.peer.id, Arc::clone(&self.peer));
        let shell = self.path.shell();
        let wall_offset =
            ClockOffset::between(self.clock.get(), culvert_datapath::Shell::wall(shell));
        let snapshot = Snapshot {
            routes: self.routes.clone(),
            peers,
            keys: Arc::clone(&self.keys),
            port: self.address.port(),
            mtu: MTU,
            service_routes: None,
            inbound: None,
            gate: self.gate.clone(),
            inside: self.inside,
            wall_offset,
        };
        self.path.shell_mut().publish(snapshot);
        self.is_dirty = false;
    }
}

fn clock_at(now: BootTime) -> Clock {
    let wall = Duration::from_secs(1_800_000_000) + now.saturating_since(BootTime::ZERO);
    Clock {
        now,
        wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
    }
}
