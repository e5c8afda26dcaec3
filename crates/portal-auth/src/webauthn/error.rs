//! The reasons for which a passkey is not accepted.

/// The reason for which something is not accepted. A person who adds a key is told it. For a
/// sign-in by a key, only the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebauthnError {
    /// This part is not as the specification has it.
    #[error("{0} is not as the specification has it")]
    Malformed(&'static str),
    /// It was made for another operation.
    #[error("it was made for another purpose")]
    OtherPurpose,
    /// It was made on a page of another site.
    #[error("it was made on the page of another site")]
    OtherOrigin,
    /// It was made for another relying party.
    #[error("it belongs to another site")]
    OtherParty,
    /// Nobody touched the authenticator.
    #[error("nobody was there")]
    NobodyPresent,
    /// The authenticator did not verify its user.
    #[error("the authenticator did not make sure who was there")]
    NobodyVerified,
    /// The key has an algorithm that was not asked for.
    #[error("the key is of a kind that was not asked for")]
    OtherAlgorithm,
    /// The signature is not of this key.
    #[error("the signature is not by this key")]
    WrongSignature,
}
