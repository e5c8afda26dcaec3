//! The ground of all crates: types that more than one of them needs, without I/O, clock or randomness.
//!
//! - Time as an argument: [`BootTime`], [`UnixTime`], [`Uptime`], [`ClockTime`].
//! - Addresses: [`Family`], [`Prefix`], [`Destination`], [`LocalAddress`].
//! - Keys that leave their machine: [`PublicKey`], [`PresharedKey`].
//! - Rates and spread: [`TokenBucket`], [`Random`].
//! - Bytes counted by destination: [`Traffic`], [`TrafficSlot`].
//! - The log of a core that writes none itself: [`LogLine`], [`LogQueue`].
//! - Text of others in messages: [`quotable()`], [`quoted`].
//! - Batches that the kernel takes and gives in one call: [`datagrams`], [`frames`].

#![forbid(unsafe_code)]

pub mod datagrams;
pub mod frames;
mod keys;
mod log;
mod net;
mod prefix;
mod quotable;
mod random;
mod time;
mod token_bucket;
mod traffic;

pub use keys::{KeyError, PresharedKey, PublicKey};
pub use log::{LogLevel, LogLine, LogQueue, MAX_WAITING_LINES};
pub use net::{Destination, Family, LocalAddress};
pub use prefix::{AllowedIpChange, Prefix, PrefixError, PrefixLengthError};
pub use quotable::{is_deceptive, quotable, quoted};
pub use random::Random;
pub use time::{BootTime, ClockTime, UnixTime, Uptime, whole_millis};
pub use token_bucket::{TokenBucket, TokenRate};
pub use traffic::{Traffic, TrafficSlot};
