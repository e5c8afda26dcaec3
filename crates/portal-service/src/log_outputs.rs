//! The places where entries of the logs go, beside the database: sinks and exports.

use super::export_places::ExportPlaces;
use culvert_log_sinks::Sinks;
use std::sync::Arc;

/// Sinks, and the places for exports.
pub(super) struct LogOutputs {
    pub(super) sinks: Arc<Sinks>,
    pub(super) exports: ExportPlaces,
}

impl LogOutputs {
    pub(super) fn new(sinks: Arc<Sinks>) -> Self {
        Self {
            sinks,
            exports: ExportPlaces::default(),
        }
    }
}
