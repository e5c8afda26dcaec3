//! Sessions over real WebSockets on loopback, with the real database.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod admission;
mod faults;
mod plain_endpoints;
mod portal;
mod ranges;
mod relays;
mod stop;
mod storm;
mod tls;
