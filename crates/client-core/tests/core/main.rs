//! The client's core on a virtual clock, against a portal and a data plane that are played here:
//! each test is a rule of `docs/access.md`.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod any_order;
mod applications;
mod dns_rules;
mod ended;
mod gateways;
mod inbound;
mod names;
mod one_way;
mod packets;
mod play;
mod portals;
mod relays;
mod services;
mod session;
mod traffic;
