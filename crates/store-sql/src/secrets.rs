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

pub(super) async fn state_secret(
    mut transaction: Transaction,
    sealing: &Sealing,
    name: StateSecret,
    candidate: Option<&SecretBytes>,
) -> Result<Option<SecretBytes>, StoreError> {
    if !sealing.is_encrypted() {
        return Ok(None);
    }
    let row = SecretRow {
        column: SecretColumn::State,
        account: &[],
        row: name.as_str().as_bytes(),
    };
    if let Some(candidate) = candidate {
        let candidate = sealing.seal(&row, candidate)?;
        let sql = "INSERT INTO state_secret (name, value) VALUES (?, ?) \
                   ON CONFLICT (name) DO NOTHING";
        let values = vec![name.as_str().into(), Value::Blob(candidate)];
        transaction.execute(sql, values).await?;
    }
    let sql = "SELECT value FROM state_secret WHERE name = ?";
    let stored = stored(&mut transaction, sql, vec![name.as_str().into()]).await?;
    let secret = stored
        .map(|stored| sealing.open(&row, stored))
        .transpose()?;
    transaction.commit().await?;
    Ok(secret)
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
