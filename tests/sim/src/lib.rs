//! Many nodes, one virtual clock, a reference model.
//!
//! A [`World`] holds nodes, each composed of the shipped
//! [`Handshaker`](culvert_session::Handshaker) and [`Transport`](culvert_session::Transport)s as
//! the engine composes them, and a seeded [`Network`] between them that delays, loses, duplicates
//! and reorders. Nothing sleeps: [`World::run`] jumps from event to event. Every packet is checked
//! against a [`Model`] that knows what was sent, by whom, to whom.
//!
//! One seed gives one run, down to the last packet.

#![forbid(unsafe_code)]

mod model;
mod network;
mod node;
mod random;
mod world;

pub use model::{Model, PacketId};
pub use network::{Conditions, Network};
pub use node::{Counters, Node, STAGED_MAX};
pub use random::Random;
pub use world::{NodeId, World, address_of};
