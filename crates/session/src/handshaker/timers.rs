//! The timers of §6, evaluated peer by peer when one falls due.

use super::Handshaker;
use super::output::Output;
use crate::constants::{
    KEEPALIVE_TIMEOUT, REKEY_TIMEOUT, REKEY_TIMEOUT_JITTER_MAX, ZERO_KEYS_AFTER,
};
use crate::ids::PeerId;
use crate::time::Clock;
use culvert_base::BootTime;

impl Handshaker {
    /// Evaluates the timers of every peer that is due.
    pub fn handle_timeout(&mut self, clock: Clock) {
        for id in self.peers.due(clock.now) {
            self.forget_answered(id, clock.now);
            self.hear_of_confirmation(id, clock);
            self.zero_keys_if_due(id, clock.now);
            self.attempt_if_due(id, clock);
            self.miss_answer_if_due(id, clock);
            self.keepalive_if_due(id, clock);
            if let Some(peer) = self.peers.get_mut(id) {
                peer.look(clock.now);
            }
            self.peers.reschedule(id, self.is_up, clock.now);
        }
    }

    fn forget_answered(&mut self, id: PeerId, now: BootTime) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.answered.take_if(|answered| answered.is_over(now));
        }
    }

    /// A worker whose news found no room has settled on the keys all the same.
    fn hear_of_confirmation(&mut self, id: PeerId, clock: Clock) {
        let peer = self.peers.get(id);
        if let Some(index) = peer.and_then(|peer| peer.slots.unheard()) {
            self.handle_confirmed(id, index, clock);
        }
    }

    /// §6.3: "after Reject-After-Time × 3 … all ephemeral keys and symmetric session keys are
    /// zeroed out in memory".
    fn zero_keys_if_due(&mut self, id: PeerId, now: BootTime) {
        let zero_keys_at = self.peers.get(id).and_then(|peer| peer.zero_keys_at);
        if is_due(zero_keys_at, now) {
            self.clear_session(id);
        }
    }

    /// §6.4: "if a handshake response message is not subsequently received after Rekey-Timeout
    /// seconds, a new handshake initiation is constructed …, until Rekey-Attempt-Time".
    fn attempt_if_due(&mut self, id: PeerId, clock: Clock) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let Some(attempt) = &peer.attempt else {
            return;
        };
        if is_due(Some(attempt.gives_up_at()), clock.now) {
            peer.attempt = None;
            // The rest of the exchange is wiped although no session came of it.
            peer.zero_keys_at
                .get_or_insert(clock.now.saturating_add(ZERO_KEYS_AFTER));
            self.outputs.push_back(Output::DropStaged { peer: id });
        } else if is_due(Some(attempt.retry_at), clock.now) {
            self.outputs.push_back(Output::ForgetSource { peer: id });
            self.send_initiation(id, clock);
        }
    }

    /// Data was sent and nothing came back: the peer may have lost its keys.
    fn miss_answer_if_due(&mut self, id: PeerId, clock: Clock) {
        let jitter = self.random.duration_below(REKEY_TIMEOUT_JITTER_MAX);
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        if !is_due(peer.unanswered_at(), clock.now) {
            return;
        }
        // Data sent from here on starts the timer again.
        peer.activity.clear_unanswered();
        peer.answer_timeout = KEEPALIVE_TIMEOUT + REKEY_TIMEOUT + jitter;
        self.outputs.push_back(Output::ForgetSource { peer: id });
        self.begin_attempt(id, clock);
    }

    fn keepalive_if_due(&mut self, id: PeerId, clock: Clock) {
        let is_keepalive_due = self.peers.get(id).is_some_and(|peer| {
            is_due(peer.passive_keepalive_at(), clock.now)
                || is_due(peer.persistent_keepalive_at(), clock.now)
        });
        if is_keepalive_due {
            self.send_keepalive(id, clock);
        }
    }

    /// Asks for a keepalive, or for the handshake that must come before it and ends with one.
    pub(super) fn send_keepalive(&mut self, id: PeerId, clock: Clock) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.keepalive_asked_at = Some(clock.now);
        if peer.can_send(clock.now) {
            self.outputs.push_back(Output::SendKeepalive { peer: id });
        } else {
            self.begin_attempt(id, clock);
        }
    }
}

fn is_due(deadline: Option<BootTime>, now: BootTime) -> bool {
    deadline.is_some_and(|at| at <= now)
}
