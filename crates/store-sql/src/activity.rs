//! The counts for charts: what was carried, granted and denied in buckets of time.

use super::connection::Transaction;
use super::read;
use super::seen::check_batch;
use culvert_ids::AccountId;
use culvert_store::{ACTIVITY_BUCKET_MS, Activity, MAX_PRUNE_ROWS, StoreError};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of buckets, which are added in their order: of two transactions that add to the same ones, the second waits
/// for the first, and never each for the other.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<u64, Activity>);

impl Counts {
    pub(super) fn add(&mut self, counted: Activity) {
        if (counted.bytes, counted.granted, counted.denied) == (0, 0, 0) {
            return;
        }
        let at_ms = counted.at.unix_ms();
        let bucket = self
            .0
            .entry(at_ms - at_ms % ACTIVITY_BUCKET_MS)
            .or_default();
        bucket.bytes = bucket.bytes.saturating_add(counted.bytes);
        bucket.granted += counted.granted;
        bucket.denied += counted.denied;
    }

    pub(super) async fn write(
        self,
        connection: &mut Transaction,
        account: AccountId,
    ) -> Result<(), StoreError> {
        for (bucket_ms, counted) in self.0 {
            count(connection, account, bucket_ms, counted).await?;
        }
        Ok(())
    }
}

async fn count(
    connection: &mut Transaction,
    account: AccountId,
    bucket_ms: u64,
    counted: Activity,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO activity (account, at_ms, bytes, granted, denied) \
               VALUES (?, ?, ?, ?, ?) ON CONFLICT (account, at_ms) DO UPDATE SET \
               bytes = activity.bytes + excluded.bytes, \
               granted = activity.granted + excluded.granted, \
               denied = activity.denied + excluded.denied";
    let values = vec![
        account.as_bytes().into(),
        bucket_ms.into(),
        counted.bytes.into(),
        counted.granted.into(),
        counted.denied.into(),
    ];
    connection.execute(sql, values).await?;
    Ok(())
}

pub(super) async fn record_traffic(
    mut transaction: Transaction,
    account: AccountId,
    traffic: Vec<(Timestamp, u64)>,
) -> Result<(), StoreError> {
    check_batch(&mut transaction, account, traffic.len()).await?;
    let mut counts = Counts::default();
    for (at, bytes) in traffic {
        counts.add(Activity {
            at,
            bytes,
            ..Activity::default()
        });
    }
    counts.write(&mut transaction, account).await?;
    transaction.commit().await
}

/// The sums of each step from `from` on that has any.
pub(super) async fn sums(
    connection: &mut Transaction,
    account: AccountId,
    from: Timestamp,
    until: Timestamp,
    step: Duration,
) -> Result<Vec<Activity>, StoreError> {
    read::last_seq(connection, account).await?;
    let step_ms = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
    let step_ms = step_ms.max(ACTIVITY_BUCKET_MS);
    let sql = "SELECT at_ms - (at_ms - ?2) % ?4 AS step_ms, CAST(sum(bytes) AS BIGINT) AS bytes, \
               CAST(sum(granted) AS BIGINT) AS granted, \
               CAST(sum(denied) AS BIGINT) AS denied FROM activity \
               WHERE account = ?1 AND at_ms >= ?2 AND at_ms < ?3 \
               GROUP BY step_ms ORDER BY step_ms";
    let values = vec![
        account.as_bytes().into(),
        from.into(),
        until.into(),
        step_ms.into(),
    ];
    let rows = connection.fetch(sql, values).await?;
    rows.iter()
        .map(|row| {
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
    mut transaction: Transaction,
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
    let gone = transaction.execute(sql, values).await?;
    transaction.commit().await?;
    Ok(gone)
}
