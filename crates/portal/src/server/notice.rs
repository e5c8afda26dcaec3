//! Says in the log what may happen often: once in a while, and how often it did.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines about the same. An operator who looks sees it, and a flood fills no disk.
const EVERY: Duration = Duration::from_secs(10);

/// Something that may happen often.
#[derive(Debug, Default)]
pub(crate) struct Notice(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    said: Option<Instant>,
    since: u64,
}

impl Notice {
    /// Notes that it happened. Where a line is due, says how often it has since the last one.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.since += 1;
        let is_early = |said: Instant| now.saturating_duration_since(said) < EVERY;
        if counted.said.is_some_and(is_early) {
            return None;
        }
        counted.said = Some(now);
        Some(std::mem::take(&mut counted.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_at_once_and_then_once_in_ten_seconds_with_the_number() {
        let notice = Notice::default();
        let now = Instant::now();
        assert_eq!(notice.due(now), Some(1));
        for _ in 0..1_000 {
            assert_eq!(notice.due(now + EVERY / 2), None);
        }
        assert_eq!(notice.due(now + EVERY), Some(1_001));
    }
}
