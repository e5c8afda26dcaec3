//! Times at which machines and tokens were last seen.

use super::fault::fault;
use super::read;
use super::table::table;
use super::value::{Value, query};
use culvert_ids::{AccountId, TokenId};
use culvert_store::{EntityId, MAX_BATCH, SeenMachine, StoreError};
use culvert_wire::Timestamp;
use sqlx::{Sqlite, SqliteConnection, Transaction};

/// A batch is bounded, and its account exists.
pub(super) async fn check_batch(
    connection: &mut SqliteConnection,
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
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    machines: Vec<SeenMachine>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, machines.len()).await?;
    let mut known = 0;
    for machine in &machines {
        known += record_one(&mut transaction, account, machine).await?;
    }
    transaction.commit().await.map_err(fault)?;
    Ok(known)
}

pub(super) async fn record_one(
    connection: &mut SqliteConnection,
    account: AccountId,
    machine: &SeenMachine,
) -> Result<u64, StoreError> {
    let id = EntityId::from(machine.id);
    culvert_store::rules::check_software(id.kind(), &machine.seen.software)?;
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
    let done = query(sql, values).execute(connection).await;
    Ok(done.map_err(fault)?.rows_affected())
}

pub(super) async fn touch_tokens(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    uses: Vec<(TokenId, Timestamp)>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, uses.len()).await?;
    let mut known = 0;
    let sql = "UPDATE token SET last_used_ms = ? WHERE account = ? AND id = ? \
               AND (last_used_ms IS NULL OR last_used_ms <= ?)";
    for (token, at) in uses {
        let values = vec![
            at.into(),
            account.as_bytes().into(),
            token.as_bytes().into(),
            at.into(),
        ];
        let done = query(sql, values).execute(&mut *transaction).await;
        known += done.map_err(fault)?.rows_affected();
    }
    transaction.commit().await.map_err(fault)?;
    Ok(known)
}
