//! Rows of logs that were removed from the source after they were copied.

use super::rows::BATCH;
use super::tables::Table;
use crate::connection::Transaction;
use crate::value::{Value, places};
use culvert_store::StoreError;
use std::collections::BTreeSet;

/// The side that failed.
pub(super) enum Side {
    Source(StoreError),
    Target(StoreError),
}

/// Removes the rows of an account's log that the source no longer has.
pub(super) async fn prune(
    source: &mut Transaction,
    target: &mut Transaction,
    log: &Table,
    account: &[u8],
) -> Result<(), Side> {
    let first = first(source, log, account).await.map_err(Side::Source)?;
    // Most of what is gone is older than all that is left.
    let sql = format!("DELETE FROM {} WHERE account = ? AND seq < ?", log.name);
    let values = vec![account.into(), Value::Integer(first)];
    let done = target.execute(sql, values).await;
    done.map_err(Side::Target)?;
    let remaining = count(source, log, account).await.map_err(Side::Source)?;
    let copied = count(target, log, account).await.map_err(Side::Target)?;
    if remaining == copied {
        return Ok(());
    }
    let mut after = i64::MIN;
    loop {
        let copied = numbers(target, log, account, [after, i64::MAX]).await;
        let copied = copied.map_err(Side::Target)?;
        let (Some(last), is_last) = (copied.last().copied(), copied.len() < BATCH) else {
            return Ok(());
        };
        let remaining = numbers(source, log, account, [after, last]).await;
        let remaining = remaining.map_err(Side::Source)?;
        let gone: Vec<Value> = copied
            .difference(&remaining)
            .copied()
            .map(Value::Integer)
            .collect();
        if !gone.is_empty() {
            let places = places(gone.len());
            let sql = format!(
                "DELETE FROM {} WHERE account = ? AND seq IN ({places})",
                log.name
            );
            let values = std::iter::once(Value::from(account)).chain(gone).collect();
            target.execute(sql, values).await.map_err(Side::Target)?;
        }
        if is_last {
            return Ok(());
        }
        after = last;
    }
}

/// The least number of an account's log; behind all of them if it is empty.
async fn first(reading: &mut Transaction, log: &Table, account: &[u8]) -> Result<i64, StoreError> {
    let name = log.name;
    let sql = format!("SELECT seq FROM {name} WHERE account = ? ORDER BY seq LIMIT 1");
    let row = reading.fetch_one(sql, vec![account.into()]).await?;
    row.map_or(Ok(i64::MAX), |row| row.columns().get("seq"))
}

async fn count(reading: &mut Transaction, log: &Table, account: &[u8]) -> Result<i64, StoreError> {
    let sql = format!(
        "SELECT count(*) AS entries FROM {} WHERE account = ?",
        log.name
    );
    let row = reading.fetch_one(sql, vec![account.into()]).await?;
    row.map_or(Ok(0), |row| row.columns().get("entries"))
}

/// The first numbers behind one and up to another.
async fn numbers(
    reading: &mut Transaction,
    log: &Table,
    account: &[u8],
    [after, until]: [i64; 2],
) -> Result<BTreeSet<i64>, StoreError> {
    let sql = format!(
        "SELECT seq FROM {} WHERE account = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT {BATCH}",
        log.name
    );
    let values = vec![account.into(), Value::Integer(after), Value::Integer(until)];
    let rows = reading.fetch(sql, values).await?;
    rows.iter().map(|row| row.get("seq")).collect()
}
