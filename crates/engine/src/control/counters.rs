//! Counters of the control thread.

use culvert_datapath::Counter;
use culvert_session::DropReason;

/// Counters of handshakes and snapshots.
#[derive(Debug, Default)]
pub(super) struct ControlCounters {
    /// Handshake messages refused, by [`DropReason::position`].
    pub(super) handshake_drops: [Counter; DropReason::ALL.len()],
    /// Initiations, responses and cookie replies sent.
    pub(super) handshakes_sent: Counter,
    /// Handshake messages accepted.
    pub(super) handshakes_received: Counter,
    /// Handshake messages that could not be sent.
    pub(super) send_failures: Counter,
    /// Snapshots published.
    pub(super) snapshots: Counter,
}
