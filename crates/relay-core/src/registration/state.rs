//! The attempt to register that runs, and the registration in force.

use crate::mac::{KEY_LEN, Mac};
use crate::message::Transaction;
use culvert_base::BootTime;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// An attempt that runs.
pub(super) struct Attempt {
    pub(super) transaction: Transaction,
    pub(super) phase: Phase,
    /// The instant of the first datagram of the phase.
    pub(super) began: BootTime,
    /// Datagrams of the phase so far.
    pub(super) sent: u32,
    /// The instant at which the phase's datagrams are sent again.
    pub(super) due: BootTime,
}

/// The phase of an attempt.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    /// All addresses were asked.
    Asks,
    /// A registration was sent.
    Registers { relay: SocketAddr, cookie: Mac },
}

/// The registration in force.
pub(super) struct Registered {
    pub(super) relay: SocketAddr,
    pub(super) key: Zeroizing<[u8; KEY_LEN]>,
    pub(super) expires: BootTime,
    pub(super) counter: u64,
    /// The instant of the next sign of life, or of its repetition.
    pub(super) due: BootTime,
    /// Signs of life without an answer, and the instants at which they were sent.
    pub(super) unanswered: Vec<(u64, BootTime)>,
}
