//! Relays and probes without I/O: the messages beside WireGuard, and the decisions of both sides.
//!
//! A relay forwards WireGuard's records between the ends that are registered with it, byte for byte. On the same
//! sockets travel a few messages of Culvert itself: [`message`] encodes and parses them. [`probe`] authenticates the
//! two by which the ends of a pair test a path.
//!
//! There is no socket, clock or source of randomness in here: datagrams, time and random bytes are arguments.

#![forbid(unsafe_code)]

pub mod mac;
pub mod message;
pub mod probe;

pub use message::{Message, is_culvert_message};
