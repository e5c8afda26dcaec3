//! Handshake messages: those that workers hand over are answered, and what the handshaker has to say is sent.

use super::{Control, HandshakeMessage, shared};
use culvert_session::{Clock, Destination, PeerId, UNDER_LOAD_AFTER};
use culvert_udp::{EXPRESS_CLASS, SendError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// Handshake messages answered before anything else gets a turn: some 6 ms of work.
const HANDSHAKES_PER_TURN: usize = 64;

/// How often a handshake message is tried again that finds the socket full or its source address gone.
const SEND_ATTEMPTS: usize = 3;

/// How long a handshake message waits for room in the socket: the smallest send buffer empties in
/// 13 ms at 100 Mbit/s. What is not sent then is sent again by its timer.
const SEND_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 15_000_000,
};

impl Control {
    pub(super) fn answer_handshakes(&mut self, clock: Clock) {
        for _ in 0..HANDSHAKES_PER_TURN {
            if self.shared.waiting_handshakes() >= shared::UNDER_LOAD_MESSAGES {
                self.under_load_until = clock.now.saturating_add(UNDER_LOAD_AFTER);
            }
            let Some(message) = self.shared.next_handshake() else {
                return;
            };
            let under_load = clock.now < self.under_load_until;
            let handled = self.handshaker.handle_datagram(
                message.datagram(),
                message.source,
                under_load,
                clock,
            );
            match handled {
                Ok(_) => self.counters.handshakes_received.add(1),
                Err(reason) => {
                    tracing::trace!(source = %message.source, %reason, "handshake refused");
                    self.counters.handshake_drops[reason.position()].add(1);
                }
            }
            self.carry_out(Some(&message));
        }
    }

    pub(super) fn send_handshake(
        &self,
        id: PeerId,
        datagram: &[u8],
        to: Destination,
        cause: Option<&HandshakeMessage>,
    ) {
        let sent = match to {
            Destination::Peer => self.send_to_candidates(id, datagram),
            Destination::Reply(to) => self.reply(datagram, to, cause),
        };
        if let Some(state) = self.peer(id).filter(|_| sent) {
            let bytes = datagram.len() as u64;
            state.shared.tx_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Sends an initiation to everywhere the peer may be. True where a copy left.
    fn send_to_candidates(&self, id: PeerId, datagram: &[u8]) -> bool {
        let Some(state) = self.peer(id) else {
            return false;
        };
        let endpoint = state.shared.endpoint();
        let mut sent = endpoint.is_some_and(|to| self.send_datagram(datagram, to));
        for &address in &state.candidates {
            if endpoint.is_some_and(|to| to.address == address) {
                continue;
            }
            let source = None;
            sent |= self.send_datagram(datagram, culvert_udp::Destination { address, source });
        }
        sent
    }

    /// Answers `cause` from the address that it came to.
    pub(super) fn reply(
        &self,
        datagram: &[u8],
        to: SocketAddr,
        cause: Option<&HandshakeMessage>,
    ) -> bool {
        let source = cause.filter(|c| c.source == to).and_then(|c| c.local);
        let to = culvert_udp::Destination {
            address: to,
            source,
        };
        self.send_datagram(datagram, to)
    }

    /// Sends one handshake message from the first worker's socket; once more without its source address
    /// where that is gone. It is urgent, as it is to Linux's WireGuard.
    fn send_datagram(&self, datagram: &[u8], mut to: culvert_udp::Destination) -> bool {
        let sockets = self.sockets.as_ref();
        let Some(socket) = sockets.and_then(|all| all[0].towards(to.address)) else {
            self.counters.send_failures.add(1);
            return false;
        };
        let mut sent = socket.send(datagram, datagram.len(), &to, EXPRESS_CLASS);
        for _ in 0..SEND_ATTEMPTS {
            match sent {
                Err(SendError::SourceGone) => to.source = None,
                // The workers keep the send buffer full: a handshake must still get through.
                Err(SendError::WouldBlock) => {
                    let mut room = [PollFd::new(socket, PollFlags::OUT)];
                    let _timed_out = poll(&mut room, Some(&SEND_PATIENCE));
                }
                _ => break,
            }
            sent = socket.send(datagram, datagram.len(), &to, EXPRESS_CLASS);
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
}
