//! The gateway's verdict on packets, and what it makes of those that pass; the client's on those that come in.
//!
//! Packets are built, with their checksums, by a library that the gate does not use; a translated
//! packet has to be, byte for byte, the one that the library builds with the other addresses.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod advisories;
mod client;
mod client_flows;
mod client_hostile;
mod client_inbound;
mod client_model;
mod fairness;
mod flow_rate;
mod flows;
mod fragments;
mod gathered;
mod grants;
mod icmp;
mod inbound;
mod model;
#[path = "../../../../tests/fixtures/packets.rs"]
mod packets;
mod portless;
mod quotations;
mod setup;
mod translation;
