//! The reasons for which nothing is migrated.

use culvert_store::StoreError;
use std::io;
use std::path::PathBuf;

/// The reason for which nothing was migrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// One of the two databases.
    #[error("database {place}: {source}")]
    Database {
        /// The database, without a password.
        place: String,
        /// Its fault.
        source: StoreError,
    },
    /// The target is in use.
    #[error(
        "database {place} has an account already, and nothing is overwritten: make an empty database (createdb), and \
         name it in the URL"
    )]
    NotEmpty {
        /// The database, without a password.
        place: String,
    },
    /// There is nothing to copy.
    #[error("database {place} is empty: name the one that the portal runs on")]
    Empty {
        /// The database, without a password.
        place: String,
    },
    /// The target has not what the source has.
    #[error(
        "table {table} has {source_rows} rows in the old database and {target_rows} in the new one, or their contents \
         differ; nothing is changed: try again, and report this if it happens again"
    )]
    Differs {
        /// The table.
        table: &'static str,
        /// The rows of the source.
        source_rows: u64,
        /// The rows of the target.
        target_rows: u64,
    },
    /// A server may have committed, or not.
    #[error(
        "database {place}: {source}; the last answer is missing: if the database has tables now, remove it and make it \
         anew (dropdb, createdb), then repeat the command. The portal's old database is as it was"
    )]
    Commit {
        /// The database, without a password.
        place: String,
        /// Its fault.
        source: StoreError,
    },
    /// Another process fills the file.
    #[error("{}: another migration of this portal is under way: wait for its end", path.display())]
    UnderWay {
        /// The file.
        path: PathBuf,
    },
    /// The new file can't be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl MigrateError {
    pub(super) fn database(place: &str, source: StoreError) -> Self {
        Self::Database {
            place: place.to_owned(),
            source,
        }
    }
}
