//! Times at which machines and tokens were last seen.

use super::connection::Transaction;
use super::read;
use super::table::table;
use super::value::Value;
use culvert_ids::{AccountId, TokenId};
use culvert_store::{EntityId, MAX_BATCH, SeenMachine, StoreError};
use culvert_wire::Timestamp;

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
    mut machines: Vec<SeenMachine>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, machines.len()).await?;
    // In one order in all batches, of which none then waits for another that waits for it.
    machines.sort_by_key(|machine| EntityId::from(machine.id));
    let mut known = 0;
    for machine in &machines {
        known += record_one(&mut transaction, account, machine).await?;
    }
    transaction.commit().await?;
    Ok(known)
}

pub(super) async fn record_one(
    connection: &mut Transaction,
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
    connection.execute(sql, values).await
}

pub(super) async fn touch_tokens(
    mut transaction: Transaction,
    account: AccountId,
    mut uses: Vec<(TokenId, Timestamp)>,
) -> Result<u64, StoreError> {
    check_batch(&mut transaction, account, uses.len()).await?;
    uses.sort_by_key(|(token, _)| *token);
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
        known += transaction.execute(sql, values).await?;
    }
    transaction.commit().await?;
    Ok(known)
}
