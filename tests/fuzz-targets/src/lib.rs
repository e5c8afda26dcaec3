//! The targets of the fuzzers: one function each, pure and deterministic, which panics if a
//! property does not hold.
//!
//! The functions live in the main workspace so that ordinary tests can call them: `tests/replay.rs`
//! runs every committed input, on the stable toolchain, without a fuzzer. `fuzz/` has the thin
//! wrappers by which `cargo fuzz` grows the corpora (`make fuzz`), `fuzz/corpus/TARGET` what it
//! found worth keeping, and `fuzz/regressions/TARGET` inputs that once failed. [`seeds()`] are where
//! both begin.
//!
//! A target never trusts the code's own result where an independent one is at hand. Checksums are
//! summed word by word ([`naive`]), and sets and tables are searched from end to end.

#![forbid(unsafe_code)]

mod access_toml;
mod aead_batch;
mod age;
mod allowed_ips;
mod client_gate;
mod coalesce;
mod control;
mod cut;
mod dns_stub;
mod form;
mod gate;
mod gateway_dns;
mod grant;
mod granting;
mod handshake;
mod http_head;
mod icmp;
mod id_token;
mod input;
mod ip_view;
mod message;
pub mod naive;
mod pair;
mod passkey;
mod relay;
mod relay_stream;
mod replay_window;
mod sealed_value;
mod seeds;
mod selection;
mod signer;
mod socket_request;
mod transport;
mod uapi;

// `access_file` of the program finds this at the root of its crate.
#[path = "../../../crates/culvert/src/toml_file.rs"]
mod toml_file;

pub use access_toml::access_toml;
pub use aead_batch::aead_batch;
pub use age::age;
pub use allowed_ips::allowed_ips;
pub use client_gate::client_gate;
pub use coalesce::coalesce;
pub use control::control;
pub use cut::cut;
pub use dns_stub::dns_stub;
pub use form::form;
pub use gate::gate;
pub use gateway_dns::gateway_dns;
pub use grant::grant;
pub use handshake::handshake;
pub use http_head::http_head;
pub use icmp::icmp;
pub use id_token::id_token;
pub use ip_view::ip_view;
pub use message::message;
pub use passkey::passkey;
pub use relay::relay;
pub use relay_stream::relay_stream;
pub use replay_window::replay_window;
pub use sealed_value::sealed_value;
pub use seeds::seeds;
pub use selection::selection;
pub use socket_request::socket_request;
pub use transport::transport;
pub use uapi::uapi_set;

/// A target's name, which its wrapper, its corpus and its dictionary bear too, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 28] = [
    ("access_toml", access_toml),
    ("aead_batch", aead_batch),
    ("age", age),
    ("allowed_ips", allowed_ips),
    ("client_gate", client_gate),
    ("coalesce", coalesce),
    ("control", control),
    ("cut", cut),
    ("dns_stub", dns_stub),
    ("form", form),
    ("gate", gate),
    ("gateway_dns", gateway_dns),
    ("grant", grant),
    ("handshake", handshake),
    ("http_head", http_head),
    ("icmp", icmp),
    ("id_token", id_token),
    ("ip_view", ip_view),
    ("message", message),
    ("passkey", passkey),
    ("relay", relay),
    ("relay_stream", relay_stream),
    ("replay_window", replay_window),
    ("sealed_value", sealed_value),
    ("selection", selection),
    ("socket_request", socket_request),
    ("transport", transport),
    ("uapi_set", uapi_set),
];
