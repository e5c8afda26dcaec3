//! Errors of the store, and whose fault they are.

use crate::{EntityId, EntityKind, NamedRow};
use culvert_base::quoted;
use culvert_ids::AccountId;
use culvert_secrets::KeyId;
use std::fmt;

/// The reason for which the store did not do as asked. After every error, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    // The asker's faults.
    /// No such row in this account.
    #[error("{0} does not exist")]
    NotFound(EntityId),
    /// No such account.
    #[error("the account does not exist")]
    NoAccount,
    /// Someone else changed the row in between.
    #[error("{id} has been changed: it is at version {current}; read it again")]
    VersionConflict {
        /// The row.
        id: EntityId,
        /// Its version now.
        current: u64,
    },
    /// Another row of the kind has the name.
    #[error(
        "there is already {} {kind} named {} ({by}); names that differ only in upper and lower case count as \
         the same",
        kind.article(),
        quoted(name)
    )]
    NameTaken {
        /// The kind.
        kind: EntityKind,
        /// The name.
        name: String,
        /// The row that has it.
        by: EntityId,
    },
    /// The row exists already: the id is in use, or the actor is in the group.
    #[error("{0} exists already")]
    Exists(EntityId),
    /// Another machine of the account has the public key.
    #[error("another machine ({by}) has this public key; make a new one on this machine")]
    KeyTaken {
        /// The row that has it.
        by: EntityId,
    },
    /// Others refer to the row, and the deletion was not to take them along.
    #[error("{row} is in use by {}", users(by, *total))]
    InUse {
        /// The row.
        row: NamedRow,
        /// The rows that use it, at most [`crate::MAX_USERS_NAMED`] of them.
        by: Vec<NamedRow>,
        /// The number of rows that use it.
        total: u64,
    },
    /// A field holds what it must not.
    #[error("{kind}: {field}: {reason}")]
    Invalid {
        /// The kind of the row, or of the row that the answer was about.
        kind: EntityKind,
        /// The field.
        field: &'static str,
        /// The fault, and a right value.
        reason: String,
    },
    /// No owner could come in any more.
    #[error("it is the last way in for an owner: make another owner's token first")]
    LastOwner,
    /// More at once, or in all, than there may be.
    #[error("more than {limit} {what}")]
    TooMany {
        /// The things of which there are too many.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The token, or the machine behind it, is not let in. The text tells nobody why;
    /// [`Denial::cause`] does, for the log.
    #[error(transparent)]
    Denied(#[from] Denial),

    /// Another portal leads by now: the grants are its own to write.
    #[error("another portal of the database leads")]
    NotLeading,

    // Faults of the configuration.
    /// Every address of a range is in use.
    #[error(
        "the range {range} has no free address left; delete clients and gateways that are gone"
    )]
    NoAddress {
        /// The range.
        range: String,
    },
    /// The database belongs to a later version of the program.
    #[error(
        "the database is for schema version {found} and later, and this version of culvert knows up to {known}: \
         run a later version, or restore the backup that was made before the upgrade was finished"
    )]
    NewerSchema {
        /// The oldest version that may work on the database.
        found: u32,
        /// The last that this build knows.
        known: u32,
    },
    /// A value of a later version of the program. Nothing may be concluded from the rest of its row.
    #[error(
        "the database has a value that this version of culvert does not know: {detail}; run the later version that \
         wrote it, or restore the last backup if there is no such version"
    )]
    LaterValue {
        /// The column, and the value.
        detail: String,
    },
    /// The database, or the file system it lies on, can't be written.
    #[error("the database can't be written: {detail}")]
    ReadOnly {
        /// The text of the database's error, and the fix.
        detail: String,
    },

    /// The database, or its server, is one that a portal can't have.
    #[error("the database can't be used: {detail}")]
    Unusable {
        /// The reason, and the fix.
        detail: String,
    },

    /// The database has lost changes that this process has seen.
    #[error(
        "the database has gone back in time: its last change is number {last}, and this portal knows up to {known}"
    )]
    WentBack {
        /// The number of the last change that was seen.
        known: u64,
        /// The number of the last change that it has.
        last: u64,
    },

    /// The secrets of the database are encrypted, and no key was given.
    #[error(
        "its secrets are encrypted with key {key}, and no key was given: name the file of that key \
         (--secrets-key FILE), or give it as the credential `secrets-key`"
    )]
    SecretsKeyMissing {
        /// The key that is needed.
        key: KeyId,
    },
    /// The secrets of the database are encrypted with another key.
    #[error(
        "its secrets are encrypted with key {needed}, and key {given} was given: give the file of key \
         {needed}"
    )]
    OtherSecretsKey {
        /// The key that is needed.
        needed: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// A key was given, and the secrets of the database are in clear.
    #[error(
        "its secrets are not encrypted, and key {given} was given: encrypt them with `culvert portal \
         secrets encrypt`, or leave the key out"
    )]
    SecretsNotEncrypted {
        /// The key that was given.
        given: KeyId,
    },

    // Local faults.
    /// There is no room for more.
    #[error("the database is full: {detail}; make room on its file system")]
    Full {
        /// The text of the database's error.
        detail: String,
    },
    /// Someone else holds the database.
    #[error(
        "the database is locked: {detail}; another process has it open (a second portal, or a \
         backup tool): end that one, since one portal at a time may use it"
    )]
    Locked {
        /// The text of the database's error.
        detail: String,
    },
    /// Others keep the database, or a part of it, from answering in time.
    #[error("the database is busy: {detail}; try again")]
    Busy {
        /// The text of the database's error.
        detail: String,
    },
    /// The rows read differ from those written.
    #[error("the database is damaged: {detail}; restore the last backup")]
    Corrupt {
        /// The fault.
        detail: String,
    },
    /// The database can't be reached.
    #[error("the database can't be reached: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// [`Self::Corrupt`], for implementations of [`crate::Store`].
    pub fn corrupt(detail: impl fmt::Display) -> Self {
        Self::Corrupt {
            detail: detail.to_string(),
        }
    }

    /// The same local fault once more, for later askers; none for other faults.
    pub fn again(&self) -> Option<Self> {
        let detail = match self {
            Self::ReadOnly { detail }
            | Self::Full { detail }
            | Self::Locked { detail }
            | Self::Busy { detail }
            | Self::Unusable { detail }
            | Self::LaterValue { detail }
            | Self::Corrupt { detail } => detail.clone(),
            Self::Unavailable(source) => source.to_string(),
            other if other.is_local() => other.to_string(),
            _ => return None,
        };
        Some(match self {
            Self::ReadOnly { .. } => Self::ReadOnly { detail },
            Self::Full { .. } => Self::Full { detail },
            Self::Locked { .. } => Self::Locked { detail },
            Self::Busy { .. } => Self::Busy { detail },
            Self::Unusable { .. } => Self::Unusable { detail },
            Self::LaterValue { .. } => Self::LaterValue { detail },
            Self::NewerSchema { found, known } => Self::NewerSchema {
                found: *found,
                known: *known,
            },
            Self::Corrupt { .. } => Self::Corrupt { detail },
            _ => Self::Unavailable(detail.into()),
        })
    }

    /// The fault lies with the database or the machine it is on, not with the question: the same
    /// question may be answered later. Nothing may be concluded from it.
    pub const fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::Locked { .. }
                | Self::Busy { .. }
                | Self::Unusable { .. }
                | Self::Corrupt { .. }
                | Self::Unavailable(_)
                | Self::ReadOnly { .. }
                | Self::NewerSchema { .. }
                | Self::WentBack { .. }
                | Self::LaterValue { .. }
        )
    }
}

