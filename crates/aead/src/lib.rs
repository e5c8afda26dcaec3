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
//! AWS-LC seals and opens record by record ([ADR 0002](../../../docs/adr/0002-aead-by-aws-lc.md)).
//! If the processor has the instructions, batches are processed as a whole instead.
//! ChaCha20-Poly1305 with AVX-512 runs at three times the speed ([ADR
//! 0003](../../../docs/adr/0003-batched-chacha20-poly1305.md)). AES-256-GCM runs at more than twice
//! the speed, with AVX-512 ([ADR 0007](../../../docs/adr/0007-batched-aes-gcm.md)) or AVX2 ([ADR
//! 0008](../../../docs/adr/0008-batched-aes-gcm-avx2.md)). [`Key::new_portable`] turns that off. All
//! make the same bytes.

#![deny(unsafe_code)]

mod key;
mod layout;
mod opened;
mod suite;
#[cfg_attr(not(target_arch = "x86_64"), path = "absent.rs")]
mod vector;
#[cfg(test)]
mod wycheproof;

pub use key::{Key, OpenError};
pub use layout::Layout;
pub use opened::{MAX_RECORDS, Opened};
pub use suite::{KEY_LEN, Suite, TAG_LEN};
