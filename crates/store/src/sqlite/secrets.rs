//! Secrets of the portal itself.

use super::fault::fault;
use super::read;
use super::value::query;
use crate::{MAX_SECRET_LEN, SecretBytes, SecretName, StoreError};
use culvert_ids::AccountId;
use sqlx::{Row, Sqlite, Transaction};

pub(super) async fn secret(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    name: SecretName,
    candidate: &SecretBytes,
) -> Result<SecretBytes, StoreError> {
    if candidate.expose().len() > MAX_SECRET_LEN {
        return Err(StoreError::TooMany {
            what: "bytes of a secret",
            limit: MAX_SECRET_LEN as u64,
        });
    }
    read::last_seq(&mut transaction, account).await?;
    let sql = "INSERT INTO secret (account, name, value) VALUES (?, ?, ?) \
               ON CONFLICT (account, name) DO NOTHING";
    let values = vec![
        account.as_bytes().into(),
        name.as_str().into(),
        candidate.expose().into(),
    ];
    query(sql, values)
        .execute(&mut *transaction)
        .await
        .map_err(fault)?;
    let sql = "SELECT value FROM secret WHERE account = ? AND name = ?";
    let values = vec![account.as_bytes().into(), name.as_str().into()];
    let row = query(sql, values)
        .fetch_one(&mut *transaction)
        .await
        .map_err(fault)?;
    let bytes: Vec<u8> = row.try_get("value").map_err(fault)?;
    transaction.commit().await.map_err(fault)?;
    Ok(SecretBytes::new(bytes))
}
