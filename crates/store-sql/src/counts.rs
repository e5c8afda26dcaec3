//! Numbers of rows, by what they refer to or by what they run.

use super::connection::Transaction;
use super::dialect::Dialect;
use super::list::Question;
use super::read::last_seq;
use super::table::table;
use super::value::{Value, places};
use culvert_ids::AccountId;
use culvert_store::{EntityId, EntityKind, ListFilter, MAX_BATCH, StoreError, rules};
use std::collections::BTreeMap;

pub(super) async fn references(
    connection: &mut Transaction,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    to: &[EntityId],
) -> Result<BTreeMap<EntityId, u64>, StoreError> {
    if to.len() > MAX_BATCH {
        return Err(StoreError::TooMany {
            what: "things at once",
            limit: MAX_BATCH as u64,
        });
    }
    last_seq(connection, account).await?;
    let Some(of) = to.first().map(|id| id.kind()) else {
        return Ok(BTreeMap::new());
    };
    let (sql, values) = references_statement(connection.dialect(), account, kind, filter, to)?;
    let mut counts = BTreeMap::new();
    for row in connection.fetch(sql, values).await?.iter() {
        let id = EntityId::from_bytes(of, row.bytes("referred_to")?);
        counts.insert(id, row.number("total")?);
    }
    Ok(counts)
}

/// The statement that counts references, and its values.
pub(super) fn references_statement(
    dialect: Dialect,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    to: &[EntityId],
) -> Result<(String, Vec<Value>), StoreError> {
    let invalid = |reason: String| StoreError::Invalid {
        kind,
        field: "refers_to",
        reason,
    };
    let of = to.first().map(|id| id.kind());
    let column = of.and_then(|of| rules::column_to(kind, of));
    let Some(column) = column.filter(|_| to.iter().all(|id| Some(id.kind()) == of)) else {
        return Err(invalid(format!("a {kind} does not refer to all of these")));
    };
    let wanted = places(to.len());
    let account_value = std::iter::once(account.as_bytes().into());
    let mut question = Question {
        dialect,
        account,
        kind,
        sql: format!(
            "SELECT {column} AS referred_to, count(*) AS total FROM {} \
             WHERE account = ? AND {column} IN ({wanted})",
            table(kind)
        ),
        values: account_value
            .chain(to.iter().map(|id| (*id).into()))
            .collect(),
    };
    question.add(filter)?;
    question.sql.push_str(&format!(" GROUP BY {column}"));
    Ok((question.sql, question.values))
}

pub(super) async fn software(
    connection: &mut Transaction,
    account: AccountId,
    kind: EntityKind,
) -> Result<BTreeMap<String, u64>, StoreError> {
    if !matches!(
        kind,
        EntityKind::Client | EntityKind::Gateway | EntityKind::Relay
    ) {
        return Err(StoreError::Invalid {
            kind,
            field: "software",
            reason: format!("a {kind} runs none"),
        });
    }
    last_seq(connection, account).await?;
    let sql = format!(
        "SELECT seen_software AS version, count(*) AS total FROM {} \
         WHERE account = ? AND revoked_ms IS NULL AND seen_software IS NOT NULL GROUP BY seen_software",
        table(kind)
    );
    let mut counts = BTreeMap::new();
    let rows = connection
        .fetch(sql, vec![account.as_bytes().into()])
        .await?;
    for row in rows.iter() {
        counts.insert(row.text("version")?, row.number("total")?);
    }
    Ok(counts)
}
