//! Recipients, which encrypt, and identities, which decrypt.

use crate::KeyError;
use crate::bech32::{self, Fault};
use aws_lc_rs::agreement::{PrivateKey, X25519};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

const RECIPIENT: &str = "age";
const IDENTITY: &str = "age-secret-key-";

/// A public key that a file is encrypted to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Recipient(pub(crate) [u8; 32]);

impl Recipient {
    /// The recipient of a public key. The key is checked only when something is encrypted to it.
    pub fn from_bytes(public: [u8; 32]) -> Self {
        Self(public)
    }
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let key = bech32::decode(text, RECIPIENT).map_err(|fault| match fault {
            Fault::Form => KeyError::NotARecipient,
            Fault::Checksum => KeyError::Checksum,
        })?;
        Ok(Self(*key))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode(RECIPIENT, &self.0))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A private key that decrypts.
pub struct Identity {
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl Identity {
    /// The identity of 32 private bytes; none where they make no key.
    pub fn from_bytes(private: &[u8; 32]) -> Option<Self> {
        let key = PrivateKey::from_private_key(&X25519, private).ok()?;
        let public = key.compute_public_key().ok()?;
        Some(Self {
            private: Zeroizing::new(*private),
            public: public.as_ref().try_into().ok()?,
        })
    }

    /// The recipient for files that this identity can decrypt.
    pub fn recipient(&self) -> Recipient {
        Recipient(self.public)
    }

    pub(crate) fn private(&self) -> &[u8; 32] {
        &self.private
    }
}

impl FromStr for Identity {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let key = bech32::decode(text, IDENTITY).map_err(|fault| match fault {
            Fault::Form => KeyError::NotAnIdentity,
            Fault::Checksum => KeyError::Checksum,
        })?;
        Self::from_bytes(&key).ok_or(KeyError::NotAnIdentity)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.recipient())
    }
}

/// The recipients of a file: one a line, with empty lines and comments after `#`, as `age -R` reads it.
///
/// # Errors
/// [`KeyError`] of the first line that is none, with its number; [`KeyError::None`] where there is none.
pub fn parse_recipients(text: &str) -> Result<Vec<Recipient>, (usize, KeyError)> {
    parse_lines(text)
}

/// The identities of a file, as `age-keygen` writes it.
///
/// # Errors
/// As [`parse_recipients`].
pub fn parse_identities(text: &str) -> Result<Vec<Identity>, (usize, KeyError)> {
    parse_lines(text)
}

fn parse_lines<T: FromStr<Err = KeyError>>(text: &str) -> Result<Vec<T>, (usize, KeyError)> {
    let mut keys = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_ascii();
        if !line.is_empty() && !line.starts_with('#') {
            keys.push(line.parse().map_err(|error| (number, error))?);
        }
    }
    match keys.is_empty() {
        true => Err((0, KeyError::None)),
        false => Ok(keys),
    }
}
