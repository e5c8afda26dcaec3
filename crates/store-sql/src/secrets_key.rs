//! The row of the key that encrypts a database's secrets.

use super::fault::fault;
use super::value::{Columns, pragma, query};
use crate::sealing::Sealer;
use culvert_secrets::KeyId;
use culvert_store::StoreError;
use sqlx::SqliteConnection;

/// The key of the database and whether it is clean, if it has one.
pub(super) async fn key_of(
    connection: &mut SqliteConnection,
) -> Result<Option<(KeyId, bool)>, StoreError> {
    if !has_table(connection, "secrets_key").await? {
        return Ok(None);
    }
    let sql = "SELECT key_id, is_clean FROM secrets_key";
    let found = query(sql, Vec::new()).fetch_optional(connection).await;
    let Some(row) = found.map_err(fault)? else {
        return Ok(None);
    };
    let row = Columns::sqlite(&row);
    let key = KeyId::from_bytes(row.bytes("key_id")?);
    Ok(Some((key, row.flag("is_clean")?)))
}

/// From here on `key` encrypts, or none.
pub(super) async fn set_key(
    connection: &mut SqliteConnection,
    key: Option<KeyId>,
    is_clean: bool,
) -> Result<(), StoreError> {
    let mut steps = vec![("DELETE FROM secrets_key", Vec::new())];
    if let Some(key) = key {
        let values = vec![key.as_bytes().as_slice().into(), is_clean.into()];
        let sql = "INSERT INTO secrets_key (only, key_id, is_clean) VALUES (1, ?, ?)";
        steps.push((sql, values));
    }
    for (sql, values) in steps {
        let done = query(sql, values).execute(&mut *connection).await;
        done.map_err(fault)?;
    }
    Ok(())
}

/// Writes every page anew and nothing else, and empties the write-ahead log: what secrets were before is in
/// no byte of either.
pub(super) async fn clean(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let done = sqlx::query("VACUUM").execute(&mut *connection).await;
    done.map_err(fault)?;
    // The first column says whether readers were in the way.
    if pragma(connection, "PRAGMA wal_checkpoint(TRUNCATE)").await? != 0 {
        let detail = "somebody reads it".to_owned();
        return Err(StoreError::Locked { detail });
    }
    let marked = sqlx::query("UPDATE secrets_key SET is_clean = 1");
    marked.execute(connection).await.map(drop).map_err(fault)
}

/// The key of the database has to be the one that is given.
pub(super) fn expect(found: Option<KeyId>, given: Option<&Sealer>) -> Result<(), StoreError> {
    match (found, given.map(Sealer::key_id)) {
        (None, None) => Ok(()),
        (None, Some(given)) => Err(StoreError::SecretsNotEncrypted { given }),
        (Some(key), None) => Err(StoreError::SecretsKeyMissing { key }),
        (Some(needed), Some(given)) if needed != given => {
            Err(StoreError::OtherSecretsKey { needed, given })
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

/// A database that was not brought up to date may lack it.
pub(super) async fn has_table(
    connection: &mut SqliteConnection,
    table: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table' AND name = ?";
    let row = query(sql, vec![table.into()]).fetch_one(connection).await;
    Ok(Columns::sqlite(&row.map_err(fault)?).number("tables")? > 0)
}
