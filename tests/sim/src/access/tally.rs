//! The counters of a run.

use culvert_policy::gate::DropReason;
use std::collections::BTreeMap;

/// The counters of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets that applications sent.
    pub sent: u64,
    /// Packets that resources got.
    pub delivered: u64,
    /// Answers that applications got.
    pub answered: u64,
    /// Packets that the sender was told go nowhere.
    pub refused: u64,
    /// Packets that gates dropped, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Handshakes that were completed.
    pub handshakes: u64,
    /// Handshakes in which the two ends had other secrets or suites.
    pub mismatches: u64,
    /// Changes of the configuration.
    pub changes: u64,
    /// Control messages, in both directions.
    pub messages: u64,
}

impl Tally {
    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.answered += other.answered;
        self.refused += other.refused;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(*reason).or_default() += count;
        }
        self.handshakes += other.handshakes;
        self.mismatches += other.mismatches;
        self.changes += other.changes;
        self.messages += other.messages;
    }
}
