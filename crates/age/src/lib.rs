//! age v1 files with X25519 recipients (<https://age-encryption.org/v1>).
//!
//! The crate `age` brings a hundred others, with second versions of what Culvert already links. The format is
//! small: a header that wraps one file key for each recipient, and a stream of authenticated chunks. Its
//! primitives come from AWS-LC. The caller gives bytes and randomness.

#![forbid(unsafe_code)]

mod bech32;
mod cipher;
mod derive;
mod error;
mod header;
mod keys;
mod stream;

pub use error::{AgeError, KeyError};
pub use header::{Envelope, MAGIC, MAX_HEADER_LEN, MAX_RECIPIENTS};
pub use keys::{Identity, Recipient, parse_identities, parse_recipients};

use std::io::{BufRead, Write};

/// Decrypts a whole file. `target` holds only authenticated plaintext at any time, but all of it only if this
/// succeeds: remove it otherwise.
///
/// # Errors
/// [`AgeError`]: no identity fits, the file was changed or cut off, or reading or writing failed.
pub fn open(
    mut source: impl BufRead,
    target: impl Write,
    identities: &[Identity],
) -> Result<(), AgeError> {
    let key = header::open(&mut source, identities)?;
    stream::open(&key, source, target)
}
