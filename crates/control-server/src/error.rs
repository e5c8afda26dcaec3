//! Errors at the start.

use culvert_store::StoreError;
use std::path::PathBuf;

/// The reason for which the sessions do not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Local: the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Local: the operating system gave no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl StartError {
    /// True if a later version of the program may be able to start.
    pub(crate) const fn is_of_later_version(&self) -> bool {
        matches!(self, Self::Store(StoreError::LaterValue { .. }))
    }
}

/// Configuration: the database of countries can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct CountriesError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub reason: String,
}
