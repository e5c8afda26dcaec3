//! One portal at a time: a lock that lasts as long as a transaction which does nothing else.
//!
//! A lock of a session would be the pooler's, which gives each transaction another one.

use super::{LOCKS, begin_writing};
use crate::connection::Transaction;
use culvert_store::StoreError;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The lock of the portal that runs.
const PORTAL_LOCK: i64 = LOCKS | 3;

/// The time between two statements of the transaction. The server ends one that is idle for five times that.
const CHECK: Duration = Duration::from_secs(2);

/// The lock, and the task that holds it.
#[derive(Debug)]
pub(crate) struct Alone {
    is_taken: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Alone {
    /// # Errors
    /// [`StoreError::Locked`] while another portal has the database.
    pub(crate) async fn begin(pool: PgPool) -> Result<Self, StoreError> {
        let held = take(&pool).await?.ok_or_else(taken)?;
        let is_taken = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(hold(pool, held, Arc::clone(&is_taken)));
        Ok(Self { is_taken, task })
    }

    /// Refuses a write after another portal has taken the database, while this one was cut off from it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.is_taken.load(Ordering::Relaxed) {
            true => Err(taken()),
            false => Ok(()),
        }
    }

    /// Gives the database to the next portal.
    pub(crate) fn end(&self) {
        self.task.abort();
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) fn taken() -> StoreError {
    StoreError::Locked {
        detail: "another portal runs on it".to_owned(),
    }
}

/// Holds the lock, and takes it again where its connection was lost.
async fn hold(pool: PgPool, held: Transaction, is_taken: Arc<AtomicBool>) {
    let mut held = Some(held);
    loop {
        tokio::time::sleep(CHECK).await;
        if let Some(transaction) = &mut held
            && let Err(error) = transaction.fetch_one("SELECT 1", Vec::new()).await
        {
            tracing::warn!(%error, "the database was lost, and with it the lock of this portal");
            held = None;
        }
        if held.is_none() {
            // Without an answer nothing is known, and nothing can be written either.
            let Ok(taken) = take(&pool).await else {
                continue;
            };
            held = taken;
            if is_taken.swap(held.is_none(), Ordering::Relaxed) != held.is_none() {
                match held {
                    None => tracing::warn!("another portal has the database: nothing is written"),
                    Some(_) => tracing::warn!("this portal has the database again"),
                }
            }
        }
    }
}

/// A transaction with the lock; none while another has it.
async fn take(pool: &PgPool) -> Result<Option<Transaction>, StoreError> {
    let mut transaction = begin_writing(pool, None, None).await?;
    let is_held = take_for(&mut transaction).await?;
    Ok(is_held.then_some(transaction))
}

/// Takes the lock for as long as a transaction lasts; false while another has it.
pub(super) async fn take_for(transaction: &mut Transaction) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT CAST(CAST(pg_try_advisory_xact_lock({PORTAL_LOCK}) AS integer) AS bigint) AS held"
    );
    let row = transaction.fetch_one(sql, Vec::new()).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
    row.columns().flag("held")
}
