//! Many nodes, one virtual clock, a reference model.
//!
//! A [`World`] holds nodes, each composed of the shipped
//! [`Handshaker`](culvert_session::Handshaker) and [`Transport`](culvert_session::Transport)s as
//! the engine composes them, and a seeded [`Network`] between them that delays, loses, duplicates
//! and reorders. Nothing sleeps: [`World::run`] jumps from event to event. Every packet is checked
//! against a [`Model`] that knows what was sent, by whom, to whom.
//!
//! One seed gives one run, down to the last packet. [`access`] does the same for access: clients,
//! gateways and the portal, held against `docs/access.md`. [`road`] carries packets of programs through the shipped data path.
//!
//! # More runs, and the same run again
//!
//! ```text
//! CULVERT_SIM_RUNS=100000 cargo test -p culvert-sim --test product    more histories, and in proportion
//!                                                                    more of every scenario
//! CULVERT_SIM_FIRST=2000                                             from this seed on
//! CULVERT_SIM_SEED=419                                               this seed alone, showing what happens
//! ```
//!
//! A run that fails says its seed and the command that replays it. With `--release` a second has some
//! times as many runs.

#![forbid(unsafe_code)]

pub mod access;
mod model;
mod network;
mod node;
mod node_id;
mod random;
pub mod road;
mod world;

pub use model::{Model, PacketId};
pub use network::{Conditions, Network};
pub use node::{Counters, Node, STAGED_MAX};
pub use node_id::NodeId;
pub use random::Random;
pub use world::{World, address_of};
