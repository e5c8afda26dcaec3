//! The reasons why a client can't run, worded for the person who can mend them.

use culvert_host::ErrorCode;
use std::io;
use std::net::SocketAddr;

/// The reason why a client did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Configuration: the given token is not that of a client.
    #[error("the token can't be used: {0}")]
    BadToken(#[from] culvert_wire::token::TokenError),

    /// Configuration: the token does not say where the portal is.
    #[error("the token does not say where the portal is: copy it whole, as the portal showed it")]
    NoPortal,

    /// Configuration: no connection can be made to where the token says that the portal is.
    #[error("the token can't be used: {0}; have an administrator make a new one")]
    BadUrl(culvert_link::ConnectError),

    /// Configuration: there is no token to sign in with.
    #[error("signed out: run `culvert sign-in` first")]
    SignedOut,

    /// Local: the host.
    #[error(transparent)]
    Host(#[from] culvert_host::HostError),

    /// Local: the data plane.
    #[error(transparent)]
    Engine(#[from] culvert_engine::EngineError),

    /// Configuration: a resolver for names.
    #[error(transparent)]
    Dns(#[from] culvert_dns::Error),

    /// Configuration or local: DNS queries can't be received there.
    #[error(
        "DNS queries can't be received at {address}: {source}; where another program listens there (`ss -lnp` shows \
         which), end it or choose another address"
    )]
    DnsListen {
        /// The address of the listener.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },

    /// Local: the operating system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The system's error.
        source: io::Error,
    },

    /// Peer: the portal will not have the token.
    #[error("not enrolled: {0}; have an administrator make a new token for this client")]
    NotEnrolled(String),

    /// Peer: an administrator shut this client out.
    #[error("the portal denies this client: {0}")]
    Denied(String),

    /// Peer: the portal ended the session for good.
    #[error("the portal ended the session: {0}")]
    Refused(String),

    /// Peer: another answers than the portal that the token names, to somebody who waits for it.
    #[error("{0}")]
    WrongPortal(String),

    /// The portal can't be reached, and that was to end the client.
    #[error("the portal can't be reached: {0}")]
    Unreachable(String),

    /// Local: the tunnel's interface went away.
    #[error("the tunnel's interface was deleted by another program")]
    InterfaceGone,
}

impl ClientError {
    /// True if the portal, or its absence, ended the client, and no fault of this machine.
    pub(crate) const fn is_of_portal(&self) -> bool {
        matches!(
            self,
            Self::NotEnrolled(_)
                | Self::Denied(_)
                | Self::Refused(_)
                | Self::WrongPortal(_)
                | Self::Unreachable(_)
        )
    }

    /// The code of a command's answer, if this is why it was not taken.
    pub(crate) const fn code(&self) -> ErrorCode {
        match self {
            Self::BadToken(_) | Self::NoPortal | Self::BadUrl(_) => ErrorCode::InvalidToken,
            Self::SignedOut => ErrorCode::SignedOut,
            _ => ErrorCode::Failed,
        }
    }

    /// For `map_err` on calls of the system.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_the_portal_refuses_is_told_with_one_way_on() {
        let why = culvert_link::ConnectError::Unauthorized.to_string();
        let told = ClientError::NotEnrolled(why).to_string();
        assert_eq!(told.matches("administrator").count(), 1, "{told}");
        assert!(told.contains("revoked"), "{told}");
    }
}
