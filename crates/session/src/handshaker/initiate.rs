//! Beginning a handshake, and what follows when one is complete.

use super::output::{Destination, HandshakeDatagram, Output};
use super::peer::Attempt;
use super::{Handshaker, Local};
use crate::constants::{REKEY_TIMEOUT, REKEY_TIMEOUT_JITTER_MAX, ZERO_KEYS_AFTER};
use crate::crypto::Scalar;
use crate::ids::PeerId;
use crate::noise::SentInitiation;
use crate::time::Clock;
use crate::transport::{Role, Transport};
use culvert_base::BootTime;
use std::sync::Arc;

impl Handshaker {
    /// Someone wants a handshake. §6.1: initiations leave at most once per Rekey-Timeout; a wish
    /// that comes too early is met when its time comes, unless a handshake completes before.
    pub(super) fn begin_attempt(&mut self, id: PeerId, clock: Clock) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        if let Some(attempt) = &mut peer.attempt {
            attempt.wanted_at = clock.now;
            return;
        }
        let allowed_at = peer.handshake_allowed_at().filter(|at| *at > clock.now);
        let jitter = self.random.duration_below(REKEY_TIMEOUT_JITTER_MAX);
        peer.attempt = Some(Attempt {
            wanted_at: clock.now,
            retry_at: allowed_at.map_or(clock.now, |at| at.saturating_add(jitter)),
        });
        if allowed_at.is_none() {
            self.send_initiation(id, clock);
        }
    }

    /// Sends an initiation, which replaces the one before, and sets the time of the next. If
    /// none can be made (no private key, a peer's key of low order) the attempt ends.
    pub(super) fn send_initiation(&mut self, id: PeerId, clock: Clock) {
        let now = self.stamp(clock);
        let index = self.peers.take_index(id, &mut self.random);
        let ephemeral = Scalar::new(&self.random.key());
        let jitter = self.random.duration_below(REKEY_TIMEOUT_JITTER_MAX);
        let Some(peer) = self.peers.get_mut(id) else {
            self.peers.free_index(index);
            return;
        };
        let superseded = peer.sent.take();
        peer.sent_datagram = None;
        // Greater than the last even if the clock was set back or did not move.
        let timestamp = peer
            .timestamp_sent
            .map_or(now, |last| now.max(last.successor()));
        let made = self.local.as_ref().and_then(|Local { identity, .. }| {
            SentInitiation::new(
                identity,
                &peer.public_key,
                peer.static_static(identity)?,
                peer.suite,
                ephemeral,
                timestamp,
                index,
            )
            .ok()
        });
        if let Some((sent, mut message)) = made {
            peer.macs.add(&mut message, clock.now);
            peer.sent = Some((index, Arc::new(sent)));
            peer.timestamp_sent = Some(timestamp);
            peer.initiated_at = Some(clock.now);
            peer.handshake_sent_at = Some(clock.now);
            peer.activity.any_sent(clock.now);
            if let Some(attempt) = &mut peer.attempt {
                attempt.retry_at = clock
                    .now
                    .saturating_add(REKEY_TIMEOUT)
                    .saturating_add(jitter);
            }
            let datagram = HandshakeDatagram::new(&message);
            peer.sent_datagram = Some(Box::new(datagram));
            self.outputs.push_back(Output::Send {
                peer: id,
                datagram,
                to: Destination::Peer,
            });
        } else {
            peer.attempt = None;
            self.peers.free_index(index);
        }
        if let Some((superseded, _)) = superseded {
            self.peers.free_index(superseded);
        }
    }

    /// Keys were derived: they are wiped in time, even if nothing ever happens again.
    pub(super) fn session_derived(&mut self, id: PeerId, now: BootTime) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.zero_keys_at = Some(now.saturating_add(ZERO_KEYS_AFTER));
            peer.begin_watch(now);
        }
    }

    /// Both ends have `keys`: attempts end. `dropped` fell out of the slots for them.
    pub(super) fn handshake_completed(
        &mut self,
        id: PeerId,
        keys: &Transport,
        dropped: Option<&Transport>,
        clock: Clock,
    ) {
        let mut freed: Vec<_> = dropped.map(Transport::local_index).into_iter().collect();
        let mut asked_at = keys.created_at();
        if let Some(peer) = self.peers.get_mut(id) {
            if keys.role() == Role::Initiator {
                asked_at = peer.initiated_at.unwrap_or(asked_at);
            }
            peer.attempt = None;
            peer.last_handshake = Some(clock.wall);
            peer.sent_datagram = None;
            freed.extend(peer.sent.take().map(|(index, _)| index));
        }
        for index in freed {
            self.peers.free_index(index);
        }
        self.outputs.push_back(Output::KeysChanged { peer: id });
        self.outputs.push_back(Output::HandshakeCompleted {
            peer: id,
            role: keys.role(),
            // A responder's keys were made when its response left.
            round_trip: clock.now.saturating_since(asked_at),
        });
        if keys.role() == Role::Initiator {
            // §5.4.6 leaves the responder silent until it has heard from us under the keys.
            self.outputs.push_back(Output::SendKeepalive { peer: id });
        }
    }
}
