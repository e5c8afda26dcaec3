//! Races of handshakes, their targets, and the death of a peer, in virtual time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod properties;
mod rules;
