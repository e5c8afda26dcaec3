//! Lines of a log that say the same again and again.

/// The shortest interval between two logs of one line, in milliseconds.
const INTERVAL_MS: u64 = 60_000;

/// Different lines that are told apart; the one that was logged longest ago makes room.
const MAX_LINES: usize = 16;

/// Bounds a log: a line that repeats is logged once a minute, with how often it was not.
#[derive(Debug, Default)]
pub struct Repeats {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    /// The text without its digits: spans and times of day make no other line.
    text: String,
    logged_ms: u64,
    unlogged: u64,
}

impl Repeats {
    /// `Some` if the line is to be logged now, with the number of suppressed repeats since the last one.
    pub fn count(&mut self, text: &str, now_ms: u64) -> Option<u64> {
        let text: String = text.chars().filter(|it| !it.is_ascii_digit()).collect();
        if let Some(line) = self.lines.iter_mut().find(|line| line.text == text) {
            if now_ms < line.logged_ms.saturating_add(INTERVAL_MS) {
                line.unlogged += 1;
                return None;
            }
            line.logged_ms = now_ms;
            return Some(std::mem::take(&mut line.unlogged));
        }
        if self.lines.len() >= MAX_LINES {
            let oldest = (0..self.lines.len()).min_by_key(|at| self.lines[*at].logged_ms);
            if let Some(oldest) = oldest {
                self.lines.swap_remove(oldest);
            }
        }
        self.lines.push(Line {
            text,
            logged_ms: now_ms,
            unlogged: 0,
        });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_repeats_is_logged_once_a_minute_with_a_count() {
        let mut repeats = Repeats::default();
        let mut logged = Vec::new();
        for second in 0..=120 {
            let line = format!("it did not answer at 12:{second}");
            if let Some(count) = repeats.count(&line, second * 1_000) {
                logged.push((second, count));
            }
        }
        assert_eq!(logged, [(0, 0), (60, 59), (120, 59)]);
    }

    #[test]
    fn lines_that_take_turns_are_bounded_each() {
        let mut repeats = Repeats::default();
        let count = |line: &str, at, repeats: &mut Repeats| repeats.count(line, at).is_some();
        let logged = (0..60_u64).filter(|second| {
            let line = if second % 2 == 0 { "ended" } else { "refused" };
            count(line, second * 1_000, &mut repeats)
        });
        assert_eq!(logged.count(), 2);
    }

    #[test]
    fn different_lines_take_a_bounded_space() {
        let mut repeats = Repeats::default();
        for line in 0..1_000_u32 {
            let letters: String = line
                .to_string()
                .bytes()
                .map(|it| char::from(it + 49))
                .collect();
            assert_eq!(repeats.count(&letters, line.into()), Some(0));
            assert!(repeats.lines.len() <= MAX_LINES);
        }
    }
}
