//! The number of packet workers.

use std::thread;

/// A number of workers that an option names.
pub(crate) fn worker_count(text: &str) -> Result<usize, String> {
    let most = culvert_engine::MAX_WORKERS;
    match text.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("it must be a number from 1 to {most}")),
    }
}

/// The number for this machine where no option names one.
pub(crate) fn default_workers() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    culvert_engine::default_workers(processors)
}
