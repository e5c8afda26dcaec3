//! Relays and probes without I/O: the messages beside WireGuard, and the decisions of both sides.
//!
//! A relay forwards WireGuard's records between the ends that are registered with it, byte for byte. On the same
//! sockets travel a few messages of Culvert itself: [`message`] encodes and parses them.
//!
//! - [`relay`] is the relay: who is registered, and where each record goes.
//! - [`registration`] is an end of it: a client or a gateway that registers, and stays registered.
//! - [`portal`] is the relay's session with the portal.
//! - [`cookie`] proves that a sender receives at its address.
//! - [`probe`] authenticates the two messages by which the ends of a pair test a path.
//! - [`stream`] carries datagrams in a TLS stream, where a network blocks UDP.
//!
//! There is no socket, clock or source of randomness in here: datagrams, time and random bytes are arguments.

#![forbid(unsafe_code)]

mod budget;
pub mod cookie;
mod hash;
pub mod mac;
pub mod message;
pub mod portal;
pub mod probe;
pub mod registration;
pub mod relay;
pub mod stream;
mod token;

pub use budget::SharedBudget;
pub use message::{Message, is_culvert_message};
pub use registration::Registration;
pub use relay::Relay;
pub use token::{CLOCK_SKEW, MAX_KEYS, TOKEN_LIFETIME_MOST};
