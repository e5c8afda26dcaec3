//! Lines of a log that say the same again and again.

use culvert_base::BootTime;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The shortest interval between two logs of one line.
const INTERVAL: Duration = Duration::from_secs(60);

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
    logged: BootTime,
    unlogged: u64,
}

impl Repeats {
    /// `Some` if the line is to be logged now, with the number of suppressed repeats since the last one.
    pub fn count(&mut self, text: &str, now: BootTime) -> Option<u64> {
        let text: String = text.chars().filter(|it| !it.is_ascii_digit()).collect();
        if let Some(line) = self.lines.iter_mut().find(|line| line.text == text) {
            if !now.has_passed(line.logged, INTERVAL) {
                line.unlogged += 1;
                return None;
            }
            line.logged = now;
            return Some(std::mem::take(&mut line.unlogged));
        }
        if self.lines.len() >= MAX_LINES {
            let oldest = (0..self.lines.len()).min_by_key(|at| self.lines[*at].logged);
            if let Some(oldest) = oldest {
                self.lines.swap_remove(oldest);
            }
        }
        self.lines.push(Line {
            text,
            logged: now,
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
    logged: BTreeMap<K, (BootTime, u64)>,
    /// By the time of the last line.
    by_time: BTreeSet<(BootTime, K)>,
}

impl<K> Default for RepeatedEvents<K> {
    fn default() -> Self {
        Self {
            logged: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> RepeatedEvents<K> {
    /// `Some` if the event is to be logged now, with the number of suppressed repeats since the last line.
    pub fn count(&mut self, event: K, now: BootTime) -> Option<u64> {
        if let Some((logged, unlogged)) = self.logged.get_mut(&event) {
            if !now.has_passed(*logged, INTERVAL) {
                *unlogged += 1;
                return None;
            }
            let before = std::mem::replace(logged, now);
            let unlogged = std::mem::take(unlogged);
            self.by_time.remove(&(before, event.clone()));
            self.by_time.insert((now, event));
            return Some(unlogged);
        }
        if self.logged.len() >= MAX_EVENTS
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.logged.remove(&oldest);
        }
        self.by_time.insert((now, event.clone()));
        self.logged.insert(event, (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> BootTime {
        BootTime::from_millis(millis)
    }

    #[test]
    fn an_event_that_repeats_is_logged_once_a_minute_with_a_count() {
        let mut events = RepeatedEvents::default();
        assert_eq!(events.count(("granted", 1), at(1_000)), Some(0));
        assert_eq!(events.count(("granted", 2), at(1_000)), Some(0));
        assert_eq!(events.count(("granted", 1), at(60_999)), None);
        assert_eq!(events.count(("granted", 1), at(61_000)), Some(1));
    }

    #[test]
    fn events_are_bounded_and_the_oldest_makes_room() {
        let mut events = RepeatedEvents::default();
        for event in 0..=MAX_EVENTS as u64 {
            assert_eq!(events.count(event, at(event)), Some(0));
        }
        assert_eq!(events.logged.len(), MAX_EVENTS);
        assert_eq!(events.count(0, at(2_000)), Some(0), "it was forgotten");
    }

    #[test]
    fn a_line_that_repeats_is_logged_once_a_minute_with_a_count() {
        let mut repeats = Repeats::default();
        let mut logged = Vec::new();
        for second in 0..=120 {
            let line = format!("it did not answer at 12:{second}");
            if let Some(count) = repeats.count(&line, at(second * 1_000)) {
                logged.push((second, count));
            }
        }
        assert_eq!(logged, [(0, 0), (60, 59), (120, 59)]);
    }

    #[test]
    fn lines_that_take_turns_are_bounded_each() {
        let mut repeats = Repeats::default();
        let count = |line: &str, now, repeats: &mut Repeats| repeats.count(line, now).is_some();
        let logged = (0..60_u64).filter(|second| {
            let line = if second % 2 == 0 { "ended" } else { "refused" };
            count(line, at(second * 1_000), &mut repeats)
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
            assert_eq!(repeats.count(&letters, at(line.into())), Some(0));
            assert!(repeats.lines.len() <= MAX_LINES);
        }
    }
}
