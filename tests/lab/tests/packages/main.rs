//! The Debian packages: what they bring, and that their services work on machines with systemd.
//!
//! `make test` has them made of the program under test (`packaging/build`), in two versions.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod applications;
mod readme;
mod scene;
mod services;
mod setcap;
mod units;
