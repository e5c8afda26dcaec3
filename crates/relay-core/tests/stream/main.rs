//! Datagrams in a stream, and back.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod outbox;
mod unframer;
