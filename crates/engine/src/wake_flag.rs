//! One wake-up for many events.

use crate::sync::{AtomicBool, Ordering};

/// Up while a wake-up is on its way.
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// There is something to look at, which the caller has put in its place. True where nobody has sent a
    /// wake-up yet: the caller does.
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The thread that was woken is about to look.
    pub(crate) fn lower(&self) {
        // Not a store: that could come after the look, and hide a flag that was raised in between. This
        // sees what was put in its place before the flag was raised, or lets the next one raise it.
        self.0.swap(false, Ordering::AcqRel);
    }
}
