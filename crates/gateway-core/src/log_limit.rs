//! A bound for the lines of one kind in the log.

use culvert_base::BootTime;
use std::time::Duration;

/// Lines of one kind in [`WINDOW`]: enough to see a pattern, and a few megabytes a day at the most.
const LINES: u32 = 20;

/// One minute.
const WINDOW: Duration = Duration::from_secs(60);

/// A bound of lines. Each line that is let through tells of those that were not.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    /// The time at which the first line of the window was written.
    window_began: Option<BootTime>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// The number of lines that were left out, if a line may be written now.
    pub(super) fn take(&mut self, now: BootTime) -> Option<u64> {
        if self
            .window_began
            .is_none_or(|began| now.has_passed(began, WINDOW))
        {
            self.window_began = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_past_the_bound_waits_for_the_next_minute_and_is_counted() {
        let mut limit = LogLimit::default();
        let written = (0..100)
            .filter(|_| limit.take(BootTime::from_millis(5_000)).is_some())
            .count();
        assert_eq!(written, 20);
        assert_eq!(limit.take(BootTime::from_millis(5_000 + 59_999)), None);
        assert_eq!(limit.take(BootTime::from_millis(5_000 + 60_000)), Some(81));
        assert_eq!(limit.take(BootTime::from_millis(5_000 + 60_000)), Some(0));
    }
}
