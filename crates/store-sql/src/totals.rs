//! Sums of the access log.

use super::connection::{Rows, Transaction};
use super::read;
use super::recent_use::read_cause;
use super::value::Value;
use culvert_ids::{AccountId, ActorId, PolicyId, ResourceId};
use culvert_store::{
    AccessTotals, DenialCause, MAX_DENIAL_CAUSES, MAX_POLICY_TOTALS, MAX_TOTALS, MAX_USE_ROWS,
    StoreError,
};
use culvert_wire::Timestamp;

/// The sums of the newest entries from `from` on.
pub(super) async fn of_access(
    connection: &mut Transaction,
    account: AccountId,
    from: Timestamp,
) -> Result<AccessTotals, StoreError> {
    read::last_seq(connection, account).await?;
    let recent = Recent { account, from };
    let counts = format!(
        "SELECT count(*) FILTER (WHERE decision = 'granted') AS granted, \
         count(*) FILTER (WHERE decision = 'denied') AS denied, \
         {} AS is_partial FROM recent",
        connection
            .dialect()
            .truth(&format!("count(*) = {MAX_USE_ROWS}"))
    );
    let rows = recent.ask(connection, &counts).await?;
    let row = rows.first();
    let row = row.ok_or_else(|| StoreError::corrupt("a sum without a row"))?;
    Ok(AccessTotals {
        is_partial: row.flag("is_partial")?,
        granted: row.number("granted")?,
        denied: row.number("denied")?,
        causes: causes(connection, &recent).await?,
        resources: granted_by(
            connection,
            &recent,
            ("resource_id", MAX_TOTALS),
            ResourceId::from_bytes,
        )
        .await?,
        actors: granted_by(
            connection,
            &recent,
            ("actor_id", MAX_TOTALS),
            ActorId::from_bytes,
        )
        .await?,
        policies: granted_by(
            connection,
            &recent,
            ("policy_id", MAX_POLICY_TOTALS),
            PolicyId::from_bytes,
        )
        .await?,
    })
}

async fn causes(
    connection: &mut Transaction,
    recent: &Recent,
) -> Result<Vec<DenialCause>, StoreError> {
    let select = format!(
        "SELECT cause.*, recent.at_ms, recent.client_id \
         FROM (SELECT reason, resource_id, count(*) AS times, \
         count(DISTINCT client_id) AS clients, max(seq) AS last FROM recent \
         WHERE decision = 'denied' GROUP BY resource_id, reason \
         ORDER BY times DESC, last DESC LIMIT {MAX_DENIAL_CAUSES}) AS cause \
         JOIN recent ON recent.seq = cause.last ORDER BY cause.times DESC, cause.last DESC"
    );
    let rows = recent.ask(connection, &select).await?;
    rows.iter().map(read_cause).collect()
}

async fn granted_by<T>(
    connection: &mut Transaction,
    recent: &Recent,
    (column, most): (&'static str, u16),
    id: impl Fn([u8; 16]) -> T,
) -> Result<Vec<(T, u64)>, StoreError> {
    let select = format!(
        "SELECT {column}, count(*) AS times FROM recent \
         WHERE decision = 'granted' AND {column} IS NOT NULL \
         GROUP BY {column} ORDER BY times DESC, {column} LIMIT {most}"
    );
    let rows = recent.ask(connection, &select).await?;
    let sums = rows
        .iter()
        .map(|row| Ok((id(row.bytes(column)?), row.number("times")?)));
    sums.collect()
}

/// The newest entries, under the name `recent`.
struct Recent {
    account: AccountId,
    from: Timestamp,
}

impl Recent {
    async fn ask(&self, connection: &mut Transaction, select: &str) -> Result<Rows, StoreError> {
        // The newest entries first, and then those from `from` on: where few are that new, the other way round would
        // read the whole log.
        let sql = format!(
            "WITH newest AS (SELECT seq, at_ms, client_id, actor_id, resource_id, policy_id, decision, reason \
             FROM access_log WHERE account = ?1 ORDER BY seq DESC LIMIT {MAX_USE_ROWS}), \
             recent AS (SELECT * FROM newest WHERE at_ms >= ?2) {select}"
        );
        let values: Vec<Value> = vec![self.account.as_bytes().into(), self.from.into()];
        connection.fetch(sql, values).await
    }
}
