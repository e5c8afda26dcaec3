//! A relay on loopback, with a portal and ends that the tests play.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod end;
mod forwarding;
mod portal;
mod scene;
mod session;
mod tls;
