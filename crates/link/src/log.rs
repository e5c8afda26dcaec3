//! The lines of a core, in this process's log.

use culvert_base::{LogLevel, LogLine};

/// Writes a line.
pub fn write_log(line: &LogLine) {
    match line.level {
        LogLevel::Error => tracing::error!("{line}"),
        LogLevel::Warn => tracing::warn!("{line}"),
        LogLevel::Info => tracing::info!("{line}"),
        LogLevel::Debug => tracing::debug!("{line}"),
        LogLevel::Trace => tracing::trace!("{line}"),
    }
}
