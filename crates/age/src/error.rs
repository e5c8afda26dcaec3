use std::io;

/// The reason why a text is no recipient or no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is something else.
    #[error("it is no X25519 recipient of age (age1…)")]
    NotARecipient,
    /// It is something else.
    #[error("it is no X25519 identity of age (AGE-SECRET-KEY-1…), as age-keygen writes one")]
    NotAnIdentity,
    /// A letter is wrong or missing.
    #[error("its checksum is wrong: a letter is wrong or missing")]
    Checksum,
    /// The file has none.
    #[error("there is none in it")]
    None,
}

/// The reason why a file cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgeError {
    /// Nobody could decrypt it, or too many could.
    #[error("an encrypted file needs 1 to {} recipients", crate::MAX_RECIPIENTS)]
    Recipients,
    /// The point of a recipient has a small order: everybody would know the shared secret.
    #[error("a recipient is no usable X25519 key")]
    WeakRecipient,
    /// The header can't be parsed.
    #[error("its header is damaged")]
    Header,
    /// It is encrypted to others.
    #[error("it is encrypted to other recipients than those of the identity")]
    NoMatch,
    /// It is not as it was written.
    #[error("it was changed or is damaged")]
    Forged,
    /// Its end is missing.
    #[error("it is cut off")]
    CutOff,
    /// Reading failed.
    #[error("reading: {0}")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("writing: {0}")]
    Write(#[source] io::Error),
}
