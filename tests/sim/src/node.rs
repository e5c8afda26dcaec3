//! One end, composed of handshaker and transports as the engine composes them.

use crate::model::Model;
use crate::network::Network;
use crate::node_id::NodeId;
use culvert_base::BootTime;
use culvert_session::parse::{DataHeader, MessageType, message_type};
use culvert_session::{
    Activity, Clock, DATA_HEADER_LEN, DATA_OVERHEAD, Destination, DropReason, Handshaker, Index,
    Output, PeerId, PrivateKey, Transport,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The most packets that wait for a handshake, per peer, as in the kernel.
pub const STAGED_MAX: usize = 128;

/// A node is under load when this many handshake messages came within [`LOAD_WINDOW`].
const LOAD_MESSAGES: usize = 32;
const LOAD_WINDOW: Duration = Duration::from_millis(100);

/// The counters of a node.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Initiations sent.
    pub initiations: usize,
    /// Sessions established, in either role.
    pub handshakes: usize,
    /// Keepalives sent.
    pub keepalives: usize,
    /// Packets given up because no handshake came of it.
    pub dropped_staged: usize,
    /// Handshake messages refused, by reason.
    pub refused: BTreeMap<DropReason, usize>,
    /// Data for a key that the node does not have.
    pub unknown_index: usize,
    /// Data records not opened.
    pub not_opened: usize,
}

/// One end.
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its address.
    pub address: SocketAddr,
    /// The protocol.
    pub shaker: Handshaker,
    /// The events so far.
    pub counters: Counters,
    private_key: PrivateKey,
    peers: BTreeMap<PeerId, Peer>,
    /// As the workers' snapshot: taken over from the handshaker when keys change, not before.
    receiving: BTreeMap<Index, Arc<Transport>>,
    handshakes_seen: VecDeque<BootTime>,
}

struct Peer {
    node: NodeId,
    endpoint: Option<SocketAddr>,
    activity: Arc<Activity>,
    sending: Option<Arc<Transport>>,
    staged: VecDeque<Vec<u8>>,
    keepalive: Option<Duration>,
}

/// The parts of the world that a node needs during an event.
pub(crate) struct Around<'a> {
    pub(crate) clock: Clock,
    pub(crate) network: &'a mut Network,
    pub(crate) model: &'a mut Model,
}

impl Node {
    pub(crate) fn new(
        id: NodeId,
        address: SocketAddr,
        private_key: PrivateKey,
        seed: [u8; 32],
        clock: Clock,
    ) -> Self {
        Self {
            id,
            address,
            shaker: started(&private_key, seed, clock),
            counters: Counters::default(),
            private_key,
            peers: BTreeMap::new(),
            receiving: BTreeMap::new(),
            handshakes_seen: VecDeque::new(),
        }
    }

    pub(crate) fn add_peer(&mut self, node: &Self, endpoint: Option<SocketAddr>) {
        let key = node.private_key.public_key();
        let id = self.shaker.add_peer(key).expect("each peer is added once");
        let activity = self.shaker.activity(id).expect("the peer exists");
        let peer = Peer {
            node: node.id,
            endpoint,
            activity,
            sending: None,
            staged: VecDeque::new(),
            keepalive: None,
        };
        self.peers.insert(id, peer);
    }

    /// The peer that is `node`.
    pub fn peer_of(&self, node: NodeId) -> PeerId {
        let mut peers = self.peers.iter();
        let found = peers.find(|(_, peer)| peer.node == node);
        *found.expect("the nodes know each other").0
    }

