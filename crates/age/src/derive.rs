//! The keys that come of a file key and of a shared secret.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

/// A key of 32 bytes.
pub(crate) type Key = Zeroizing<[u8; 32]>;

struct Len32;

impl KeyType for Len32 {
    fn len(&self) -> usize {
        32
    }
}

/// HKDF-SHA-256 (RFC 5869) with 32 bytes of output, which never fails: the bound is 255 × 32.
pub(crate) fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Key {
    let mut key = Zeroizing::new([0; 32]);
    let derived = Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], Len32)
        .and_then(|output| output.fill(key.as_mut_slice()));
    assert!(derived.is_ok(), "32 bytes are within the bound of HKDF");
    key
}
