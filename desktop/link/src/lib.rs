//! The desktop client's contact with its machine: the service's socket, the program `culvert`, and the person's files.
//!
//! None of it draws. Threads do the work that blocks. Each result goes into the [`Mailbox`], which wakes the
//! window.

#![forbid(unsafe_code)]

mod connection;
mod files;
mod mailbox;
mod poll;
mod program;
mod sign_in;

pub use connection::{ExchangeError, Service, exchange};
pub use files::Files;
pub use mailbox::{Event, Mailbox};
pub use poll::Link;
pub use program::{Program, ProgramError};
pub use sign_in::{SignInProcess, SignInRequest};
