//! The control thread: handshakes, timers, configuration, the host's network events.
//!
//! It alone owns the handshaker and the configuration, and it alone publishes snapshots. It never
//! touches a data packet: what must be sealed it asks a worker for. Helpers multiply on the curve for it.

mod configure;
mod counters;
mod gating;
mod handshakes;
mod helpers;
mod link;
mod looping;
mod machine;
mod message_queue;
mod messages;
mod network;
mod new_generation;
mod path_mtu;
mod paths;
mod peer_facts;
mod peers;
mod report;
mod request;
mod shared;
mod thread;
mod udp;
mod workers;

pub(crate) use link::limit_superframes;
pub(crate) use report::complete_status;
pub(crate) use request::Request;
pub(crate) use shared::{DeviceGates, Shared};
pub(crate) use thread::{Control, Parts};
