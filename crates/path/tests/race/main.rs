//! When handshakes are raced, whom they go to, and when a peer is dead: in virtual time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod properties;
mod rules;
