//! Probes that wait for their answers, and the paths that answers have proven.

use crate::CANDIDATES_MAX;
use culvert_base::BootTime;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Probes that wait: four rounds over all candidates. The oldest gives way.
const WAITING_MAX: usize = 4 * CANDIDATES_MAX;

/// Paths that are remembered as proven: all candidates, and as many that were. The oldest gives way.
const PROOFS_MAX: usize = 2 * CANDIDATES_MAX;

/// The time for which an answer is waited for. A later one says nothing of the path today.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The probes of one pair.
#[derive(Debug, Default)]
pub(super) struct Probing {
    waiting: VecDeque<Waiting>,
    proofs: Vec<Proof>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    nonce: [u8; 8],
    to: SocketAddr,
    at: BootTime,
}

/// A path that leads to the peer and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub(super) address: SocketAddr,
    /// The time of the last answer.
    pub(super) at: BootTime,
    pub(super) round_trip: Duration,
}

impl Probing {
    /// A probe with this nonce leaves to this address.
    pub(super) fn sent(&mut self, nonce: [u8; 8], to: SocketAddr, at: BootTime) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { nonce, to, at });
    }

    /// An authentic answer came from `source`. True if it proves the path: the probe had gone to that very address.
    pub(super) fn handle_answer(
        &mut self,
        nonce: [u8; 8],
        source: SocketAddr,
        now: BootTime,
    ) -> bool {
        let is_answered = |it: &Waiting| it.nonce == nonce && it.to == source;
        let Some(place) = self.waiting.iter().position(is_answered) else {
            return false;
        };
        let Some(answered) = self.waiting.remove(place) else {
            return false;
        };
        if now.has_passed(answered.at, ANSWER_WITHIN) {
            return false;
        }
        self.proofs.retain(|proof| proof.address != source);
        if self.proofs.len() >= PROOFS_MAX {
            self.proofs.remove(0);
        }
        self.proofs.push(Proof {
            address: source,
            at: now,
            round_trip: now.saturating_since(answered.at),
        });
        true
    }

    /// Forgets probes that nobody answered in time.
    pub(super) fn forget_lost(&mut self, now: BootTime) {
        self.waiting
            .retain(|waiting| !now.has_passed(waiting.at, ANSWER_WITHIN));
    }

    /// The network is another one: nothing is proven.
    pub(super) fn forget_proofs(&mut self) {
        self.waiting.clear();
        self.proofs.clear();
    }

    pub(super) fn proofs(&self) -> impl Iterator<Item = &Proof> {
        self.proofs.iter()
    }

    pub(super) fn proof(&self, address: SocketAddr) -> Option<&Proof> {
        self.proofs.iter().find(|proof| proof.address == address)
    }
}
