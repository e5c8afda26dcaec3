//! The choice of a database.

use super::open::SqliteOptions;
use super::postgres::PostgresOptions;

/// The database of a store.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// SQLite's.
    Sqlite(SqliteOptions),
    /// PostgreSQL's.
    Postgres(Box<PostgresOptions>),
}

impl StoreOptions {
    /// The database for people, without a password.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Sqlite(options) => match options.path() {
                Some(path) => path.display().to_string(),
                None => "in memory".to_owned(),
            },
            Self::Postgres(options) => options.to_string(),
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
