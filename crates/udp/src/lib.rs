//! UDP sockets with segmentation and receive offload, packet information and marks.
//!
//! A [`Socket`] moves runs of datagrams. One [`Socket::send`] hands the kernel up to
//! [`MAX_SEGMENTS`](culvert_base::datagrams::MAX_SEGMENTS) datagrams of equal length for one peer, as a single buffer
//! (`UDP_SEGMENT`). One entry of a [`ReceiveBatch`] is such a run as the kernel joined it (`UDP_GRO`). Each entry tells
//! which of our addresses it came to, so that the answer can leave from there.
//!
//! Sockets are of one family each, IPv6 ones take no IPv4 traffic, and IPv4-mapped addresses never appear outside.
//! Nothing blocks; descriptors are offered as [`AsFd`](std::os::fd::AsFd) for the caller's own poll.

mod address;
mod control;
mod error;
mod group;
mod receive;
mod route;
mod send;
mod socket;
mod system;
mod takeover;

pub use error::{SendError, UdpError};
pub use group::Group;
pub use receive::{ReceiveBatch, Received};
pub use route::{interface_towards, is_our_address, path_mtu, source_still_valid};
pub use socket::{Features, Socket};
