//! Secrets of the portal itself.

use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The name of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretName {
    /// The key that signs grants.
    GrantSigning,
    /// The secret from which the pre-shared keys of pairs are derived.
    Pairs,
    /// The key that shows that a passkey's challenge was made by a portal of this database.
    Challenges,
}

impl SecretName {
    /// Its name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GrantSigning => "grant-signing",
            Self::Pairs => "pairs",
            Self::Challenges => "challenges",
        }
    }
}

/// The name of a secret of the portal's state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateSecret {
    /// The portal's own certificate and its key, in PEM.
    Certificate,
    /// The key of the marks by which browsers are known.
    Browsers,
}

impl StateSecret {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Certificate, Self::Browsers];

    /// Its name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Browsers => "browsers",
        }
    }
}

/// A secret's bytes, wiped when they are dropped. Comparison tells nothing but the length by its time.
#[derive(Clone)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// From bytes, which it takes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes themselves.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Zeroizing<Vec<u8>>> for SecretBytes {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretBytes(…)")
    }
}
