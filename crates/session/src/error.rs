//! Requests of the configuration that cannot be met.

use crate::{MAX_PEERS, PeerId};

/// The configuration's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer has our own public key. Other implementations ignore such a peer in silence.
    #[error("the peer's public key is our own")]
    OwnKey,
    /// There is such a peer already.
    #[error("the peer exists")]
    PeerExists(PeerId),
    /// [`MAX_PEERS`] are configured.
    #[error("an interface holds at most {MAX_PEERS} peers")]
    TooManyPeers,
}
