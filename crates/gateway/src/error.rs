//! The reasons why a gateway can't run, worded for the person who can mend them.

use std::io;

/// The reason why a gateway did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Configuration: the given token is not that of a gateway.
    #[error("the token can't be used: {0}")]
    BadToken(#[from] culvert_wire::token::TokenError),

    /// Configuration: the token does not say where the portal is.
    #[error("the token does not say where the portal is: copy it whole, as the portal showed it")]
    NoPortal,

    /// Configuration: no connection can be made to where the token says that the portal is.
    #[error("the token can't be used: {0}; have an administrator make a new one")]
    BadUrl(culvert_link::ConnectError),

    /// Local: the host.
    #[error(transparent)]
    Host(#[from] culvert_host::HostError),

    /// Local: the data plane.
    #[error(transparent)]
    Engine(#[from] culvert_engine::EngineError),

    /// Local: the operating system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// Peer: the portal will not have the token, or has revoked the gateway.
    #[error("the portal refuses this gateway: {0}; make a new token for its site")]
    NotEnrolled(String),

    /// Peer: an administrator shut this gateway out.
    #[error("the portal denies this gateway: {0}")]
    Revoked(String),

    /// The portal can't be reached, and that was to end the gateway.
    #[error("the portal can't be reached: {0}")]
    Unreachable(String),

    /// Peer: portal and gateway do not understand each other.
    #[error("the portal ended this gateway's service: {0}")]
    Refused(String),
}

impl GatewayError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
