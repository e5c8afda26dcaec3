//! Types that the pure crates share.
//!
//! [`LogLine`] and [`LogQueue`] are the log of a core, which has none of its own. [`BootTime`], [`UnixTime`] and [`Uptime`] are
//! time as an argument, [`TokenBucket`] is a rate. [`Destination`] and [`LocalAddress`] say where datagrams go and come from. [`datagrams`] and [`frames`] are what the kernel takes and gives in one call.

#![forbid(unsafe_code)]

pub mod datagrams;
pub mod frames;
mod log;
mod net;
mod time;
mod token_bucket;

pub use log::{LogLevel, LogLine, LogQueue, MAX_WAITING_LINES};
pub use net::{Destination, Family, LocalAddress};
pub use time::{BootTime, ClockTime, UnixTime, Uptime, whole_millis};
pub use token_bucket::{TokenBucket, TokenRate};
