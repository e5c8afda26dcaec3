//! The reasons to keep a machine out.

/// The reason for which a machine, or the token that it came with, is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barred {
    /// Neither the snapshot nor a change since knows it.
    Unknown,
    /// It was known, and has been deleted.
    Deleted,
    /// An administrator revoked the machine.
    Revoked,
    /// An administrator revoked the token.
    TokenRevoked,
    /// An administrator disabled the actor.
    ActorDisabled,
    /// The token's time is over, or it is another machine's.
    Token,
}

impl Barred {
    /// The reason for a row that was known before: it is deleted, not yet to come.
    pub(crate) const fn known(self) -> Self {
        match self {
            Self::Unknown => Self::Deleted,
            known => known,
        }
    }
}
