//! A report as the control thread answers it: the peers come as tables that share what has not changed, and whoever asked
//! makes a list of them.

use crate::status::Status;
use culvert_base::{BootTime, Prefix};
use culvert_datapath::{Peer, PeerTable};
use culvert_session::Suite;
use std::sync::Arc;
use std::time::Duration;

/// Facts of a peer that the control thread alone knows. Everything else is in what it shares with workers.
pub(crate) struct PeerFacts {
    pub(super) shared: Arc<Peer>,
    /// In the order of addresses.
    pub(super) allowed_ips: Box<[Prefix]>,
    /// Suite in force.
    pub(super) suite: Suite,
    pub(super) has_preshared_key: bool,
    /// `None` is off.
    pub(super) keepalive: Option<Duration>,
    /// Since the Unix epoch.
    pub(super) last_handshake: Option<Duration>,
    /// The longest inner packet that a probe proved to pass, in bytes.
    pub(super) measured_len: Option<u16>,
}

/// The state of the device at one moment.
pub(crate) struct StatusReport {
    pub(super) at: BootTime,
    /// Without peers.
    pub(super) status: Status,
    pub(super) peers: PeerTable<PeerFacts>,
}
