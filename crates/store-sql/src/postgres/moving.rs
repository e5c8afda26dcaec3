//! The lock of a move: while the data of a database is moved, no portal has it, and while one has it, nothing is moved.
//!
//! It lasts as long as a transaction which does nothing else. A lock of a session would be the pooler's, which gives
//! each transaction another one.

use super::{LOCKS, NOW_MS, begin_writing};
use crate::connection::Transaction;
use culvert_store::{PORTAL_SILENCE_MS, StoreError};
use sqlx::PgPool;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The lock of a move. Portals share it.
const MOVE_LOCK: i64 = LOCKS | 3;

/// The time between two statements of the transaction. The server ends one that is idle for five times that.
const CHECK: Duration = Duration::from_secs(2);

/// The lock, and the task that holds it.
#[derive(Debug)]
pub(crate) struct Moving {
    task: JoinHandle<()>,
}

impl Moving {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while a portal has the database, or another move.
    pub(crate) async fn begin(pool: PgPool) -> Result<Self, StoreError> {
        let mut transaction = begin_writing(&pool, None, None).await?;
        if !take(&mut transaction).await? {
            return Err(taken());
        }
        let task = tokio::spawn(hold(transaction));
        Ok(Self { task })
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Keeps the transaction alive. If its connection is lost, the copy that it guards fails at its own next statement or
/// at the comparison of rows.
async fn hold(mut transaction: Transaction) {
    loop {
        tokio::time::sleep(CHECK).await;
        if let Err(error) = transaction.fetch_one("SELECT 1", Vec::new()).await {
            tracing::warn!(%error, "the lock of the move was lost");
            return;
        }
    }
}

pub(super) fn taken() -> StoreError {
    StoreError::Locked {
        detail: "a portal runs on it, or its data is being moved".to_owned(),
    }
}

/// Takes the lock for as long as the transaction lasts; false while a portal has the database, or another move.
pub(super) async fn take(transaction: &mut Transaction) -> Result<bool, StoreError> {
    Ok(try_lock(transaction, "pg_try_advisory_xact_lock").await?
        && !has_portals(transaction).await?)
}

/// True while a portal runs on the database.
async fn has_portals(transaction: &mut Transaction) -> Result<bool, StoreError> {
    let sql =
        format!("SELECT id FROM portal WHERE seen_ms >= {NOW_MS} - {PORTAL_SILENCE_MS} LIMIT 1");
    let row = transaction.fetch_one(sql, Vec::new()).await?;
    Ok(row.is_some())
}

/// Refuses while the data is moved, and keeps a move from beginning until the transaction ends.
pub(crate) async fn expect_no_move(transaction: &mut Transaction) -> Result<(), StoreError> {
    match try_lock(transaction, "pg_try_advisory_xact_lock_shared").await? {
        true => Ok(()),
        false => Err(StoreError::Locked {
            detail: "its data is being moved, or a portal of an earlier version runs on it"
                .to_owned(),
        }),
    }
}

async fn try_lock(transaction: &mut Transaction, function: &str) -> Result<bool, StoreError> {
    let sql = format!("SELECT CAST(CAST({function}({MOVE_LOCK}) AS integer) AS bigint) AS held");
    let row = transaction.fetch_one(sql, Vec::new()).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
    row.columns().flag("held")
}
