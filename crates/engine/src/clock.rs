//! The two clocks of the engine.

use culvert_session::{Clock, Tai64n, Time};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The boot-time clock: it runs on while the machine sleeps, so a key that went stale during a
/// suspend is stale at wake-up.
pub(crate) fn now() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    Time::from_nanos(seconds * 1_000_000_000 + nanoseconds)
}

/// Both clocks at once, for whatever makes a handshake initiation.
pub(crate) fn clock() -> Clock {
    let wall = wall();
    Clock {
        now: now(),
        wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
    }
}

/// Time since the Unix epoch; zero on a machine whose clock stands before it.
pub(crate) fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
