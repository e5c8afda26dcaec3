//! Faults of a device as a whole.

use culvert_tun::TunError;
use culvert_udp::UdpError;
use std::io;

/// The reason for which a device did not start, or a change was refused. Faults of peers are drops, not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Configuration: a number of workers that can't be.
    #[error("{0} workers: choose 1 to {max}", max = crate::MAX_WORKERS)]
    Workers(usize),

    /// Configuration: more peers than a device holds.
    #[error("too many peers: a device holds {max}", max = culvert_session::MAX_PEERS)]
    TooManyPeers,

    /// Configuration: more candidates than a peer holds.
    #[error("{0} candidates of one peer: it has at most {max}", max = crate::MAX_CANDIDATES)]
    TooManyCandidates(usize),

    /// Configuration: an endpoint of a family that this host can't send to.
    #[error("this host has no {0}: an endpoint of that family can't be reached")]
    NoFamily(&'static str),

    /// Local or configuration: the TUN.
    #[error(transparent)]
    Tun(#[from] TunError),

    /// Local or configuration: the sockets.
    #[error(transparent)]
    Udp(#[from] UdpError),

    /// Local: the operating system refused something else.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },

    /// The device has ended: its interface was deleted, or it was stopped.
    #[error("the device has ended")]
    Ended,
}

impl EngineError {
    /// For `map_err` on calls of the system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
