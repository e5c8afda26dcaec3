//! The choice between paths, among NATs, relays and attackers of a small Internet in virtual time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blocked;
mod failures;
mod families;
mod hostile;
mod matrix;
mod nat;
mod rules;
mod scene;
mod world;
