//! The streams that a relay holds: bounded in all and by their source.

use culvert_base::Uptime;
use culvert_fair::{Bounds, FairTable, Place, Subscriber};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Registered streams of a relay. Each has two descriptors, and about 40 KB while it is idle.
pub const STREAMS_MOST: usize = 4_096;

/// Streams of one IPv4 address or IPv6 /64: the clients of a large office behind one address.
const STREAMS_PER_SOURCE: usize = 1_024;

/// Streams that have not registered yet.
pub const NEWCOMERS_MOST: usize = 512;

/// Of one IPv4 address or IPv6 /64.
const NEWCOMERS_PER_SOURCE: usize = 64;

/// The time limit for the handshake and the preface, of three round trips: a lost packet comes again after one second
/// and after three.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for the registration of an end, of two round trips.
pub const REGISTER_LIMIT: Duration = Duration::from_secs(15);

/// For how long a newcomer does not give way to others of its source. Registering takes a few round trips.
const SETTLING: Duration = Duration::from_secs(5);

/// Registered streams do not give way to others of their source: they would push each other out for ever.
const NEVER: Duration = Duration::MAX;

/// The bounds of streams.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Registered streams.
    pub streams: usize,
    /// Of one source.
    pub streams_per_source: usize,
    /// Streams that have not registered.
    pub newcomers: usize,
    /// Of one source.
    pub newcomers_per_source: usize,
    /// The time for the handshake and the preface.
    pub handshake: Duration,
    /// The time for the registration.
    pub register: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: STREAMS_MOST,
            streams_per_source: STREAMS_PER_SOURCE,
            newcomers: NEWCOMERS_MOST,
            newcomers_per_source: NEWCOMERS_PER_SOURCE,
            handshake: HANDSHAKE_LIMIT,
            register: REGISTER_LIMIT,
        }
    }
}

/// The streams of a relay. Those that have not registered can't keep out those that have, and the source with the most
/// of them gives way first.
#[derive(Debug)]
pub(crate) struct Admission {
    began: Instant,
    limits: Limits,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    /// A stream ends when its sender is dropped.
    newcomers: FairTable<oneshot::Sender<()>>,
    streams: FairTable<oneshot::Sender<()>>,
}

/// A stream's place. Dropping it makes room.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    source: Subscriber,
    place: Place,
    is_registered: bool,
    evicted: oneshot::Receiver<()>,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        let table = |capacity, per_subscriber, settling| {
            FairTable::new(Bounds {
                capacity,
                per_subscriber,
                settling,
            })
        };
        Self {
            began: Instant::now(),
            limits,
            tables: Mutex::new(Tables {
                newcomers: table(limits.newcomers, limits.newcomers_per_source, SETTLING),
                streams: table(limits.streams, limits.streams_per_source, NEVER),
            }),
        }
    }

    /// Takes a newcomer in; `None` if there is no room for it.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let source = Subscriber::of(address.to_canonical());
        let (sender, evicted) = oneshot::channel();
        let admitted = self.tables().newcomers.admit(source, self.now(), sender);
        let (place, _evicted) = admitted.ok()?;
        Some(Admitted {
            admission: Arc::clone(self),
            source,
            place,
            is_registered: false,
            evicted,
        })
    }

    /// True if there is room for one more registered stream of the source.
    pub(crate) fn can_register(&self, source: Subscriber) -> bool {
        let held = self.tables().streams.held_by(source);
        held < self.limits.streams_per_source as u64
    }

    /// Registered streams, and the others.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let tables = self.tables();
        (tables.streams.len(), tables.newcomers.len())
    }

    fn now(&self) -> Uptime {
        Uptime::after(self.began.elapsed())
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// The network that it counts for.
    pub(crate) const fn source(&self) -> Subscriber {
        self.source
    }

    /// The stream has registered. False if there is no room for it any more.
    pub(crate) fn register(&mut self) -> bool {
        if self.is_registered {
            return true;
        }
        let now = self.admission.now();
        let mut tables = self.admission.tables();
        let Some(sender) = tables.newcomers.remove(self.place) else {
            return false;
        };
        match tables.streams.admit(self.source, now, sender) {
            Ok((place, _evicted)) => {
                self.place = place;
                self.is_registered = true;
                true
            }
            Err(_full) => false,
        }
    }

    /// For how long it may stay without a registration.
    pub(crate) fn register_limit(&self) -> Duration {
        self.admission.limits.register
    }

    pub(crate) const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Waits until the stream has to give way. May be dropped and called again.
    pub(crate) async fn evicted(&mut self) {
        // The sender says nothing, and is dropped.
        let _dropped = (&mut self.evicted).await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut tables = self.admission.tables();
        let Tables { newcomers, streams } = &mut *tables;
        let table = match self.is_registered {
            true => streams,
            false => newcomers,
        };
        // It may have given way already.
        let _evicted = table.remove(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        streams: 3,
        streams_per_source: 2,
        newcomers: 4,
        newcomers_per_source: 2,
        handshake: HANDSHAKE_LIMIT,
        register: REGISTER_LIMIT,
    };

    fn source(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_evicted(admitted: &mut Admitted) -> bool {
        admitted.evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_source_has_its_share_of_newcomers_and_room_comes_back() {
        let admission = Arc::new(Admission::new(LIMITS));
        let first = admission.admit(source(1)).unwrap();
        let _second = admission.admit(source(1)).unwrap();
        assert!(
            admission.admit(source(1)).is_none(),
            "both are still settling"
        );
        let _other = admission.admit(source(2)).unwrap();
        drop(first);
        let _third = admission.admit(source(1)).unwrap();
        assert_eq!(admission.counts(), (0, 3));
    }

    #[test]
    fn the_source_with_most_newcomers_gives_way_to_others() {
        let admission = Arc::new(Admission::new(LIMITS));
        let mut first = admission.admit(source(1)).unwrap();
        let _rest = [1, 2, 3].map(|last| admission.admit(source(last)).unwrap());
        let _new = admission.admit(source(4)).unwrap();
        assert!(is_evicted(&mut first));
        assert!(!first.register(), "it has given way");
        assert_eq!(admission.counts(), (0, 4));
    }

    #[test]
    fn registered_streams_are_bounded_and_the_source_with_most_gives_way() {
        let admission = Arc::new(Admission::new(LIMITS));
        let register = |last| {
            let mut admitted = admission.admit(source(last)).unwrap();
            let can = admission.can_register(admitted.source());
            let is = admitted.register();
            assert_eq!(can, is);
            assert!(!is || admitted.register(), "twice is once");
            (is, admitted)
        };
        let (mut first, second, third) = (register(1), register(1), register(1));
        assert_eq!((first.0, second.0, third.0), (true, true, false));
        let (other, another) = (register(2), register(3));
        assert_eq!((other.0, another.0), (true, true));
        assert!(
            is_evicted(&mut first.1),
            "all are full, and its source has most"
        );
        assert_eq!(admission.counts(), (3, 0), "what was refused is gone");
    }
}
