//! The recent use of a thing, in numbers.
//!
//! An index leads to the newest entries about the thing, and a bounded number of them is read: the time does not
//! depend on the length of the logs.

use super::connection::Transaction;
use super::dialect::Dialect;
use super::read;
use super::value::{Columns, Value};
use culvert_ids::{AccountId, ClientId, ResourceId};
use culvert_store::{
    DenialCause, EntityId, MAX_DENIAL_CAUSES, MAX_USE_ROWS, RecentUse, StoreError,
};
use culvert_wire::Timestamp;

pub(super) async fn recent_use(
    connection: &mut Transaction,
    account: AccountId,
    about: EntityId,
    from: Timestamp,
) -> Result<RecentUse, StoreError> {
    read::last_seq(connection, account).await?;
    let [access, denials, flows] = statements(connection.dialect(), account, about, from)?;
    let rows = connection.fetch(access.0, access.1).await?;
    let access = rows.first().ok_or_else(nothing)?;
    let rows = connection.fetch(flows.0, flows.1).await?;
    let flows = rows.first().ok_or_else(nothing)?;
    let mut found = RecentUse {
        granted: access.number("granted")?,
        denied: access.number("denied")?,
        actors: access.number("actors")?,
        clients: access.number("clients")?,
        resources: access.number("resources")?,
        flows: flows.number("flows")?,
        bytes: flows.number("bytes")?,
        causes: Vec::new(),
        is_partial: access.flag("is_partial")? || flows.flag("is_partial")?,
    };
    if found.denied > 0 {
        let rows = connection.fetch(denials.0, denials.1).await?;
        let causes = rows.iter().map(read_cause).collect::<Result<_, _>>();
        found.causes = causes?;
    }
    Ok(found)
}

fn nothing() -> StoreError {
    StoreError::corrupt("a sum without a row")
}

pub(super) fn read_cause(row: Columns<'_>) -> Result<DenialCause, StoreError> {
    Ok(DenialCause {
        reason: row.text("reason")?,
        resource: ResourceId::from_bytes(row.bytes("resource_id")?),
        count: row.number("times")?,
        clients: row.number("clients")?,
        last_client: ClientId::from_bytes(row.bytes("client_id")?),
        last: row.time("at_ms")?,
    })
}

/// The sums of the access log, its denials, and the sums of the flow log, each with its values.
pub(super) fn statements(
    dialect: Dialect,
    account: AccountId,
    about: EntityId,
    from: Timestamp,
) -> Result<[(String, Vec<Value>); 3], StoreError> {
    let index = index(about)?;
    let column = format!("{index}_id");
    // The planner may take another index whose order fits, and would read the log until it has found enough.
    let newest = |log: &str, columns: &str| {
        format!(
            "(SELECT {columns} FROM {log}{} WHERE account = ?1 AND {column} = ?2 AND at_ms >= ?3 \
             ORDER BY at_ms DESC, seq DESC LIMIT ?4) AS newest",
            dialect.indexed_by(&format!("{log}_{index}"))
        )
    };
    let partial = dialect.truth("count(*) = ?4");
    let partial = format!("{partial} AS is_partial");
    let access = newest("access_log", "actor_id, client_id, resource_id, decision");
    let granted = "decision = 'granted'";
    let distinct = |column: &str| format!("count(DISTINCT {column}) FILTER (WHERE {granted})");
    let access = format!(
        "SELECT count(*) FILTER (WHERE {granted}) AS granted, \
         count(*) FILTER (WHERE decision = 'denied') AS denied, \
         {} AS actors, {} AS clients, {} AS resources, {partial} FROM {access}",
        distinct("actor_id"),
        distinct("client_id"),
        distinct("resource_id"),
    );
    let denials = newest(
        "access_log",
        "seq, at_ms, client_id, resource_id, decision, reason",
    );
    let denials = format!(
        "SELECT reason, resource_id, count(*) AS times, count(DISTINCT client_id) AS clients, \
         {}, {}, max(seq) AS last FROM {denials} \
         WHERE decision = 'denied' \
         GROUP BY resource_id, reason ORDER BY times DESC, last DESC LIMIT ?5",
        dialect.of_last("client_id"),
        dialect.of_last("at_ms"),
    );
    let flows = newest("flow_log", "sent_bytes, received_bytes");
    let flows = format!(
        "SELECT count(*) AS flows, \
         {} AS bytes, {partial} FROM {flows}",
        dialect.sum_of_two(["sent_bytes", "received_bytes"]),
    );
    let values = || {
        vec![
            account.as_bytes().into(),
            about.into(),
            from.into(),
            u64::from(MAX_USE_ROWS).into(),
        ]
    };
    let mut of_denials = values();
    of_denials.push(u64::from(MAX_DENIAL_CAUSES).into());
    Ok([(access, values()), (denials, of_denials), (flows, values())])
}

/// The index of both logs for the thing, of the column with its id.
fn index(about: EntityId) -> Result<&'static str, StoreError> {
    match about {
        EntityId::Client(_) => Ok("client"),
        EntityId::Actor(_) => Ok("actor"),
        EntityId::Resource(_) => Ok("resource"),
        EntityId::Gateway(_) => Ok("gateway"),
        EntityId::Account(_)
        | EntityId::Group(_)
        | EntityId::Membership(_)
        | EntityId::Site(_)
        | EntityId::Policy(_)
        | EntityId::Token(_)
        | EntityId::Provider(_)
        | EntityId::Identity(_)
        | EntityId::Relay(_) => Err(StoreError::Invalid {
            kind: about.kind(),
            field: "about",
            reason: "no log is about it".to_owned(),
        }),
    }
}
