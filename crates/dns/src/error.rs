//! Errors of a configuration.

use std::net::SocketAddr;

/// A configuration that cannot be used. Faults of those who ask and answer are
/// [`DropReason`](crate::DropReason)s.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A range for names with bits set behind its prefix.
    #[error("the range {given} begins inside itself: write {meant}")]
    HostBits {
        /// As it was written.
        given: String,
        /// The range with those bits cleared.
        meant: String,
    },
    /// A range for names that no packet may be sent to.
    #[error("{0} cannot be a range for names: packets cannot be sent there")]
    NotRoutable(String),
    /// A range for names with too few addresses.
    #[error("the range {given} is too small for names: take a prefix of /{longest} or shorter")]
    TooSmall {
        /// As it was written.
        given: String,
        /// The longest prefix that will do.
        longest: u8,
    },
    /// More upstreams than [`UPSTREAMS_MAX`](crate::UPSTREAMS_MAX).
    #[error("{0} upstream resolvers are more than {max}", max = crate::UPSTREAMS_MAX)]
    TooManyUpstreams(usize),
    /// An upstream that cannot be one.
    #[error("{0} cannot be an upstream resolver: no query can be sent there")]
    NotAnUpstream(SocketAddr),
    /// An upstream that leads back here.
    #[error("{0} cannot be an upstream resolver: it is this resolver, or inside the tunnel")]
    Loop(SocketAddr),
}
