//! Datagrams between a relay and its ends in TLS streams, for networks that block UDP.
//!
//! A stream carries the datagrams of one end to one gateway port. Each side has a socket on loopback that stands for
//! the other side: so neither the relay's core nor that of an end knows of streams. [`Bridge`] is the end's side,
//! [`Acceptor`] the relay's. [`culvert_relay_core::stream`] says what travels in a stream.
//!
//! Buffers are small: a stream that is slower than its datagrams drops them, as a path of UDP does, instead of
//! delaying those that come after.

#![forbid(unsafe_code)]

mod acceptor;
mod admission;
mod bridge;
mod certificate;
mod counters;
mod error;
mod listen;
mod pump;
mod streams;
mod tcp;

pub use acceptor::{Acceptor, AcceptorSettings};
pub use admission::{HANDSHAKE_LIMIT, Limits, NEWCOMERS_MOST, REGISTER_LIMIT, STREAMS_MOST};
pub use bridge::{Bridge, BridgeSettings, OPEN_LIMIT};
pub use certificate::{CertificateError, Certificates, PREVIOUS_FOR};
pub use counters::Report;
pub use error::{BridgeError, StreamEnd};
pub use listen::{listen, listen_everywhere};
pub use streams::{StreamEvent, StreamNews, Streams};
