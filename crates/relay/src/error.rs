//! The reasons why a relay can't run, worded for the person who can mend them.

use std::io;

/// The reason why a relay did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Configuration: the given token is not that of a relay.
    #[error("the token can't be used: {0}")]
    BadToken(#[from] culvert_wire::token::TokenError),

    /// Configuration: the token does not say where the portal is.
    #[error("the token does not say where the portal is: copy it whole, as the portal showed it")]
    NoPortal,

    /// Configuration: no connection can be made to where the token says that the portal is.
    #[error("the token can't be used: {0}; have an administrator make a new one")]
    BadUrl(culvert_link::ConnectError),

    /// Configuration: the main port is one of the gateway ports.
    #[error(
        "port {0} is the relay's main port and among its gateway ports: change --port or --gateway-ports"
    )]
    SamePort(u16),

    /// Local: the host.
    #[error(transparent)]
    Host(#[from] culvert_host::HostError),

    /// Local: a socket.
    #[error("UDP port {port}: {source}")]
    Socket {
        /// The port.
        port: u16,
        /// The reason.
        source: culvert_udp::UdpError,
    },

    /// Configuration: the TLS listener, with its fix.
    #[error("{0}")]
    Tls(String),

    /// Local: a worker ended.
    #[error("a worker ended: {0}")]
    Worker(String),

    /// Local: the operating system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// Peer: the portal will not have the token.
    #[error("the portal refuses this relay: {0}; make a new token of kind relay")]
    NotEnrolled(String),

    /// Peer: an administrator shut this relay out.
    #[error("the portal denies this relay: {0}")]
    Revoked(String),

    /// The portal can't be reached, and that was to end the relay.
    #[error("the portal can't be reached: {0}")]
    Unreachable(String),

    /// Peer: portal and relay do not understand each other.
    #[error("the portal ended this relay's service: {0}")]
    Refused(String),
}

impl RelayError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
