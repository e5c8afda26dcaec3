//! What the fuzzers run: one function per target, pure and deterministic, panicking where a
//! property does not hold.
//!
//! The functions live in the main workspace so that ordinary tests can call them: `tests/replay.rs`
//! runs every committed input, on the stable toolchain, without a fuzzer. `fuzz/` has the thin
//! wrappers by which `cargo fuzz` grows the corpora (`make fuzz`), `fuzz/corpus/TARGET` what it
//! found worth keeping, and `fuzz/regressions/TARGET` inputs that once failed. [`seeds()`] are where
//! both begin.
//!
//! A target never takes the code's own word where an independent one is at hand: checksums are
//! summed word by word ([`naive`]), sets and tables are searched from end to end.

#![forbid(unsafe_code)]

mod aead_batch;
mod allowed_ips;
mod coalesce;
mod control;
mod cut;
mod dns_stub;
mod gate;
mod handshake;
mod icmp;
mod input;
mod ip_view;
mod message;
pub mod naive;
mod pair;
mod replay_window;
mod seeds;
mod transport;
mod uapi;

pub use aead_batch::aead_batch;
pub use allowed_ips::allowed_ips;
pub use coalesce::coalesce;
pub use control::control;
pub use cut::cut;
pub use dns_stub::dns_stub;
pub use gate::gate;
pub use handshake::handshake;
pub use icmp::icmp;
pub use ip_view::ip_view;
pub use message::message;
pub use replay_window::replay_window;
pub use seeds::seeds;
pub use transport::transport;
pub use uapi::uapi_set;

/// A target's name, which its wrapper, its corpus and its dictionary bear too, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 14] = [
    ("aead_batch", aead_batch),
    ("allowed_ips", allowed_ips),
    ("coalesce", coalesce),
    ("control", control),
    ("cut", cut),
    ("dns_stub", dns_stub),
    ("gate", gate),
    ("handshake", handshake),
    ("icmp", icmp),
    ("ip_view", ip_view),
    ("message", message),
    ("replay_window", replay_window),
    ("transport", transport),
    ("uapi_set", uapi_set),
];
