//! Errors, and the calls that they are of.

/// Actions of [`Error::System`] that several models have.
pub(crate) const TUN: &str = "read the interface";
pub(crate) const UDP: &str = "receive";
pub(crate) const WAIT: &str = "wait";

/// A plain tunnel that can't be made, or that can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The interface can't be made.
    #[error(transparent)]
    Tun(#[from] culvert_tun::TunError),
    /// The socket can't be opened.
    #[error(transparent)]
    Udp(#[from] culvert_udp::UdpError),
    /// The kernel refuses a call without which nothing moves.
    #[error("{action}: {source}")]
    System {
        /// The call's job.
        action: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn system<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }
}
