//! The reasons why there is no stream, worded for the person who can mend them.

use crate::{HANDSHAKE_LIMIT, REGISTER_LIMIT};
use culvert_link::ConnectError;
use culvert_relay_core::stream::{FrameError, SILENCE_LIMIT, StreamRefusal};
use std::io;
use std::net::SocketAddr;

/// The reason why a stream ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The other side closed it.
    #[error("the other side closed the stream")]
    Closed,
    /// Nothing came for too long.
    #[error("nothing came for {} s", SILENCE_LIMIT.as_secs())]
    Silent,
    /// The network failed.
    #[error("the stream broke: {0}")]
    Broken(io::Error),
    /// The other side broke TLS.
    #[error("TLS failed: {0}")]
    Tls(rustls::Error),
    /// The other side broke the framing.
    #[error(transparent)]
    Frame(FrameError),
    /// The end did not register with the relay.
    #[error("it did not register within {} s", REGISTER_LIMIT.as_secs())]
    Unregistered,
    /// There are too many streams, in all or of its source.
    #[error("there are too many streams")]
    TooMany,
    /// This side ended it.
    #[error("it was closed here")]
    Here,
}

/// The reason why an end has no stream to a relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// No TCP connection to the relay, or through the proxy.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Peer: another certificate than the portal named.
    #[error(
        "the relay at {relay} has another certificate than the portal names: something on the way opens TLS connections \
         (a proxy that inspects them must leave this address alone), or the relay has made a new one, which it has not \
         told the portal yet"
    )]
    WrongCertificate {
        /// The relay's address.
        relay: SocketAddr,
    },
    /// Peer: the TLS handshake failed for another reason.
    #[error("the relay at {relay} does not speak TLS 1.3: {source}")]
    Tls {
        /// The relay's address.
        relay: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// Peer: it is no relay.
    #[error(
        "{relay} does not answer as a relay does: update culvert there, or check its port for TLS"
    )]
    NoRelay {
        /// The relay's address.
        relay: SocketAddr,
    },
    /// Peer: the relay does not want the stream.
    #[error("the relay at {relay} refuses the stream: {reason}")]
    Refused {
        /// The relay's address.
        relay: SocketAddr,
        /// The reason.
        reason: StreamRefusal,
    },
    /// It took too long.
    #[error("the relay at {relay} did not answer by TLS within {} s", HANDSHAKE_LIMIT.as_secs())]
    TimedOut {
        /// The relay's address.
        relay: SocketAddr,
    },
    /// Configuration: the portal told no address of the relay.
    #[error("the relay has no address")]
    NoAddress,
    /// Local: the socket on loopback.
    #[error("cannot open a socket on loopback for the stream to the relay: {0}")]
    Loopback(#[source] io::Error),
    /// The stream was open and ended.
    #[error("the stream to the relay at {relay} ended: {reason}")]
    Ended {
        /// The relay's address.
        relay: SocketAddr,
        /// The reason.
        reason: StreamEnd,
    },
}
