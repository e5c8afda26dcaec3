//! The database that is copied. Nothing but its schema is ever written there.

use super::error::MigrateError;
use crate::connection::Transaction;
use crate::fault::fault;
use crate::open;
use crate::options::StoreOptions;
use crate::pool::{Pool, begin_immediate};
use crate::postgres::{self, Moving};
use crate::sealing::SecretsAccess;
use culvert_ids::AccountId;
use culvert_store::StoreError;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use std::path::Path;

/// The database that is copied.
pub(super) struct Source {
    place: String,
    from: Origin,
    reader: Pool,
}

enum Origin {
    Sqlite(SqlitePool),
    Postgres {
        pool: PgPool,
        /// The lock of the move, once it is this process's.
        moving: Option<Moving>,
    },
}

/// One state of the source, which nobody changes while it is read.
pub(super) struct Reading {
    pub(super) transaction: Transaction,
    /// Keeps all changes of the configuration away, where the transaction that reads does not.
    _turns: Option<Transaction>,
}

impl Source {
    pub(super) async fn open(options: StoreOptions) -> Result<Self, MigrateError> {
        let place = options.to_string();
        let opened = Self::connect(options).await;
        let (from, reader) = opened.map_err(|source| MigrateError::database(&place, source))?;
        Ok(Self {
            place,
            from,
            reader,
        })
    }

    async fn connect(options: StoreOptions) -> Result<(Origin, Pool), StoreError> {
        match options {
            StoreOptions::Sqlite(options) => {
                let exists = options.path().is_some_and(Path::exists);
                if !exists {
                    return Err(StoreError::Unavailable("there is no such file".into()));
                }
                let schema = options.known_schema();
                let opened = open::open(&options.secrets(SecretsAccess::Nothing)).await?;
                let mut connection = opened.writer.acquire().await.map_err(fault)?;
                schema.check_whole(open::state(&mut connection).await?)?;
                drop(connection);
                Ok((Origin::Sqlite(opened.writer), Pool::Sqlite(opened.reader)))
            }
            StoreOptions::Postgres(options) => {
                let schema = options.known_schema();
                let opened = postgres::open(&options.secrets(SecretsAccess::Nothing)).await?;
                let mut transaction = postgres::begin_reading(&opened.reader).await?;
                schema.check_whole(postgres::state(&mut transaction).await?)?;
                drop(transaction);
                let pool = opened.writer;
                let from = Origin::Postgres { pool, moving: None };
                Ok((from, Pool::Postgres(opened.reader)))
            }
        }
    }

    /// An error that is the source's.
    pub(super) fn failed(&self, source: StoreError) -> MigrateError {
        MigrateError::database(&self.place, source)
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The state of now, while others may go on.
    pub(super) async fn read(&self) -> Result<Transaction, MigrateError> {
        let begun = async {
            let mut transaction = self.reader.read().await?;
            without_limits(&mut transaction).await?;
            Ok(transaction)
        };
        begun.await.map_err(|source| self.failed(source))
    }

    /// Takes the lock of the move; false while one runs on the database. The caller has the state directory, which
    /// is the only lock of a file.
    pub(super) async fn take(&mut self) -> Result<bool, MigrateError> {
        let Origin::Postgres { pool, moving } = &mut self.from else {
            return Ok(true);
        };
        if moving.is_some() {
            return Ok(true);
        }
        match Moving::begin(pool.clone()).await {
            Ok(held) => *moving = Some(held),
            Err(StoreError::Locked { .. }) => return Ok(false),
            Err(source) => return Err(MigrateError::database(&self.place, source)),
        }
        Ok(true)
    }

    /// The state that is copied. Other commands wait with their changes until it is dropped.
    pub(super) async fn read_last(&self, accounts: &[AccountId]) -> Result<Reading, MigrateError> {
        let begun = async {
            let (turns, mut transaction) = match &self.from {
                Origin::Sqlite(writer) => (None, begin_immediate(writer).await?),
                Origin::Postgres { pool, .. } => {
                    let mut turns = postgres::begin_alone(pool, accounts).await?;
                    without_limits(&mut turns).await?;
                    (Some(turns), self.reader.read().await?)
                }
            };
            without_limits(&mut transaction).await?;
            Ok(Reading {
                transaction,
                _turns: turns,
            })
        };
        begun.await.map_err(|source| self.failed(source))
    }

    /// Closes all connections. The last one to a file moves what is in its log there.
    pub(super) async fn close(self) {
        self.reader.close().await;
        match self.from {
            Origin::Sqlite(writer) => writer.close().await,
            Origin::Postgres { pool, moving } => {
                drop(moving);
                pool.close().await;
            }
        }
    }
}

/// Lets a transaction of a server last as long as it takes, and has tables read by their primary keys: nothing is known
/// of a table that was filled in the same transaction.
pub(super) async fn without_limits(transaction: &mut Transaction) -> Result<(), StoreError> {
    if matches!(transaction, Transaction::Sqlite(_)) {
        return Ok(());
    }
    let sql = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; \
               SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off";
    transaction.script(sql.to_owned()).await
}
