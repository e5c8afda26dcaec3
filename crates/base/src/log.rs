//! The log of a core: lines that its shell writes.

use std::collections::VecDeque;
use std::fmt::{self, Display, Write};

/// Lines that wait for the shell. It takes them after each event, and an event writes a few.
pub const MAX_WAITING_LINES: usize = 256;

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something is lost.
    Error,
    /// Somebody should look at it.
    Warn,
    /// It tells the story of the machine.
    Info,
    /// For who looks for a fault.
    Debug,
    /// For each packet or question.
    Trace,
}

/// A line for the log: what happened, and the values that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The importance of the line.
    pub level: LogLevel,
    text: String,
}

impl LogLine {
    /// A line with a message of its own.
    #[must_use]
    pub fn new(level: LogLevel, message: impl Into<String>) -> Self {
        let text = message.into();
        Self { level, text }
    }

    /// [`LogLevel::Error`].
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(LogLevel::Error, message)
    }

    /// [`LogLevel::Warn`].
    #[must_use]
    pub fn warn(message: impl Into<String>) -> Self {
        Self::new(LogLevel::Warn, message)
    }

    /// [`LogLevel::Info`].
    #[must_use]
    pub fn info(message: impl Into<String>) -> Self {
        Self::new(LogLevel::Info, message)
    }

    /// [`LogLevel::Debug`].
    #[must_use]
    pub fn debug(message: impl Into<String>) -> Self {
        Self::new(LogLevel::Debug, message)
    }

    /// [`LogLevel::Trace`].
    #[must_use]
    pub fn trace(message: impl Into<String>) -> Self {
        Self::new(LogLevel::Trace, message)
    }

    /// Adds a value of this program: a number, an id, an address.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        // A String takes what it is given.
        let _written = write!(self.text, " {name}={value}");
        self
    }

    /// Adds a text of somebody else, in quotation marks and with control characters escaped.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: &str) -> Self {
        let _written = write!(self.text, " {name}={text:?}");
        self
    }
}

impl Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Lines that wait for the shell, at most [`MAX_WAITING_LINES`]; further ones are dropped.
#[derive(Debug, Default)]
pub struct LogQueue {
    lines: VecDeque<LogLine>,
    dropped: u64,
}

impl LogQueue {
    /// Appends a line.
    pub fn push(&mut self, line: LogLine) {
        if self.lines.len() < MAX_WAITING_LINES {
            self.lines.push_back(line);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes the oldest line. After the last one comes a line that counts those that were dropped.
    pub fn pop(&mut self) -> Option<LogLine> {
        let next = self.lines.pop_front();
        if next.is_some() || self.dropped == 0 {
            return next;
        }
        let dropped = std::mem::take(&mut self.dropped);
        Some(LogLine::warn("lines of the log were dropped").with("dropped", dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_its_values_after_the_message_and_escapes_the_texts_of_others() {
        let line = LogLine::info("access granted")
            .with_text("resource", "web\u{1b}[2J")
            .with("repeated", 3);
        assert_eq!(
            line.to_string(),
            r#"access granted resource="web\u{1b}[2J" repeated=3"#
        );
    }

    #[test]
    fn a_full_queue_drops_the_newest_lines_and_counts_them() {
        let mut queue = LogQueue::default();
        for number in 0..MAX_WAITING_LINES + 2 {
            queue.push(LogLine::debug(number.to_string()));
        }
        let lines: Vec<String> = std::iter::from_fn(|| queue.pop())
            .map(|line| line.to_string())
            .collect();
        assert_eq!(lines.len(), MAX_WAITING_LINES + 1);
        assert_eq!(lines[0], "0");
        assert_eq!(
            lines[MAX_WAITING_LINES],
            "lines of the log were dropped dropped=2"
        );
    }
}
