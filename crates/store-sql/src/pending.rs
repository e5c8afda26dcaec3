//! Things that wait for a person's or a machine's next step.
//!
//! One statement takes or changes a thing, so that of several callers one comes first. Putting one there takes turns
//! among those of its kind, since bounds are looked up and then kept. No transaction here takes a turn of the
//! configuration.

use super::attempts::{self, micros};
use super::connection::{Rows, Transaction};
use super::postgres;
use super::read;
use super::store::SqlStore;
use super::value::{Value, damaged};
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use async_trait::async_trait;
use culvert_base::Uptime;
use culvert_fair::{Bounds, FairTable, Refused, SUBSCRIBER_LEN, Subscriber};
use culvert_ids::AccountId;
use culvert_store::{
    AttemptKey, AttemptLimit, NewPending, Pending, PendingBounds, PendingKey, PendingKind,
    PendingStore, PutPending, SecretBytes, StoreError, WhenFull, WhenThere,
};
use culvert_wire::Timestamp;
use std::time::Duration;

/// Rows whose time is over that one call removes at most. Each makes one at most.
const PRUNED_AT_ONCE: u64 = 16;

#[async_trait]
impl PendingStore for SqlStore {
    async fn put_pending(
        &self,
        account: AccountId,
        new: NewPending,
        there: WhenThere,
        bounds: PendingBounds,
    ) -> Result<PutPending, StoreError> {
        let (_turn, transaction) = self.writer.begin_for_stranger().await?;
        let written = put(transaction, &self.sealing, account, new, there, bounds).await;
        self.writer.note(written)
    }

    async fn pending(
        &self,
        account: AccountId,
        key: PendingKey,
    ) -> Result<Option<Pending>, StoreError> {
        get(&mut self.reading().await?, &self.sealing, account, key).await
    }

    async fn take_pending(
        &self,
        account: AccountId,
        key: PendingKey,
    ) -> Result<Option<Pending>, StoreError> {
        let (_turn, transaction) = self.writer.begin_for_stranger().await?;
        let written = take(transaction, &self.sealing, account, key).await;
        self.writer.note(written)
    }

    async fn replace_pending(
        &self,
        account: AccountId,
        key: PendingKey,
        version: u64,
        value: Option<SecretBytes>,
    ) -> Result<bool, StoreError> {
        let (_turn, transaction) = self.writer.begin_for_stranger().await?;
        let which = (key, version);
        let written = replace(transaction, &self.sealing, account, which, value).await;
        self.writer.note(written)
    }

    async fn take_attempt(
        &self,
        account: AccountId,
        key: AttemptKey,
        limit: AttemptLimit,
    ) -> Result<Option<Duration>, StoreError> {
        let (_turn, transaction) = self.writer.begin_for_stranger().await?;
        let written = attempts::take(transaction, account, key, limit).await;
        self.writer.note(written)
    }

    async fn clock(&self) -> Result<Timestamp, StoreError> {
        let mut transaction = self.reading().await?;
        let sql = format!("SELECT {} AS now_us", transaction.dialect().now_us());
        let row = transaction.fetch_one(sql, Vec::new()).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
        let now_us = row.columns().number("now_us")?;
        Ok(Timestamp::from_unix_ms(now_us / 1_000))
    }
}

async fn put(
    mut transaction: Transaction,
    sealing: &Sealing,
    account: AccountId,
    new: NewPending,
    there: WhenThere,
    bounds: PendingBounds,
) -> Result<PutPending, StoreError> {
    let value = sealing.seal(&row_of(&account, &new.key), &new.value)?;
    postgres::lock_kind(&mut transaction, new.kind).await?;
    read::last_seq(&mut transaction, account).await?;
    let mut putting = Putting {
        now_us: 0,
        since_us: 0,
        transaction,
        account,
        kind: new.kind,
    };
    putting.read_clock().await?;
    if there == WhenThere::Keep && putting.is_there(new.key).await? {
        return Ok(PutPending::IsThere);
    }
    // In its own place it takes no room, and one whose time is over is nothing.
    putting.delete(new.key.as_bytes()).await?;
    let put = putting.make_room(new.subscriber, bounds).await?;
    if matches!(put, PutPending::Waits { .. }) {
        putting.insert(&new, value).await?;
    }
    putting.prune().await?;
    putting.transaction.commit().await?;
    Ok(put)
}

/// The seal of a value is good in its own row alone.
fn row_of<'a>(account: &'a AccountId, key: &'a PendingKey) -> SecretRow<'a> {
    SecretRow::of(SecretColumn::Pending, account, key.as_bytes())
}

/// A thing that is being put among those of its kind.
struct Putting {
    transaction: Transaction,
    account: AccountId,
    kind: PendingKind,
    now_us: u64,
    /// Since when it will wait: later than all others of its kind.
    since_us: u64,
}

