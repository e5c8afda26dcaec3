//! Secrets of the portal's database under the key of an operator.
//!
//! A [`SecretsKey`] encrypts each secret for itself, with AES-256-GCM-SIV (RFC 8452). The [`Place`] of the value
//! (account, table, column and row) is associated data, so a value decrypts only where it was written. The
//! format of a sealed value, version 1:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `CVSV` |
//! | 1 | the version: 1 |
//! | 8 | the [`KeyId`] |
//! | 12 | the nonce, random |
//! | n | the ciphertext, as long as the secret |
//! | 16 | the tag |
//!
//! GCM-SIV was chosen because a nonce that is drawn twice shows no more than that two secrets of one place are the
//! same. No two values of a key may be sealed by a counter, since a database that was restored would count again.
//!
//! The caller gives bytes and randomness.

#![forbid(unsafe_code)]

mod key;
mod sealed;

pub use key::{KEY_LEN, KeyId, KeyTextError, SecretsKey};
pub use sealed::{MAX_PLAIN_LEN, NONCE_LEN, OVERHEAD, OpenError, Place, key_id_of};
