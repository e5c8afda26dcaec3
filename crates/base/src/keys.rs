//! WireGuard's keys that leave their machine, in the base64 that `wg` writes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of a key.
const KEY_LEN: usize = 32;

/// Bytes of a fingerprint: a second key with the same one takes 2^128 attempts.
const FINGERPRINT_LEN: usize = 16;

/// The u-coordinates of the points of order 1, 2, 4 and 8 on Curve25519 and its twist, the three that are not reduced
/// modulo p = 2^255 - 19 included.
const LOW_ORDER: [[u8; KEY_LEN]; 7] = [
    [0; KEY_LEN],
    near_zero(1),
    // Order 8.
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    near_p(0xec),
    near_p(0xed),
    near_p(0xee),
];

const fn near_zero(first: u8) -> [u8; KEY_LEN] {
    let mut point = [0; KEY_LEN];
    point[0] = first;
    point
}

/// p is 0xed, then 30 bytes of 0xff, then 0x7f.
const fn near_p(first: u8) -> [u8; KEY_LEN] {
    let mut point = [0xff; KEY_LEN];
    point[0] = first;
    point[KEY_LEN - 1] = 0x7f;
    point
}

/// A Curve25519 public key: the identity of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

/// A symmetric key that two peers share beforehand (WireGuard paper, section 5.2); wiped when dropped.
///
/// Comparison takes the same time wherever two differ.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; KEY_LEN]);

/// The text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a key: 32 bytes in base64")]
pub struct KeyError;

impl PublicKey {
    /// Takes any 32 bytes; keys of low order are refused where they are used.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// True if X25519 (RFC 7748, section 5) maps it to zero with every private key: nobody has the private key of such a
    /// point, and a handshake with it agrees on nothing. The most significant bit does not count.
    #[must_use]
    pub fn is_low_order(&self) -> bool {
        let mut point = self.0;
        point[KEY_LEN - 1] &= 0x7f;
        LOW_ORDER.contains(&point)
    }

    /// The key as it is written on the wire.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// A short text for people who compare two keys: eight groups of four hexadecimal digits, the
    /// first [`FINGERPRINT_LEN`] bytes of its SHA-256.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.0);
        let (pairs, _) = digest[..FINGERPRINT_LEN].as_chunks::<2>();
        let groups = pairs.iter().map(|&[a, b]| format!("{a:02x}{b:02x}"));
        groups.collect::<Vec<_>>().join("-")
    }
}

impl PresharedKey {
    /// Section 5.2: "if no pre-shared key mode is in use, it is set to all zeros".
    pub const NONE: Self = Self([0; KEY_LEN]);

    /// Takes any 32 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// The key, for the handshake and for commands that show the configuration to its owner.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// True for [`NONE`](Self::NONE).
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::NONE
    }
}

impl From<[u8; KEY_LEN]> for PublicKey {
    fn from(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }
}

impl From<[u8; KEY_LEN]> for PresharedKey {
    fn from(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for PresharedKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for PresharedKey {}

fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyError> {
    // Room for one byte more than a key has, so that a longer text is told from a key.
    let mut bytes = Zeroizing::new([0; KEY_LEN + 4]);
    let len = STANDARD
        .decode_slice(text, bytes.as_mut_slice())
        .map_err(|_| KeyError)?;
    if len != KEY_LEN {
        return Err(KeyError);
    }
    let mut key = Zeroizing::new([0; KEY_LEN]);
    key.copy_from_slice(&bytes[..KEY_LEN]);
    Ok(key)
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(|key| Self(*key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PresharedKey(redacted)")
    }
}

impl Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for PresharedKey {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&Zeroizing::new(STANDARD.encode(self.0)))
    }
}

impl<'de> Deserialize<'de> for PresharedKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        decode(&text)
            .map(|key| Self(*key))
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_beginning_of_the_digest_in_groups() {
        // SHA-256 of 32 zero bytes: 66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925.
        let key = PublicKey::from_bytes([0; KEY_LEN]);
        assert_eq!(key.fingerprint(), "6668-7aad-f862-bd77-6c8f-c18b-8e9f-8e20");
    }

    /// RFC 7748 §6.1, Alice's public key.
    #[test]
    fn a_key_is_written_as_wg_writes_it() {
        let hex = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        let key = PublicKey::from_bytes(std::array::from_fn(byte));
        assert_eq!(
            key.to_string(),
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        );
    }

    #[test]
    fn a_preshared_key_is_not_shown() {
        let shared = PresharedKey::from_bytes([7; KEY_LEN]);
        assert_eq!(format!("{shared:?}"), "PresharedKey(redacted)");
    }

    #[test]
    fn preshared_keys_are_equal_where_every_byte_is() {
        for place in 0..KEY_LEN {
            let mut bytes = [0x55; KEY_LEN];
            bytes[place] ^= 1;
            assert_ne!(
                PresharedKey::from_bytes(bytes),
                PresharedKey::from_bytes([0x55; KEY_LEN])
            );
        }
    }

    #[test]
    fn a_preshared_key_of_zeros_is_none() {
        assert!(PresharedKey::from_bytes([0; KEY_LEN]).is_zero());
        let mut bytes = [0; KEY_LEN];
        bytes[KEY_LEN - 1] = 1;
        assert!(!PresharedKey::from_bytes(bytes).is_zero());
    }

    #[test]
    fn a_key_reads_what_it_writes_and_nothing_shorter_or_longer() {
        let key = PublicKey::from_bytes([0xab; KEY_LEN]);
        assert_eq!(key.to_string().parse(), Ok(key));
        for len in [0, KEY_LEN - 1, KEY_LEN + 1, KEY_LEN + 4] {
            let text = STANDARD.encode(vec![0xab; len]);
            assert_eq!(text.parse::<PublicKey>(), Err(KeyError), "{len}");
        }
    }
}
