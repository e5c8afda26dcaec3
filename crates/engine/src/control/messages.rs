//! Handshake messages: those that workers hand over are answered, and what the handshaker has to say is sent.

use super::{Control, shared};
use culvert_base::BootTime;
use culvert_base::Destination;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_datapath::{Command, HandshakeMessage};
use culvert_session::parse::Message;
use culvert_session::{
    Clock, DropReason, HandshakeDatagram, PeerId, RATE_PER_SECOND, UNDER_LOAD_AFTER,
};
use culvert_udp::SendError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// What waits to be sent at most: it leaves before more is taken in, so that nothing waits for long.
const MAX_OUTGOING: usize = HANDSHAKES_PER_TURN;

/// What is sent once the workers have the newest keys: a responder's keys can receive before its response leaves.
pub(super) enum Outgoing {
    Handshake {
        peer: PeerId,
        datagram: HandshakeDatagram,
        /// `None` is everywhere the peer may be.
        to: Option<Destination>,
    },
    CookieReply {
        datagram: HandshakeDatagram,
        to: Destination,
    },
    Keepalive(PeerId),
}

/// Between two lines about refused handshakes. An operator who looks sees it, and a flood fills no disk.
const NOTICE_EVERY: Duration = Duration::from_secs(10);

/// Handshakes that were refused because of their network's rate, for the log.
#[derive(Debug, Default)]
pub(super) struct RateNotice {
    said: Option<BootTime>,
    since: u64,
}

impl RateNotice {
    /// Notes why a handshake was refused. Where a line is due, says how many there were since the last one.
    fn due(&mut self, reason: DropReason, now: BootTime) -> Option<u64> {
        if reason != DropReason::RateLimited {
            return None;
        }
        self.since += 1;
        let is_early = |said: BootTime| now.saturating_since(said) < NOTICE_EVERY;
        if self.said.is_some_and(is_early) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

impl Control {
    /// Answers the handshake messages that wait, as many as one turn may take.
    pub(super) fn answer_handshakes(&mut self, clock: Clock) {
        for _ in 0..HANDSHAKES_PER_TURN {
            let Some(message) = self.shared.next_handshake() else {
                break;
            };
            // Counting the one that was just taken.
            if self.shared.waiting_handshakes() + 1 >= shared::UNDER_LOAD_MESSAGES {
                self.under_load_until = clock.now.saturating_add(UNDER_LOAD_AFTER);
            }
            self.answer(&message, clock);
        }
        self.send_out();
    }

    fn answer(&mut self, message: &HandshakeMessage, clock: Clock) {
        let under_load = clock.now < self.under_load_until;
        let datagram = message.datagram();
        let handled = self
            .handshaker
            .handle_datagram(datagram, message.source, under_load, clock);
        match handled {
            Ok(peer) => {
                self.counters.handshakes_received.add(1);
                let is_counted = !matches!(Message::parse(datagram), Some(Message::CookieReply(_)));
                if let Some(state) = self.peer(peer).filter(|_| is_counted) {
                    let bytes = datagram.len() as u64;
                    state.shared.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
            Err(reason) => {
                tracing::trace!(source = %message.source, %reason, "handshake refused");
                if let Some(count) = self.rate_notice.due(reason, clock.now) {
                    tracing::warn!(
                        count,
                        source = %message.source,
                        "handshakes were refused: more than {} wait, and the network of this \
                         address sends more than {RATE_PER_SECOND} a second; other networks are answered",
                        shared::UNDER_LOAD_MESSAGES
                    );
                }
                self.counters.handshake_drops[reason.position()].add(1);
            }
        }
        self.take_in(Some(message));
    }

    /// Has something sent by [`Self::send_out`].
    pub(super) fn send_later(&mut self, outgoing: Outgoing) {
        if self.outgoing.len() == MAX_OUTGOING {
            self.send_out();
        }
        self.outgoing.push(outgoing);
    }

    /// Sends what waits, in its order, after the workers have been told of the newest keys.
    pub(super) fn send_out(&mut self) {
        if self.outgoing.is_empty() {
            return;
        }
        if self.is_dirty {
            self.publish();
        }
        for outgoing in std::mem::take(&mut self.outgoing) {
            match outgoing {
                Outgoing::Handshake { peer, datagram, to } => {
                    self.send_handshake(peer, datagram.as_bytes(), to);
                }
                Outgoing::CookieReply { datagram, to } => {
                    self.send_datagram(datagram.as_bytes(), to);
                }
                Outgoing::Keepalive(peer) => {
                    self.shared.command(0, Command::Keepalive(peer));
                }
            }
        }
    }

    fn send_handshake(&self, id: PeerId, datagram: &[u8], to: Option<Destination>) {
        let sent = match to {
            None => self.send_to_candidates(id, datagram),
            Some(to) => self.send_datagram(datagram, to),
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
            sent |= self.send_datagram(datagram, Destination { address, source });
        }
        sent
    }

    /// Sends one handshake message from the first worker's socket; once more without its source address
    /// where that is gone. It has priority, as in Linux's WireGuard.
    fn send_datagram(&self, datagram: &[u8], mut to: Destination) -> bool {
        let sockets = self.sockets.as_ref();
        let Some(socket) = sockets.and_then(|all| all[0].towards(to.address)) else {
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
                    let _timed_out = poll(&mut room, Some(&SEND_PATIENCE));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_handshakes_are_told_of_once_in_ten_seconds_with_their_number() {
        let mut notice = RateNotice::default();
        let at = |seconds: u64| BootTime::from_nanos(seconds * 1_000_000_000);
        assert_eq!(notice.due(DropReason::CookieRequired, at(1)), None);
        assert_eq!(notice.due(DropReason::RateLimited, at(1)), Some(1));
        for second in 2..11 {
            assert_eq!(notice.due(DropReason::RateLimited, at(second)), None);
        }
        assert_eq!(notice.due(DropReason::RateLimited, at(11)), Some(10));
    }
}
