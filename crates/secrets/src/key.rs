//! The key of an operator, and its text.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Bytes of a key, from which the key of the cipher and the key's id are derived.
pub const KEY_LEN: usize = 32;

/// The prefix of a key's text, so that nobody takes a token for one. 1 is the version.
const PREFIX: &str = "culvert-secrets-key-1:";

const CIPHER_INFO: &[u8] = b"culvert secrets 1 AES-256-GCM-SIV";
const ID_INFO: &[u8] = b"culvert secrets 1 key id";

/// Names a key without telling anything of it: 8 bytes that are derived from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    /// Two keys of one operator have one id with a probability of 2⁻⁶⁴.
    pub const LEN: usize = 8;

    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyId({self})")
    }
}

/// The cause for which a text is no key. It says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no key of secrets ({PREFIX}…): make one with `culvert portal secrets new-key FILE`, and copy it whole"
)]
pub struct KeyTextError;

/// A key that encrypts secrets, wiped when it is dropped.
#[derive(Clone)]
pub struct SecretsKey {
    bytes: Zeroizing<[u8; KEY_LEN]>,
    cipher: Zeroizing<[u8; 32]>,
    id: KeyId,
}

impl SecretsKey {
    /// The key of these bytes, which were drawn at random.
    pub fn from_bytes(bytes: &[u8; KEY_LEN]) -> Self {
        let mut cipher = Zeroizing::new([0; 32]);
        derive(bytes, CIPHER_INFO, cipher.as_mut_slice());
        let mut id = [0; KeyId::LEN];
        derive(bytes, ID_INFO, &mut id);
        Self {
            bytes: Zeroizing::new(*bytes),
            cipher,
            id: KeyId(id),
        }
    }

    /// Its id.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// One line without its end, which [`FromStr`] reads.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * KEY_LEN));
        text.push_str(PREFIX);
        BASE64URL_NOPAD.encode_append(self.bytes.as_slice(), &mut text);
        text
    }

    pub(crate) fn cipher(&self) -> &[u8; 32] {
        &self.cipher
    }
}

impl FromStr for SecretsKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(KeyTextError)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes());
        let bytes = Zeroizing::new(bytes.map_err(|_| KeyTextError)?);
        let bytes: &[u8; KEY_LEN] = bytes.as_slice().try_into().map_err(|_| KeyTextError)?;
        Ok(Self::from_bytes(bytes))
    }
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SecretsKey({})", self.id)
    }
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-SHA-256 (RFC 5869). It never fails: the bound of its output is 255 × 32 bytes.
fn derive(secret: &[u8], info: &[u8], output: &mut [u8]) {
    let derived = Salt::new(HKDF_SHA256, &[])
        .extract(secret)
        .expand(&[info], Len(output.len()))
        .and_then(|okm| okm.fill(output));
    assert!(derived.is_ok(), "the output is within the bound of HKDF");
}
