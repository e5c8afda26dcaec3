//! Sealing and opening a batch of equally spaced records with one key.
//!
//! The packet road never seals one datagram: it holds a *batch*, records of one key laid out at
//! equal strides in one buffer, exactly as they leave in one segmented UDP send:
//!
//! ```text
//!  |<------------- stride ------------->|<------------- stride ------------->|<--- last --->|
//!  | head | plaintext …           | tag | head | plaintext …           | tag | … | tag |
//! ```
//!
//! The head (a WireGuard data header) is not touched and not authenticated here: WireGuard's
//! transport messages have no associated data. The interface is a batch from the first day so that
//! an implementation that works on many records at once can stand behind it; the one here hands
//! each record to AWS-LC ([ADR 0002](../../../docs/adr/0002-aead-by-aws-lc.md)).

#![deny(unsafe_code)]

mod avx512;
mod key;
mod layout;
mod opened;

pub use key::{KEY_LEN, Key, OpenError, Suite, TAG_LEN};
pub use layout::Layout;
pub use opened::{MAX_RECORDS, Opened};
