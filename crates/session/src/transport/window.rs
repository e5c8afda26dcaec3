//! The replay window of a key, which workers share.

use crate::replay::ReplayWindow;
use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// Locked once for a batch to judge its counters, and once more to remember those of records that were
/// authentic: not while opening.
pub(crate) struct SharedWindow(Mutex<ReplayWindow>);

impl SharedWindow {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(ReplayWindow::new()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ReplayWindow> {
        // No code panics with the lock held, and the window is whole after each commit.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
