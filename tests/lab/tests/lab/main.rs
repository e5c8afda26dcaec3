//! Culvert on a real kernel, with real tools and real peers.
//!
//! Every test makes its own namespaces and runs the real `culvert` program (see
//! `culvert_lab::culvert_program` for which one). They are one binary so that they run beside each
//! other: the long one starts first, for its name, and the others fill its time.
//!
//! Needs root, the tools of scripts/setup.sh and the peers of scripts/peers.sh; a test fails and
//! says so where something is missing.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do: with a panic"
)]

mod aging;
mod cipher;
mod cleanup;
mod codel;
mod configuration;
mod crowded;
mod ecn;
mod failing;
mod generations;
mod hostile;
mod interop;
mod life;
mod link_state;
mod looping;
mod moving;
mod order;
mod path_mtu;
mod priority;
mod support;
mod traffic;
mod user_namespace;
mod waiting;
mod wg_quick;
