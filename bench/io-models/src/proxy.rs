//! The ways to wait.

mod epoll;
mod io_uring;
mod poll;
mod select;
mod superframes;
mod threads;

use std::convert::Infallible;
use std::sync::Arc;

use clap::ValueEnum;

use crate::{Ends, Error};

/// How a plain tunnel waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Model {
    /// One thread, `select`.
    Select,
    /// One thread, `poll`.
    Poll,
    /// One thread, `epoll`, level-triggered.
    Epoll,
    /// A thread for each direction, whose reads wait.
    Threads,
    /// One thread, a ring of submissions and one of completions.
    #[value(name = "io_uring")]
    IoUring,
    /// One thread, `poll`, and superframes instead of packets: the road of the engine without its cipher.
    Superframes,
}

impl Model {
    /// Whether one call carries many packets.
    pub(crate) fn has_superframes(self) -> bool {
        self == Self::Superframes
    }

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
            Self::Threads => "threads",
            Self::IoUring => "io_uring",
            Self::Superframes => "superframes",
        }
    }
}

/// Carries packets both ways, until that fails.
///
/// # Errors
/// The kernel's, such as that the interface was deleted.
pub fn run(ends: &Arc<Ends>, model: Model) -> Result<Infallible, Error> {
    match model {
        Model::Select => select::run(ends),
        Model::Poll => poll::run(ends),
        Model::Epoll => epoll::run(ends),
        Model::Threads => threads::run(ends),
        Model::IoUring => io_uring::run(ends),
        Model::Superframes => superframes::run(ends),
    }
}

const TUN: &str = "read the interface";
const UDP: &str = "receive";
const WAIT: &str = "wait";
