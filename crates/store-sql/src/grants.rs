//! Grants that live.

use super::arrays::arrays;
use super::connection::Transaction;
use super::dialect::Dialect;
use super::read::{self, one_more};
use super::seen::check_batch;
use super::unwritten::typed;
use super::value::{Columns, Value, places, word};
use culvert_ids::{AccountId, ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_store::{Grant, MAX_PRUNE_ROWS, Page, PageLimit, StoreError};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

const TABLE: &str = "access_grant";

/// True while the client, the gateway and the resource of a grant exist.
const STANDS: &str = "EXISTS (SELECT 1 FROM client WHERE account = ?1 AND id = client_id) \
     AND EXISTS (SELECT 1 FROM gateway WHERE account = ?1 AND id = gateway_id) \
     AND EXISTS (SELECT 1 FROM resource WHERE account = ?1 AND id = resource_id)";

/// The columns of a grant besides the account, in the order in which they are written.
const COLUMNS: [&str; 8] = [
    "id",
    "client_id",
    "gateway_id",
    "resource_id",
    "policy_id",
    "cipher",
    "issued_ms",
    "expires_ms",
];

pub(super) async fn save(
    mut transaction: Transaction,
    account: AccountId,
    grants: Vec<Grant>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, grants.len()).await?;
    // The last of each grant, in one order in all batches.
    let grants: BTreeMap<GrantId, Grant> =
        grants.into_iter().map(|grant| (grant.id, grant)).collect();
    let rows = grants.values().map(row);
    let rows: Vec<Vec<Value>> = rows.collect::<Result<_, _>>()?;
    let account = Value::from(account.as_bytes());
    let stored = match transaction.dialect() {
        Dialect::Sqlite => {
            let place = |(at, name): (usize, &&str)| format!("?{} AS {name}", at + 2);
            let places: Vec<_> = COLUMNS.iter().enumerate().map(place).collect();
            let sql = save_statement(&format!("SELECT {}", places.join(", ")));
            let mut stored = 0;
            for row in rows {
                let values = std::iter::once(account.clone()).chain(row).collect();
                stored += transaction.execute(sql.as_str(), values).await?;
            }
            stored
        }
        Dialect::Postgres => {
            let columns = typed(TABLE, &COLUMNS);
            let (arrays, names) = (arrays(&columns, 2), COLUMNS.join(", "));
            let sql = save_statement(&format!("SELECT * FROM unnest({arrays}) AS rows ({names})"));
            let saved = transaction.execute_rows(&sql, vec![account], &columns, rows);
            saved.await?
        }
    };
    transaction.commit().await?;
    Ok(stored)
}

/// Saves the rows of a `SELECT`. Value 1 is the account.
fn save_statement(rows: &str) -> String {
    let names = COLUMNS.join(", ");
    let set = COLUMNS.map(|name| format!("{name} = excluded.{name}"));
    format!(
        "INSERT INTO {TABLE} (account, {names}) SELECT ?1, {names} FROM ({rows}) AS saved WHERE {STANDS} \
         ON CONFLICT (account, id) DO UPDATE SET {}",
        set[1..].join(", ")
    )
}

/// The values of [`COLUMNS`].
fn row(grant: &Grant) -> Result<Vec<Value>, StoreError> {
    Ok(vec![
        grant.id.as_bytes().into(),
        grant.client.as_bytes().into(),
        grant.gateway.as_bytes().into(),
        grant.resource.as_bytes().into(),
        grant.policy.as_bytes().into(),
        word(&grant.cipher)?,
        grant.issued.into(),
        grant.expires.into(),
    ])
}

pub(super) async fn end(
    mut transaction: Transaction,
    account: AccountId,
    mut grants: Vec<GrantId>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, grants.len()).await?;
    grants.sort();
    let wanted = places(grants.len());
    let sql = format!("DELETE FROM {TABLE} WHERE account = ? AND id IN ({wanted})");
    let account = std::iter::once(account.as_bytes().into());
    let values = account.chain(grants.iter().map(|grant| grant.as_bytes().into()));
    let ended = match grants.is_empty() {
        true => 0,
        false => transaction.execute(sql, values.collect()).await?,
    };
    transaction.commit().await?;
    Ok(ended)
}

/// The statement that lists grants, and its values.
pub(super) fn live_statement(
    account: AccountId,
    now: Timestamp,
    after: Option<GrantId>,
    limit: PageLimit,
) -> (String, Vec<Value>) {
    let sql = format!(
        "SELECT id, client_id, gateway_id, resource_id, policy_id, cipher, issued_ms, expires_ms \
         FROM access_grant WHERE account = ?1 AND id > ?2 AND +expires_ms > ?3 AND {STANDS} \
         ORDER BY id LIMIT ?4"
    );
    let after = after.map_or(Value::BEFORE_ALL_IDS, |id| id.as_bytes().into());
    let values = vec![
        account.as_bytes().into(),
        after,
        now.into(),
        one_more(limit),
    ];
    (sql, values)
}

pub(super) async fn live(
    connection: &mut Transaction,
    account: AccountId,
    now: Timestamp,
    after: Option<GrantId>,
    limit: PageLimit,
) -> Result<Page<Grant, GrantId>, StoreError> {
    read::last_seq(connection, account).await?;
    let (sql, values) = live_statement(account, now, after, limit);
    let rows = connection.fetch(sql, values).await?;
    let rows = rows.iter().map(read_grant);
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Page::cut(rows, limit, |grant: &Grant| grant.id))
}

fn read_grant(row: Columns<'_>) -> Result<Grant, StoreError> {
    Ok(Grant {
        id: GrantId::from_bytes(row.bytes("id")?),
        client: ClientId::from_bytes(row.bytes("client_id")?),
        gateway: GatewayId::from_bytes(row.bytes("gateway_id")?),
        resource: ResourceId::from_bytes(row.bytes("resource_id")?),
        policy: PolicyId::from_bytes(row.bytes("policy_id")?),
        cipher: row.word("cipher")?,
        issued: row.time("issued_ms")?,
        expires: row.time("expires_ms")?,
    })
}

pub(super) async fn prune(
    mut transaction: Transaction,
    account: AccountId,
    now: Timestamp,
) -> Result<u64, StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let sql = "DELETE FROM access_grant WHERE account = ?1 AND id IN \
               (SELECT id FROM access_grant WHERE account = ?1 AND expires_ms <= ?2 \
                ORDER BY expires_ms LIMIT ?3)";
    let limit = u64::from(MAX_PRUNE_ROWS);
    let values = vec![account.as_bytes().into(), now.into(), limit.into()];
    let gone = transaction.execute(sql, values).await?;
    transaction.commit().await?;
    Ok(gone)
}
