//! Connections, and how a transaction begins on them.

use super::connection::Transaction;
use super::fault::fault;
use super::postgres;
use super::turn::Turn;
use culvert_store::StoreError;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Connections to one of the databases.
pub(super) enum Pool {
    /// A single connection, if they write. In memory those that read are the same, since a database in memory belongs
    /// to its connection.
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    /// A transaction that sees one state, and writes nothing.
    pub(super) async fn read(&self) -> Result<Transaction, StoreError> {
        match self {
            Self::Sqlite(pool) => {
                let begun = pool.begin().await;
                begun.map(Transaction::Sqlite).map_err(fault)
            }
            Self::Postgres(pool) => postgres::begin_reading(pool).await,
        }
    }

    /// A transaction of a single statement that writes nothing.
    pub(super) async fn read_once(&self) -> Result<Transaction, StoreError> {
        match self {
            Self::Sqlite(_) => self.read().await,
            Self::Postgres(pool) => postgres::read_once(pool).await,
        }
    }

    /// A transaction that writes. On SQLite it has the writer from its beginning.
    pub(super) async fn write(&self) -> Result<Transaction, StoreError> {
        match self {
            Self::Sqlite(pool) => begin_immediate(pool).await,
            Self::Postgres(pool) => postgres::begin_writing(pool, None, None).await,
        }
    }

    /// A transaction that changes the configuration when it is its turn. Only one of this process waits for the others'
    /// at a time, so that those that wait do not have all connections.
    pub(super) async fn change(
        &self,
        turn: Turn,
        own: &Arc<Mutex<()>>,
    ) -> Result<Transaction, StoreError> {
        let pool = match self {
            Self::Sqlite(_) => return self.write().await,
            Self::Postgres(pool) => pool,
        };
        let own = timeout(postgres::LOCK_TIMEOUT, Arc::clone(own).lock_owned()).await;
        let own = own.map_err(|_| StoreError::Busy {
            detail: "other changes of the configuration take long".to_owned(),
        })?;
        postgres::begin_writing(pool, Some(turn), Some(own)).await
    }

    /// True while as many write as there are connections to write by.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Sqlite(pool) => pool.num_idle() == 0,
            // Connections are made when they are needed.
            Self::Postgres(pool) => {
                pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections()
            }
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

pub(super) async fn begin_immediate(pool: &SqlitePool) -> Result<Transaction, StoreError> {
    let begun = pool.begin_with("BEGIN IMMEDIATE").await;
    if !matches!(begun, Err(sqlx::Error::InvalidSavePointStatement)) {
        return begun.map(Transaction::Sqlite).map_err(fault);
    }
    // A full disk ends a transaction by itself, while the library takes it to be open for as long as the connection is.
    let broken = pool.acquire().await.map_err(fault)?;
    broken.close().await.map_err(fault)?;
    let begun = pool.begin_with("BEGIN IMMEDIATE").await;
    begun.map(Transaction::Sqlite).map_err(fault)
}
