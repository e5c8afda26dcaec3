//! The last lines of a running program's log, for people who may command it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines that are retained: what a person reads on a few screens.
const MAX_LINES: usize = 200;

/// Bytes of all lines.
const MAX_BYTES: usize = 64 * 1024;

/// Bytes of one line. Longer ones are cut.
const MAX_LINE_BYTES: usize = 2 * 1024;

/// The last lines of a log.
#[derive(Debug, Default)]
pub struct RecentLog(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    bytes: usize,
}

impl RecentLog {
    /// Appends lines, which must hold no secrets.
    pub fn append(&self, text: &str) {
        let mut retained = self.retained();
        for line in text.lines() {
            let mut end = line.len().min(MAX_LINE_BYTES);
            while !line.is_char_boundary(end) {
                end -= 1;
            }
            retained.bytes += end;
            retained.lines.push_back(line[..end].to_owned());
            while retained.lines.len() > MAX_LINES || retained.bytes > MAX_BYTES {
                let oldest = retained.lines.pop_front().unwrap_or_default();
                retained.bytes -= oldest.len();
            }
        }
    }

    /// The lines, the oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.retained().lines.iter().cloned().collect()
    }

    fn retained(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_within_both_bounds() {
        let log = RecentLog::default();
        for number in 0..=MAX_LINES {
            log.append(&format!("line {number}\n"));
        }
        let lines = log.lines();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!((&*lines[0], &*lines[MAX_LINES - 1]), ("line 1", "line 200"));
        // Two bytes a letter: the bound is within one.
        let long = format!("x{}", "ä".repeat(MAX_LINE_BYTES));
        for _ in 0..100 {
            log.append(&long);
        }
        let lines = log.lines();
        assert!(lines.iter().all(|line| line.len() == MAX_LINE_BYTES - 1));
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES - MAX_LINE_BYTES);
        log.append("a\nb");
        assert!(log.lines().ends_with(&["a".to_owned(), "b".to_owned()]));
    }
}
