//! The relay and its ends, without I/O.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod end;
mod forwarding;
mod model;
mod portal;
mod registering;
mod world;
