//! What the pure crates have in common.
//!
//! [`LogLine`] and [`LogQueue`] are the log of a core, which has none of its own.

#![forbid(unsafe_code)]

mod log;

pub use log::{LogLevel, LogLine, LogQueue, MAX_WAITING_LINES};
