//! Grants that live.

use super::connection::Transaction;
use super::read::{self, one_more};
use super::seen::check_batch;
use super::value::{Columns, Value, word};
use culvert_ids::{AccountId, ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_store::{Grant, MAX_PRUNE_ROWS, Page, PageLimit, StoreError};
use culvert_wire::Timestamp;

/// True while the client, the gateway and the resource of a grant exist.
const STANDS: &str = "EXISTS (SELECT 1 FROM client WHERE account = ?1 AND id = client_id) \
     AND EXISTS (SELECT 1 FROM gateway WHERE account = ?1 AND id = gateway_id) \
     AND EXISTS (SELECT 1 FROM resource WHERE account = ?1 AND id = resource_id)";

pub(super) async fn save(
    mut transaction: Transaction,
    account: AccountId,
    mut grants: Vec<Grant>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, grants.len()).await?;
    let sql = format!(
        "INSERT INTO access_grant \
         (account, id, client_id, gateway_id, resource_id, policy_id, cipher, issued_ms, expires_ms) \
         SELECT * FROM (SELECT ?1 AS account, ?2 AS id, ?3 AS client_id, ?4 AS gateway_id, \
         ?5 AS resource_id, ?6, ?7, ?8, ?9) AS saved WHERE {STANDS} \
         ON CONFLICT (account, id) DO UPDATE SET client_id = excluded.client_id, \
         gateway_id = excluded.gateway_id, resource_id = excluded.resource_id, policy_id = excluded.policy_id, \
         cipher = excluded.cipher, issued_ms = excluded.issued_ms, expires_ms = excluded.expires_ms"
    );
    grants.sort_by_key(|grant| grant.id);
    let mut stored = 0;
    for grant in grants {
        let values = vec![
            account.as_bytes().into(),
            grant.id.as_bytes().into(),
            grant.client.as_bytes().into(),
            grant.gateway.as_bytes().into(),
            grant.resource.as_bytes().into(),
            grant.policy.as_bytes().into(),
            word(&grant.cipher)?,
            grant.issued.into(),
            grant.expires.into(),
        ];
        stored += transaction.execute(sql.as_str(), values).await?;
    }
    transaction.commit().await?;
    Ok(stored)
}

pub(super) async fn end(
    mut transaction: Transaction,
    account: AccountId,
    mut grants: Vec<GrantId>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, grants.len()).await?;
    grants.sort();
    let mut ended = 0;
    for grant in grants {
        let sql = "DELETE FROM access_grant WHERE account = ? AND id = ?";
        let values = vec![account.as_bytes().into(), grant.as_bytes().into()];
        ended += transaction.execute(sql, values).await?;
    }
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
