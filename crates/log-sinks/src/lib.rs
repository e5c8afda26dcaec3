//! Log sinks: entries of the logs, as JSON lines, in a file or at an endpoint (docs/logs.md).
//!
//! The database is the queue. A sink's place in each log is kept there, and moves on once the sink
//! took all entries before it. So nothing is lost over a restart or while a sink is away, as long
//! as the log itself is kept. After a crash the last lines may come a second time. A sink delays no
//! other one: each has a task, and reads while the log goes on.

#![forbid(unsafe_code)]

mod backoff;
pub mod entries;
mod error;
mod file;
mod http;
mod line;
mod sinks;
mod tasks;
mod worker;

pub use error::SinkError;
pub use http::{check_url, is_safe_for_tokens};
pub use sinks::{Progress, Sinks};
