//! Handshake messages: those that workers hand over are answered, and what the handshaker has to say is sent.

use super::handshakes::Outgoing;
use super::helpers::Job;
use super::shared::UNDER_LOAD_MESSAGES;
use super::thread::Control;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_base::{BootTime, Destination, PublicKey};
use culvert_datapath::{Command, HandshakeMessage};
use culvert_session::parse::Message;
use culvert_session::{
    Clock, Destination as Towards, DropReason, Output, PeerId, RATE_PER_SECOND, Step,
};
use culvert_udp::SendError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// Handshake messages answered before anything else gets a turn: some 6 ms of work.
const HANDSHAKES_PER_TURN: usize = 64;

/// The number of further tries of a handshake message that finds the socket full or its source address gone.
const SEND_ATTEMPTS: usize = 3;

/// The time for which a handshake message waits for room in the socket: the smallest send buffer empties in
/// 13 ms at 100 Mbit/s. A message that is not sent then is sent again by its timer.
const SEND_TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 15_000_000,
};

/// The most messages that wait to be sent: they leave before more are taken in, so that none waits for long.
const MAX_OUTGOING: usize = HANDSHAKES_PER_TURN;

impl Control {
    /// Answers the handshake messages that wait, as many as one turn may take.
    pub(super) fn answer_handshakes(&mut self, clock: Clock) {
        for _ in 0..HANDSHAKES_PER_TURN {
            if self.helpers.are_busy() && !self.helpers.have_room() {
                break;
            }
            let Some(message) = self.workers.shared().next_handshake() else {
                break;
            };
            // Counting the one that was just taken.
            if self.workers.shared().waiting_handshakes() + 1 >= UNDER_LOAD_MESSAGES {
                self.handshakes.note_load(clock.now);
            }
            self.answer(message, clock);
        }
        self.send_out();
    }

    /// Goes on with messages whose work a helper has done.
    pub(super) fn finish_handshakes(&mut self, clock: Clock) {
        while let Some(Job { part, message }) = self.helpers.take() {
            let step = self.handshakes.handshaker.finish(part, clock);
            self.go_on(step, message, clock);
        }
        self.send_out();
    }

    fn answer(&mut self, message: HandshakeMessage, clock: Clock) {
        let under_load = self.handshakes.is_under_load(clock.now);
        self.handshakes.note_source(&message);
        let step = self.handshakes.handshaker.begin_datagram(
            message.datagram(),
            message.source,
            under_load,
            clock,
        );
        self.go_on(step, message, clock);
    }

    /// Does the work of a message here, if nothing else waits: a helper would have to be woken for it.
    fn go_on(&mut self, mut step: Step, message: HandshakeMessage, clock: Clock) {
        loop {
            match step {
                Step::Done(handled) => return self.count_handled(handled, &message, clock),
                Step::Work(part) if self.has_company() => {
                    return self.helpers.give(Job { part, message });
                }
                Step::Work(work) => {
                    step = self.handshakes.handshaker.finish(work.run(), clock);
                }
            }
        }
    }

    fn has_company(&self) -> bool {
        let others = self.helpers.are_busy() || self.workers.shared().waiting_handshakes() > 0;
        others && self.helpers.have_room()
    }

