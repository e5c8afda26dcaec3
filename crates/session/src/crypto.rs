//! The primitives of §5.4: `HASH`, `MAC`, `HMAC` and `KDF`, all over BLAKE2s, and `DH`.

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use culvert_base::PublicKey;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes that `MAC` returns, and of a cookie.
pub(crate) const MAC_LEN: usize = 16;

/// 32 secret bytes, wiped when dropped.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

/// `HASH`: BLAKE2s with 32 bytes of output over the concatenation of `parts`.
pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Blake2s256::new();
    for part in parts {
        Digest::update(&mut hasher, part);
    }
    hasher.finalize().into()
}

/// `MAC`: keyed BLAKE2s with 16 bytes of output over the concatenation of `parts`. `key` holds 16
/// bytes (a cookie) or 32 (a hash).
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; MAC_LEN] {
    let mut mac = Blake2sMac::<U16>::new_from_slice(key)
        .expect("every caller's key has 16 or 32 bytes, and BLAKE2s takes up to 32");
    for part in parts {
        Mac::update(&mut mac, part);
    }
    mac.finalize().into_bytes().into()
}

/// Compares two MACs in constant time; true if they are equal.
pub(crate) fn same_mac(left: &[u8; MAC_LEN], right: &[u8; MAC_LEN]) -> bool {
    left.ct_eq(right).into()
}

/// `KDF1`: the first output alone.
pub(crate) fn kdf1(key: &[u8; 32], input: &[u8]) -> Secret {
    let extracted = hmac(key, &[input]);
    hmac(&extracted, &[&[1]])
}

/// `KDF2`: HKDF (RFC 5869) with `key` as salt, two outputs.
pub(crate) fn kdf2(key: &[u8; 32], input: &[u8]) -> (Secret, Secret) {
    let extracted = hmac(key, &[input]);
    let first = hmac(&extracted, &[&[1]]);
    let second = hmac(&extracted, &[first.as_slice(), &[2]]);
    (first, second)
}

/// `KDF3`: the same, three outputs.
pub(crate) fn kdf3(key: &[u8; 32], input: &[u8]) -> (Secret, Secret, Secret) {
    let extracted = hmac(key, &[input]);
    let first = hmac(&extracted, &[&[1]]);
    let second = hmac(&extracted, &[first.as_slice(), &[2]]);
    let third = hmac(&extracted, &[second.as_slice(), &[3]]);
    (first, second, third)
}

/// A private key of X25519 in the form in which it is multiplied. The library wipes it when it is dropped.
pub(crate) struct Scalar(PrivateKey);

impl Scalar {
    /// Clamps `bytes` as RFC 7748 section 5 asks.
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        let key = PrivateKey::from_private_key(&X25519, bytes);
        Self(key.expect("any 32 bytes are a private key of X25519"))
    }

    /// `DH-Generate`'s public half.
    pub(crate) fn public_key(&self) -> PublicKey {
        let public = self.0.compute_public_key();
        let public = public.expect("every private key of X25519 has a public one");
        let bytes = public.as_ref().first_chunk();
        PublicKey::from_bytes(*bytes.expect("a public key of X25519 has 32 bytes"))
    }

    /// `DH`. `None` where the result is all zeros: the public key is of low order, and whoever sent it would dictate
    /// the secret.
    pub(crate) fn diffie_hellman(&self, public: &PublicKey) -> Option<Secret> {
        let public = UnparsedPublicKey::new(&X25519, public.as_bytes());
        agree(&self.0, public, (), |shared| {
            let mut secret = Secret::default();
            secret.copy_from_slice(shared);
            Ok(secret)
        })
        .ok()
    }
}

/// RFC 2104 over BLAKE2s, whose block is 64 bytes.
fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> Secret {
    const BLOCK_LEN: usize = 64;
    let padded = |pad: u8| {
        let mut block = Zeroizing::new([pad; BLOCK_LEN]);
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let mut inner = Blake2s256::new();
    Digest::update(&mut inner, padded(0x36).as_slice());
    for part in parts {
        Digest::update(&mut inner, part);
    }
    let inner: Secret = Zeroizing::new(inner.finalize().into());
    Zeroizing::new(hash(&[padded(0x5c).as_slice(), inner.as_slice()]))
}

#[cfg(test)]
mod wycheproof;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7693 appendix B.
    #[test]
    fn hash_is_the_blake2s_of_rfc_7693() {
        let expected = [
            0x50, 0x8c, 0x5e, 0x8c, 0x32, 0x7c, 0x14, 0xe2, 0xe1, 0xa7, 0x2b, 0xa3, 0x4e, 0xeb,
            0x45, 0x2f, 0x37, 0x45, 0x8b, 0x20, 0x9e, 0xd6, 0x3a, 0x29, 0x4d, 0x99, 0x9b, 0x4c,
            0x86, 0x67, 0x59, 0x82,
        ];
        assert_eq!(hash(&[b"a", b"bc"]), expected);
    }

    #[test]
    fn points_of_low_order_are_refused() {
        let private = Scalar::new(&[3; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        for low in [[0; 32], one] {
            assert!(
                private
                    .diffie_hellman(&PublicKey::from_bytes(low))
                    .is_none()
            );
        }
        let mut nine = [0; 32];
        nine[0] = 9;
        let base = private.diffie_hellman(&PublicKey::from_bytes(nine));
        assert_eq!(base.as_deref(), Some(private.public_key().as_bytes()));
    }

    #[test]
    fn shorter_derivations_are_prefixes_of_longer_ones() {
        let (one, two, three) = kdf3(&[5; 32], b"input");
        assert_eq!(kdf2(&[5; 32], b"input"), (one.clone(), two.clone()));
        assert_eq!(kdf1(&[5; 32], b"input"), one);
        assert_ne!(two, three);
    }
}
