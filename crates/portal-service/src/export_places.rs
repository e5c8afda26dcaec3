//! Places for exports. An export has the database only while it reads a page. One that waits for its reader keeps memory
//! alone; when there are too many, the one whose reader has kept it waiting longest gives way
//! (`docs/adr/0029-the-largest-holder-gives-way.md`).

use culvert_ids::ActorId;
use culvert_portal_base::{Place, Places};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// Pages that are read at once, of all exports: two of the database's four readers are left to everybody else.
const READS_AT_ONCE: usize = 2;

/// Exports at once. Each keeps two parts of 200 entries, some 120 kB, and 4,096 names, some 400 kB: 8 MB in all.
pub(super) const MAX_EXPORTS: usize = 16;

/// Exports of one actor at once.
const MAX_EXPORTS_PER_ACTOR: u32 = 1;

/// The time that an export waits for its reader, all in all, before it gives way among [`MAX_EXPORTS`]. A
/// reader that takes a megabyte a second exports 30 MB, some 100,000 entries, before that.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(30);

/// Places for exports.
#[derive(Debug)]
pub(super) struct ExportPlaces {
    pub(super) reads: Semaphore,
    running: Arc<Mutex<Vec<Arc<Running>>>>,
    by_actor: Places<ActorId>,
}

impl Default for ExportPlaces {
    fn default() -> Self {
        Self {
            reads: Semaphore::new(READS_AT_ONCE),
            running: Arc::default(),
            by_actor: Places::default(),
        }
    }
}

/// An export that has a place.
#[derive(Debug, Default)]
pub(super) struct Running {
    waits: Mutex<Waits>,
    pub(super) gives_way: Notify,
}

/// The time that an export has waited for its reader: until the last part, and since when for this one.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    before: Duration,
    since: Option<Instant>,
}

impl Running {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_wait(&self) {
        self.waits().since = Some(Instant::now());
    }

    pub(super) fn end_wait(&self) {
        let waited = self.waited();
        *self.waits() = Waits {
            before: waited,
            since: None,
        };
    }

    fn waited(&self) -> Duration {
        let waits = *self.waits();
        waits.before + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A place among all, and one among those of the actor. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ExportPlace {
    pub(super) own: Arc<Running>,
    running: Arc<Mutex<Vec<Arc<Running>>>>,
    _of_actor: Place<ActorId>,
}

impl Drop for ExportPlace {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have given way already.
        running.retain(|other| !Arc::ptr_eq(other, &self.own));
    }
}

impl ExportPlaces {
    /// A place. If there is none, the export that has waited longest for its reader gives way.
    pub(super) fn take(&self, actor: ActorId) -> Option<ExportPlace> {
        let of_actor = self.by_actor.take(actor, MAX_EXPORTS_PER_ACTOR)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= MAX_EXPORTS {
            let waited = running.iter().map(|export| export.waited());
            let (slowest, waited) = waited.enumerate().max_by_key(|(_, waited)| *waited)?;
            if waited < GIVES_WAY_AFTER {
                return None;
            }
            running.swap_remove(slowest).gives_way.notify_one();
        }
        let own = Arc::new(Running::default());
        running.push(Arc::clone(&own));
        Some(ExportPlace {
            own,
            running: Arc::clone(&self.running),
            _of_actor: of_actor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn actor(number: u8) -> ActorId {
        ActorId::from_bytes([number; 16])
    }

    #[tokio::test(start_paused = true)]
    async fn the_export_with_the_slowest_reader_gives_way_once_that_is_slow() {
        let places = ExportPlaces::default();
        let take = |number: usize| places.take(actor(u8::try_from(number).unwrap()));
        let mut held: Vec<_> = (0..MAX_EXPORTS)
            .map(|number| take(number).unwrap())
            .collect();
        // All wait for their readers; the readers of two are fast, and of one of these now and then.
        for place in &held {
            place.own.begin_wait();
        }
        held[3].own.end_wait();
        tokio::time::sleep(GIVES_WAY_AFTER - Duration::from_millis(1)).await;
        assert!(take(100).is_none(), "nobody is slow yet");
        for place in &held[..8] {
            place.own.end_wait();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let newcomer = take(100).expect("one of the other eight gives way");
        let mut gave_way = 0;
        for (number, place) in held.iter().enumerate() {
            let told = timeout(Duration::ZERO, place.own.gives_way.notified());
            let told = told.await.is_ok();
            assert!(!told || number >= 8, "{number} reads fast");
            gave_way += usize::from(told);
        }
        assert_eq!(gave_way, 1);
        assert!(take(100).is_none(), "one of an actor");
        drop(newcomer);
        // An export that gave way takes no place along that is another's by now.
        let second = take(101).unwrap();
        drop(held.split_off(0));
        assert_eq!(places.running.lock().unwrap().len(), 1);
        drop(second);
        assert!(places.running.lock().unwrap().is_empty());
    }
}
