//! The workers as the control thread sees them: their mailboxes, their counters and the snapshot that they have.

use super::shared::Shared;
use crate::sockets::View;
use culvert_datapath::{Command, WorkerCounters};
use std::sync::Arc;

/// A handle of all workers of the device.
pub(super) struct Workers {
    shared: Arc<Shared>,
    counters: Vec<Arc<WorkerCounters>>,
    /// Something changed that workers must see.
    is_dirty: bool,
}

impl Workers {
    pub(super) const fn new(shared: Arc<Shared>, counters: Vec<Arc<WorkerCounters>>) -> Self {
        Self {
            shared,
            counters,
            is_dirty: true,
        }
    }

    /// The state that all threads of the device share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn counters(&self) -> &[Arc<WorkerCounters>] {
        &self.counters
    }

    /// Something changed: a snapshot is due before the workers rely on it.
    pub(super) const fn set_dirty(&mut self) {
        self.is_dirty = true;
    }

    pub(super) const fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Replaces the view of the workers.
    pub(super) fn publish(&mut self, view: View) {
        self.shared.published.publish(view);
        self.is_dirty = false;
        self.shared.wake_workers(u64::MAX);
    }

    /// Asks `worker` to do something. False if its mailbox is full.
    pub(super) fn command(&self, worker: usize, command: Command) -> bool {
        self.shared.command(worker, command)
    }
}
