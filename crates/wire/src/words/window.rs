//! Windows of time: `mon-fri 08:00-18:00 Europe/Berlin`.

use crate::model::{TimeWindow, Weekday};

const WEEK: [(Weekday, &str); 7] = [
    (Weekday::Mon, "mon"),
    (Weekday::Tue, "tue"),
    (Weekday::Wed, "wed"),
    (Weekday::Thu, "thu"),
    (Weekday::Fri, "fri"),
    (Weekday::Sat, "sat"),
    (Weekday::Sun, "sun"),
];

/// A window, and the zone whose clocks count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) zone: String,
    pub(crate) window: TimeWindow,
}

/// Reads a window. Times and the zone are looked at together with all other conditions.
pub(crate) fn parse(text: &str) -> Result<Window, String> {
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
        window: TimeWindow {
            days: parse_days(days).ok_or_else(wrong)?,
            from: from.to_owned(),
            until: until.to_owned(),
        },
    })
}

/// `mon`, `mon,wed`, `mon-fri`, `fri-mon`, `daily`.
fn parse_days(text: &str) -> Option<Vec<Weekday>> {
    if text == "daily" {
        return Some(WEEK.iter().map(|(day, _)| *day).collect());
    }
    let place = |word: &str| WEEK.iter().position(|(_, known)| *known == word);
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
    Some(days.map(|((day, _), _)| *day).collect())
}

/// The window as [`parse`] reads it.
pub(crate) fn text(window: &TimeWindow, zone: &str) -> String {
    let days = days_text(&window.days);
    format!("{days} {}-{} {zone}", window.from, window.until)
}

/// Three days in a row and more are written as a range.
fn days_text(days: &[Weekday]) -> String {
    let chosen = WEEK.map(|(day, _)| days.contains(&day));
    if chosen.iter().all(|chosen| *chosen) {
        return "daily".to_owned();
    }
    let mut parts = Vec::new();
    let mut at = 0;
    while at < WEEK.len() {
        let length = chosen[at..].iter().take_while(|chosen| **chosen).count();
        match length {
            0 => {}
            1 => parts.push(WEEK[at].1.to_owned()),
            2 => parts.push(format!("{},{}", WEEK[at].1, WEEK[at + 1].1)),
            _ => parts.push(format!("{}-{}", WEEK[at].1, WEEK[at + length - 1].1)),
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
            days in prop::sample::subsequence(WEEK.map(|(day, _)| day).to_vec(), 1..=7),
            zone in "[A-Z][a-z]{2,8}/[A-Z][a-z]{2,8}"
        ) {
            let window = TimeWindow { days, from: "08:00".to_owned(), until: "24:00".to_owned() };
            let read = parse(&text(&window, &zone)).unwrap();
            prop_assert_eq!(read, Window { zone, window });
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
