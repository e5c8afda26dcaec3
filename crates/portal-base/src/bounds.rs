//! The bounds of connections, and the choice of the one that gives way to a newcomer (ADR 0029).

use super::connection::{Connection, Seated};
use super::metrics::Metrics;
use super::notice::Notice;
use culvert_base::Uptime;
use culvert_fair::{Bounds as Shares, FairTable, Place, Subscriber};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once: the sum of the classes below. At some 56 KiB each for TLS and HTTP, 900 MiB at worst.
const MAX_CONNECTIONS: usize = 16_384;

/// TLS handshakes at once: each takes a processor for about a millisecond, so that the last of them
/// is served within a second on one.
const MAX_HANDSHAKES: usize = 1_024;

/// Connections on which nobody has shown yet who they are: people who are about to sign in, and machines
/// for the moment until their token was checked.
const MAX_STRANGERS: usize = 3_072;

/// Sessions at once; at some 50 KiB each for buffers and TLS, 500 MB at worst.
pub const MAX_SESSIONS: usize = 10_000;

/// Connections of people who have signed in, and of programs with a token of the API.
const MAX_CALLERS: usize = MAX_CONNECTIONS - MAX_HANDSHAKES - MAX_STRANGERS - MAX_SESSIONS;

/// Connections of the listener for metrics: a hundred collectors with two each.
const MAX_COLLECTORS: usize = 256;

/// The share of one subscriber, in parts of each class. A quarter of the handshakes lets 2,000 machines behind one
/// address come back within seconds, and a third of the strangers is a thousand browsers behind one.
const HANDSHAKES_PER_SUBSCRIBER: usize = 4;
const STRANGERS_PER_SUBSCRIBER: usize = 3;
/// Of callers the subscriber is the actor: a script with a hundred connections at once, and not all of them.
const CALLERS_PER_ACTOR: usize = 8;
/// 4,000 machines may share one address: four of ten sessions.
const MACHINES_PER_SUBSCRIBER: (usize, usize) = (4, 10);

/// The age up to which a handshake does not give way to its own subscriber: two round trips and a second of
/// waiting for the processor. A crowd behind one address would otherwise push out those who are nearly done.
const HANDSHAKE_SETTLES: Duration = Duration::from_secs(2);

/// The same for requests: what a sign-in takes at most, with its place in Argon2's queue.
const REQUEST_SETTLES: Duration = Duration::from_secs(10);

/// Connections that gave way, and whose task has not closed them yet.
const MAX_CLOSING: usize = 512;

/// Descriptors for everything but connections: the database, logs and their sinks, identity providers,
/// exports, and [`MAX_CLOSING`].
const OTHER_DESCRIPTORS: usize = 1_024;

/// Files that a full portal has open.
pub const DESCRIPTORS_NEEDED: u64 = (MAX_CONNECTIONS + OTHER_DESCRIPTORS) as u64;

/// The least that a portal is of use with: descriptors for connections.
const LEAST_CONNECTIONS: usize = 64;

/// The class in which a connection is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its TLS handshake is not finished.
    Handshake,
    /// Nobody has shown who they are.
    Stranger,
    /// Somebody who has signed in, or a program with a token of the API.
    Caller,
    /// A session of a client or gateway.
    Machine,
    /// A collector of metrics, at the listener for metrics.
    Collector,
}

/// The largest number of connections of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    handshakes: usize,
    strangers: usize,
    callers: usize,
    machines: usize,
    collectors: usize,
}

impl Limits {
    /// The limits if file descriptors are no constraint.
    pub const FULL: Self = Self {
        handshakes: MAX_HANDSHAKES,
        strangers: MAX_STRANGERS,
        callers: MAX_CALLERS,
        machines: MAX_SESSIONS,
        collectors: 0,
    };

    /// For the listener of metrics alone.
    pub const METRICS: Self = Self {
        handshakes: 0,
        strangers: 0,
        callers: 0,
        machines: 0,
        collectors: MAX_COLLECTORS,
    };

    /// As many as the process may have open; each class has its part.
    pub fn within(descriptors: u64) -> Self {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let others = OTHER_DESCRIPTORS.min(descriptors / 2);
        let connections = (descriptors - others).clamp(LEAST_CONNECTIONS, MAX_CONNECTIONS);
        let part = |of: usize| of * connections / MAX_CONNECTIONS;
        Self {
            handshakes: part(MAX_HANDSHAKES),
            strangers: part(MAX_STRANGERS),
            callers: part(MAX_CALLERS),
            machines: part(MAX_SESSIONS),
            collectors: 0,
        }
    }

    /// All together.
    pub const fn connections(self) -> usize {
        self.handshakes + self.strangers + self.callers + self.machines + self.collectors
    }
}

/// The connections there are.
#[derive(Clone, Debug)]
pub struct Bounds(Arc<Tables>);

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
struct Classes {
    handshakes: FairTable<Seated>,
    strangers: FairTable<Seated>,
    callers: FairTable<Seated>,
    machines: FairTable<Seated>,
    collectors: FairTable<Seated>,
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

impl Bounds {
    /// No connections yet.
    pub fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
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
                HANDSHAKE_SETTLES,
            ),
            strangers: table(
                strangers,
                strangers / STRANGERS_PER_SUBSCRIBER,
                REQUEST_SETTLES,
            ),
            callers: table(callers, callers / CALLERS_PER_ACTOR, REQUEST_SETTLES),
            // A machine's session gives way to nobody: see `Tables::seat`.
            machines: table(usize::MAX, machines * part / of, Duration::MAX),
            collectors: table(collectors, collectors, REQUEST_SETTLES),
        };
        Self(Arc::new(Tables {
            limits,
            classes: Mutex::new(classes),
            open: Arc::new(Semaphore::new(limits.connections() + MAX_CLOSING)),
            start: Instant::now(),
            hasher: RandomState::new(),
            metrics,
            evictions: Notice::default(),
            refusals: Notice::default(),
        }))
    }

    /// Waits until one more socket may be open: for those that gave way to be closed.
    pub async fn room(&self) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.0.open).acquire_owned().await;
        room.expect("nobody closes the semaphore")
    }

    /// Nobody waits here: a newcomer takes the place of the largest holder's oldest connection where there are too
    /// many. It is refused where its own subscriber is that holder and has just come.
    pub fn admit(
        &self,
        address: IpAddr,
        is_proxy: bool,
        class: Class,
        room: OwnedSemaphorePermit,
    ) -> Option<Arc<Connection>> {
        Connection::admit(Arc::clone(&self.0), address, is_proxy, class, room).map(Arc::new)
    }
}

impl Tables {
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

    fn classes(&self) -> MutexGuard<'_, Classes> {
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

impl Class {
    /// Its name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Stranger => "stranger",
            Self::Caller => "caller",
            Self::Machine => "machine",
            Self::Collector => "collector",
        }
    }
}

#[cfg(test)]
#[path = "bounds/tests.rs"]
mod tests;
