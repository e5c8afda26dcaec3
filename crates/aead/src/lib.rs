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
//! transport messages have no associated data.
//!
//! AWS-LC seals and opens record by record
//! ([ADR 0002](../../../docs/adr/0002-aead-by-aws-lc.md)). Where the processor has AVX-512, batches
//! of ChaCha20-Poly1305 are worked on as a whole instead, at three times the speed
//! ([ADR 0003](../../../docs/adr/0003-batched-chacha20-poly1305.md)); [`Key::new_portable`] turns
//! that off. Both make the same bytes.

#![deny(unsafe_code)]

#[cfg_attr(not(target_arch = "x86_64"), path = "absent.rs")]
mod avx512;
mod key;
mod layout;
mod opened;

pub use key::{KEY_LEN, Key, OpenError, Suite, TAG_LEN};
pub use layout::Layout;
pub use opened::{MAX_RECORDS, Opened};
