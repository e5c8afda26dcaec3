//! A key in use for sending.

use crate::turns::Turns;
use culvert_session::Transport;
use std::sync::Arc;

/// The key that a peer's records are sealed with, and whose turn it is to send.
///
/// Workers reserve counters with one atomic addition and seal at the same time; batches then leave
/// in the order of their counters, so that a receiver with a small replay window loses nothing.
pub struct Sending {
    /// The key.
    pub transport: Arc<Transport>,
    /// The choice of the batch that leaves next.
    pub turns: Turns,
}

impl Sending {
    /// A key under which nothing has left yet.
    #[must_use]
    pub fn new(transport: Arc<Transport>) -> Self {
        Self {
            transport,
            turns: Turns::new(),
        }
    }
}
