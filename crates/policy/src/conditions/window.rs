//! Windows of time: `mon-fri 08:00-18:00 Europe/Berlin`.

use crate::{ConditionError, TimeWindow, Weekday};
use serde::{Deserialize, Serialize};

/// A part of the week, in local time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TimeWindow))]
#[serde(deny_unknown_fields)]
pub struct WrittenWindow {
    /// The days on which it begins.
    pub days: Vec<Weekday>,
    /// `HH:MM`.
    pub from: String,
    /// `HH:MM`, up to `24:00`; not after `from` means the next day.
    pub until: String,
}

impl WrittenWindow {
    /// The window on the clocks of the zone.
    pub(super) fn understand(&self, zone: &str) -> Result<TimeWindow, ConditionError> {
        let days = self.days.iter().copied().collect();
        TimeWindow::new(days, self.from.parse()?, self.until.parse()?, zone.parse()?)
    }
}

const WEEK: [Weekday; 7] = Weekday::ALL;

/// A window, and the zone whose clocks count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) zone: String,
    pub(super) window: WrittenWindow,
}

/// Reads a window. Times and the zone are looked at together with all other conditions.
pub(super) fn parse(text: &str) -> Result<Window, String> {
    let wrong = || {
        "it must be DAYS FROM-UNTIL ZONE, such as \"mon-fri 08:00-18:00 Europe/Berlin\" or \
         \"sat,sun 10:00-24:00 UTC\""
            .to_owned()
    };
    let mut words = text.split_whitespace();
    let (Some(days), Some(hours), Some(zone), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let (from, until) = hours.split_once('-').ok_or_else(wrong)?;
    Ok(Window {
        zone: zone.to_owned(),
        window: WrittenWindow {
            days: parse_days(days).ok_or_else(wrong)?,
            from: from.to_owned(),
            until: until.to_owned(),
        },
    })
}

/// `mon`, `mon,wed`, `mon-fri`, `fri-mon`, `daily`.
fn parse_days(text: &str) -> Option<Vec<Weekday>> {
    if text == "daily" {
        return Some(WEEK.to_vec());
    }
    let place = |word: &str| WEEK.iter().position(|day| day.as_str() == word);
    let mut chosen = [false; WEEK.len()];
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (place(first)?, place(last)?),
            None => (place(part)?, place(part)?),
        };
        // From Friday on to Monday goes over the end of the week.
        let count = (last + WEEK.len() - first) % WEEK.len();
        for step in 0..=count {
            chosen[(first + step) % WEEK.len()] = true;
        }
    }
    let days = WEEK.iter().zip(chosen).filter(|(_, chosen)| *chosen);
    Some(days.map(|(day, _)| *day).collect())
}

/// The window as [`parse`] reads it.
pub(super) fn text(window: &WrittenWindow, zone: &str) -> String {
    let days = days_text(&window.days);
    format!("{days} {}-{} {zone}", window.from, window.until)
}

/// Three days in a row and more are written as a range.
fn days_text(days: &[Weekday]) -> String {
    let chosen = WEEK.map(|day| days.contains(&day));
    if chosen.iter().all(|chosen| *chosen) {
        return "daily".to_owned();
    }
    let name = |at: usize| WEEK[at].as_str();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < WEEK.len() {
        let length = chosen[at..].iter().take_while(|chosen| **chosen).count();
        match length {
            0 => {}
            1 => parts.push(name(at).to_owned()),
            2 => parts.push(format!("{},{}", name(at), name(at + 1))),
            _ => parts.push(format!("{}-{}", name(at), name(at + length - 1))),
        }
        at += length.max(1);
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn days(text: &str) -> String {
        let days = parse_days(text).unwrap_or_else(|| panic!("{text}"));
        days_text(&days)
    }

    #[test]
    fn days_are_lists_and_ranges() {
        for (text, shown) in [
            ("mon", "mon"),
            ("mon-fri", "mon-fri"),
            ("mon,tue", "mon,tue"),
            ("wed,mon,fri", "mon,wed,fri"),
            ("fri-mon", "mon,fri-sun"),
            ("sat-sun", "sat,sun"),
            ("mon-sun", "daily"),
            ("daily", "daily"),
            ("mon-wed,sun", "mon-wed,sun"),
        ] {
            assert_eq!(days(text), shown, "{text}");
        }
    }

    #[test]
    fn a_window_has_days_hours_and_a_zone() {
        let read = parse("mon-fri 08:00-18:00 Europe/Berlin").unwrap();
        assert_eq!(read.zone, "Europe/Berlin");
        assert_eq!(
            (&*read.window.from, &*read.window.until),
            ("08:00", "18:00")
        );
        for text in [
            "",
            "mon-fri 08:00-18:00",
            "mon-fri 08:00 18:00 UTC",
            "monday 08:00-18:00 UTC",
            "mon- 08:00-18:00 UTC",
            "mon-fri 08:00-18:00 UTC UTC",
            ", 08:00-18:00 UTC",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(
            days in prop::sample::subsequence(WEEK.to_vec(), 1..=7),
            zone in "[A-Z][a-z]{2,8}/[A-Z][a-z]{2,8}"
        ) {
            let window = WrittenWindow { days, from: "08:00".to_owned(), until: "24:00".to_owned() };
            let read = parse(&text(&window, &zone)).unwrap();
            prop_assert_eq!(read, Window { zone, window });
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
