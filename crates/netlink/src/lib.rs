//! Netlink: the one [`Socket`] of the product, and requests of rtnetlink with their answers.
//!
//! The crates of rust-netlink read and write the messages: [`packet`] and [`route`]. Nothing here blocks and nothing here
//! knows an async runtime. A socket is non-blocking and offered as [`AsFd`](std::os::fd::AsFd) for the caller's own poll.

#![forbid(unsafe_code)]

mod answer;
mod exchange;
mod messages;
mod socket;

pub use answer::Answer;
pub use exchange::exchange;
pub use messages::{Malformed, Messages, read};
pub use netlink_packet_core as packet;
pub use netlink_packet_route as route;
pub use socket::{Protocol, RECEIVE_BYTES, Socket};
