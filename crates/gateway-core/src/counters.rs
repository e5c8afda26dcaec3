//! Counters of the gateway.

/// Counts of the gateway's actions since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants that came into force.
    pub accepted: u64,
    /// Grants that were refused.
    pub refused: u64,
    /// Grants taken back by the portal.
    pub revoked: u64,
    /// Grants that ended by time.
    pub expired: u64,
    /// Names that were not asked for, since too many of their client's were.
    pub questions_refused: u64,
    /// Names that turned out to lead out of the networks that their resource allows.
    pub names_outside: u64,
    /// Names without flows that gave way to others of their client.
    pub names_evicted: u64,
    /// Messages of the portal that broke the protocol.
    pub protocol_errors: u64,
}
