//! Follows the store's changes, in their order, and nothing but them: while the database does not
//! answer, the sessions go on as they are.

use super::election::{Objection, Objections};
use super::hub_actor::HubHandle;
use super::pulse::Pulse;
use culvert_ids::AccountId;
use culvert_store::{
    Change, EntityId, MAX_CHANGES_PER_WRITE, MAX_CHANGES_READ, Seq, Store, StoreError,
};
use culvert_wire::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the feed is read without being woken: a lost wake-up costs that long.
const POLL: Duration = Duration::from_secs(1);

/// The largest age of the last read for which the feed is called current: some polls.
const STALE: Duration = Duration::from_secs(5);

/// Sessions that wait for a look: all that may be starting.
const MAX_WAITING: usize = 1_024;

/// A handle of the feed.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    looks: mpsc::Sender<oneshot::Sender<bool>>,
    health: Arc<Mutex<Health>>,
}

#[derive(Debug)]
struct Health {
    last_look: Instant,
    fault: Option<String>,
}

impl Feed {
    /// Starts after `seq`. It ends once all copies of the handle are gone.
    pub(super) fn start(
        store: Arc<dyn Store>,
        account: AccountId,
        seq: Seq,
        (hub, pulse, objections): (HubHandle, Pulse, Objections),
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, looks) = mpsc::channel(MAX_WAITING);
        let health = Arc::new(Mutex::new(Health {
            last_look: Instant::now(),
            fault: None,
        }));
        let follower = Follower {
            store,
            account,
            seq,
            last: None,
            hub,
            pulse,
            objections,
            health: Arc::clone(&health),
        };
        let feed = Self {
            looks: sender,
            health,
        };
        (feed, follower.follow(looks))
    }

    /// Returns once every change that was committed before the call is in, or false where that
    /// can't be.
    pub(super) async fn catch_up(&self) -> bool {
        let (done, answer) = oneshot::channel();
        self.looks.send(done).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Looks soon. A full queue looks anyway.
    pub(super) fn wake(&self) {
        let (done, _) = oneshot::channel();
        let _ = self.looks.try_send(done);
    }

    /// The fault of the feed; none if it is current.
    pub(super) fn fault(&self) -> Option<String> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = &health.fault {
            return Some(format!(
                "changes of the configuration do not arrive: {fault}"
            ));
        }
        (health.last_look.elapsed() > STALE)
            .then(|| "changes of the configuration are late".to_owned())
    }
}

struct Follower {
    store: Arc<dyn Store>,
    account: AccountId,
    seq: Seq,
    /// The change of that number, as it was first read. Another one in its place shows that the database was restored.
    last: Option<Mark>,
    hub: HubHandle,
    pulse: Pulse,
    /// Told of something by which this hub must not go on.
    objections: Objections,
    health: Arc<Mutex<Health>>,
}

/// A change, told from others of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    seq: Seq,
    at: Timestamp,
    row: EntityId,
}

impl Mark {
    const fn of(change: &Change) -> Self {
        Self {
            seq: change.seq,
            at: change.at,
            row: change.id,
        }
    }
}

impl Follower {
    async fn follow(mut self, mut looks: mpsc::Receiver<oneshot::Sender<bool>>) {
        let mut commits = self.store.watch();
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut waiting = Vec::new();
            tokio::select! {
                is_there = commits.changed() => if !is_there { break },
                _ = poll.tick() => {}
                look = looks.recv() => match look {
                    Some(look) => waiting.push(look),
                    None => break,
                },
            }
            // One look serves all who came before it.
            while let Ok(look) = looks.try_recv() {
                waiting.push(look);
            }
            let fault = self.look().await.err();
            let is_current = fault.is_none();
            self.note(fault);
            for look in waiting {
                // The asker may be gone.
                let _ = look.send(is_current);
            }
        }
    }

    /// Reads up to the end before anything is applied, so that what was written at once is seen at
    /// once.
    async fn look(&mut self) -> Result<(), String> {
        loop {
            let mut changes = self.read_on().await?;
            let mut at_end = changes.is_empty();
            while !at_end && changes.len() < MAX_CHANGES_PER_WRITE {
                let seq = changes.last().map_or(self.seq, |change| change.seq);
                let read = self.read(seq, MAX_CHANGES_READ).await?;
                at_end = read.is_empty();
                changes.extend(read);
            }
            if let Some(last) = changes.last().map(Mark::of) {
                self.hub.apply(changes).await?;
                self.seq = last.seq;
                self.last = Some(last);
            }
            if at_end {
                return Ok(());
            }
        }
    }

    /// The changes behind the last one, which is read again to see that it is the same. One that is too old to be kept
    /// can't be compared.
    async fn read_on(&mut self) -> Result<Vec<Change>, String> {
        let Some(before) = self.seq.0.checked_sub(1) else {
            return self.read(self.seq, MAX_CHANGES_READ).await;
        };
        let mut read = self.read(Seq(before), MAX_CHANGES_READ).await?;
        let found = read.first().map(Mark::of).filter(|it| it.seq == self.seq);
        let Some(found) = found else {
            return Ok(read);
        };
        read.remove(0);
        if self.last.is_some_and(|last| last != found) {
            self.objections.make(Objection::WentBack);
            let number = self.seq.0;
            return Err(format!(
                "the database has gone back in time: its change number {number} is another one"
            ));
        }
        self.last = Some(found);
        Ok(read)
    }

    async fn read(&self, after: Seq, limit: u32) -> Result<Vec<Change>, String> {
        let read = self.store.changes_after(self.account, after, limit).await;
        read.map_err(|error| {
            match error {
                StoreError::LaterValue { .. } => self.objections.make(Objection::LaterVersion),
                StoreError::WentBack { .. } => self.objections.make(Objection::WentBack),
                _ => {}
            }
            error.to_string()
        })
    }

    fn note(&self, fault: Option<String>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match (&health.fault, &fault) {
            (None, Some(fault)) => tracing::error!(fault, "the feed of changes has stopped"),
            (Some(_), None) => tracing::info!("the feed of changes goes on"),
            _ => {}
        }
        if health.fault.is_some() != fault.is_some() {
            self.pulse.beat();
        }
        if fault.is_none() {
            health.last_look = Instant::now();
        }
        health.fault = fault;
    }
}
