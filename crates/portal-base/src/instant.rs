//! Instants as people write them: written out, or so long from now.

use super::clock::now;
use culvert_wire::Timestamp;
use jiff::{Span, SpanRelativeTo};

/// The longest span that is taken: a hundred years, in milliseconds. A longer one is a slip.
const MAX_SPAN_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;

/// A day of UTC, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Characters of `2026-11-22`.
const DATE_LEN: usize = 10;

/// An instant to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// This one.
    At(Timestamp),
    /// So many milliseconds from now.
    InMs(u64),
}

/// An instant that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ago {
    /// This one.
    At(Timestamp),
    /// So many milliseconds before now.
    MsAgo(u64),
}

impl Ahead {
    /// The instant, counted from now.
    pub fn timestamp(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::InMs(span_ms) => whole_second(now_ms().saturating_add(span_ms)),
        }
    }
}

impl Ago {
    /// The instant, counted from now.
    pub fn timestamp(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::MsAgo(span_ms) => whole_second(now_ms().saturating_sub(span_ms)),
        }
    }
}

/// Reads `4h`, `30d` or `2027-01-31T18:00:00Z`.
pub fn parse_ahead(text: &str) -> Result<Ahead, String> {
    parse(text, Ahead::At, Ahead::InMs)
}

/// Reads the same as of the past, and `4h ago`, `now`, `today`, `yesterday`, `2026-11-22` and
/// `2026-11-22 14:00`. Days and times are in UTC, as the times are that commands print.
pub fn parse_ago(text: &str) -> Result<Ago, String> {
    let text = text.trim();
    let span = text.strip_suffix("ago").unwrap_or(text);
    if let Ok(ago) = parse(span, Ago::At, Ago::MsAgo) {
        return Ok(ago);
    }
    let day = |days_ago| {
        let today_ms = now_ms() / DAY_MS * DAY_MS;
        let at_ms = today_ms.saturating_sub(days_ago * DAY_MS);
        Ago::At(Timestamp::from_unix_ms(at_ms))
    };
    match text {
        "now" => Ok(Ago::At(now())),
        "today" => Ok(day(0)),
        "yesterday" => Ok(day(1)),
        _ => civil(text).map(Ago::At).ok_or_else(|| {
            "it must be a time such as 30m, 4h or 7d, a day such as yesterday, 2026-11-22 or \
             \"2026-11-22 14:00\" in UTC, or an instant such as 2026-11-22T14:00:00Z"
                .to_owned()
        }),
    }
}

/// A day, or a time of one, in UTC.
fn civil(text: &str) -> Option<Timestamp> {
    let at: jiff::civil::DateTime = match text.parse::<jiff::civil::Date>() {
        // Also of a date with a time of day behind it, which is not to be lost.
        Ok(date) if text.len() == DATE_LEN => date.into(),
        _ => text.parse().ok()?,
    };
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let unix_ms = u64::try_from(at.as_millisecond()).ok()?;
    Some(Timestamp::from_unix_ms(unix_ms))
}

fn parse<T>(text: &str, at: fn(Timestamp) -> T, span: fn(u64) -> T) -> Result<T, String> {
    let text = text.trim();
    if let Ok(instant) = text.parse() {
        return Ok(at(instant));
    }
    span_ms(text).map(span).ok_or_else(|| {
        "it must be a time such as 30m, 4h or 7d, or an instant such as 2027-01-31T18:00:00Z"
            .to_owned()
    })
}

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// In whole seconds.
    pub seconds: u32,
}

/// Reads `30m` or `4h`.
pub fn parse_lifetime(text: &str) -> Result<Lifetime, String> {
    let seconds = span_ms(text.trim())
        .filter(|ms| ms % 1_000 == 0)
        .and_then(|ms| u32::try_from(ms / 1_000).ok());
    let seconds = seconds.ok_or("it must be a time in whole seconds, such as 90s, 30m or 4h")?;
    Ok(Lifetime { seconds })
}

/// A day is one of 24 hours: what somebody may use for a day does not depend on summer time.
fn span_ms(text: &str) -> Option<u64> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let ms = u64::try_from(duration.as_millis()).ok()?;
    (1..=MAX_SPAN_MS).contains(&ms).then_some(ms)
}

/// Nobody means milliseconds who says hours; without them, instants are easier to read.
fn whole_second(unix_ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(unix_ms / 1_000 * 1_000)
}

fn now_ms() -> u64 {
    now().unix_ms()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_and_instants_are_read() {
        for (text, expected) in [
            ("90s", Ahead::InMs(90_000)),
            ("30m", Ahead::InMs(1_800_000)),
            ("4h", Ahead::InMs(14_400_000)),
            ("1d12h", Ahead::InMs(129_600_000)),
            ("2w", Ahead::InMs(1_209_600_000)),
            (
                "2027-01-31T18:00:00Z",
                Ahead::At("2027-01-31T18:00:00Z".parse().unwrap()),
            ),
            (
                "2027-01-31T19:00:00+01:00",
                Ahead::At("2027-01-31T18:00:00Z".parse().unwrap()),
            ),
        ] {
            assert_eq!(parse_ahead(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_names_no_instant_is_refused() {
        for text in [
            "",
            "4",
            "-4h",
            "0h",
            "4h ago",
            "soon",
            "1 month",
            "1000y",
            "2027-01-31",
        ] {
            assert!(parse_ahead(text).is_err(), "{text:?}");
        }
        for text in [
            "",
            "4",
            "-4h",
            "ago",
            "soon",
            "2026-13-01",
            "2026-11-22 25:00",
            "14:00",
        ] {
            assert!(parse_ago(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_past_is_written_as_people_speak_of_it() {
        let at = |text: &str| Ok(Ago::At(text.parse().unwrap()));
        assert_eq!(parse_ago("4h ago"), Ok(Ago::MsAgo(14_400_000)));
        assert_eq!(parse_ago("2026-11-22"), at("2026-11-22T00:00:00Z"));
        for text in [
            "2026-11-22 14:30",
            "2026-11-22T14:30",
            " 2026-11-22 14:30:00 ",
        ] {
            assert_eq!(parse_ago(text), at("2026-11-22T14:30:00Z"), "{text}");
        }
        let ms = |text: &str| parse_ago(text).unwrap().timestamp().unix_ms();
        let (yesterday, today, now) = (ms("yesterday"), ms("today"), ms("now"));
        assert!(today <= now && now - today < 2 * DAY_MS);
        assert_eq!((today % DAY_MS, today - yesterday), (0, DAY_MS));
    }

    #[test]
    fn a_span_counts_from_now() {
        let before = now_ms();
        let ahead = Ahead::InMs(1_000).timestamp().unix_ms();
        let ago = Ago::MsAgo(1_000).timestamp().unix_ms();
        let after = now_ms();
        assert!((before..=after + 1_000).contains(&ahead));
        assert!((before - 2_000..=after - 1_000).contains(&ago));
        assert_eq!((ahead % 1_000, ago % 1_000), (0, 0));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse_ahead(&text);
        }
    }
}
