//! A query on its way to a server over TLS.

use tokio::sync::oneshot;

/// A query that waits. The asker hears that there is no answer when this is dropped.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) query: Vec<u8>,
    pub(super) answer: oneshot::Sender<Vec<u8>>,
    /// The number of times that it was sent.
    pub(super) tries: u8,
}