impl Putting {
    async fn read_clock(&mut self) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {} AS now_us, (SELECT max(since_us) FROM pending WHERE account = ? AND kind = ?) AS last_us",
            self.transaction.dialect().now_us()
        );
        let values = vec![self.account.as_bytes().into(), self.kind.as_str().into()];
        let row = self.transaction.fetch_one(sql, values).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
        self.now_us = row.columns().number("now_us")?;
        let last_us = row.columns().optional_number("last_us")?;
        self.since_us = last_us.map_or(self.now_us, |last| self.now_us.max(last + 1));
        Ok(())
    }

    async fn is_there(&mut self, key: PendingKey) -> Result<bool, StoreError> {
        let sql = "SELECT version FROM pending WHERE account = ? AND key = ? AND expires_us > ?";
        let values = vec![
            self.account.as_bytes().into(),
            key.as_bytes().as_slice().into(),
            self.now_us.into(),
        ];
        Ok(self.transaction.fetch_one(sql, values).await?.is_some())
    }

    async fn delete(&mut self, key: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "DELETE FROM pending WHERE account = ? AND key = ?";
        let values = vec![self.account.as_bytes().into(), key.as_slice().into()];
        self.transaction.execute(sql, values).await?;
        Ok(())
    }

    /// Sees to it that one more is within the bounds.
    async fn make_room(
        &mut self,
        subscriber: Subscriber,
        bounds: PendingBounds,
    ) -> Result<PutPending, StoreError> {
        let Some(within) = self.exceeded(subscriber, bounds).await? else {
            return Ok(PutPending::Waits { gave_way: None });
        };
        if bounds.full == WhenFull::IsRefused {
            return self.refused(subscriber).await;
        }
        match self.largest_holder(subscriber, &within, bounds).await? {
            None => self.refused(subscriber).await,
            Some((key, holder)) => {
                self.delete(&key).await?;
                Ok(PutPending::Waits {
                    gave_way: Some(holder),
                })
            }
        }
    }

    /// The bytes with which all subscribers begin among whom one must give way: those of the finest network that one
    /// more would exceed the share of, or none where there are too many in all.
    async fn exceeded(
        &mut self,
        subscriber: Subscriber,
        bounds: PendingBounds,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let own = subscriber.to_bytes();
        for (common, multiple) in subscriber.shares() {
            let share = (bounds.of_one as u64).saturating_mul(multiple.into());
            if self.count(&own[..common]).await? >= share {
                return Ok(Some(own[..common].to_vec()));
            }
        }
        let is_full = self.count(&[]).await? >= bounds.all as u64;
        Ok(is_full.then(Vec::new))
    }

    async fn count(&mut self, prefix: &[u8]) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) AS rows FROM pending WHERE {HELD}");
        let values = self.held(prefix);
        let row = self.transaction.fetch_one(sql, values).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
        row.columns().number("rows")
    }

    /// The values of [`HELD`].
    fn held(&self, prefix: &[u8]) -> Vec<Value> {
        let bound = |filler| -> Value {
            let mut bytes = [filler; SUBSCRIBER_LEN];
            bytes[..prefix.len()].copy_from_slice(prefix);
            bytes.as_slice().into()
        };
        vec![
            self.account.as_bytes().into(),
            self.kind.as_str().into(),
            bound(0),
            bound(u8::MAX),
            self.now_us.into(),
        ]
    }

    /// The thing that gives way, and its holder; none where the newcomer itself is refused.
    ///
    /// It takes reading all holders among whom one gives way: [`PendingBounds::all`] at most, some 100 bytes each, in a
    /// few milliseconds, and only while there are too many.
    async fn largest_holder(
        &mut self,
        newcomer: Subscriber,
        within: &[u8],
        bounds: PendingBounds,
    ) -> Result<Option<([u8; 32], Subscriber)>, StoreError> {
        let sql =
            format!("SELECT key, subscriber, since_us FROM pending WHERE {HELD} ORDER BY since_us");
        let values = self.held(within);
        let rows = self.transaction.fetch(sql, values).await?;
        let settling = match bounds.full {
            WhenFull::LargestGivesWay => Duration::ZERO,
            WhenFull::OwnIsRefused | WhenFull::IsRefused => Duration::MAX,
        };
        let mut table = FairTable::new(Bounds {
            capacity: bounds.all,
            per_subscriber: bounds.of_one,
            settling,
        });
        for held in read_holders(&rows)? {
            let (key, subscriber, since) = held;
            // Those that are there fit: each was put there so.
            let _ = table.admit(subscriber, since, Some((key, subscriber)));
        }
        let since = Uptime::after(Duration::from_micros(self.since_us));
        Ok(match table.admit(newcomer, since, None) {
            Ok((_, gave_way)) => gave_way.flatten(),
            Err(Refused(_)) => None,
        })
    }

    async fn refused(&mut self, subscriber: Subscriber) -> Result<PutPending, StoreError> {
        let sql = format!("SELECT min(expires_us) AS first_us FROM pending WHERE {HELD}");
        let values = self.held(&subscriber.to_bytes());
        let row = self.transaction.fetch_one(sql, values).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
        let first_us = row.columns().optional_number("first_us")?;
        // Without one of its own it waits for those of others, which are as long there.
        let left_us = first_us.map_or(0, |first| first.saturating_sub(self.now_us));
        Ok(PutPending::Refused {
            wait: Duration::from_micros(left_us),
        })
    }

    async fn insert(&mut self, new: &NewPending, value: Vec<u8>) -> Result<(), StoreError> {
        let sql = "INSERT INTO pending (account, key, kind, subscriber, version, since_us, expires_us, value) \
                   VALUES (?, ?, ?, ?, 1, ?, ?, ?)";
        let values = vec![
            self.account.as_bytes().into(),
            new.key.as_bytes().as_slice().into(),
            self.kind.as_str().into(),
            new.subscriber.to_bytes().as_slice().into(),
            self.since_us.into(),
            self.now_us.saturating_add(micros(new.lifetime)).into(),
            Value::Blob(value),
        ];
        self.transaction.execute(sql, values).await?;
        Ok(())
    }

    /// Removes things whose time is over, of any kind. It comes last and waits for nobody, so that two callers never
    /// wait for each other.
    async fn prune(&mut self) -> Result<(), StoreError> {
        let sql = format!(
            "DELETE FROM pending WHERE account = ?1 AND key IN (SELECT key FROM pending \
             WHERE account = ?1 AND expires_us <= ?2 ORDER BY expires_us LIMIT ?3{})",
            self.transaction.dialect().skip_locked(),
        );
        let values = vec![
            self.account.as_bytes().into(),
            self.now_us.into(),
            PRUNED_AT_ONCE.into(),
        ];
        self.transaction.execute(sql, values).await?;
        Ok(())
    }
}

