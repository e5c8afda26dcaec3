//! How often one kind of event is worth a line of the log.

/// Lines of one kind in [`WINDOW_MS`]: enough to see a pattern, and a few megabytes a day at the most.
const LINES: u32 = 20;

/// One minute, in milliseconds.
const WINDOW_MS: u64 = 60_000;

/// A bound of lines. Each line that is let through tells of those that were not.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    /// When the first line of the window was written.
    window_began_ms: Option<u64>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// Whether a line may be written now: how many were left out before it.
    pub(super) fn take(&mut self, now_ms: u64) -> Option<u64> {
        if self
            .window_began_ms
            .is_none_or(|began_ms| now_ms >= began_ms + WINDOW_MS)
        {
            self.window_began_ms = Some(now_ms);
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
        let written = (0..100).filter(|_| limit.take(5_000).is_some()).count();
        assert_eq!(written, 20);
        assert_eq!(limit.take(5_000 + 59_999), None);
        assert_eq!(limit.take(5_000 + 60_000), Some(81));
        assert_eq!(limit.take(5_000 + 60_000), Some(0));
    }
}
