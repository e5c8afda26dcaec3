//! How many ICMP messages a worker writes.

use culvert_base::BootTime;
use std::time::Duration;

/// The rate that Linux itself keeps to (`icmp_msgs_per_sec`): one a millisecond, of each worker.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);

/// Messages at once after silence (Linux's `icmp_msgs_burst`): the connections that a program opens together each hear
/// theirs.
const BURST: u32 = 50;

/// A token bucket, kept as the instant at which it is full again.
#[derive(Debug)]
pub(crate) struct IcmpRate {
    full_at: BootTime,
}

impl IcmpRate {
    pub(crate) fn new(now: BootTime) -> Self {
        Self { full_at: now }
    }

    pub(crate) fn has_room(&self, now: BootTime) -> bool {
        self.full_at.saturating_since(now) < INTERVAL * BURST
    }

    pub(crate) fn take(&mut self, now: BootTime) {
        self.full_at = self.full_at.max(now).saturating_add(INTERVAL);
    }
}
