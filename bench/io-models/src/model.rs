//! The ways to wait for packets, by name.

use clap::ValueEnum;

/// The way in which a plain tunnel waits for packets.
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
    /// True if one call carries many packets.
    pub(crate) fn has_superframes(self) -> bool {
        self == Self::Superframes
    }

    /// Its common name.
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
