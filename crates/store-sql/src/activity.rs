//! The counts for charts: what was carried, granted and denied in buckets of time.

use super::fault::fault;
use super::read::{self, fetch};
use super::seen::check_batch;
use super::value::{Columns, query};
use culvert_ids::AccountId;
use culvert_store::{ACTIVITY_BUCKET_MS, Activity, MAX_PRUNE_ROWS, StoreError};
use culvert_wire::Timestamp;
use sqlx::{Sqlite, SqliteConnection, Transaction};
use std::time::Duration;

/// Adds to the bucket of an instant.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    account: AccountId,
    counted: Activity,
) -> Result<(), StoreError> {
    let at_ms = counted.at.unix_ms();
    let bucket_ms = at_ms - at_ms % ACTIVITY_BUCKET_MS;
    let sql = "INSERT INTO activity (account, at_ms, bytes, granted, denied) \
               VALUES (?, ?, ?, ?, ?) ON CONFLICT (account, at_ms) DO UPDATE SET \
               bytes = bytes + excluded.bytes, granted = granted + excluded.granted, \
               denied = denied + excluded.denied";
    let values = vec![
        account.as_bytes().into(),
        bucket_ms.into(),
        counted.bytes.into(),
        counted.granted.into(),
        counted.denied.into(),
    ];
    query(sql, values)
        .execute(connection)
        .await
        .map_err(fault)?;
    Ok(())
}

pub(super) async fn record_traffic(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    traffic: Vec<(Timestamp, u64)>,
) -> Result<(), StoreError> {
    check_batch(&mut transaction, account, traffic.len()).await?;
    for (at, bytes) in traffic {
        let counted = Activity {
            at,
            bytes,
            ..Activity::default()
        };
        count(&mut transaction, account, counted).await?;
    }
    transaction.commit().await.map_err(fault)
}

/// The sums of each step from `from` on that has any.
pub(super) async fn sums(
    connection: &mut SqliteConnection,
    account: AccountId,
    from: Timestamp,
    until: Timestamp,
    step: Duration,
) -> Result<Vec<Activity>, StoreError> {
    read::last_seq(connection, account).await?;
    let step_ms = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
    let step_ms = step_ms.max(ACTIVITY_BUCKET_MS);
    let sql = "SELECT at_ms - (at_ms - ?2) % ?4 AS step_ms, sum(bytes) AS bytes, \
               sum(granted) AS granted, sum(denied) AS denied FROM activity \
               WHERE account = ?1 AND at_ms >= ?2 AND at_ms < ?3 \
               GROUP BY step_ms ORDER BY step_ms";
    let values = vec![
        account.as_bytes().into(),
        from.into(),
        until.into(),
        step_ms.into(),
    ];
    let rows = fetch(connection, sql, values).await?;
    rows.iter()
        .map(|row| {
            let row = Columns(row);
            Ok(Activity {
                at: row.time("step_ms")?,
                bytes: row.number("bytes")?,
                granted: row.number("granted")?,
                denied: row.number("denied")?,
            })
        })
        .collect()
}

pub(super) async fn prune(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    older_than: Timestamp,
) -> Result<u64, StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let sql = "DELETE FROM activity WHERE account = ?1 AND at_ms IN \
               (SELECT at_ms FROM activity WHERE account = ?1 AND at_ms < ?2 \
                ORDER BY at_ms LIMIT ?3)";
    let values = vec![
        account.as_bytes().into(),
        older_than.into(),
        u64::from(MAX_PRUNE_ROWS).into(),
    ];
    let done = query(sql, values).execute(&mut *transaction).await;
    let gone = done.map_err(fault)?.rows_affected();
    transaction.commit().await.map_err(fault)?;
    Ok(gone)
}
