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
pub struct ZonedWindow {
    /// IANA name of the zone.
    pub zone: String,
    /// The window on its clocks.
    pub window: WrittenWindow,
}

/// Reads a window, in any case and with spaces around `-` and `,`. Times and the zone are looked at together with all
/// other conditions.
///
/// # Errors
/// A description of the right form, for the person who wrote the text.
pub fn parse(text: &str) -> Result<ZonedWindow, String> {
    let wrong = || {
        "it must be DAYS FROM-UNTIL ZONE, such as \"mon-fri 08:00-18:00 Europe/Berlin\" or \
         \"sat,sun 10:00-24:00 UTC\""
            .to_owned()
    };
    let text = joined(text);
    let mut words = text.split(' ');
    let (Some(days), Some(hours), Some(zone), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let (from, until) = hours.split_once('-').ok_or_else(wrong)?;
    Ok(ZonedWindow {
        zone: zone.to_owned(),
        window: WrittenWindow {
            days: parse_days(days).ok_or_else(wrong)?,
            from: hour(from),
            until: hour(until),
        },
    })
}

/// The text with one space between words, and none around signs that join.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let is_joined = joined.ends_with(['-', ',']) || word.starts_with(['-', ',']);
        if !joined.is_empty() && !is_joined {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

/// `8:00` as `08:00`.
fn hour(text: &str) -> String {
    match text.split_once(':') {
        Some((hours, minutes)) if hours.len() == 1 => format!("0{hours}:{minutes}"),
        _ => text.to_owned(),
    }
}

/// `mon`, `mon,wed`, `mon-fri`, `fri-mon`, `daily`.
fn parse_days(text: &str) -> Option<Vec<Weekday>> {
    let text = text.to_ascii_lowercase();
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
    fn a_window_is_read_as_people_write_it() {
        let strict = parse("mon-fri 08:00-18:00 Europe/Berlin").unwrap();
        for text in [
            "Mon-Fri 8:00-18:00 Europe/Berlin",
            " MON - FRI  8:00 - 18:00  Europe/Berlin ",
            "mon,tue, wed ,thu,fri 08:00 -18:00 Europe/Berlin",
        ] {
            assert_eq!(parse(text), Ok(strict.clone()), "{text:?}");
        }
        assert_eq!(parse("Daily 0:00-9:30 UTC").unwrap().window.until, "09:30");
        assert_eq!(parse("mon 8:00-18:00 Etc/GMT-3").unwrap().zone, "Etc/GMT-3");
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
            prop_assert_eq!(read, ZonedWindow { zone, window });
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
