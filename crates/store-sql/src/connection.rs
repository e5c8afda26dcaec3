//! A transaction of either database: the one way by which the store reads and writes.

use super::arrays::bind_arrays;
use super::dialect::Dialect;
use super::fault::fault;
use super::migrate::ColumnKind;
use super::value::{Columns, Value, postgres_query, query};
use culvert_store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::SqliteRow;
use sqlx::{Postgres, Sqlite};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

/// The longest time after which an answer must have come, if the server or the way to it is gone: the server would have
/// ended the statement by itself before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// A transaction that is under way. Dropped, it has not happened.
pub(super) enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres {
        transaction: PostgresTransaction,
        /// The turn among the changes of the configuration that this process makes.
        _turn: Option<OwnedMutexGuard<()>>,
    },
}

/// A transaction of PostgreSQL.
pub(super) enum PostgresTransaction {
    /// It has begun, and ends with its value.
    Begun(sqlx::Transaction<'static, Postgres>),
    /// Each statement is one of its own. A single one that reads needs no `BEGIN` before it and no `ROLLBACK` behind it,
    /// each of which takes a round trip and as much of the server as the statement.
    Statement(PoolConnection<Postgres>),
}

/// The rows of an answer, as the database's library has them.
pub(super) enum Rows {
    Sqlite(Vec<SqliteRow>),
    Postgres(Vec<PgRow>),
}

/// A single row of an answer.
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Transaction {
    pub(super) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres { .. } => Dialect::Postgres,
        }
    }

    pub(super) async fn fetch(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<Rows, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let rows = query(sql, values).fetch_all(&mut **connection).await;
                rows.map(Rows::Sqlite).map_err(fault)
            }
            Self::Postgres { transaction, .. } => {
                let query = postgres_query(&sql.into(), values);
                let rows = answer(query.fetch_all(&mut **transaction)).await;
                Ok(Rows::Postgres(rows?))
            }
        }
    }

    pub(super) async fn fetch_one(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let row = query(sql, values).fetch_optional(&mut **connection).await;
                Ok(row.map_err(fault)?.map(Row::Sqlite))
            }
            Self::Postgres { transaction, .. } => {
                let query = postgres_query(&sql.into(), values);
                let row = answer(query.fetch_optional(&mut **transaction)).await;
                Ok(row?.map(Row::Postgres))
            }
        }
    }

    /// Returns the number of rows that were written.
    pub(super) async fn execute(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let done = query(sql, values).execute(&mut **connection).await;
                Ok(done.map_err(fault)?.rows_affected())
            }
            Self::Postgres { transaction, .. } => {
                let query = postgres_query(&sql.into(), values);
                let done = answer(query.execute(&mut **transaction)).await?;
                Ok(done.rows_affected())
            }
        }
    }

    /// Runs a statement of PostgreSQL that has rows as arrays, one for each column, behind its other values. Returns the
    /// number of rows that were written.
    pub(super) async fn execute_rows(
        &mut self,
        sql: &str,
        values: Vec<Value>,
        columns: &[(&str, ColumnKind)],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(_) => Err(StoreError::corrupt("rows as arrays are for PostgreSQL")),
            Self::Postgres { transaction, .. } => {
                let query = bind_arrays(postgres_query(sql, values), columns, &mut rows);
                let done = answer(query.execute(&mut **transaction)).await?;
                Ok(done.rows_affected())
            }
        }
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await.map_err(fault),
            Self::Postgres { transaction, .. } => match transaction {
                PostgresTransaction::Begun(transaction) => answer(transaction.commit()).await,
                PostgresTransaction::Statement(_) => Ok(()),
            },
        }
    }
}

impl Deref for PostgresTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Begun(transaction) => transaction,
            Self::Statement(connection) => connection,
        }
    }
}

impl DerefMut for PostgresTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Begun(transaction) => transaction,
            Self::Statement(connection) => connection,
        }
    }
}

/// An answer of a server, which may never come.
pub(super) async fn answer<T>(
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    let answered = timeout(ANSWER_TIMEOUT, asked).await;
    let answered = answered.map_err(|_| {
        let seconds = ANSWER_TIMEOUT.as_secs();
        StoreError::Unavailable(format!("no answer within {seconds} s").into())
    })?;
    answered.map_err(fault)
}

impl Rows {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Sqlite(rows) => rows.len(),
            Self::Postgres(rows) => rows.len(),
        }
    }

    pub(super) fn first(&self) -> Option<Columns<'_>> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Columns<'_>> {
        let (sqlite, postgres) = match self {
            Self::Sqlite(rows) => (rows.as_slice(), [].as_slice()),
            Self::Postgres(rows) => ([].as_slice(), rows.as_slice()),
        };
        let sqlite = sqlite.iter().map(Columns::sqlite);
        sqlite.chain(postgres.iter().map(Columns::postgres))
    }
}

impl Row {
    pub(super) const fn columns(&self) -> Columns<'_> {
        match self {
            Self::Sqlite(row) => Columns::sqlite(row),
            Self::Postgres(row) => Columns::postgres(row),
        }
    }
}
