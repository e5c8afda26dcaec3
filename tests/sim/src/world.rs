//! Nodes, the network between them, and the clock that both live by.

use crate::model::Model;
use crate::network::{Datagram, Network};
use crate::node::{Around, Node};
use crate::node_id::NodeId;
use crate::random::Random;
use culvert_base::BootTime;
use culvert_session::{Clock, PrivateKey, Tai64n};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// When every run starts, on the boot-time clock.
const START: BootTime = BootTime::from_nanos(1_000_000_000_000);
/// The same on the wall clock, in seconds since the Unix epoch.
const START_WALL: u64 = 1_800_000_000;

/// The most datagrams that one receive returns (`UDP_GRO_CNT_MAX`).
const GRO_SEGMENTS_MAX: usize = 64;

/// Everything there is in one run.
pub struct World {
    /// The network between the nodes.
    pub network: Network,
    /// The invariants.
    pub model: Model,
    nodes: Vec<Node>,
    now: BootTime,
    random: Random,
    traffic: BTreeMap<(BootTime, usize), Traffic>,
    traffic_started: usize,
}

/// Packets that a node's applications send at an interval.
struct Traffic {
    from: NodeId,
    to: NodeId,
    packets: usize,
    every: Duration,
    until: BootTime,
}

impl World {
    /// `nodes` nodes that all know each other and each other's addresses, and a perfect network.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let mut world = Self {
            network: Network::new(seed),
            model: Model::default(),
            nodes: Vec::new(),
            now: START,
            random: Random::new(seed ^ 0xc01_0e47),
            traffic: BTreeMap::new(),
            traffic_started: 0,
        };
        for number in 0..nodes {
            let (key, seed) = (world.random.bytes(), world.random.bytes());
            let key = PrivateKey::from_bytes(key);
            let address = address_of(number);
            let node = Node::new(NodeId(number), address, key, seed, world.clock());
            world.nodes.push(node);
        }
        for number in 0..nodes {
            let (before, rest) = world.nodes.split_at_mut(number);
            let Some((node, after)) = rest.split_first_mut() else {
                continue;
            };
            for other in before.iter().chain(after.iter()) {
                node.add_peer(other, Some(other.address));
            }
        }
        world
    }

    /// The time.
    pub fn now(&self) -> BootTime {
        self.now
    }

    /// Both clocks.
    pub fn clock(&self) -> Clock {
        let since_start = self.now.saturating_since(START);
        let seconds = START_WALL + since_start.as_secs();
        Clock {
            now: self.now,
            wall: Tai64n::from_unix(seconds, since_start.subsec_nanos()),
        }
    }

    /// One of the nodes.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// One of the nodes, to look into it or change its configuration.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0]
    }

    /// Applications at `from` send `packets` packets to `to` at once.
    pub fn send(&mut self, from: NodeId, to: NodeId, packets: usize) {
        self.act(from, |node, around| node.send(to, packets, around));
    }

    /// Applications at `from` send `packets` packets to `to`, every `every`, for `lasting`.
    pub fn start_traffic(
        &mut self,
        (from, to): (NodeId, NodeId),
        packets: usize,
        every: Duration,
        lasting: Duration,
    ) {
        let traffic = Traffic {
            from,
            to,
            packets,
            every,
            until: self.now.saturating_add(lasting),
        };
        self.traffic_started += 1;
        self.traffic
            .insert((self.now, self.traffic_started), traffic);
    }

    /// Applications send nothing more.
    pub fn stop_traffic(&mut self) {
        self.traffic.clear();
    }

    /// Switches on the persistent keepalive of `node` towards `peer`.
    pub fn set_keepalive(&mut self, node: NodeId, peer: NodeId, interval: Duration) {
        self.act(node, |node, around| {
            node.set_keepalive(peer, interval, around);
        });
    }

    /// The node moves: it sends from, and is reached at, another address. Nobody is told.
    pub fn move_node(&mut self, id: NodeId, address: SocketAddr) {
        self.nodes[id.0].address = address;
    }

    /// The node is told, by its configuration, where the other one is.
    pub fn tell_endpoint(&mut self, id: NodeId, other: NodeId) {
        let address = self.nodes[other.0].address;
        self.act(id, |node, _| node.set_endpoint(other, address));
    }

    /// The node's process dies and starts again.
    pub fn restart(&mut self, id: NodeId) {
        let seed = self.random.bytes();
        let clock = self.clock();
        let (before, rest) = self.nodes.split_at_mut(id.0);
        let Some((node, after)) = rest.split_first_mut() else {
            return;
        };
        let others: Vec<&Node> = before.iter().chain(after.iter()).collect();
        let mut around = Around {
            clock,
            network: &mut self.network,
            model: &mut self.model,
        };
        node.restart(&others, seed, &mut around);
    }

    /// The node's interface goes up or down.
    pub fn set_link(&mut self, id: NodeId, is_up: bool) {
        self.act(id, |node, around| node.set_link(is_up, around));
    }

    /// Runs for `duration`, from event to event.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now.saturating_add(duration);
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.deliver();
            self.send_traffic();
            for id in (0..self.nodes.len()).map(NodeId) {
                let due = self.nodes[id.0].shaker.next_timeout();
                if due.is_some_and(|at| at <= self.now) {
                    self.act(id, Node::handle_timeout);
                }
            }
        }
        self.now = until;
    }

    fn next_event(&self) -> Option<BootTime> {
        let timeouts = self
            .nodes
            .iter()
            .filter_map(|node| node.shaker.next_timeout());
        let traffic = self.traffic.first_key_value().map(|((at, _), _)| *at);
        timeouts
            .chain(self.network.next_arrival())
            .chain(traffic)
            .min()
    }

    /// Hands over what has arrived, in runs of one source, one length and one kind.
    fn deliver(&mut self) {
        let mut run: Vec<Datagram> = Vec::new();
        loop {
            let next = self.network.pop(self.now);
            let joins = |next: &Datagram| {
                run.first().is_none_or(|first| {
                    run.len() < GRO_SEGMENTS_MAX && (first.from, first.to, first.bytes.len()) == (next.from, next.to, next.bytes.len())
                        // Type and receiver index: a run is for one key.
                        && first.bytes.first_chunk::<8>() == next.bytes.first_chunk::<8>()
                })
            };
            match next {
                Some(datagram) if joins(&datagram) => run.push(datagram),
                other => {
                    self.hand_over(std::mem::take(&mut run));
                    let Some(datagram) = other else {
                        return;
                    };
                    run.push(datagram);
                }
            }
        }
    }

    fn hand_over(&mut self, run: Vec<Datagram>) {
        let Some((from, to)) = run.first().map(|first| (first.from, first.to)) else {
            return;
        };
        // If nobody lives any more, datagrams are lost.
        let Some(id) = self
            .nodes
            .iter()
            .find(|node| node.address == to)
            .map(|node| node.id)
        else {
            return;
        };
        let bytes: Vec<_> = run.into_iter().map(|datagram| datagram.bytes).collect();
        self.act(id, |node, around| node.receive(from, &bytes, around));
    }

    fn send_traffic(&mut self) {
        while let Some(entry) = self
            .traffic
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)
        {
            let ((at, number), traffic) = entry.remove_entry();
            self.send(traffic.from, traffic.to, traffic.packets);
            let next = at.saturating_add(traffic.every);
            if next < traffic.until {
                self.traffic.insert((next, number), traffic);
            }
        }
    }

    fn act(&mut self, id: NodeId, action: impl FnOnce(&mut Node, &mut Around)) {
        let mut around = Around {
            clock: self.clock(),
            network: &mut self.network,
            model: &mut self.model,
        };
        action(&mut self.nodes[id.0], &mut around);
    }
}

/// The address at which node `number` starts.
pub fn address_of(number: usize) -> SocketAddr {
    let host = u8::try_from(number + 1).expect("few nodes");
    SocketAddr::new([10, 0, 0, host].into(), 51820)
}
