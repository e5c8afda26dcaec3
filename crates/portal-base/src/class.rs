//! The classes of connections: each has a bound of its own.

/// The class in which a connection is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its TLS handshake is not finished.
    Handshake,
    /// Nobody has shown who they are.
    Stranger,
    /// Somebody who has signed in, or a program with a token of the API.
    Caller,
    /// A session of a client or gateway.
    Machine,
    /// A collector of metrics, at the listener for metrics.
    Collector,
}

impl Class {
    /// Its name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Stranger => "stranger",
            Self::Caller => "caller",
            Self::Machine => "machine",
            Self::Collector => "collector",
        }
    }
}
