//! Plain tunnels, unencrypted and packet by packet, in each of the ways in which Linux lets a program
//! wait for two descriptors, and one with superframes: what the engine is measured against (requirement
//! R20). And which system calls a TUN descriptor takes at all (R21).
//!
//! Nothing of the product uses this crate. It opens its devices as the product does, by the `tun` and
//! `udp` crates, so that what differs is the waiting alone.

#![deny(unsafe_code)]

mod calls;
mod ends;
mod proxy;
mod ring;
mod wire;

pub use calls::{Call, Outcome, Purpose, probe};
pub use ends::{Ends, Plan};
pub use proxy::{Model, run};
pub use wire::{Way, Weather};

/// Why a plain tunnel can't be made or goes on no more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The interface can't be made.
    #[error(transparent)]
    Tun(#[from] culvert_tun::TunError),
    /// The socket can't be opened.
    #[error(transparent)]
    Udp(#[from] culvert_udp::UdpError),
    /// What the kernel says to a call without which nothing moves.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
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
