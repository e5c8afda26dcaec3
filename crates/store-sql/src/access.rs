//! The access log.

use super::activity::Counts;
use super::connection::Transaction;
use super::log_query::{LogQuery, Span};
use super::read;
use super::seen::check_batch;
use super::unwritten::insert;
use super::value::Columns;
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_store::{
    AccessEntry, AccessFilter, AccessSeq, Activity, Decision, LoggedAccess, MAX_REASON_LEN, Page,
    PageLimit, StoreError,
};
use culvert_wire::model::Log;

/// The columns of an entry, in the order in which they are written.
const COLUMNS: [&str; 11] = [
    "account",
    "seq",
    "at_ms",
    "client_id",
    "actor_id",
    "resource_id",
    "gateway_id",
    "policy_id",
    "grant_id",
    "decision",
    "reason",
];

pub(super) async fn append(
    mut transaction: Transaction,
    account: AccountId,
    entries: Vec<AccessEntry>,
) -> Result<(), StoreError> {
    check_batch(&mut transaction, account, entries.len()).await?;
    let mut seq = last_access(&mut transaction, account).await?;
    let mut rows = Vec::with_capacity(entries.len());
    let mut counts = Counts::default();
    for entry in entries {
        seq += 1;
        let end = entry.reason.floor_char_boundary(MAX_REASON_LEN);
        rows.push(vec![
            account.as_bytes().into(),
            seq.into(),
            entry.at.into(),
            entry.client.as_bytes().into(),
            entry.actor.as_ref().map(ActorId::as_bytes).into(),
            entry.resource.as_bytes().into(),
            entry.gateway.as_ref().map(GatewayId::as_bytes).into(),
            entry.policy.as_ref().map(PolicyId::as_bytes).into(),
            entry.grant.as_ref().map(GrantId::as_bytes).into(),
            entry.decision.as_str().into(),
            entry.reason[..end].into(),
        ]);
        let counted = Activity {
            at: entry.at,
            granted: u64::from(entry.decision == Decision::Granted),
            denied: u64::from(entry.decision == Decision::Denied),
            ..Activity::default()
        };
        counts.add(counted);
    }
    insert(&mut transaction, "access_log", &COLUMNS, rows, "").await?;
    counts.write(&mut transaction, account).await?;
    let sql = "UPDATE account SET last_access = ? WHERE account = ?";
    let values = vec![seq.into(), account.as_bytes().into()];
    transaction.execute(sql, values).await?;
    transaction.commit().await
}

async fn last_access(connection: &mut Transaction, account: AccountId) -> Result<u64, StoreError> {
    let lock = connection.dialect().for_update();
    let sql = format!("SELECT last_access FROM account WHERE account = ?{lock}");
    let rows = connection
        .fetch(sql, vec![account.as_bytes().into()])
        .await?;
    let row = rows.first().ok_or(StoreError::NoAccount)?;
    row.number("last_access")
}

const ACCESS: &str = "SELECT seq, at_ms, client_id, actor_id, resource_id, gateway_id, policy_id, \
                      grant_id, decision, reason";

/// The entries that a filter leaves.
pub(super) fn log_query(
    account: AccountId,
    filter: &AccessFilter,
    before: Option<AccessSeq>,
) -> LogQuery {
    let conditions = [
        (
            "client_id = ?",
            filter.client.map(|id| id.as_bytes().into()),
        ),
        ("actor_id = ?", filter.actor.map(|id| id.as_bytes().into())),
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
    ];
    let indexes = [
        ("client_id", "access_log_client"),
        ("resource_id", "access_log_resource"),
        ("actor_id", "access_log_actor"),
        ("gateway_id", "access_log_gateway"),
        ("decision", "access_log_decision"),
    ];
    let span = Span {
        before: before.map(|seq| seq.0),
        after: filter.after.map(|seq| seq.0),
        from: filter.from,
        until: filter.until,
    };
    LogQuery::new(
        account,
        (Log::Access, ACCESS),
        span,
        &indexes,
        conditions,
        filter.search,
    )
}

pub(super) async fn query_log(
    connection: &mut Transaction,
    account: AccountId,
    filter: &AccessFilter,
    before: Option<AccessSeq>,
    limit: PageLimit,
) -> Result<Page<LoggedAccess, AccessSeq>, StoreError> {
    read::last_seq(connection, account).await?;
    let query = log_query(account, filter, before);
    let cursor = |row: &LoggedAccess| row.seq;
    query
        .page(connection, limit, read_entry, cursor, AccessSeq)
        .await
}

/// Entries after the one of that number, in order.
pub(super) async fn after(
    connection: &mut Transaction,
    account: AccountId,
    seq: u64,
    limit: u64,
) -> Result<Vec<LoggedAccess>, StoreError> {
    let sql =
        format!("{ACCESS} FROM access_log WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?");
    let values = vec![account.as_bytes().into(), seq.into(), limit.into()];
    let rows = connection.fetch(sql, values).await?;
    rows.iter().map(read_entry).collect()
}

fn read_entry(row: Columns<'_>) -> Result<LoggedAccess, StoreError> {
    Ok(LoggedAccess {
        seq: AccessSeq(row.number("seq")?),
        entry: AccessEntry {
            at: row.time("at_ms")?,
            client: ClientId::from_bytes(row.bytes("client_id")?),
            actor: row.optional_bytes("actor_id")?.map(ActorId::from_bytes),
            resource: ResourceId::from_bytes(row.bytes("resource_id")?),
            gateway: row.optional_bytes("gateway_id")?.map(GatewayId::from_bytes),
            policy: row.optional_bytes("policy_id")?.map(PolicyId::from_bytes),
            grant: row.optional_bytes("grant_id")?.map(GrantId::from_bytes),
            decision: row.word("decision")?,
            reason: row.text("reason")?,
        },
    })
}
