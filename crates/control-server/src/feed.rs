//! Follows the store's changes, in their order, and nothing but them: while the database does not
//! answer, the sessions go on as they are.

use super::election::{Objection, Objections};
use super::hub_actor::HubHandle;
use super::pulse::Pulse;
use culvert_ids::AccountId;
use culvert_store::{MAX_CHANGES_PER_WRITE, MAX_CHANGES_READ, Seq, Store, StoreError};
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
    hub: HubHandle,
    pulse: Pulse,
    /// Told of something that only a later version knows: this hub would go on by what was before.
    objections: Objections,
    health: Arc<Mutex<Health>>,
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
            let mut changes = Vec::new();
            let mut seq = self.seq;
            let mut at_end = false;
            while !at_end && changes.len() < MAX_CHANGES_PER_WRITE {
                let read = self
                    .store
                    .changes_after(self.account, seq, MAX_CHANGES_READ)
                    .await;
                let read = read.map_err(|error| {
                    if matches!(error, StoreError::LaterValue { .. }) {
                        self.objections.make(Objection::LaterVersion);
                    }
                    error.to_string()
                })?;
                seq = read.last().map_or(seq, |change| change.seq);
                at_end = read.is_empty();
                changes.extend(read);
            }
            if !changes.is_empty() {
                self.hub.apply(changes).await?;
                self.seq = seq;
            }
            if at_end {
                return Ok(());
            }
        }
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
