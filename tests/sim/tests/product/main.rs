//! What access withstands. One behaviour a file, all on virtual time, all against the reference
//! model of `culvert_sim::access`. How to run more of it, and how to replay what fails: see there.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod any_history;
mod cut;
mod drain;
mod forgers;
mod gateway_loss;
mod only_affected;
mod portal_away;
mod repeats;
mod scene;
mod seeds;
mod suite;
mod verification;
