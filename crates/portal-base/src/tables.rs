//! The tables of connections, and the choice of the one that gives way to a newcomer (ADR 0029).

use super::class::Class;
use super::limits::{Limits, MAX_CLOSING};
use super::metrics::Metrics;
use super::notice::Notice;
use culvert_base::Uptime;
use culvert_fair::{Bounds as Shares, FairTable, Place, Subscriber};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The share of one subscriber, in parts of each class. A quarter of the handshakes lets 2,000 machines behind one
/// address come back within seconds, and a third of the strangers is a thousand browsers behind one.
pub(super) const HANDSHAKES_PER_SUBSCRIBER: usize = 4;
pub(super) const STRANGERS_PER_SUBSCRIBER: usize = 3;

/// Of callers the subscriber is the actor: a script with a hundred connections at once, and not all of them.
pub(super) const CALLERS_PER_ACTOR: usize = 8;

/// 4,000 machines may share one address: a third of all sessions.
const MACHINES_PER_SUBSCRIBER: (usize, usize) = (1, 3);

/// The age up to which a handshake does not give way to its own subscriber: two round trips and a second of
/// waiting for the processor. A crowd behind one address would otherwise push out those who are nearly done.
const HANDSHAKE_PROTECTED: Duration = Duration::from_secs(2);

/// The same for requests: what a sign-in takes at most, with its place in Argon2's queue.
const REQUEST_PROTECTED: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Tables {
    limits: Limits,
    classes: Mutex<Classes>,
    /// Sockets that are open, counted until they are closed indeed.
    open: Arc<Semaphore>,
    start: Instant,
    hasher: RandomState,
    metrics: Arc<Metrics>,
    evictions: Notice,
    refusals: Notice,
}

#[derive(Debug)]
pub(super) struct Classes {
    pub(super) handshakes: FairTable<Seated>,
    pub(super) strangers: FairTable<Seated>,
    pub(super) callers: FairTable<Seated>,
    pub(super) machines: FairTable<Seated>,
    pub(super) collectors: FairTable<Seated>,
}

impl Classes {
    const fn of(&mut self, class: Class) -> &mut FairTable<Seated> {
        match class {
            Class::Handshake => &mut self.handshakes,
            Class::Stranger => &mut self.strangers,
            Class::Caller => &mut self.callers,
            Class::Machine => &mut self.machines,
            Class::Collector => &mut self.collectors,
        }
    }
}

/// The place at which a connection is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) class: Class,
    place: Place,
}

impl Tables {
    /// No connections yet.
    pub(super) fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        let table = |capacity: usize, per_subscriber: usize, settling: Duration| {
            FairTable::new(Shares {
                capacity,
                per_subscriber,
                settling,
            })
        };
        let (part, of) = MACHINES_PER_SUBSCRIBER;
        let Limits {
            handshakes,
            strangers,
            callers,
            machines,
            collectors,
        } = limits;
        let classes = Classes {
            handshakes: table(
                handshakes,
                handshakes / HANDSHAKES_PER_SUBSCRIBER,
                HANDSHAKE_PROTECTED,
            ),
            strangers: table(
                strangers,
                strangers / STRANGERS_PER_SUBSCRIBER,
                REQUEST_PROTECTED,
            ),
            callers: table(callers, callers / CALLERS_PER_ACTOR, REQUEST_PROTECTED),
            // A machine's session gives way to nobody: see `Tables::seat`.
            machines: table(usize::MAX, machines * part / of, Duration::MAX),
            collectors: table(collectors, collectors, REQUEST_PROTECTED),
        };
        Self {
            limits,
            classes: Mutex::new(classes),
            open: Arc::new(Semaphore::new(limits.connections() + MAX_CLOSING)),
            start: Instant::now(),
            hasher: RandomState::new(),
            metrics,
            evictions: Notice::default(),
            refusals: Notice::default(),
        }
    }

    /// Waits until one more socket may be open: for those that gave way to be closed.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.open).acquire_owned().await;
        room.expect("nobody closes the semaphore")
    }

    /// Counts a connection, and tells the one that gives way to it. None where it is refused.
    pub(super) fn seat(
        &self,
        class: Class,
        subscriber: Subscriber,
        seated: Seated,
        before: Option<Seat>,
    ) -> Option<Seat> {
        let now = Instant::now();
        let address = seated.address;
        let mut classes = self.classes();
        if let Some(before) = before
            && before.class == class
        {
            self.unseat_in(&mut classes, before);
        }
        let is_full = class == Class::Machine && classes.machines.len() >= self.limits.machines;
        let table = classes.of(class);
        let since_start = Uptime::after(now.saturating_duration_since(self.start));
        let admitted = match is_full {
            true => None,
            false => table.admit(subscriber, since_start, seated).ok(),
        };
        self.metrics.connections(class, table.len());
        let Some((place, evicted)) = admitted else {
            drop(classes);
            self.note_refusal(class, address, now);
            return None;
        };
        if let Some(before) = before
            && before.class != class
        {
            self.unseat_in(&mut classes, before);
        }
        drop(classes);
        if let Some(evicted) = evicted {
            evicted.evict();
            self.note_eviction(class, evicted.address, now);
        }
        Some(Seat { class, place })
    }

    pub(super) fn unseat(&self, seat: Seat) {
        self.unseat_in(&mut self.classes(), seat);
    }

    fn unseat_in(&self, classes: &mut Classes, seat: Seat) {
        let table = classes.of(seat.class);
        // It may have given way already.
        let _ = table.remove(seat.place);
        self.metrics.connections(seat.class, table.len());
    }

    /// Somebody who is known by an id.
    pub(super) fn subscriber_of(&self, id: impl std::hash::Hash) -> Subscriber {
        Subscriber::key(self.hasher.hash_one(id))
    }

    pub(super) fn classes(&self) -> MutexGuard<'_, Classes> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_eviction(&self, class: Class, from: IpAddr, now: Instant) {
        self.metrics.connection_evicted(class);
        if let Some(count) = self.evictions.due(now) {
            tracing::warn!(
                count,
                %from,
                class = class.name(),
                "connections were closed to make room for newer ones: the portal, or the network of this \
                 address, has as many as it may, and this network has the most"
            );
        }
    }

    fn note_refusal(&self, class: Class, from: IpAddr, now: Instant) {
        self.metrics.connections_refused.inc();
        if let Some(count) = self.refusals.due(now) {
            tracing::warn!(
                count,
                %from,
                class = class.name(),
                "connections were refused: the network of this address, or the account, has as many as it may"
            );
        }
    }
}

/// A connection as a table knows it.
#[derive(Debug)]
pub(super) struct Seated {
    pub(super) address: IpAddr,
    pub(super) evicted: Arc<Notify>,
}

impl Seated {
    pub(super) fn evict(&self) {
        self.evicted.notify_one();
    }
}
