//! The two clocks of the client.

use std::time::{SystemTime, UNIX_EPOCH};

/// An instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Milliseconds since the machine was booted, sleep included: by it everything is timed.
    pub(crate) boot_ms: u64,
    /// Milliseconds of Unix time, which an administrator may set: for people, and for the expiry of
    /// grants where the portal does not tell its own clock.
    pub(crate) unix_ms: u64,
}

impl Now {
    pub(crate) fn read() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            boot_ms: culvert_engine::boot_time_ms(),
            unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
