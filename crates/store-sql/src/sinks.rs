//! The progress of log sinks, and the secrets by which they let the portal in.

use super::connection::Transaction;
use super::read;
use super::secrets::stored;
use super::value::{Columns, Value};
use super::writing::Writing;
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::AccountId;
use culvert_store::{SecretBytes, StoreError};
use culvert_wire::model::Log;
use std::collections::BTreeMap;

pub(super) async fn positions(
    connection: &mut Transaction,
    account: AccountId,
    sink: &str,
) -> Result<BTreeMap<Log, u64>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT log, seq FROM sink_position WHERE account = ? AND sink = ?";
    let values = vec![account.as_bytes().into(), sink.into()];
    let rows = connection.fetch(sql, values).await?;
    let place = |row: Columns<'_>| Ok((row.word("log")?, row.number("seq")?));
    rows.iter().map(place).collect()
}

pub(super) async fn note_positions(
    mut transaction: Transaction,
    account: AccountId,
    sink: &str,
    positions: &BTreeMap<Log, u64>,
) -> Result<(), StoreError> {
    read::last_seq(&mut transaction, account).await?;
    put_positions(&mut transaction, account, sink, positions).await?;
    transaction.commit().await
}

/// In the order of the logs, so that two of one sink do not wait for each other.
async fn put_positions(
    transaction: &mut Transaction,
    account: AccountId,
    sink: &str,
    positions: &BTreeMap<Log, u64>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO sink_position (account, sink, log, seq) VALUES (?, ?, ?, ?) \
               ON CONFLICT (account, sink, log) DO UPDATE SET seq = excluded.seq";
    for (log, seq) in positions {
        let values = vec![
            account.as_bytes().into(),
            sink.into(),
            log.as_str().into(),
            (*seq).into(),
        ];
        transaction.execute(sql, values).await?;
    }
    Ok(())
}

pub(super) async fn secret(
    connection: &mut Transaction,
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

impl Writing {
    /// Begins a sink at the ends of the logs, as they are before this write: it tells of its own beginning.
    pub(super) async fn begin_sink(
        &mut self,
        sink: &str,
        secret: Option<&SecretBytes>,
    ) -> Result<(), StoreError> {
        let account = self.account();
        let ends = read::log_ends(self.connection().await?, account).await?;
        put_positions(self.connection().await?, account, sink, &ends).await?;
        self.set_sink_secret(sink, secret).await
    }

    pub(super) async fn set_sink_secret(
        &mut self,
        sink: &str,
        secret: Option<&SecretBytes>,
    ) -> Result<(), StoreError> {
        let account = self.account();
        let values = vec![account.as_bytes().into(), sink.into()];
        let sql = "DELETE FROM sink_secret WHERE account = ? AND sink = ?";
        self.execute(sql, values).await?;
        if let Some(secret) = secret {
            let row = SecretRow::of(SecretColumn::Sink, &account, sink.as_bytes());
            let values = vec![
                account.as_bytes().into(),
                sink.into(),
                Value::Blob(self.sealing().seal(&row, secret)?),
            ];
            let sql = "INSERT INTO sink_secret (account, sink, value) VALUES (?, ?, ?)";
            self.execute(sql, values).await?;
        }
        Ok(())
    }

    pub(super) async fn forget_sink(&mut self, sink: &str) -> Result<(), StoreError> {
        for table in ["sink_position", "sink_secret"] {
            let sql = format!("DELETE FROM {table} WHERE account = ? AND sink = ?");
            let values = vec![self.account().as_bytes().into(), sink.into()];
            self.execute(sql, values).await?;
        }
        Ok(())
    }
}
