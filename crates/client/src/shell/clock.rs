//! The two clocks of the client.

use culvert_base::{BootTime, UnixTime};

/// An instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Since the machine was booted, sleep included: by it everything is timed.
    pub(crate) boot: BootTime,
    /// The wall clock, which an administrator may set: for people, and for the expiry of grants where the portal does
    /// not tell its own clock.
    pub(crate) unix: UnixTime,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self {
            boot: culvert_engine::boot_time(),
            unix: culvert_engine::unix_time(),
        }
    }
}
