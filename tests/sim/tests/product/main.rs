//! Faults and attacks that access withstands. One behaviour a file, all on virtual time, all
//! against the reference model of `culvert_sim::access`. The model's documentation tells how to run
//! more of it, and how to replay a failure.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod any_history;
mod cut;
mod disabled;
mod drain;
mod forgers;
mod gateway_loss;
mod inbound;
mod leaders;
mod only_affected;
mod portal_away;
mod repeats;
mod scene;
mod seeds;
mod suite;
mod verification;
