//! The clock of the window.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since this machine's start. The clock goes on while the machine sleeps: a code ends meanwhile.
#[must_use]
pub fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000 + nanoseconds / 1_000_000
}

/// Microseconds of a processor that this program has used.
#[must_use]
pub fn processor_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000_000 + nanoseconds / 1_000
}
