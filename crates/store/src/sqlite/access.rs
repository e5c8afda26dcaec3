//! The access log.

use super::fault::fault;
use super::read::{self, add_conditions, fetch, one_more};
use super::seen::check_batch;
use super::value::{Columns, Value, query};
use crate::{
    AccessEntry, AccessFilter, AccessSeq, LoggedAccess, MAX_PRUNE_ROWS, MAX_REASON_LEN, Page,
    PageLimit, StoreError,
};
use culvert_ids::{AccountId, ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_wire::Timestamp;
use sqlx::{Sqlite, SqliteConnection, Transaction};

pub(super) async fn append(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    entries: Vec<AccessEntry>,
) -> Result<(), StoreError> {
    check_batch(&mut transaction, account, entries.len()).await?;
    let mut seq = last_access(&mut transaction, account).await?;
    let sql = "INSERT INTO access_log (account, seq, at_ms, client_id, resource_id, gateway_id, \
               policy_id, grant_id, decision, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for entry in entries {
        seq += 1;
        let end = entry.reason.floor_char_boundary(MAX_REASON_LEN);
        let values = vec![
            account.as_bytes().into(),
            seq.into(),
            entry.at.into(),
            entry.client.as_bytes().into(),
            entry.resource.as_bytes().into(),
            entry.gateway.as_ref().map(GatewayId::as_bytes).into(),
            entry.policy.as_ref().map(PolicyId::as_bytes).into(),
            entry.grant.as_ref().map(GrantId::as_bytes).into(),
            entry.decision.as_str().into(),
            entry.reason[..end].into(),
        ];
        let done = query(sql, values).execute(&mut *transaction).await;
        done.map_err(fault)?;
    }
    let sql = "UPDATE account SET last_access = ? WHERE account = ?";
    let done = query(sql, vec![seq.into(), account.as_bytes().into()]);
    done.execute(&mut *transaction).await.map_err(fault)?;
    transaction.commit().await.map_err(fault)
}

async fn last_access(
    connection: &mut SqliteConnection,
    account: AccountId,
) -> Result<u64, StoreError> {
    let sql = "SELECT last_access FROM account WHERE account = ?";
    let rows = fetch(connection, sql, vec![account.as_bytes().into()]).await?;
    let row = rows.first().ok_or(StoreError::NoAccount)?;
    Columns(row).number("last_access")
}

/// The statement that reads the log, and its values.
pub(super) fn log_statement(
    account: AccountId,
    filter: &AccessFilter,
    before: Option<AccessSeq>,
    limit: PageLimit,
) -> (String, Vec<Value>) {
    let mut sql = "SELECT seq, at_ms, client_id, resource_id, gateway_id, policy_id, grant_id, \
                   decision, reason FROM access_log WHERE account = ?"
        .to_owned();
    let mut values = vec![account.as_bytes().into()];
    let conditions = [
        ("seq < ?", before.map(|seq| seq.0.into())),
        (
            "client_id = ?",
            filter.client.map(|id| id.as_bytes().into()),
        ),
        (
            "resource_id = ?",
            filter.resource.map(|id| id.as_bytes().into()),
        ),
        (
            "gateway_id = ?",
            filter.gateway.map(|id| id.as_bytes().into()),
        ),
        (
            "decision = ?",
            filter.decision.map(|decision| decision.as_str().into()),
        ),
        ("at_ms >= ?", filter.from.map(Into::into)),
        ("at_ms < ?", filter.until.map(Into::into)),
    ];
    add_conditions(&mut sql, &mut values, conditions);
    sql.push_str(" ORDER BY seq DESC LIMIT ?");
    values.push(one_more(limit));
    (sql, values)
}

pub(super) async fn query_log(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: &AccessFilter,
    before: Option<AccessSeq>,
    limit: PageLimit,
) -> Result<Page<LoggedAccess, AccessSeq>, StoreError> {
    read::last_seq(connection, account).await?;
    let (sql, values) = log_statement(account, filter, before, limit);
    let rows = fetch(connection, sql, values).await?;
    let rows = rows.iter().map(|row| read_entry(Columns(row)));
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Page::cut(rows, limit, |row: &LoggedAccess| row.seq))
}

fn read_entry(row: Columns<'_>) -> Result<LoggedAccess, StoreError> {
    Ok(LoggedAccess {
        seq: AccessSeq(row.number("seq")?),
        entry: AccessEntry {
            at: row.time("at_ms")?,
            client: ClientId::from_bytes(row.bytes("client_id")?),
            resource: ResourceId::from_bytes(row.bytes("resource_id")?),
            gateway: row.optional_bytes("gateway_id")?.map(GatewayId::from_bytes),
            policy: row.optional_bytes("policy_id")?.map(PolicyId::from_bytes),
            grant: row.optional_bytes("grant_id")?.map(GrantId::from_bytes),
            decision: row.word("decision")?,
            reason: row.text("reason")?,
        },
    })
}

/// Deletes by age first, then by number: entries are numbered one by one, so the oldest that may
/// stay is known from the last one.
pub(super) async fn prune(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    older_than: Timestamp,
    keep_rows: u64,
) -> Result<u64, StoreError> {
    let last = last_access(&mut transaction, account).await?;
    let limit = u64::from(MAX_PRUNE_ROWS);
    let by_age = "DELETE FROM access_log WHERE account = ?1 AND seq IN \
                  (SELECT seq FROM access_log WHERE account = ?1 AND at_ms < ?2 \
                   ORDER BY at_ms LIMIT ?3)";
    let by_number = "DELETE FROM access_log WHERE account = ?1 AND seq IN \
                     (SELECT seq FROM access_log WHERE account = ?1 AND seq <= ?2 \
                      ORDER BY seq LIMIT ?3)";
    let mut gone = 0;
    for (sql, until) in [
        (by_age, older_than.unix_ms()),
        (by_number, last.saturating_sub(keep_rows)),
    ] {
        let values = vec![
            account.as_bytes().into(),
            until.into(),
            (limit - gone).into(),
        ];
        let done = query(sql, values).execute(&mut *transaction).await;
        gone += done.map_err(fault)?.rows_affected();
    }
    transaction.commit().await.map_err(fault)?;
    Ok(gone)
}
