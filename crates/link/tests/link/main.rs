//! Connections to a portal, directly and through proxies.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod connection;
mod proxies;
mod scene;
