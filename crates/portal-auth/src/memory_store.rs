//! A store of pending things for tests of what is kept in it, with a clock that stands until a test moves it. A holder whose
//! share is full is refused; of things that give way, the real ones are tested.

use crate::pending::PendingDb;
use async_trait::async_trait;
use culvert_base::UnixTime;
use culvert_fair::Subscriber;
use culvert_ids::AccountId;
use culvert_portal_base::Metrics;
use culvert_store::{
    AttemptKey, AttemptLimit, NewPending, Pending, PendingBounds, PendingKey, PendingStore,
    PutPending, SecretBytes, StoreError, WhenFull, WhenThere,
};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    rows: Mutex<Rows>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Rows {
    now: Duration,
    pending: BTreeMap<PendingKey, Row>,
    until: BTreeMap<AttemptKey, Duration>,
}

#[derive(Debug)]
struct Row {
    subscriber: Subscriber,
    value: SecretBytes,
    version: u64,
    since: Duration,
    expires: Duration,
}

impl Memory {
    pub(crate) fn db(&self) -> PendingDb<'_> {
        PendingDb::new(self, AccountId::from_bytes([1; 16]), &self.metrics)
    }

    /// Time passes.
    pub(crate) fn pass(&self, time: Duration) {
        self.rows().now += time;
    }

    /// All values as they are stored.
    pub(crate) fn values(&self) -> Vec<Vec<u8>> {
        let rows = self.rows();
        let values = rows.pending.values();
        values.map(|row| row.value.expose().to_vec()).collect()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        let mut rows = self.rows.lock().unwrap();
        let now = rows.now;
        rows.pending.retain(|_, row| row.expires > now);
        rows
    }
}

impl Row {
    fn read(&self, now: Duration) -> Pending {
        Pending {
            value: self.value.clone(),
            version: self.version,
            age: now - self.since,
        }
    }
}

#[async_trait]
impl PendingStore for Memory {
    async fn put_pending(
        &self,
        _: AccountId,
        new: NewPending,
        there: WhenThere,
        bounds: PendingBounds,
    ) -> Result<PutPending, StoreError> {
        let mut rows = self.rows();
        let now = rows.now;
        if there == WhenThere::Keep && rows.pending.contains_key(&new.key) {
            return Ok(PutPending::IsThere);
        }
        let own = rows.pending.values();
        let own = own.filter(|row| row.subscriber == new.subscriber);
        if own.count() >= bounds.of_one {
            assert_ne!(bounds.full, WhenFull::LargestGivesWay);
            let wait = new.lifetime;
            return Ok(PutPending::Refused { wait });
        }
        let row = Row {
            subscriber: new.subscriber,
            value: new.value,
            version: 1,
            since: now,
            expires: now + new.lifetime,
        };
        rows.pending.insert(new.key, row);
        Ok(PutPending::Waits { gave_way: None })
    }

    async fn pending(&self, _: AccountId, key: PendingKey) -> Result<Option<Pending>, StoreError> {
        let rows = self.rows();
        Ok(rows.pending.get(&key).map(|row| row.read(rows.now)))
    }

    async fn take_pending(
        &self,
        _: AccountId,
        key: PendingKey,
    ) -> Result<Option<Pending>, StoreError> {
        let mut rows = self.rows();
        let taken = rows.pending.remove(&key);
        Ok(taken.map(|row| row.read(rows.now)))
    }

    async fn replace_pending(
        &self,
        _: AccountId,
        key: PendingKey,
        version: u64,
        value: Option<SecretBytes>,
    ) -> Result<bool, StoreError> {
        let mut rows = self.rows();
        let Some(row) = rows.pending.get_mut(&key) else {
            return Ok(false);
        };
        if row.version != version {
            return Ok(false);
        }
        match value {
            Some(value) => {
                row.value = value;
                row.version += 1;
            }
            None => {
                rows.pending.remove(&key);
            }
        }
        Ok(true)
    }

    async fn clock(&self) -> Result<Timestamp, StoreError> {
        let now = UnixTime::after_epoch(self.rows().now);
        Ok(Timestamp::from(now))
    }

    async fn take_attempt(
        &self,
        _: AccountId,
        key: AttemptKey,
        limit: AttemptLimit,
    ) -> Result<Option<Duration>, StoreError> {
        let mut rows = self.rows();
        let now = rows.now;
        let until = rows.until.entry(key).or_default();
        let next = (*until).max(now) + limit.one_every;
        let latest = now + limit.one_every * limit.at_once;
        if next > latest {
            return Ok(Some(next - latest));
        }
        *until = next;
        Ok(None)
    }
}
