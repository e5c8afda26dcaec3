//! The desktop client's contact with its machine: the service's socket, the program `culvert`, and the person's files.
//!
//! None of it draws. Threads do the work that blocks. Each result goes into the [`Mailbox`], which wakes the
//! window.

#![forbid(unsafe_code)]

mod clock;
mod connection;
mod files;
mod lines;
mod mailbox;
mod program;
mod watch;

pub use clock::{now_ms, processor_us};
pub use connection::{ExchangeError, Service, command, exchange};
pub use files::Files;
pub use mailbox::{Event, Mailbox};
pub use program::{Program, ProgramError};
pub use watch::Link;