fn users(by: &[NamedRow], total: u64) -> String {
    let rows: Vec<_> = by.iter().map(ToString::to_string).collect();
    let rows = rows.join(", ");
    match total > by.len() as u64 {
        true => format!("{total} others, among them {rows}"),
        false => rows,
    }
}

/// The reason for which a token was not accepted. Its text is the same for all, because it goes to
/// the peer: nobody who guesses tokens learns from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// No token has this id.
    UnknownToken,
    /// The token has another secret.
    WrongSecret,
    /// The token is of another kind.
    WrongKind,
    /// The token's time is over.
    Expired,
    /// An administrator revoked the token.
    Revoked,
    /// The token had one use, and that is over; or it belongs to another machine or key.
    Used,
    /// The token's actor, which belongs to this account, is disabled.
    ActorDisabled(AccountId),
    /// An administrator revoked the machine.
    MachineRevoked,
    /// The token, or its actor, has a lesser role than the one by which the write was permitted.
    LesserRole,
    /// The row is an owner's, or a provider that an owner is known by, and the author is no owner.
    OwnersOnly,
    /// The write has not shown that it is the person, or not with all factors that the person has by now.
    Unproven,
}

impl Denial {
    /// The reason, for the log.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::UnknownToken => "unknown token",
            Self::WrongSecret => "wrong secret",
            Self::WrongKind => "token of another kind",
            Self::Expired => "expired token",
            Self::Revoked => "revoked token",
            Self::Used => "one-time token used already",
            Self::ActorDisabled(_) => "disabled actor",
            Self::MachineRevoked => "revoked machine",
            Self::LesserRole => "lesser role than when the request began",
            Self::OwnersOnly => "no owner, to change what is an owner's",
            Self::Unproven => "no proof with all factors of the person",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the token is not accepted")
    }
}

