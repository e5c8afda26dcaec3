//! Sums of the access log.

use super::read::{self, fetch};
use super::value::{Columns, Value};
use culvert_ids::{AccountId, ActorId, ClientId, PolicyId, ResourceId};
use culvert_store::{AccessTotals, DenialCause, EntityId, MAX_SUMMED_ROWS, MAX_TOTALS, StoreError};
use culvert_wire::Timestamp;
use sqlx::SqliteConnection;

/// The sums of the newest entries from `from` on.
pub(super) async fn of_access(
    connection: &mut SqliteConnection,
    account: AccountId,
    about: Option<EntityId>,
    from: Timestamp,
) -> Result<AccessTotals, StoreError> {
    read::last_seq(connection, account).await?;
    let Some(recent) = Recent::new(account, about, from) else {
        return Ok(AccessTotals::default());
    };
    let counts = "SELECT decision, count(*) AS count FROM recent GROUP BY decision";
    let (mut granted, mut denied) = (0, 0);
    for row in &recent.ask(connection, counts).await? {
        let row = Columns(row);
        match &*row.text("decision")? {
            "granted" => granted = row.number("count")?,
            "denied" => denied = row.number("count")?,
            _ => {}
        }
    }
    Ok(AccessTotals {
        granted,
        denied,
        causes: causes(connection, &recent).await?,
        resources: granted_by(connection, &recent, "resource_id", ResourceId::from_bytes).await?,
        actors: granted_by(connection, &recent, "actor_id", ActorId::from_bytes).await?,
        policies: granted_by(connection, &recent, "policy_id", PolicyId::from_bytes).await?,
    })
}

async fn causes(
    connection: &mut SqliteConnection,
    recent: &Recent,
) -> Result<Vec<DenialCause>, StoreError> {
    let select = format!(
        "SELECT cause.*, recent.at_ms, recent.client_id, recent.resource_id \
         FROM (SELECT reason, count(*) AS count, count(DISTINCT client_id) AS clients, \
         count(DISTINCT resource_id) AS resources, max(seq) AS last FROM recent \
         WHERE decision = 'denied' GROUP BY reason \
         ORDER BY count DESC, last DESC LIMIT {MAX_TOTALS}) AS cause \
         JOIN recent ON recent.seq = cause.last ORDER BY cause.count DESC, cause.last DESC"
    );
    let rows = recent.ask(connection, &select).await?;
    let causes = rows.iter().map(|row| {
        let row = Columns(row);
        Ok(DenialCause {
            reason: row.text("reason")?,
            count: row.number("count")?,
            clients: row.number("clients")?,
            resources: row.number("resources")?,
            last_at: row.time("at_ms")?,
            last_client: ClientId::from_bytes(row.bytes("client_id")?),
            last_resource: ResourceId::from_bytes(row.bytes("resource_id")?),
        })
    });
    causes.collect()
}

async fn granted_by<T>(
    connection: &mut SqliteConnection,
    recent: &Recent,
    column: &'static str,
    id: impl Fn([u8; 16]) -> T,
) -> Result<Vec<(T, u64)>, StoreError> {
    let select = format!(
        "SELECT {column}, count(*) AS count FROM recent \
         WHERE decision = 'granted' AND {column} IS NOT NULL \
         GROUP BY {column} ORDER BY count DESC, {column} LIMIT {MAX_TOTALS}"
    );
    let rows = recent.ask(connection, &select).await?;
    let sums = rows.iter().map(|row| {
        let row = Columns(row);
        Ok((id(row.bytes(column)?), row.number("count")?))
    });
    sums.collect()
}

/// The newest entries, under the name `recent`.
struct Recent {
    sql: String,
    values: Vec<Value>,
}

impl Recent {
    /// None if no entry is about such a thing.
    fn new(account: AccountId, about: Option<EntityId>, from: Timestamp) -> Option<Self> {
        let mut values = vec![account.as_bytes().into(), from.into()];
        let condition = match about {
            None => "",
            Some(EntityId::Client(id)) => {
                values.push(id.as_bytes().into());
                "AND client_id = ?3"
            }
            Some(EntityId::Actor(id)) => {
                values.push(id.as_bytes().into());
                "AND actor_id = ?3"
            }
            Some(EntityId::Resource(id)) => {
                values.push(id.as_bytes().into());
                "AND resource_id = ?3"
            }
            Some(EntityId::Gateway(id)) => {
                values.push(id.as_bytes().into());
                "AND gateway_id = ?3"
            }
            Some(_) => return None,
        };
        // The newest entries first, and then those from `from` on: where few are that new, the other way round would
        // read the whole log.
        let sql = format!(
            "WITH newest AS (SELECT seq, at_ms, client_id, actor_id, resource_id, policy_id, decision, reason \
             FROM access_log WHERE account = ?1 {condition} ORDER BY seq DESC LIMIT {MAX_SUMMED_ROWS}), \
             recent AS (SELECT * FROM newest WHERE at_ms >= ?2) "
        );
        Some(Self { sql, values })
    }

    async fn ask(
        &self,
        connection: &mut SqliteConnection,
        select: &str,
    ) -> Result<Vec<sqlx::sqlite::SqliteRow>, StoreError> {
        let sql = format!("{}{select}", self.sql);
        fetch(connection, sql, self.values.clone()).await
    }
}
