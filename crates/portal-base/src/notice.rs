//! Says in the log what may happen often: once in a while, and how often it did.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines about the same. An operator who looks sees it, and a flood fills no disk.
const EVERY: Duration = Duration::from_secs(10);

/// The same for what a wrong configuration makes happen with every request, until somebody mends it.
const MINUTE: Duration = Duration::from_secs(60);

/// Something that may happen often.
#[derive(Debug)]
pub struct Notice {
    every: Duration,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    said: Option<Instant>,
    since: u64,
}

impl Default for Notice {
    fn default() -> Self {
        Self {
            every: EVERY,
            counted: Mutex::default(),
        }
    }
}

impl Notice {
    /// One with a line a minute at most.
    pub fn once_a_minute() -> Self {
        Self {
            every: MINUTE,
            ..Self::default()
        }
    }

    /// Notes that it happened. If a line is due, says how often it has since the last one.
    pub fn due(&self, now: Instant) -> Option<u64> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.since += 1;
        let is_early = |said: Instant| now.saturating_duration_since(said) < self.every;
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
        let slow = Notice::once_a_minute();
        assert_eq!(slow.due(now), Some(1));
        assert_eq!(slow.due(now + EVERY), None);
        assert_eq!(slow.due(now + MINUTE), Some(2));
    }
}