impl std::error::Error for Denial {}

#[cfg(test)]
mod tests {
    use super::{Denial, StoreError};
    use crate::{EntityKind, NamedRow};

    #[test]
    fn the_users_of_a_row_are_told_by_their_names_and_ids() {
        let row = |kind, byte, name: &str| NamedRow::new(kind, [byte; 16], name.to_owned());
        let in_use = |total| StoreError::InUse {
            row: row(EntityKind::Site, 1, "north"),
            by: vec![
                row(EntityKind::Resource, 2, "wiki"),
                row(EntityKind::Gateway, 3, "gw\u{202e}1"),
            ],
            total,
        };
        let all = in_use(2).to_string();
        assert!(all.starts_with("site \"north\" (site_"), "{all}");
        assert!(
            all.contains(") is in use by resource \"wiki\" (res_"),
            "{all}"
        );
        assert!(all.contains("), gateway \"gw<U+202E>1\" (gw_"), "{all}");
        let some = in_use(12).to_string();
        assert!(
            some.contains(" is in use by 12 others, among them resource \"wiki\""),
            "{some}"
        );
    }

    #[test]
    fn who_guesses_tokens_does_not_learn_from_the_text_why_one_was_refused() {
        for denial in [Denial::UnknownToken, Denial::WrongSecret, Denial::Revoked] {
            assert_eq!(denial.to_string(), "the token is not accepted");
        }
    }

    #[test]
    fn a_fault_of_the_database_may_pass_and_one_of_the_question_does_not() {
        let detail = || "so it is".to_owned();
        for local in [
            StoreError::Full { detail: detail() },
            StoreError::Locked { detail: detail() },
            StoreError::Busy { detail: detail() },
            StoreError::Unusable { detail: detail() },
            StoreError::Corrupt { detail: detail() },
            StoreError::ReadOnly { detail: detail() },
            StoreError::Unavailable(detail().into()),
        ] {
            assert!(local.is_local(), "{local}");
            assert_eq!(
                local.again().map(|again| again.to_string()),
                Some(local.to_string())
            );
        }
        for asked in [StoreError::NoAccount, StoreError::Denied(Denial::Expired)] {
            assert!(!asked.is_local(), "{asked}");
            assert!(asked.again().is_none(), "{asked}");
        }
    }
}
