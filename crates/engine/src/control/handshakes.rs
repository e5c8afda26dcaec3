//! The state of handshakes: the handshaker, and the messages that wait to be sent.

use crate::entropy::SystemEntropy;
use culvert_base::{BootTime, Destination, LocalAddress};
use culvert_datapath::HandshakeMessage;
use culvert_session::{
    Clock, DropReason, HandshakeDatagram, Handshaker, PROMPT_KEEPALIVE_TIMEOUT, PeerId,
    PresharedKey, PrivateKey, Suite, UNDER_LOAD_AFTER,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// The interval between two lines about refused handshakes. An operator who looks sees it, and a flood fills no disk.
const NOTICE_EVERY: Duration = Duration::from_secs(10);

/// Messages whose sources are kept: as many as are under way with four helpers. An answer to an older one leaves from the
/// address that the host chooses.
const MAX_SOURCES: usize = 256;

/// A message that is sent once the workers have the newest keys: a responder's keys can receive before its response
/// leaves.
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

/// The handshakes of the device.
pub(super) struct Handshakes {
    pub(super) handshaker: Handshaker,
    private_key: Option<PrivateKey>,
    /// The suite of peers without one of their own.
    suite: Suite,
    /// Messages to be sent once the workers have the keys for the answers.
    outgoing: Vec<Outgoing>,
    /// The time until which senders must show a cookie.
    under_load_until: BootTime,
    /// Handshakes that were refused because of their network's rate.
    notice: RateNotice,
    /// The address of ours that each of the last messages came to: answers leave from there.
    sources: VecDeque<(SocketAddr, Option<LocalAddress>)>,
}

impl Handshakes {
    /// Devices that others take for dead where they are silent answer promptly.
    pub(super) fn new(seed: [u8; 32], suite: Suite, answers_promptly: bool) -> Self {
        let mut handshaker = Handshaker::new(seed);
        handshaker.set_entropy(Box::new(SystemEntropy));
        if answers_promptly {
            // Clients take a gateway's silence for its death.
            handshaker.set_keepalive_timeout(PROMPT_KEEPALIVE_TIMEOUT);
        }
        Self {
            handshaker,
            private_key: None,
            suite,
            outgoing: Vec::new(),
            under_load_until: BootTime::ZERO,
            notice: RateNotice::default(),
            sources: VecDeque::with_capacity(MAX_SOURCES),
        }
    }

    pub(super) const fn private_key(&self) -> Option<&PrivateKey> {
        self.private_key.as_ref()
    }

    pub(super) fn set_private_key(&mut self, key: Option<PrivateKey>, clock: Clock) {
        self.handshaker.set_private_key(key.clone(), clock);
        self.private_key = key;
    }

    pub(super) const fn suite(&self) -> Suite {
        self.suite
    }

    pub(super) const fn set_suite(&mut self, suite: Suite) {
        self.suite = suite;
    }

    /// `None` if there is none, which the protocol writes as zeros.
    pub(super) fn preshared_key(&self, id: PeerId) -> Option<&PresharedKey> {
        let key = self.handshaker.preshared_key(id);
        key.filter(|key| **key != PresharedKey::NONE)
    }

    /// Senders must show a cookie for a while.
    pub(super) fn note_load(&mut self, now: BootTime) {
        self.under_load_until = now.saturating_add(UNDER_LOAD_AFTER);
    }

    pub(super) fn is_under_load(&self, now: BootTime) -> bool {
        now < self.under_load_until
    }

    /// Notes the reason of a refused handshake. If a line is due, returns the number since the last one.
    pub(super) fn note_refused(&mut self, reason: DropReason, now: BootTime) -> Option<u64> {
        self.notice.due(reason, now)
    }

    /// Notes where a message came from, and to which address of ours.
    pub(super) fn note_source(&mut self, message: &HandshakeMessage) {
        if self.sources.len() == MAX_SOURCES {
            self.sources.pop_front();
        }
        self.sources.push_back((message.source, message.local));
    }

    /// The address of ours to which a message from `source` came, if it was one of the last.
    pub(super) fn local_of(&self, source: SocketAddr) -> Option<LocalAddress> {
        let mut newest_first = self.sources.iter().rev();
        newest_first.find(|(from, _)| *from == source)?.1
    }

    pub(super) fn outgoing(&self) -> usize {
        self.outgoing.len()
    }

    pub(super) fn send_later(&mut self, outgoing: Outgoing) {
        self.outgoing.push(outgoing);
    }

    pub(super) fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Gives up all keys and messages of before.
    pub(super) fn begin_anew(&mut self, seed: &[u8; 32], clock: Clock) {
        // Responses that were made before have keys that are gone.
        self.outgoing.clear();
        self.handshaker.handle_new_generation(seed, clock);
    }
}

/// Handshakes that were refused because of their network's rate, for the log.
#[derive(Debug, Default)]
struct RateNotice {
    said: Option<BootTime>,
    since: u64,
}

impl RateNotice {
    /// Counts a refused handshake. If a line is due, returns the number of refusals since the last one.
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
