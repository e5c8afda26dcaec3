//! The reasons for which a request is refused.

use culvert_store::{Denial, NamedRow, StoreError};
use culvert_wire::api::FieldProblem;
use std::fmt;
use std::time::Duration;

/// The reason for which a request is refused; its answer is a problem document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not HTTP or not JSON as the API speaks it.
    Malformed(String),
    /// Fields that are not what they must be.
    Invalid(Vec<FieldProblem>),
    /// No token, or none that is good; the two are not told apart.
    Unauthenticated,
    /// The token is good, but not for this.
    Forbidden(String),
    /// No such thing in this account.
    NotFound(String),
    /// The path exists, but not with this method.
    MethodNotAllowed,
    /// It conflicts with what is there.
    Conflict(String),
    /// It can't be deleted while others use it.
    InUse {
        /// The fault in words, with the names and ids of the first that use it.
        detail: String,
        /// The row that is in use.
        row: NamedRow,
        /// The first that use it.
        by: Vec<NamedRow>,
        /// The number of all that use it.
        total: u64,
    },
    /// It was changed since it was read.
    VersionConflict {
        /// Its version now.
        current: u64,
    },
    /// A change must say which version it changes.
    VersionRequired,
    /// The body is too long.
    TooLarge {
        /// The most that it may have, in bytes.
        limit: usize,
    },
    /// The address, path and query, is too long.
    AddressTooLong {
        /// The most that it may have, in bytes.
        limit: usize,
    },
    /// The body is no JSON.
    UnsupportedMediaType,
    /// Too many requests.
    TooMany {
        /// The time to wait.
        wait: Duration,
    },
    /// A fault of the portal, which the log has.
    Internal,
    /// The portal can't answer now.
    Unavailable(String),
}

impl Fault {
    /// One field that is wrong.
    pub fn invalid(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::Invalid(vec![FieldProblem {
            field: field.into(),
            detail: detail.to_string(),
        }])
    }

    /// A fault of the portal itself: the log gets it all, the asker nothing.
    pub fn internal(error: impl fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::Internal
    }

    /// If `field` of the request names `self`'s missing thing, the fault is the field's.
    pub fn at_field(self, field: &str) -> Self {
        match self {
            Self::NotFound(detail) => Self::invalid(field, detail),
            other => other,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::NotFound(_) => Self::NotFound(detail),
            StoreError::InUse { row, by, total } => Self::InUse {
                detail,
                row,
                by,
                total,
            },
            StoreError::VersionConflict { current, .. } => Self::VersionConflict { current },
            StoreError::Invalid { field, reason, .. } => Self::invalid(field, reason),
            StoreError::NameTaken { .. }
            | StoreError::Exists(_)
            | StoreError::KeyTaken { .. }
            | StoreError::NoAddress { .. }
            | StoreError::LastOwner
            | StoreError::TooMany { .. } => Self::Conflict(detail),
            StoreError::Denied(Denial::LesserRole) => Self::Forbidden(
                "your role is a lesser one than when this request began: load it anew".to_owned(),
            ),
            StoreError::Denied(Denial::OwnersOnly) => Self::Forbidden(
                "owners, and the providers that they are known by, are changed by owners alone"
                    .to_owned(),
            ),
            StoreError::Denied(_) => Self::Unauthenticated,
            error if error.is_local() => {
                tracing::error!(%error, "the database");
                Self::Unavailable(obstacle(&error).to_owned())
            }
            error => Self::internal(error),
        }
    }
}

/// The database's fault, in words for every asker: paths are for the log.
pub const fn obstacle(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full { .. } => "the database is full: make room on its file system",
        StoreError::Locked { .. } => "the database is locked: another process has it open",
        StoreError::ReadOnly { .. } => "the database can't be written: the log says why",
        StoreError::Busy { .. } => "the database is busy: try again",
        StoreError::LaterValue { .. } | StoreError::NewerSchema { .. } => {
            "the database is in use by a later version: upgrade this portal"
        }
        StoreError::Corrupt { .. } => "the database is damaged: restore the last backup",
        _ => "the database does not answer: the log says why",
    }
}

impl From<getrandom::Error> for Fault {
    fn from(error: getrandom::Error) -> Self {
        Self::internal(error)
    }
}
