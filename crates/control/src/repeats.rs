//! Lines of a log that say the same again and again.

use std::collections::BTreeMap;

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

/// Different events that are told apart; the one that was logged longest ago makes room.
const MAX_EVENTS: usize = 1024;

/// Bounds a log of events: one that repeats is logged once a minute, with how often it was not.
#[derive(Debug)]
pub struct RepeatedEvents<K> {
    /// By event, the time of the last line and how many were left out since.
    logged: BTreeMap<K, (u64, u64)>,
}

impl<K> Default for RepeatedEvents<K> {
    fn default() -> Self {
        let logged = BTreeMap::new();
        Self { logged }
    }
}

impl<K: Ord + Clone> RepeatedEvents<K> {
    /// `Some` if the event is to be logged now, with the number of suppressed repeats since the last line.
    pub fn count(&mut self, event: K, now_ms: u64) -> Option<u64> {
        if let Some((logged_ms, unlogged)) = self.logged.get_mut(&event) {
            if now_ms < logged_ms.saturating_add(INTERVAL_MS) {
                *unlogged += 1;
                return None;
            }
            *logged_ms = now_ms;
            return Some(std::mem::take(unlogged));
        }
        if self.logged.len() >= MAX_EVENTS {
            let oldest = self.logged.iter().min_by_key(|(_, (at_ms, _))| *at_ms);
            if let Some(oldest) = oldest.map(|(event, _)| event.clone()) {
                self.logged.remove(&oldest);
            }
        }
        self.logged.insert(event, (now_ms, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_repeats_is_logged_once_a_minute_with_a_count() {
        let mut events = RepeatedEvents::default();
        assert_eq!(events.count(("granted", 1), 1_000), Some(0));
        assert_eq!(events.count(("granted", 2), 1_000), Some(0));
        assert_eq!(events.count(("granted", 1), 60_999), None);
        assert_eq!(events.count(("granted", 1), 61_000), Some(1));
    }

    #[test]
    fn events_are_bounded_and_the_oldest_makes_room() {
        let mut events = RepeatedEvents::default();
        for event in 0..=MAX_EVENTS as u64 {
            assert_eq!(events.count(event, event), Some(0));
        }
        assert_eq!(events.logged.len(), MAX_EVENTS);
        assert_eq!(events.count(0, 2_000), Some(0), "it was forgotten");
    }

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
