//! The logs of the store, and code that all of them share.

use super::connection::Transaction;
use super::read;
use super::store::SqlStore;
use super::value::Value;
use super::{access, activity, changes, flows, recent_use, sinks, totals};
use async_trait::async_trait;
use culvert_ids::AccountId;
use culvert_store::{
    AccessTotals, Activity, EntityId, FlowBatch, FlowFilter, FlowSeq, LogEntries, LoggedFlow, Logs,
    MAX_CHANGES_READ, MAX_PRUNE_ROWS, Page, PageLimit, RecentUse, SecretBytes, Seq, StoreError,
};
use culvert_wire::Timestamp;
use culvert_wire::model::Log;
use std::collections::BTreeMap;
use std::time::Duration;

#[async_trait]
impl Logs for SqlStore {
    async fn append_flows(
        &self,
        account: AccountId,
        batches: Vec<FlowBatch>,
    ) -> Result<(), StoreError> {
        let written = async { flows::append(self.writing().await?, account, batches).await };
        self.writer.note(written.await)
    }

    async fn flow_log(
        &self,
        account: AccountId,
        filter: &FlowFilter,
        before: Option<FlowSeq>,
        limit: PageLimit,
    ) -> Result<Page<LoggedFlow, FlowSeq>, StoreError> {
        flows::query_log(&mut self.reading().await?, account, filter, before, limit).await
    }

    async fn flows_lost(&self, account: AccountId) -> Result<u64, StoreError> {
        flows::lost(&mut self.reading().await?, account).await
    }

    async fn log_after(
        &self,
        account: AccountId,
        log: Log,
        seq: u64,
        limit: u32,
    ) -> Result<LogEntries, StoreError> {
        let limit = limit.min(MAX_CHANGES_READ);
        let connection = &mut self.reading().await?;
        read::last_seq(connection, account).await?;
        Ok(match log {
            Log::Access => {
                LogEntries::Access(access::after(connection, account, seq, limit.into()).await?)
            }
            Log::Changes => {
                LogEntries::Changes(changes::after(connection, account, Seq(seq), limit).await?)
            }
            Log::Flows => {
                LogEntries::Flows(flows::after(connection, account, seq, limit.into()).await?)
            }
        })
    }

    async fn log_ends(&self, account: AccountId) -> Result<BTreeMap<Log, u64>, StoreError> {
        read::log_ends(&mut self.reading().await?, account).await
    }

    async fn prune_log(
        &self,
        account: AccountId,
        log: Log,
        older_than: Timestamp,
        keep: u64,
    ) -> Result<u64, StoreError> {
        let written = async { prune(self.writing().await?, account, log, older_than, keep).await };
        self.writer.note(written.await)
    }

    async fn record_traffic(
        &self,
        account: AccountId,
        traffic: Vec<(Timestamp, u64)>,
    ) -> Result<(), StoreError> {
        let written =
            async { activity::record_traffic(self.writing().await?, account, traffic).await };
        self.writer.note(written.await)
    }

    async fn activity(
        &self,
        account: AccountId,
        from: Timestamp,
        until: Timestamp,
        step: Duration,
    ) -> Result<Vec<Activity>, StoreError> {
        activity::sums(&mut self.reading().await?, account, from, until, step).await
    }

    async fn access_totals(
        &self,
        account: AccountId,
        from: Timestamp,
    ) -> Result<AccessTotals, StoreError> {
        totals::of_access(&mut self.reading().await?, account, from).await
    }

    async fn recent_use(
        &self,
        account: AccountId,
        about: EntityId,
        from: Timestamp,
    ) -> Result<RecentUse, StoreError> {
        recent_use::recent_use(&mut self.reading().await?, account, about, from).await
    }

    async fn prune_activity(
        &self,
        account: AccountId,
        older_than: Timestamp,
    ) -> Result<u64, StoreError> {
        let written = async { activity::prune(self.writing().await?, account, older_than).await };
        self.writer.note(written.await)
    }

    async fn sink_positions(
        &self,
        account: AccountId,
        sink: &str,
    ) -> Result<BTreeMap<Log, u64>, StoreError> {
        sinks::positions(&mut self.reading().await?, account, sink).await
    }

    async fn note_sink_positions(
        &self,
        account: AccountId,
        sink: &str,
        positions: &BTreeMap<Log, u64>,
    ) -> Result<(), StoreError> {
        let written =
            async { sinks::note_positions(self.writing().await?, account, sink, positions).await };
        self.writer.note(written.await)
    }

    async fn sink_secret(
        &self,
        account: AccountId,
        sink: &str,
    ) -> Result<Option<SecretBytes>, StoreError> {
        sinks::secret(&mut self.reading().await?, &self.sealing, account, sink).await
    }
}

/// Deletes by age first, then by number: entries are numbered one by one, so the oldest that may
/// stay is known from the last one. The last change stays, since the feed goes on from it.
async fn prune(
    mut transaction: Transaction,
    account: AccountId,
    log: Log,
    older_than: Timestamp,
    keep: u64,
) -> Result<u64, StoreError> {
    let last = read::log_ends(&mut transaction, account).await?;
    let last = last.get(&log).copied().unwrap_or(0);
    let (table, spared) = match log {
        Log::Access => ("access_log", 0),
        Log::Changes => ("change_log", 1),
        Log::Flows => ("flow_log", 0),
    };
    let limit = u64::from(MAX_PRUNE_ROWS);
    let by_age = format!(
        "DELETE FROM {table} WHERE account = ?1 AND seq IN \
         (SELECT seq FROM {table} WHERE account = ?1 AND at_ms < ?2 AND seq <= ?4 \
          ORDER BY at_ms LIMIT ?3)"
    );
    let by_number = format!(
        "DELETE FROM {table} WHERE account = ?1 AND seq IN \
         (SELECT seq FROM {table} WHERE account = ?1 AND seq <= ?2 AND seq <= ?4 \
          ORDER BY seq LIMIT ?3)"
    );
    let mut gone = 0;
    for (sql, until) in [
        (by_age, older_than.unix_ms()),
        (by_number, last.saturating_sub(keep)),
    ] {
        let values: Vec<Value> = vec![
            account.as_bytes().into(),
            until.into(),
            (limit - gone).into(),
            last.saturating_sub(spared).into(),
        ];
        gone += transaction.execute(sql, values).await?;
    }
    transaction.commit().await?;
    Ok(gone)
}
