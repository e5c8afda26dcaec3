//! Secrets of the portal itself.

use super::connection::Transaction;
use super::read;
use super::value::Value;
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::AccountId;
use culvert_store::{SecretBytes, SecretName, StateSecret, StoreError};

pub(super) async fn secret(
    mut transaction: Transaction,
    sealing: &Sealing,
    account: AccountId,
    name: SecretName,
    candidate: &SecretBytes,
) -> Result<SecretBytes, StoreError> {
    let row = SecretRow::of(SecretColumn::Portal, &account, name.as_str().as_bytes());
    let candidate = sealing.seal(&row, candidate)?;
    read::last_seq(&mut transaction, account).await?;
    let names: Vec<Value> = vec![account.as_bytes().into(), name.as_str().into()];
    let mut values = names.clone();
    values.push(Value::Blob(candidate));
    let sql = "INSERT INTO secret (account, name, value) VALUES (?, ?, ?) \
               ON CONFLICT (account, name) DO NOTHING";
    transaction.execute(sql, values).await?;
    let sql = "SELECT value FROM secret WHERE account = ? AND name = ?";
    let stored = stored(&mut transaction, sql, names).await?;
    let stored = stored.ok_or_else(|| StoreError::corrupt("a secret that was written is gone"))?;
    let secret = sealing.open(&row, stored)?;
    transaction.commit().await?;
    Ok(secret)
}

/// Only reads: a database keeps what it has, whether it would begin to or not.
pub(super) async fn state_secret(
    transaction: &mut Transaction,
    sealing: &Sealing,
    name: StateSecret,
) -> Result<Option<SecretBytes>, StoreError> {
    let stored = stored_state(transaction, name).await?;
    stored
        .map(|stored| sealing.open(&state_row(name), stored))
        .transpose()
}

pub(super) async fn state_secret_or(
    mut transaction: Transaction,
    sealing: &Sealing,
    name: StateSecret,
    candidate: &SecretBytes,
) -> Result<Option<SecretBytes>, StoreError> {
    if sealing.is_encrypted() || transaction.dialect().keeps_state() {
        let candidate = sealing.seal(&state_row(name), candidate)?;
        let sql = "INSERT INTO state_secret (name, value) VALUES (?, ?) \
                   ON CONFLICT (name) DO NOTHING";
        let values = vec![name.as_str().into(), Value::Blob(candidate)];
        transaction.execute(sql, values).await?;
    }
    let secret = state_secret(&mut transaction, sealing, name).await?;
    transaction.commit().await?;
    Ok(secret)
}

pub(super) async fn replace_state_secret(
    mut transaction: Transaction,
    sealing: &Sealing,
    name: StateSecret,
    current: &SecretBytes,
    next: &SecretBytes,
) -> Result<bool, StoreError> {
    let row = state_row(name);
    let Some(stored) = stored_state(&mut transaction, name).await? else {
        return Ok(false);
    };
    if sealing.open(&row, stored.clone())? != *current {
        return Ok(false);
    }
    // Nobody else has replaced it since it was read.
    let sql = "UPDATE state_secret SET value = ? WHERE name = ? AND value = ?";
    let next = Value::Blob(sealing.seal(&row, next)?);
    let values = vec![next, name.as_str().into(), Value::Blob(stored)];
    let written = transaction.execute(sql, values).await?;
    transaction.commit().await?;
    Ok(written == 1)
}

const fn state_row(name: StateSecret) -> SecretRow<'static> {
    SecretRow {
        column: SecretColumn::State,
        account: &[],
        row: name.as_str().as_bytes(),
    }
}

async fn stored_state(
    transaction: &mut Transaction,
    name: StateSecret,
) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT value FROM state_secret WHERE name = ?";
    stored(transaction, sql, vec![name.as_str().into()]).await
}

/// The content of the first column of a row, as it is stored.
pub(super) async fn stored(
    connection: &mut Transaction,
    sql: &'static str,
    values: Vec<Value>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let found = connection.fetch_one(sql, values).await?;
    found.map(|row| row.columns().first()).transpose()
}
