//! A database of a PostgreSQL server, and how its connections are used.
//!
//! Nothing here depends on the state of a session, so a pooler may give each transaction another connection. Every
//! statement is in a transaction and has no name there. Each transaction sets its limits of time, and locks end with it.

mod earlier;
mod moving;
mod open;
mod url;

pub(super) use moving::{Moving, expect_no_move};
pub(super) use open::{begin_empty, contract, open, state};
pub use url::{PostgresOptions, UrlError};

use super::connection::{PostgresTransaction, Transaction};
use super::fault::fault;
use super::turn::Turn;
use culvert_ids::AccountId;
use culvert_store::{PendingKind, StoreError};
use sqlx::Executor;
use sqlx::PgPool;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// The longest time that a connection may take to come into being, or that a caller waits for one: a request waits no
/// longer for SQLite's writer.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for a lock. The largest write of the configuration, of 40,000 mutations, has its lock for some
/// 10 s; twice that.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest time of one statement. A search looks at 100,000 rows, in a second or two on a slow server. It is longer
/// than a wait for a lock, which tells better what is wrong.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time that a transaction waits for its next statement. The store waits for nothing but the database
/// within a transaction, so a longer pause means that this process is gone or cut off: its locks must end.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that read, and as many that write. A page takes under a millisecond of the server, so four serve
/// thousands a second; 8 of each portal leave room for ten portals where a server accepts 100 (its default).
const CONNECTIONS: u32 = 4;

/// The time after which a connection is made anew: whatever a name leads to, or who is let in, is found out again.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// "CULV": the first half of the numbers of all locks that are not of an account.
const LOCKS: i64 = 0x4355_4c56 << 32;

/// The server's clock, in milliseconds of Unix time.
pub(super) const NOW_MS: &str =
    "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)";

/// The lock of the schema, and of the first start.
const SCHEMA_LOCK: i64 = LOCKS | 1;

/// The lock of the names of accounts.
const ACCOUNTS_LOCK: i64 = LOCKS | 2;

/// The locks of pending things: one for each kind.
const PENDING_LOCKS: i64 = LOCKS | 0x100;

/// A transaction that sees one state, and writes nothing.
pub(super) async fn begin_reading(pool: &PgPool) -> Result<Transaction, StoreError> {
    begin(pool, "ISOLATION LEVEL REPEATABLE READ READ ONLY", None).await
}

/// A connection for one statement that writes nothing. The program's own limit of an answer ends it, rather than one of
/// the server.
pub(super) async fn read_once(pool: &PgPool) -> Result<Transaction, StoreError> {
    let connection = pool.acquire().await.map_err(fault)?;
    Ok(Transaction::Postgres {
        transaction: PostgresTransaction::Statement(connection),
        _turn: None,
    })
}

/// A transaction that writes. With a turn, nobody else has that one before its end.
///
/// Each statement sees what was committed before it, so that one behind the lock sees all that was written under it.
pub(super) async fn begin_writing(
    pool: &PgPool,
    turn: Option<Turn>,
    own: Option<OwnedMutexGuard<()>>,
) -> Result<Transaction, StoreError> {
    let mut transaction = begin(pool, "ISOLATION LEVEL READ COMMITTED", own).await?;
    if let Some(turn) = turn {
        take_turn(&mut transaction, turn).await?;
    }
    Ok(transaction)
}

/// Waits for a turn, which lasts as long as the transaction.
pub(super) async fn take_turn(transaction: &mut Transaction, turn: Turn) -> Result<(), StoreError> {
    lock(transaction, number(turn)).await
}

/// A transaction that keeps all changes of the configuration away.
pub(super) async fn begin_alone(
    pool: &PgPool,
    accounts: &[AccountId],
) -> Result<Transaction, StoreError> {
    let mut transaction = begin_writing(pool, Some(Turn::NewAccount), None).await?;
    for account in accounts {
        take_turn(&mut transaction, Turn::Account(*account)).await?;
    }
    Ok(transaction)
}

/// Waits for a lock, which ends with the transaction.
async fn lock(transaction: &mut Transaction, number: i64) -> Result<(), StoreError> {
    let sql = format!("SELECT pg_advisory_xact_lock({number})");
    transaction.script(sql).await
}

/// Takes turns among those who put something of the kind among what waits. SQLite's transactions that write do so
/// anyway.
pub(super) async fn lock_kind(
    transaction: &mut Transaction,
    kind: PendingKind,
) -> Result<(), StoreError> {
    match transaction {
        Transaction::Sqlite(_) => Ok(()),
        Transaction::Postgres { .. } => lock(transaction, PENDING_LOCKS | kind as i64).await,
    }
}

/// The number of a turn's lock. Two accounts with one number merely wait for each other.
fn number(turn: Turn) -> i64 {
    match turn {
        Turn::NewAccount => ACCOUNTS_LOCK,
        Turn::Account(account) => {
            let id = u128::from_be_bytes(*account.as_bytes());
            // The first half of an id is a time, and the second one is random.
            (((id >> 64) ^ id) as u64).cast_signed()
        }
    }
}

async fn begin(
    pool: &PgPool,
    mode: &str,
    own: Option<OwnedMutexGuard<()>>,
) -> Result<Transaction, StoreError> {
    let sql = format!(
        "BEGIN {mode}; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_TIMEOUT.as_millis(),
    );
    let pool = pool.clone();
    // A task of its own comes to its end though its caller is gone. The library would otherwise give a connection back
    // that is in a transaction.
    let begun = tokio::spawn(async move { pool.begin_with(sqlx::AssertSqlSafe(sql)).await }).await;
    let begun = begun.map_err(|error| StoreError::Unavailable(error.into()))?;
    Ok(Transaction::Postgres {
        transaction: PostgresTransaction::Begun(begun.map_err(fault)?),
        _turn: own,
    })
}

impl Transaction {
    /// Runs statements without values.
    pub(super) async fn script(&mut self, sql: String) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Err(StoreError::Unavailable("a script of PostgreSQL".into())),
            Self::Postgres { transaction, .. } => {
                let done = transaction.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql)));
                done.await.map(drop).map_err(fault)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_differ_in_time_or_at_random_have_locks_of_their_own() {
        let of = |bytes| number(Turn::Account(AccountId::from_bytes(bytes)));
        let mut other = [7; 16];
        assert_eq!(of([7; 16]), of(other));
        other[3] = 8;
        assert_ne!(of([7; 16]), of(other));
        other[3] = 7;
        other[15] = 8;
        assert_ne!(of([7; 16]), of(other));
    }
}
