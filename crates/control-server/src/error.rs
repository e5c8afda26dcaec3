//! Errors at the start.

use std::path::PathBuf;

/// The reason for which the sessions do not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Local: the database.
    #[error(transparent)]
    Store(#[from] culvert_store::StoreError),
    /// Local: the operating system gave no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
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
