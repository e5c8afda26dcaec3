//! The clock of this machine, and what ids are made of.

use culvert_base::{BootTime, UnixTime};
use culvert_ids::RANDOM_LEN;
use culvert_wire::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of this machine.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from(UnixTime::after_epoch(since.unwrap_or_default()))
}

/// The time since the machine was booted. It runs on while the machine sleeps, and nobody sets it.
#[must_use]
pub fn boot_time() -> BootTime {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    BootTime::from_nanos(seconds * 1_000_000_000 + nanoseconds)
}

/// The parts of a new id: the time, and random bytes.
pub type Birth = Result<(UnixTime, [u8; RANDOM_LEN]), getrandom::Error>;

/// The parts of an id that is made now.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn birth() -> Birth {
    let mut random = [0; RANDOM_LEN];
    getrandom::fill(&mut random)?;
    Ok((now().unix_time(), random))
}