    /// The address to which the node sends packets for `node`.
    pub fn endpoint_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.peers[&self.peer_of(node)].endpoint
    }

    /// The configuration says once more where `node` is.
    pub(crate) fn set_endpoint(&mut self, node: NodeId, endpoint: SocketAddr) {
        let id = self.peer_of(node);
        self.peer_mut(id).endpoint = Some(endpoint);
    }

    pub(crate) fn set_keepalive(&mut self, node: NodeId, interval: Duration, around: &mut Around) {
        let id = self.peer_of(node);
        self.shaker.set_keepalive(id, Some(interval), around.clock);
        self.peer_mut(id).keepalive = Some(interval);
        self.execute(around);
    }

    /// The process dies and starts again: its keys, and what waited, are gone; its configuration is
    /// not. An endpoint is what it was learnt to be last.
    pub(crate) fn restart(&mut self, others: &[&Self], seed: [u8; 32], around: &mut Around) {
        self.shaker = started(&self.private_key, seed, around.clock);
        self.receiving.clear();
        let peers = std::mem::take(&mut self.peers);
        for peer in peers.into_values() {
            let other = others.iter().find(|other| other.id == peer.node);
            self.add_peer(other.expect("every peer is a node"), peer.endpoint);
            if let Some(interval) = peer.keepalive {
                self.set_keepalive(peer.node, interval, around);
            }
        }
    }

    pub(crate) fn set_link(&mut self, is_up: bool, around: &mut Around) {
        self.shaker.set_up(is_up, around.clock);
        if !is_up {
            for peer in self.peers.values_mut() {
                peer.staged.clear();
            }
        }
        self.execute(around);
    }

    pub(crate) fn send(&mut self, to: NodeId, packets: usize, around: &mut Around) {
        let id = self.peer_of(to);
        for _ in 0..packets {
            let packet = around.model.send(self.id, to, around.clock.now);
            let staged = &mut self.peer_mut(id).staged;
            if staged.len() == STAGED_MAX {
                staged.pop_front();
                self.counters.dropped_staged += 1;
            }
            self.peer_mut(id).staged.push_back(packet);
        }
        self.flush(id, around);
        self.execute(around);
    }

    pub(crate) fn handle_timeout(&mut self, around: &mut Around) {
        self.shaker.handle_timeout(around.clock);
        self.execute(around);
    }

    /// Datagrams of one length from one source that arrived together, as UDP GRO hands them over.
    pub(crate) fn receive(&mut self, source: SocketAddr, run: &[Vec<u8>], around: &mut Around) {
        let Some(first) = run.first() else {
            return;
        };
        if message_type(first) == Some(MessageType::Data) {
            self.receive_data(source, run, around);
        } else {
            for datagram in run {
                self.receive_handshake(source, datagram, around);
            }
        }
        self.execute(around);
    }

    fn receive_handshake(&mut self, source: SocketAddr, datagram: &[u8], around: &mut Around) {
        let under_load = self.is_under_load(around.clock.now);
        let handled = self
            .shaker
            .handle_datagram(datagram, source, under_load, around.clock);
        if let Err(reason) = handled {
            *self.counters.refused.entry(reason).or_default() += 1;
        }
        self.execute(around);
    }

    fn receive_data(&mut self, source: SocketAddr, run: &[Vec<u8>], around: &mut Around) {
        let Some(header) = DataHeader::parse(&run[0]) else {
            return;
        };
        let Some(transport) = self.receiving.get(&header.receiver).cloned() else {
            self.counters.unknown_index += run.len();
            return;
        };
        let now = around.clock.now;
        let stride = run[0].len();
        let mut buffer = run.concat();
        let batch = transport.open_batch(&mut buffer, stride, now);
        self.counters.not_opened += run.len() - batch.opened().len();
        if batch.opened().is_empty() {
            return;
        }
        let id = transport.peer();
        let peer = self.peer_mut(id);
        peer.endpoint = Some(source);
        let from = peer.node;
        if stride == DATA_OVERHEAD {
            peer.activity.keepalive_received(now);
        } else {
            peer.activity.data_received(now);
            for record in batch.opened().iter() {
                let record = &buffer[record * stride..][..stride];
                let packet = &record[DATA_HEADER_LEN..stride - (DATA_OVERHEAD - DATA_HEADER_LEN)];
                around.model.deliver(packet, from, self.id, now);
            }
        }
        self.look_at(id, around.clock);
        if transport.confirm(now) {
            self.shaker
                .handle_confirmed(id, transport.local_index(), around.clock);
        }
        if transport.wants_rekey_on_receive(now) {
            self.shaker.handle_wanted(id, around.clock);
        }
    }

    /// Has the timers of a peer looked at, of which data was marked.
    fn look_at(&mut self, id: PeerId, clock: Clock) {
        if self.peer_mut(id).activity.wants_watch() {
            self.shaker.handle_active(id, clock);
        }
    }

    /// Sends what waits for the peer, or asks for the handshake that it waits for.
    fn flush(&mut self, id: PeerId, around: &mut Around) {
        let mut staged = std::mem::take(&mut self.peer_mut(id).staged);
        if staged.is_empty() {
            return;
        }
        if self.seal_and_send(id, staged.make_contiguous(), around) {
            let now = around.clock.now;
            let peer = self.peer_mut(id);
            peer.activity.data_sent(now);
            self.look_at(id, around.clock);
            let peer = self.peer_mut(id);
            let wants_rekey = |keys: &Arc<Transport>| keys.wants_rekey_on_send(now);
            if peer.sending.as_ref().is_some_and(wants_rekey) {
                self.shaker.handle_wanted(id, around.clock);
            }
        } else {
            self.peer_mut(id).staged = staged;
            self.shaker.handle_wanted(id, around.clock);
        }
    }

    /// One batch under the current key; false where there is none that may be used.
    fn seal_and_send(&mut self, id: PeerId, packets: &[Vec<u8>], around: &mut Around) -> bool {
        let address = self.address;
        let peer = self.peer_mut(id);
        let Some(keys) = &peer.sending else {
            return false;
        };
        let count = u32::try_from(packets.len()).expect("at most STAGED_MAX packets");
        let Some(reservation) = keys.reserve(count, around.clock.now) else {
            return false;
        };
        let stride = packets[0].len() + DATA_OVERHEAD;
        let mut buffer = vec![0; stride * packets.len()];
        for (record, packet) in buffer.chunks_mut(stride).zip(packets) {
            record[DATA_HEADER_LEN..][..packet.len()].copy_from_slice(packet);
        }
        keys.seal_batch(reservation, &mut buffer, stride);
        if let Some(endpoint) = peer.endpoint {
            for record in buffer.chunks(stride) {
                around
                    .network
                    .send(address, endpoint, record.to_vec(), around.clock.now);
            }
        }
        true
    }

    fn execute(&mut self, around: &mut Around) {
        while let Some(output) = self.shaker.poll_output() {
            match output {
                Output::KeysChanged { peer } => self.take_keys(peer),
                Output::Send { peer, datagram, to } => {
                    self.counters.initiations += usize::from(datagram.len() == 148);
                    let to = match to {
                        Destination::Peer => self.peer_mut(peer).endpoint,
                        Destination::Reply(to) => Some(to),
                    };
                    self.send_datagram(&datagram, to, around);
                }
                Output::SendCookieReply { datagram, to } => {
                    self.send_datagram(&datagram, Some(to), around);
                }
                Output::SendKeepalive { peer } => self.send_keepalive(peer, around),
                Output::Roamed { peer, to } => self.peer_mut(peer).endpoint = Some(to),
                Output::ForgetSource { .. } => {}
                Output::DropStaged { peer } => {
                    let dropped = self.peer_mut(peer).staged.drain(..).count();
                    self.counters.dropped_staged += dropped;
                }
                Output::HandshakeCompleted { peer, .. } => {
                    self.counters.handshakes += 1;
                    self.flush(peer, around);
                }
            }
        }
    }

    fn take_keys(&mut self, id: PeerId) {
        let sending = self.shaker.sending(id);
        self.peer_mut(id).sending = sending;
        self.receiving.retain(|_, keys| keys.peer() != id);
        for keys in self.shaker.receiving(id) {
            self.receiving.insert(keys.local_index(), keys);
        }
    }

    fn send_datagram(&self, bytes: &[u8], to: Option<SocketAddr>, around: &mut Around) {
        if let Some(to) = to {
            around
                .network
                .send(self.address, to, bytes.to_vec(), around.clock.now);
        }
    }

    fn send_keepalive(&mut self, id: PeerId, around: &mut Around) {
        if self.peer_mut(id).staged.is_empty() {
            if self.seal_and_send(id, &[Vec::new()], around) {
                self.counters.keepalives += 1;
                self.peer_mut(id).activity.keepalive_sent(around.clock.now);
            }
        } else {
            self.flush(id, around);
        }
    }

    fn is_under_load(&mut self, now: BootTime) -> bool {
        self.handshakes_seen.push_back(now);
        if self.handshakes_seen.len() <= LOAD_MESSAGES {
            return false;
        }
        let oldest = self.handshakes_seen.pop_front();
        oldest.is_some_and(|oldest| !now.has_passed(oldest, LOAD_WINDOW))
    }

    fn peer_mut(&mut self, id: PeerId) -> &mut Peer {
        self.peers.get_mut(&id).expect("the peer exists")
    }
}

fn started(private_key: &PrivateKey, seed: [u8; 32], clock: Clock) -> Handshaker {
    let mut shaker = Handshaker::new(seed);
    shaker.set_private_key(Some(private_key.clone()), clock);
    shaker.set_up(true, clock);
    shaker
}
