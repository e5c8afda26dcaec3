//! The stub resolver as applications and upstreams see it: messages in, messages out, in virtual
//! time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod aliases;
mod common;
mod forwarding;
mod lent;
mod letters;
mod messages;
mod properties;
mod ranges;
mod search;
mod site;
mod zones;
