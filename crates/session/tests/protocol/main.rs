//! The protocol as its paper describes it, between ends that speak through their public interface
//! alone, on a clock that moves only when the test moves it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;
mod cookies;
mod crossing;
mod generations;
mod handshake;
mod paths;
mod peers;
mod sites;
mod timers;
mod work;
