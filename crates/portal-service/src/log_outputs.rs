//! The places where entries of the logs go, beside the database: sinks and exports.

use super::export_places::ExportPlaces;
use culvert_log_sinks::Sinks;
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Sinks, and the places for exports.
pub(super) struct LogOutputs {
    pub(super) sinks: Arc<Sinks>,
    /// Held while a sink is made, changed or deleted. The name of a sink, its places in the logs and
    /// its token lie in three tables, and must stay consistent.
    changing_sinks: Mutex<()>,
    pub(super) exports: ExportPlaces,
}

impl LogOutputs {
    pub(super) fn new(sinks: Arc<Sinks>) -> Self {
        Self {
            sinks,
            changing_sinks: Mutex::default(),
            exports: ExportPlaces::default(),
        }
    }

    /// Nobody else changes the sinks until this is dropped.
    pub(super) async fn lock_sinks(&self) -> MutexGuard<'_, ()> {
        self.changing_sinks.lock().await
    }
}