/// The condition that a row is of the kind, and of a subscriber in a range, and its time is not over.
const HELD: &str =
    "account = ? AND kind = ? AND subscriber >= ? AND subscriber <= ? AND expires_us > ?";

type HeldRow = ([u8; 32], Subscriber, Uptime);

fn read_holders(rows: &Rows) -> Result<Vec<HeldRow>, StoreError> {
    let read = rows.iter().map(|row| {
        let subscriber = Subscriber::from_bytes(row.bytes("subscriber")?);
        let subscriber = subscriber.ok_or_else(|| damaged("subscriber", "of no kind"))?;
        let since = Duration::from_micros(row.number("since_us")?);
        Ok((row.bytes("key")?, subscriber, Uptime::after(since)))
    });
    read.collect()
}

/// The columns of [`read_pending`].
fn columns(transaction: &Transaction) -> String {
    let now = transaction.dialect().now_us();
    format!("value, version, since_us, {now} AS now_us")
}

async fn get(
    reading: &mut Transaction,
    sealing: &Sealing,
    account: AccountId,
    key: PendingKey,
) -> Result<Option<Pending>, StoreError> {
    read::last_seq(reading, account).await?;
    let sql = format!(
        "SELECT {} FROM pending WHERE account = ? AND key = ? AND expires_us > {}",
        columns(reading),
        reading.dialect().now_us()
    );
    let rows = reading.fetch(sql, names(account, key)).await?;
    read_pending(&rows, sealing, account, key)
}

async fn take(
    mut transaction: Transaction,
    sealing: &Sealing,
    account: AccountId,
    key: PendingKey,
) -> Result<Option<Pending>, StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let sql = format!(
        "DELETE FROM pending WHERE account = ? AND key = ? AND expires_us > {} RETURNING {}",
        transaction.dialect().now_us(),
        columns(&transaction),
    );
    let rows = transaction.fetch(sql, names(account, key)).await?;
    let taken = read_pending(&rows, sealing, account, key)?;
    transaction.commit().await?;
    Ok(taken)
}

async fn replace(
    mut transaction: Transaction,
    sealing: &Sealing,
    account: AccountId,
    (key, version): (PendingKey, u64),
    value: Option<SecretBytes>,
) -> Result<bool, StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let now = transaction.dialect().now_us();
    let mut values = names(account, key);
    values.push(version.into());
    let change = match value {
        None => "DELETE FROM pending",
        Some(value) => {
            values.push(Value::Blob(sealing.seal(&row_of(&account, &key), &value)?));
            "UPDATE pending SET value = ?4, version = version + 1"
        }
    };
    let sql =
        format!("{change} WHERE account = ?1 AND key = ?2 AND version = ?3 AND expires_us > {now}");
    let changed = transaction.execute(sql, values).await?;
    transaction.commit().await?;
    Ok(changed == 1)
}

fn names(account: AccountId, key: PendingKey) -> Vec<Value> {
    vec![account.as_bytes().into(), key.as_bytes().as_slice().into()]
}

fn read_pending(
    rows: &Rows,
    sealing: &Sealing,
    account: AccountId,
    key: PendingKey,
) -> Result<Option<Pending>, StoreError> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (since, now) = (row.number("since_us")?, row.number("now_us")?);
    Ok(Some(Pending {
        value: sealing.open(&row_of(&account, &key), row.get("value")?)?,
        version: row.number("version")?,
        age: Duration::from_micros(now.saturating_sub(since)),
    }))
}
