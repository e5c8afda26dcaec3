//! The road of packets through one worker, between a TUN, sockets and a control thread in memory.
//!
//! The far end of each peer opens what was sent with keys of its own, so a packet counts as carried only where the peer
//! can read it.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod admission;
mod batches;
mod client_gate;
mod coalescing;
mod codel;
mod confirmation;
mod copies;
mod device;
mod gate;
mod interrupt_moderation;
mod mtu;
mod packets;
mod polling;
mod remotes;
mod route;
mod send_limit;
mod snapshots;
mod staging;
mod traffic;
mod turns;
mod unrouted;
mod worker;
