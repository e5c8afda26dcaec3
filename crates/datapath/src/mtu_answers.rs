//! Answers to probes of the path MTU that this worker has received.

use culvert_packet::MtuProbe;
use culvert_path::PROBES_PER_ROUND;
use culvert_session::PeerId;
use std::collections::VecDeque;

/// Answers that wait to be sent: those to as many probes as one receive call brings.
const MAX_WAITING: usize = 64;

/// Answers that have not left yet.
#[derive(Debug, Default)]
pub(crate) struct MtuAnswers {
    waiting: VecDeque<(PeerId, MtuProbe)>,
}

impl MtuAnswers {
    /// Answers a probe of `peer`, unless as many of its probes wait already as one round of a search has: whoever sends
    /// more takes no place of others.
    pub(crate) fn push(&mut self, peer: PeerId, probe: MtuProbe) {
        let own = self.waiting.iter().filter(|(id, _)| *id == peer).count();
        if self.waiting.len() < MAX_WAITING && own < PROBES_PER_ROUND {
            self.waiting.push_back((peer, probe));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<(PeerId, MtuProbe)> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: MtuProbe = MtuProbe {
        generation: 1,
        len: 1400,
    };

    #[test]
    fn one_peer_has_as_many_answers_as_a_round_has_probes_and_leaves_room_for_others() {
        let mut answers = MtuAnswers::default();
        for _ in 0..1000 {
            answers.push(PeerId(1), PROBE);
        }
        answers.push(PeerId(2), PROBE);
        let waiting: Vec<PeerId> = std::iter::from_fn(|| answers.pop())
            .map(|(peer, _)| peer)
            .collect();
        assert_eq!(waiting.len(), PROBES_PER_ROUND + 1);
        assert_eq!(waiting.last(), Some(&PeerId(2)));
    }

    #[test]
    fn many_peers_have_no_more_answers_than_there_is_room_for() {
        let mut answers = MtuAnswers::default();
        for peer in 0..1000 {
            answers.push(PeerId(peer), PROBE);
        }
        assert_eq!(std::iter::from_fn(|| answers.pop()).count(), MAX_WAITING);
    }
}
