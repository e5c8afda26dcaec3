//! The private key of an interface.

use crate::crypto::Scalar;
use core::fmt;
use culvert_base::PublicKey;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A Curve25519 private key, clamped, wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// Clamps `bytes` as RFC 7748 §5 asks.
    pub const fn from_bytes(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 0b1111_1000;
        bytes[31] = bytes[31] & 0b0111_1111 | 0b0100_0000;
        Self(bytes)
    }

    /// The clamped key, for code that shows the configuration to its owner.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The public key that belongs to this one.
    pub fn public_key(&self) -> PublicKey {
        self.to_scalar().public_key()
    }

    pub(crate) fn to_scalar(&self) -> Scalar {
        Scalar::new(&self.0)
    }
}

impl From<[u8; 32]> for PrivateKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self::from_bytes(bytes)
    }
}

impl PartialEq for PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for PrivateKey {}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_clamped_and_not_shown() {
        let key = PrivateKey::from_bytes([0xff; 32]);
        assert_eq!((key.as_bytes()[0], key.as_bytes()[31]), (0xf8, 0x7f));
        assert_eq!(format!("{key:?}"), "PrivateKey(redacted)");
    }

    #[test]
    fn keys_are_equal_where_every_byte_is() {
        for place in 0..32 {
            let mut bytes = [0x55; 32];
            // Bits 3 and up: clamping leaves them alone in the first byte, and below 6 in the last.
            bytes[place] ^= 0b0000_1000;
            let (this, other) = ([0x55; 32], bytes);
            assert_ne!(PrivateKey::from_bytes(this), PrivateKey::from_bytes(other));
        }
        assert_eq!(
            PrivateKey::from_bytes([0x55; 32]),
            PrivateKey::from_bytes([0x55; 32])
        );
    }

    /// RFC 7748 §6.1, Alice.
    #[test]
    fn the_public_key_of_rfc_7748_is_derived() {
        let private = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public = [
            0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e,
            0xf7, 0x5a, 0x0d, 0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e,
            0xaa, 0x9b, 0x4e, 0x6a,
        ];
        let key = PrivateKey::from_bytes(private);
        assert_eq!(key.public_key(), PublicKey::from_bytes(public));
    }
}
