//! The clocks of the engine.

use culvert_base::{BootTime, UnixTime};
use culvert_session::{Clock, ClockOffset, Clocks, Tai64n};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The boot-time clock: it runs on while the machine sleeps, so a key that went stale during a
/// suspend is stale at wake-up.
pub(crate) fn now() -> BootTime {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    BootTime::from_nanos(seconds * 1_000_000_000 + nanoseconds)
}

/// The clock that grants expire by: since the machine was booted, sleep included.
#[must_use]
pub fn boot_time() -> BootTime {
    now()
}

/// The wall clock, which somebody may set. [`UnixTime::EPOCH`] on a machine whose clock stands before it.
#[must_use]
pub fn unix_time() -> UnixTime {
    UnixTime::after_epoch(wall())
}

/// Both clocks at once, for whatever makes a handshake initiation.
pub(crate) fn clock() -> Clock {
    let wall = wall();
    Clock {
        now: now(),
        wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
    }
}

/// All clocks at once, for whoever looks for a jump of one.
pub(crate) fn clocks() -> Clocks {
    let awake = clock_gettime(ClockId::Monotonic);
    Clocks {
        boot: now(),
        awake: Duration::new(
            u64::try_from(awake.tv_sec).unwrap_or(0),
            u32::try_from(awake.tv_nsec).unwrap_or(0),
        ),
        wall: wall(),
    }
}

/// The time by which the wall clock is ahead of the boot-time clock.
pub(crate) fn wall_offset() -> ClockOffset {
    ClockOffset::between(now(), wall())
}

/// Time since the Unix epoch; zero on a machine whose clock stands before it.
pub(crate) fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
