//! Message authentication codes and derived keys: BLAKE2s with a key (RFC 7693, section 2.9).

use blake2::Blake2sMac;
use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit, Mac as _};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of a message authentication code.
pub const MAC_LEN: usize = 16;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;

/// A message authentication code, or a cookie. Comparison takes the same time wherever two differ.
#[derive(Clone, Copy)]
pub struct Mac([u8; MAC_LEN]);

impl Mac {
    /// As it came over the wire.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; MAC_LEN]) -> Self {
        Self(bytes)
    }

    /// Over the concatenation of `parts`.
    #[must_use]
    pub fn of(key: &[u8; KEY_LEN], parts: &[&[u8]]) -> Self {
        let mut mac = Blake2sMac::<U16>::new_from_slice(key)
            .expect("the key has 32 bytes, and BLAKE2s takes up to 32");
        for part in parts {
            mac.update(part);
        }
        Self(mac.finalize().into_bytes().into())
    }

    /// The bytes, for the wire.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; MAC_LEN] {
        &self.0
    }
}

impl PartialEq for Mac {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Mac {}

impl fmt::Debug for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Mac(redacted)")
    }
}

/// A key of its own for what the `labels` name together, from a key that two ends share.
pub(crate) fn derive(key: &[u8; KEY_LEN], labels: &[&[u8]]) -> Zeroizing<[u8; KEY_LEN]> {
    let mut mac = Blake2sMac::<U32>::new_from_slice(key)
        .expect("the key has 32 bytes, and BLAKE2s takes up to 32");
    for label in labels {
        mac.update(label);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keyed BLAKE2s-256 vector of the reference implementation for an empty input.
    #[test]
    fn a_derived_key_is_keyed_blake2s() {
        let key = std::array::from_fn(|i| i as u8);
        let hex: String = derive(&key, &[])
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(
            hex,
            "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49"
        );
    }

    #[test]
    fn a_mac_depends_on_the_key_and_on_every_byte_but_not_on_the_cut() {
        let key = [1; KEY_LEN];
        let whole = Mac::of(&key, &[b"abcd"]);
        assert_eq!(whole, Mac::of(&key, &[b"ab", b"cd"]));
        assert_ne!(whole, Mac::of(&[2; KEY_LEN], &[b"abcd"]));
        assert_ne!(whole, Mac::of(&key, &[b"abce"]));
    }
}
