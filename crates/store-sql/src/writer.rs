//! The connections that write, and whether what they write arrives.

use super::connection::Transaction;
use super::pool::Pool;
use super::postgres;
use super::readable::Readable;
use super::turn::Turn;
use culvert_store::StoreError;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The time for which a successful write answers probes. However often someone asks, the disk works
/// for them once in that time.
const PROBE_HOLDS: Duration = Duration::from_secs(1);

/// The connections that write: a single one to SQLite.
pub(super) struct Writer {
    pub(super) pool: Pool,
    places: Vec<Place>,
    readable: Arc<Readable>,
    /// The fault of the last write; none if it succeeded.
    last_fault: Mutex<Option<StoreError>>,
    /// The time of the last probe that succeeded; the holder of the lock probes.
    probed: tokio::sync::Mutex<Option<Instant>>,
    /// Changes of the configuration take turns. On SQLite all writes do, by its single connection.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Writes that strangers cause take turns before they have a connection.
    strangers: tokio::sync::Mutex<()>,
}

/// A file that is open, and where it was found.
struct Place {
    path: PathBuf,
    identity: (u64, u64),
}

impl Writer {
    /// Of a database in a file that is open, or in memory.
    pub(super) fn new(pool: Pool, path: Option<&Path>, readable: Arc<Readable>) -> Self {
        let log = path.map(|path| {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            PathBuf::from(log)
        });
        let places = path.map(Path::to_owned).into_iter().chain(log);
        let places = places.filter_map(|path| {
            let identity = identity(&path)?;
            Some(Place { path, identity })
        });
        Self {
            pool,
            places: places.collect(),
            readable,
            last_fault: Mutex::default(),
            probed: tokio::sync::Mutex::default(),
            turn: Arc::default(),
            strangers: tokio::sync::Mutex::default(),
        }
    }

    /// A transaction that writes what is not configuration. On SQLite it has the writer from its beginning.
    pub(super) async fn begin(&self) -> Result<Transaction, StoreError> {
        self.check()?;
        self.pool.write().await
    }

    /// A transaction of a sign-in under way, with its turn. However many strangers begin to sign in, and whatever lock
    /// one of them waits for, they have one connection: grants and logs have the others.
    pub(super) async fn begin_for_stranger(
        &self,
    ) -> Result<(tokio::sync::MutexGuard<'_, ()>, Transaction), StoreError> {
        let turn = timeout(postgres::LOCK_TIMEOUT, self.strangers.lock()).await;
        let turn = turn.map_err(|_| StoreError::Busy {
            detail: "other sign-ins take long".to_owned(),
        })?;
        Ok((turn, self.begin().await?))
    }

    /// A transaction that nobody else's change of that part of the configuration comes between, from its beginning to
    /// its end.
    pub(super) async fn begin_change(&self, turn: Turn) -> Result<Transaction, StoreError> {
        self.check()?;
        let mut transaction = self.pool.change(turn, &self.turn).await?;
        if let Transaction::Postgres { .. } = transaction {
            self.readable.check_in(&mut transaction).await?;
        }
        Ok(transaction)
    }

    /// Succeeds if writing is possible. While others write, the result of the last write is
    /// the answer.
    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        let mut probed = self.probed.lock().await;
        self.check()?;
        let last_fault = self.last_fault();
        let still_holds = still_holds(*probed, Instant::now());
        if self.pool.is_busy() || (still_holds && last_fault.is_none()) {
            return last_fault.map_or(Ok(()), Err);
        }
        let was_full = matches!(last_fault, Some(StoreError::Full { .. }));
        // This future may be dropped before the write ends, so the fault is remembered ahead.
        self.remember(Some(StoreError::Unavailable(
            "a write does not come to its end".into(),
        )));
        self.note(self.write_probe(was_full).await)?;
        *probed = Some(Instant::now());
        Ok(())
    }

    /// Remembers what came of a write.
    pub(super) fn note<T>(&self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        match &written {
            Ok(_) => self.remember(None),
            Err(error) if error.is_local() => self.remember(error.again()),
            // The asker's fault says nothing of the database.
            Err(_) => {}
        }
        written
    }

    async fn write_probe(&self, was_full: bool) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        for sql in transaction.dialect().probe(was_full) {
            transaction.execute(*sql, Vec::new()).await?;
        }
        transaction.commit().await
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    fn remember(&self, fault: Option<StoreError>) {
        let last = self.last_fault.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn last_fault(&self) -> Option<StoreError> {
        let last = self.last_fault.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner);
        last.as_ref().and_then(StoreError::again)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.check_place()?;
        self.readable.check()
    }

    /// Nothing may be acknowledged where the file was removed or replaced: it still takes what is written, and nobody
    /// reads it again.
    fn check_place(&self) -> Result<(), StoreError> {
        let lost = self
            .places
            .iter()
            .find(|place| identity(&place.path) != Some(place.identity));
        let Some(place) = lost else {
            return Ok(());
        };
        let text = format!(
            "{} was removed or replaced while it was in use; put it back, or restore the last backup, \
             and start the portal again",
            place.path.display()
        );
        Err(StoreError::Unavailable(text.into()))
    }
}

/// The device and inode of a file, by which it is known under any name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// True if the probe that succeeded last is an answer now.
fn still_holds(probed: Option<Instant>, now: Instant) -> bool {
    probed.is_some_and(|at| now.saturating_duration_since(at) < PROBE_HOLDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_an_answer_for_a_second() {
        let at = Instant::now();
        let ms = Duration::from_millis;
        assert!(!still_holds(None, at));
        for (later, holds) in [(0, true), (999, true), (1_000, false), (60_000, false)] {
            assert_eq!(still_holds(Some(at), at + ms(later)), holds, "{later} ms");
        }
    }
}