    fn count_handled(
        &mut self,
        handled: Result<PeerId, DropReason>,
        message: &HandshakeMessage,
        clock: Clock,
    ) {
        let datagram = message.datagram();
        match handled {
            Ok(peer) => {
                self.counters.handshakes_received.add(1);
                let is_counted = !matches!(Message::parse(datagram), Some(Message::CookieReply(_)));
                if let Some(state) = self.peers.get(peer).filter(|_| is_counted) {
                    let bytes = datagram.len() as u64;
                    state.shared.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
            Err(reason) => {
                tracing::trace!(source = %message.source, %reason, "handshake refused");
                if let Some(count) = self.handshakes.note_refused(reason, clock.now) {
                    tracing::warn!(
                        count,
                        source = %message.source,
                        "handshakes were refused: more than {} wait, and the network of this \
                         address sends more than {RATE_PER_SECOND} a second; other networks are answered",
                        UNDER_LOAD_MESSAGES
                    );
                }
                self.counters.handshake_drops[reason.position()].add(1);
            }
        }
        self.take_in();
    }

    /// Has something sent by [`Self::send_out`].
    pub(super) fn send_later(&mut self, outgoing: Outgoing) {
        if self.handshakes.outgoing() == MAX_OUTGOING {
            self.send_out();
        }
        self.handshakes.send_later(outgoing);
    }

    /// Sends what waits, in its order, after the workers have been told of the newest keys.
    pub(super) fn send_out(&mut self) {
        if self.handshakes.outgoing() == 0 {
            return;
        }
        if self.workers.is_dirty() {
            self.publish();
        }
        for outgoing in self.handshakes.take_outgoing() {
            match outgoing {
                Outgoing::Handshake { peer, datagram, to } => {
                    self.send_handshake(peer, datagram.as_bytes(), to);
                }
                Outgoing::CookieReply { datagram, to } => {
                    self.send_datagram(datagram.as_bytes(), to);
                }
                Outgoing::Keepalive(peer) => {
                    self.workers.command(0, Command::Keepalive(peer));
                }
            }
        }
    }

    fn send_handshake(&self, id: PeerId, datagram: &[u8], to: Option<Destination>) {
        let sent = match to {
            None => self.send_to_candidates(id, datagram),
            Some(to) => self.send_datagram(datagram, to),
        };
        if let Some(state) = self.peers.get(id).filter(|_| sent) {
            let bytes = datagram.len() as u64;
            state.shared.tx_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Sends an initiation to everywhere the peer may be. True where a copy left.
    fn send_to_candidates(&self, id: PeerId, datagram: &[u8]) -> bool {
        let Some(state) = self.peers.get(id) else {
            return false;
        };
        let endpoint = state.shared.endpoint();
        let mut sent = endpoint.is_some_and(|to| self.send_datagram(datagram, to));
        for &address in &state.candidates {
            if endpoint.is_some_and(|to| to.address == address) {
                continue;
            }
            let source = None;
            sent |= self.send_datagram(datagram, Destination { address, source });
        }
        sent
    }

    /// Sends to a peer there from now on, and keeps to it; or follows the peer's records again. Workers look at the endpoint
    /// for each batch, so nothing is published.
    pub(super) fn pin_endpoint(
        &mut self,
        key: &PublicKey,
        address: Option<SocketAddr>,
        now: BootTime,
    ) {
        let Some(id) = self.handshakes.handshaker.peer_by_key(key) else {
            return;
        };
        let Some(state) = self.peers.get(id) else {
            return;
        };
        let Some(address) = address else {
            return state.shared.unpin_endpoint();
        };
        if state
            .shared
            .endpoint()
            .is_none_or(|to| to.address != address)
        {
            state.shared.pin_endpoint(address);
            self.repeat_initiation(key, address, now);
        }
        if self.handshakes.handshaker.sending(id).is_some() {
            // The peer follows the records.
            self.workers.command(0, Command::Keepalive(id));
        }
    }

    /// Sends to the peers at one address by another one from now on.
    pub(super) fn move_endpoints(&self, from: SocketAddr, to: SocketAddr) {
        for state in self.peers.iter() {
            let endpoint = state.shared.endpoint();
            if endpoint.is_some_and(|endpoint| endpoint.address == from) {
                state.shared.set_endpoint(to);
            }
        }
    }

    /// Sends the initiation that waits for its answer to one more address.
    pub(super) fn repeat_initiation(&self, key: &PublicKey, address: SocketAddr, now: BootTime) {
        let Some(id) = self.handshakes.handshaker.peer_by_key(key) else {
            return;
        };
        let Some(datagram) = self.handshakes.handshaker.waiting_initiation(id, now) else {
            return;
        };
        let source = None;
        self.send_datagram(datagram.as_bytes(), Destination { address, source });
    }

    /// Sends one handshake message from the first worker's socket; once more without its source address
    /// where that is gone. It has priority, as in Linux's WireGuard.
    fn send_datagram(&self, datagram: &[u8], mut to: Destination) -> bool {
        let sockets = self.sockets.first();
        let Some(socket) = sockets.and_then(|first| first.towards(to.address)) else {
            self.counters.send_failures.add(1);
            return false;
        };
        let mut sent = socket.send(datagram, datagram.len(), &to, PRIORITY_CLASS);
        for _ in 0..SEND_ATTEMPTS {
            match sent {
                Err(SendError::SourceGone) => to.source = None,
                Err(SendError::Passing(_)) => {}
                // The workers keep the send buffer full: a handshake must still get through.
                Err(SendError::WouldBlock) => {
                    let mut room = [PollFd::new(socket, PollFlags::OUT)];
                    let _timed_out = poll(&mut room, Some(&SEND_TIMEOUT));
                }
                _ => break,
            }
            sent = socket.send(datagram, datagram.len(), &to, PRIORITY_CLASS);
        }
        match &sent {
            Ok(()) => self.counters.handshakes_sent.add(1),
            Err(error) => {
                tracing::debug!(%error, "handshake message not sent");
                self.counters.send_failures.add(1);
            }
        }
        sent.is_ok()
    }

    /// Carries out what the handshaker wants.
    pub(super) fn execute(&mut self) {
        self.take_in();
        self.send_out();
    }

    /// Takes in the outputs of the handshaker. Changes of the state take effect at once. Messages wait for [`Self::send_out`], so that many of them need one snapshot, if any.
    pub(super) fn take_in(&mut self) {
        while let Some(output) = self.handshakes.handshaker.poll_output() {
            match output {
                Output::KeysChanged { peer } => {
                    let waiting = self.peers.take_keys(peer, &self.handshakes.handshaker);
                    self.workers.shared().wake_workers(waiting);
                }
                Output::Send { peer, datagram, to } => self.send_later(Outgoing::Handshake {
                    peer,
                    datagram,
                    to: match to {
                        Towards::Peer => None,
                        Towards::Reply(address) => Some(Destination {
                            address,
                            source: self.handshakes.local_of(address),
                        }),
                    },
                }),
                Output::SendKeepalive { peer } => self.send_later(Outgoing::Keepalive(peer)),
                Output::SendCookieReply { datagram, to } => {
                    self.send_later(Outgoing::CookieReply {
                        datagram,
                        to: Destination {
                            address: to,
                            source: self.handshakes.local_of(to),
                        },
                    });
                }
                Output::Roamed { peer, to } => {
                    let local = self.handshakes.local_of(to);
                    if let Some(state) = self.peers.get(peer) {
                        state.shared.roam_by_handshake(to, local);
                    }
                }
                Output::ForgetSource { peer } => {
                    if let Some(state) = self.peers.get(peer) {
                        state.shared.forget_source();
                    }
                }
                Output::DropStaged { peer } => {
                    for worker in 0..self.workers.shared().workers() {
                        self.workers.command(worker, Command::DropStaged(peer));
                    }
                }
                Output::HandshakeCompleted {
                    peer, round_trip, ..
                } => {
                    if let Some(state) = self.peers.get(peer) {
                        state.shared.note_round_trip(round_trip);
                        state.shared.note_for_watch();
                        tracing::debug!(peer = ?state.shared.public_key, ?round_trip, "handshake completed");
                    }
                }
            }
        }
    }
}
