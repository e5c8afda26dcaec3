//! Times at which machines and tokens were last seen.

use super::arrays::arrays;
use super::connection::Transaction;
use super::dialect::Dialect;
use super::read;
use super::table::table;
use super::unwritten::typed;
use super::value::Value;
use culvert_ids::{AccountId, TokenId};
use culvert_store::{EntityId, EntityKind, MAX_BATCH, SeenMachine, StoreError, rules};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// A batch is bounded, and its account exists.
pub(super) async fn check_batch(
    connection: &mut Transaction,
    account: AccountId,
    len: usize,
) -> Result<(), StoreError> {
    if len > MAX_BATCH {
        return Err(StoreError::TooMany {
            what: "records in one batch",
            limit: MAX_BATCH as u64,
        });
    }
    read::last_seq(connection, account).await?;
    Ok(())
}

pub(super) async fn record(
    mut transaction: Transaction,
    account: AccountId,
    machines: Vec<SeenMachine>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, machines.len()).await?;
    // The last of each machine. In one order in all batches, of which none then waits for another that waits for it.
    let mut last: BTreeMap<EntityId, SeenMachine> = BTreeMap::new();
    for machine in machines {
        let id = EntityId::from(machine.id);
        rules::check_software(id.kind(), &machine.seen.software)?;
        let is_older = |known: &SeenMachine| machine.seen.at < known.seen.at;
        if !last.get(&id).is_some_and(is_older) {
            last.insert(id, machine);
        }
    }
    let mut known = 0;
    match transaction.dialect() {
        Dialect::Sqlite => {
            for machine in last.values() {
                known += record_one(&mut transaction, account, machine).await?;
            }
        }
        Dialect::Postgres => {
            let mut by_kind: BTreeMap<EntityKind, Vec<Vec<Value>>> = BTreeMap::new();
            for (id, machine) in last {
                let row = vec![
                    id.into(),
                    machine.seen.at.into(),
                    machine
                        .seen
                        .address
                        .map(|address| address.to_string())
                        .into(),
                    machine.seen.software.into(),
                ];
                by_kind.entry(id.kind()).or_default().push(row);
            }
            let columns = ["id", "seen_ms", "seen_address", "seen_software"];
            for (kind, rows) in by_kind {
                known +=
                    set_newer(&mut transaction, account, (table(kind), &columns), rows).await?;
            }
        }
    }
    transaction.commit().await?;
    Ok(known)
}

/// Writes rows over older ones by two statements of PostgreSQL. The first column is the id and the second one the time. The
/// first statement takes the locks in order.
async fn set_newer(
    transaction: &mut Transaction,
    account: AccountId,
    (table, names): (&str, &[&str]),
    rows: Vec<Vec<Value>>,
) -> Result<u64, StoreError> {
    let columns = typed(table, names);
    let account: Value = account.as_bytes().into();
    let ids = rows.iter().map(|row| vec![row[0].clone()]).collect();
    let lock = format!(
        "SELECT id FROM {table} WHERE account = $1 AND id = ANY ({}) ORDER BY id FOR NO KEY UPDATE",
        arrays(&columns[..1], 2),
    );
    transaction
        .execute_rows(&lock, vec![account.clone()], &columns[..1], ids)
        .await?;
    let set: Vec<_> = names[1..]
        .iter()
        .map(|name| format!("{name} = new.{name}"))
        .collect();
    let update = format!(
        "UPDATE {table} SET {} FROM unnest({}) AS new ({}) \
         WHERE {table}.account = $1 AND {table}.id = new.id \
         AND ({table}.{time} IS NULL OR {table}.{time} <= new.{time})",
        set.join(", "),
        arrays(&columns, 2),
        names.join(", "),
        time = names[1],
    );
    transaction
        .execute_rows(&update, vec![account], &columns, rows)
        .await
}

pub(super) async fn record_one(
    connection: &mut Transaction,
    account: AccountId,
    machine: &SeenMachine,
) -> Result<u64, StoreError> {
    let id = EntityId::from(machine.id);
    rules::check_software(id.kind(), &machine.seen.software)?;
    let at = Value::from(machine.seen.at);
    let address = machine.seen.address.map(|address| address.to_string());
    let sql = format!(
        "UPDATE {} SET seen_ms = ?, seen_address = ?, seen_software = ? \
         WHERE account = ? AND id = ? AND (seen_ms IS NULL OR seen_ms <= ?)",
        table(id.kind())
    );
    let values = vec![
        at.clone(),
        address.into(),
        machine.seen.software.as_str().into(),
        account.as_bytes().into(),
        id.into(),
        at,
    ];
    connection.execute(sql, values).await
}

pub(super) async fn touch_tokens(
    mut transaction: Transaction,
    account: AccountId,
    mut uses: Vec<(TokenId, Timestamp)>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, uses.len()).await?;
    // The last use of each token, in one order in all batches.
    uses.sort_unstable();
    let uses: BTreeMap<TokenId, Timestamp> = uses.into_iter().collect();
    let mut known = 0;
    match transaction.dialect() {
        Dialect::Sqlite => {
            let sql = "UPDATE token SET last_used_ms = ? WHERE account = ? AND id = ? \
                       AND (last_used_ms IS NULL OR last_used_ms <= ?)";
            for (token, at) in uses {
                let values = vec![
                    at.into(),
                    account.as_bytes().into(),
                    token.as_bytes().into(),
                    at.into(),
                ];
                known += transaction.execute(sql, values).await?;
            }
        }
        Dialect::Postgres => {
            let rows = uses
                .into_iter()
                .map(|(token, at)| vec![token.as_bytes().into(), at.into()]);
            let columns = ("token", ["id", "last_used_ms"].as_slice());
            known += set_newer(&mut transaction, account, columns, rows.collect()).await?;
        }
    }
    transaction.commit().await?;
    Ok(known)
}
