//! IP, TCP and UDP packets: views, checksums, ECN, splitting a superframe and coalescing into one.
//!
//! Everything here is pure: bytes in, bytes out. No function reads a clock, draws a random
//! number, does I/O or allocates per packet. Bytes come from the TUN device (our own host) or
//! from an authenticated peer, and neither is believed: every length is checked against the slice
//! it describes before it is used.
//!
//! The road of a packet through this crate:
//!
//! ```text
//! TUN → VnetHeader::parse → Cut::plan → Cut::write_segment (once per packet) → seal
//! TUN ← VnetHeader::write ← Coalescer::flush ← Coalescer::push (once per packet) ← open
//! ```

#![deny(unsafe_code)]

pub mod checksum;
mod coalesce;
mod cut;
pub mod ecn;
mod error;
mod fragment;
pub mod icmp;
pub mod ip;
mod mss;
mod mtu_probe;
pub mod record;
mod tcp;
mod udp;
mod vnet;

pub use coalesce::{
    Accept, Coalescer, Gathered, MAX_OPEN_GROUPS, MAX_PACKETS, MAX_UDP_GROUP_PACKETS,
};
pub use cut::{Cut, IpSummary, MAX_SEGMENTS};
pub use error::PacketError;
pub use fragment::Fragments;
pub use mss::clamp_mss;
pub use mtu_probe::{ANSWER_LEN, MtuMessage, MtuProbe};
pub use vnet::{Gso, VNET_HEADER_LEN, VnetHeader};

/// The longest IP packet this crate handles, in bytes: the largest value of the 16-bit total
/// length of IPv4. For IPv6 it is 40 bytes less than the format allows, so that one bound holds
/// for both and a superframe always fits one 64 KiB buffer.
pub const MAX_PACKET_LEN: usize = u16::MAX as usize;
