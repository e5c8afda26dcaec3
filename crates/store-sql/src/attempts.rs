//! Tries of a secret, counted by the generic cell rate algorithm (ITU-T I.371).
//!
//! A row has the time until which the tries so far take up their limit, the theoretical arrival time of the next one.
//! A row whose time is over says nothing, and is removed by later tries. A row lasts for the interval of its limit
//! for each try, so their number is that of the tries of a few seconds or minutes, each of which is a write.

use super::connection::Transaction;
use super::read;
use super::value::Value;
use culvert_ids::AccountId;
use culvert_store::{AttemptKey, AttemptLimit, StoreError};
use std::time::Duration;

/// Rows that one try removes at most. Each makes one at most.
const PRUNED_AT_ONCE: u64 = 16;

pub(super) async fn take(
    mut transaction: Transaction,
    account: AccountId,
    key: AttemptKey,
    limit: AttemptLimit,
) -> Result<Option<Duration>, StoreError> {
    read::last_seq(&mut transaction, account).await?;
    let now = transaction.dialect().now_us();
    let one = micros(limit.one_every);
    let most = one.saturating_mul(u64::from(limit.at_once.max(1)));
    let row = || -> Vec<Value> {
        vec![
            account.as_bytes().into(),
            key.as_bytes().as_slice().into(),
            one.into(),
            most.into(),
        ]
    };
    let sql = format!(
        "INSERT INTO attempt (account, key, until_us) VALUES (?1, ?2, {now} + ?3) \
         ON CONFLICT (account, key) DO UPDATE SET until_us = \
         CASE WHEN attempt.until_us > {now} THEN attempt.until_us ELSE {now} END + ?3 \
         WHERE attempt.until_us + ?3 - {now} <= ?4 RETURNING until_us"
    );
    let taken = transaction.fetch(sql, row()).await?;
    let mut wait = None;
    if taken.len() == 0 {
        let sql = format!(
            "SELECT until_us + ?3 - {now} - ?4 AS wait_us FROM attempt WHERE account = ?1 AND key = ?2"
        );
        let found = transaction.fetch_one(sql, row()).await?;
        let left: Option<i64> = found.map(|row| row.columns().get("wait_us")).transpose()?;
        // Its time may have come between the two statements.
        let left = left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0);
        wait = Some(Duration::from_micros(left.max(1)));
    }
    prune(&mut transaction, account).await?;
    transaction.commit().await?;
    Ok(wait)
}

/// Removes rows that say nothing any more. It comes last and waits for nobody, so that two callers never wait for
/// each other.
async fn prune(transaction: &mut Transaction, account: AccountId) -> Result<(), StoreError> {
    let dialect = transaction.dialect();
    let sql = format!(
        "DELETE FROM attempt WHERE account = ?1 AND key IN (SELECT key FROM attempt \
         WHERE account = ?1 AND until_us <= {} ORDER BY until_us LIMIT ?2{})",
        dialect.now_us(),
        dialect.skip_locked(),
    );
    let values = vec![account.as_bytes().into(), PRUNED_AT_ONCE.into()];
    transaction.execute(sql, values).await?;
    Ok(())
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlStore, SqliteOptions};
    use culvert_fair::Subscriber;
    use culvert_store::{
        Account, AccountSettings, Author, NewPending, PendingBounds, PendingKey, PendingKind,
        PendingStore as _, PutPending, SecretBytes, Stamp, Store as _, WhenFull, WhenThere,
    };
    use culvert_wire::Timestamp;

    const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
    const LONG: Duration = Duration::from_secs(24 * 60 * 60);
    /// Rows that say nothing any more, of long ago.
    const OLD_ROWS: u64 = 40;

    /// A store with rows of long ago.
    async fn store(insert: &str) -> SqlStore {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let at = Timestamp::from_unix_ms(1);
        let made = store.create_account(account, Author::PORTAL, at).await;
        made.unwrap();
        let mut writing = store.writing().await.unwrap();
        for _ in 0..OLD_ROWS {
            let account = vec![ACCOUNT.as_bytes().into()];
            writing.execute(insert, account).await.unwrap();
        }
        writing.commit().await.unwrap();
        store
    }

    async fn count(store: &SqlStore, table: &str) -> u64 {
        let mut reading = store.reading().await.unwrap();
        let sql = format!("SELECT count(*) AS rows FROM {table}");
        let row = reading.fetch_one(sql, Vec::new()).await.unwrap().unwrap();
        row.columns().number("rows").unwrap()
    }

    #[tokio::test]
    async fn rows_of_tries_that_say_nothing_any_more_are_removed_by_later_tries() {
        let insert = "INSERT INTO attempt (account, key, until_us) VALUES (?, randomblob(32), 1)";
        let store = store(insert).await;
        let limit = AttemptLimit {
            one_every: LONG,
            at_once: 2,
        };
        let key = AttemptKey::from_bytes([1; 32]);
        for (refused, left) in [(false, 25), (false, 9), (true, 1), (true, 1)] {
            let taken = store.take_attempt(ACCOUNT, key, limit).await.unwrap();
            assert_eq!(taken.is_some(), refused);
            assert_eq!(count(&store, "attempt").await, left);
        }
    }

    #[tokio::test]
    async fn things_whose_time_is_over_take_no_room_and_are_removed_by_later_ones() {
        let insert = "INSERT INTO pending (account, key, kind, subscriber, version, since_us, expires_us, value) \
                      VALUES (?, randomblob(32), 'form', zeroblob(9), 1, 1, 1, x'00')";
        let store = store(insert).await;
        let bounds = PendingBounds {
            all: 2,
            of_one: 2,
            full: WhenFull::IsRefused,
        };
        for (number, left) in [(1, 25), (2, 10)] {
            let new = NewPending {
                kind: PendingKind::Form,
                key: PendingKey::from_bytes([number; 32]),
                subscriber: Subscriber::key(1),
                value: SecretBytes::new(vec![number]),
                lifetime: LONG,
            };
            let put = store.put_pending(ACCOUNT, new, WhenThere::Keep, bounds);
            assert_eq!(put.await.unwrap(), PutPending::Waits { gave_way: None });
            assert_eq!(count(&store, "pending").await, left);
        }
    }
}
