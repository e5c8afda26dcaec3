//! Streams between the two sides, on loopback: what is carried, what is refused, and by whom.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod carrying;
mod hostile;
mod scene;
