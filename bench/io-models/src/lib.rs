//! Baselines for the engine (requirement R20): plain tunnels, unencrypted. One works packet by packet
//! in each of the ways in which Linux lets a program wait for two descriptors. The other works with
//! superframes. And which system calls a TUN descriptor takes at all (R21).
//!
//! Nothing of the product uses this crate. It opens its devices as the product does, by the `tun` and
//! `udp` crates, so that what differs is the waiting alone.

#![deny(unsafe_code)]

mod calls;
mod ends;
mod error;
mod model;
mod proxy;
mod ring;
mod wire;

pub use calls::{Call, Outcome, Purpose, probe};
pub use ends::{Ends, Plan};
pub use error::Error;
pub use model::Model;
pub use proxy::run;
pub use wire::{Way, Weather};
