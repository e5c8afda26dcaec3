//! The clocks of the relay.

use culvert_base::{BootTime, UnixTime};
use culvert_relay_core::relay::Now;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The boot-time clock.
pub(crate) fn boot_time() -> BootTime {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    BootTime::from_nanos(seconds * 1_000_000_000 + nanoseconds)
}

/// The wall clock of this machine.
pub(crate) fn unix_time() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime::after_epoch(since.unwrap_or_default())
}

/// The clock by which tokens are judged: the portal's, where this machine's is wrong.
#[derive(Clone, Debug)]
pub(crate) struct TokenClock(Arc<AtomicU64>);

impl TokenClock {
    /// By this machine's clock.
    pub(crate) fn new() -> Self {
        let clock = Self(Arc::new(AtomicU64::new(0)));
        clock.set(None);
        clock
    }

    /// The portal told its time.
    pub(crate) fn set(&self, portal: Option<UnixTime>) {
        let epoch = culvert_control::stamp_epoch(portal, unix_time(), boot_time());
        self.0.store(epoch.as_millis(), Ordering::Relaxed);
    }

    /// Both clocks.
    pub(crate) fn now(&self) -> Now {
        let boot = boot_time();
        let epoch = UnixTime::from_millis(self.0.load(Ordering::Relaxed));
        let unix = epoch.saturating_add(boot.since_start());
        Now { boot, unix }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn tokens_are_judged_by_the_portals_clock_where_this_machines_is_wrong() {
        let clock = TokenClock::new();
        assert!(clock.now().unix.abs_diff(unix_time()) < Duration::from_secs(5));
        let portal = unix_time().saturating_add(Duration::from_secs(7_200));
        clock.set(Some(portal));
        assert!(clock.now().unix.abs_diff(portal) < Duration::from_secs(5));
    }
}
