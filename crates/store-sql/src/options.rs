//! The choice of a database.

use super::open::SqliteOptions;
use super::postgres::PostgresOptions;
use std::fmt;

/// The database of a store.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// SQLite's.
    Sqlite(SqliteOptions),
    /// PostgreSQL's.
    Postgres(Box<PostgresOptions>),
}

/// The database for people, without a password.
impl fmt::Display for StoreOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(options) => match options.path() {
                Some(path) => path.display().fmt(out),
                None => out.write_str("in memory"),
            },
            Self::Postgres(options) => options.fmt(out),
        }
    }
}

impl From<SqliteOptions> for StoreOptions {
    fn from(options: SqliteOptions) -> Self {
        Self::Sqlite(options)
    }
}

impl From<&SqliteOptions> for StoreOptions {
    fn from(options: &SqliteOptions) -> Self {
        Self::Sqlite(options.clone())
    }
}

impl From<PostgresOptions> for StoreOptions {
    fn from(options: PostgresOptions) -> Self {
        Self::Postgres(Box::new(options))
    }
}
