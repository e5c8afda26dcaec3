//! The progress of log sinks, and the secrets by which they let the portal in.

use super::fault::fault;
use super::read::{self, fetch};
use super::secrets::stored;
use super::value::{Columns, Value, query};
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::AccountId;
use culvert_store::{SecretBytes, StoreError};
use culvert_wire::model::Log;
use sqlx::{Sqlite, SqliteConnection, Transaction};
use std::collections::BTreeMap;

pub(super) async fn positions(
    connection: &mut SqliteConnection,
    account: AccountId,
    sink: &str,
) -> Result<BTreeMap<Log, u64>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT log, seq FROM sink_position WHERE account = ? AND sink = ?";
    let values = vec![account.as_bytes().into(), sink.into()];
    let rows = fetch(connection, sql, values).await?;
    let place = |row| {
        let row = Columns(row);
        Ok((row.word("log")?, row.number("seq")?))
    };
    rows.iter().map(place).collect()
}

pub(super) async fn note_positions(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    sink: &str,
    positions: &BTreeMap<Log, u64>,
) -> Result<(), StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let sql = "INSERT INTO sink_position (account, sink, log, seq) VALUES (?, ?, ?, ?) \
               ON CONFLICT (account, sink, log) DO UPDATE SET seq = excluded.seq";
    for (log, seq) in positions {
        let values = vec![
            account.as_bytes().into(),
            sink.into(),
            log.as_str().into(),
            (*seq).into(),
        ];
        let done = query(sql, values).execute(&mut *transaction).await;
        done.map_err(fault)?;
    }
    transaction.commit().await.map_err(fault)
}

pub(super) async fn secret(
    connection: &mut SqliteConnection,
    sealing: &Sealing,
    account: AccountId,
    sink: &str,
) -> Result<Option<SecretBytes>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT value FROM sink_secret WHERE account = ? AND sink = ?";
    let values = vec![account.as_bytes().into(), sink.into()];
    let row = SecretRow::of(SecretColumn::Sink, &account, sink.as_bytes());
    let stored = stored(connection, sql, values).await?;
    stored.map(|stored| sealing.open(&row, stored)).transpose()
}

pub(super) async fn set_secret(
    mut transaction: Transaction<'static, Sqlite>,
    sealing: &Sealing,
    account: AccountId,
    sink: &str,
    secret: Option<&SecretBytes>,
) -> Result<(), StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let values = vec![account.as_bytes().into(), sink.into()];
    let sql = "DELETE FROM sink_secret WHERE account = ? AND sink = ?";
    let done = query(sql, values).execute(&mut *transaction).await;
    done.map_err(fault)?;
    if let Some(secret) = secret {
        let row = SecretRow::of(SecretColumn::Sink, &account, sink.as_bytes());
        let values = vec![
            account.as_bytes().into(),
            sink.into(),
            Value::Blob(sealing.seal(&row, secret)?),
        ];
        let sql = "INSERT INTO sink_secret (account, sink, value) VALUES (?, ?, ?)";
        let done = query(sql, values).execute(&mut *transaction).await;
        done.map_err(fault)?;
    }
    transaction.commit().await.map_err(fault)
}

pub(super) async fn forget(
    mut transaction: Transaction<'static, Sqlite>,
    account: AccountId,
    sink: &str,
) -> Result<(), StoreError> {
    read::last_seq(&mut transaction, account).await?;
    for table in ["sink_position", "sink_secret"] {
        let sql = format!("DELETE FROM {table} WHERE account = ? AND sink = ?");
        let values = vec![account.as_bytes().into(), sink.into()];
        let done = query(sql, values).execute(&mut *transaction).await;
        done.map_err(fault)?;
    }
    transaction.commit().await.map_err(fault)
}
