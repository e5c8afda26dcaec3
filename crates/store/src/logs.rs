//! The interface of the portal's logs, also for sinks that receive copies of them.

use crate::{AccessTotals, EntityId, RecentUse, SecretBytes, StoreError};
use crate::{Change, FlowBatch, FlowFilter, FlowSeq, LoggedAccess, LoggedFlow, Page, PageLimit};
use async_trait::async_trait;
use culvert_ids::AccountId;
use culvert_wire::Timestamp;
use culvert_wire::model::Log;
use std::collections::BTreeMap;
use std::time::Duration;

/// The length of a bucket of [`Logs::activity`], in milliseconds: a minute.
pub const ACTIVITY_BUCKET_MS: u64 = 60_000;

/// The flow log, what all logs have in common, and what is counted for charts.
///
/// # Errors
/// As those of [`crate::Store`].
#[async_trait]
pub trait Logs: std::fmt::Debug + Send + Sync + 'static {
    /// Appends reports of gateways to the flow log, all or none. A report that is in it already, by
    /// its gateway, run and number, is passed over: so is an earlier one of the same run.
    ///
    /// # Errors
    /// [`StoreError::TooMany`] where they hold more than [`crate::MAX_BATCH`] flows.
    async fn append_flows(
        &self,
        account: AccountId,
        batches: Vec<FlowBatch>,
    ) -> Result<(), StoreError>;

    /// The flow log, the newest first, from the first behind `before`. The order is that of time, and with
    /// `filter.after` that of numbers.
    async fn flow_log(
        &self,
        account: AccountId,
        filter: &FlowFilter,
        before: Option<FlowSeq>,
        limit: PageLimit,
    ) -> Result<Page<LoggedFlow, FlowSeq>, StoreError>;

    /// Flows that gateways could not keep until the portal took them.
    async fn flows_lost(&self, account: AccountId) -> Result<u64, StoreError>;

    /// Entries of a log after the one of that number, in order; at most `limit` and
    /// [`crate::MAX_CHANGES_READ`] of them.
    async fn log_after(
        &self,
        account: AccountId,
        log: Log,
        seq: u64,
        limit: u32,
    ) -> Result<LogEntries, StoreError>;

    /// The number of the last entry of each log; 0 where there was never one.
    async fn log_ends(&self, account: AccountId) -> Result<BTreeMap<Log, u64>, StoreError>;

    /// Forgets entries of a log: those from before `older_than`, and the oldest beyond `keep`. The
    /// last change is always kept. Returns how many; at [`crate::MAX_PRUNE_ROWS`] there may be more
    /// to do.
    async fn prune_log(
        &self,
        account: AccountId,
        log: Log,
        older_than: Timestamp,
        keep: u64,
    ) -> Result<u64, StoreError>;

    /// Adds to what gateways carried at these instants, in bytes.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn record_traffic(
        &self,
        account: AccountId,
        traffic: Vec<(Timestamp, u64)>,
    ) -> Result<(), StoreError>;

    /// Counts of the log from `from` to before `until`, in steps of `step`, a whole number of
    /// buckets. Steps in which nothing happened are left out.
    async fn activity(
        &self,
        account: AccountId,
        from: Timestamp,
        until: Timestamp,
        step: Duration,
    ) -> Result<Vec<Activity>, StoreError>;

    /// Sums of the access log from `from` on, of the newest [`crate::MAX_USE_ROWS`] entries at most.
    async fn access_totals(
        &self,
        account: AccountId,
        from: Timestamp,
    ) -> Result<AccessTotals, StoreError>;
    /// The use of a client, an actor, a resource or a gateway since `from`, by the newest
    /// [`crate::MAX_USE_ROWS`] entries about it in each log.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for other things.
    async fn recent_use(
        &self,
        account: AccountId,
        about: EntityId,
        from: Timestamp,
    ) -> Result<RecentUse, StoreError>;

    /// Forgets what was counted before that, at most [`crate::MAX_PRUNE_ROWS`] buckets.
    async fn prune_activity(
        &self,
        account: AccountId,
        older_than: Timestamp,
    ) -> Result<u64, StoreError>;

    /// The position of a sink: the last number of each log that it has.
    async fn sink_positions(
        &self,
        account: AccountId,
        sink: &str,
    ) -> Result<BTreeMap<Log, u64>, StoreError>;

    /// The sink has entries up to these numbers.
    async fn note_sink_positions(
        &self,
        account: AccountId,
        sink: &str,
        positions: &BTreeMap<Log, u64>,
    ) -> Result<(), StoreError>;

    /// The secret by which the sink is let in; it is in no change log.
    async fn sink_secret(
        &self,
        account: AccountId,
        sink: &str,
    ) -> Result<Option<SecretBytes>, StoreError>;
}

/// Entries of one log, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntries {
    /// Of the access log.
    Access(Vec<LoggedAccess>),
    /// Of the change log.
    Changes(Vec<Change>),
    /// Of the flow log.
    Flows(Vec<LoggedFlow>),
}

/// The activity in a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The beginning of the step.
    pub at: Timestamp,
    /// Traffic through gateways, in bytes of both directions.
    pub bytes: u64,
    /// Grants that were given.
    pub granted: u64,
    /// Requests that were denied.
    pub denied: u64,
}
