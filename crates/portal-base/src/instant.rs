//! Instants as people write them: written out, or so long from now.

use super::clock::now;
use culvert_wire::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, SpanRelativeTo};

/// The longest span that is taken: a hundred years, in milliseconds. A longer one is a slip.
const MAX_SPAN_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;

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

/// Reads `4h`, `in 30 days`, `tomorrow`, `2027-01-31`, `2027-01-31 18:00` or `2027-01-31T18:00:00Z`. Days and times are in
/// UTC, unless a zone is behind them. A day counts to its end.
pub fn parse_ahead(text: &str) -> Result<Ahead, String> {
    parse_ahead_in(text, &TimeZone::UTC)
}

/// Reads the same with days and times on the clocks of a zone of the IANA database, such as `Europe/Berlin`.
pub fn parse_ahead_at(text: &str, zone: &str) -> Result<Ahead, String> {
    parse_ahead_in(text, &zone_of(zone)?)
}

fn parse_ahead_in(text: &str, zone: &TimeZone) -> Result<Ahead, String> {
    let text = text.trim();
    let span = text.strip_prefix("in ").unwrap_or(text);
    match parse(span, Ahead::At, Ahead::InMs) {
        Ok(ahead) => Ok(ahead),
        Err(_) => day_ahead(text, zone).map(Ahead::At),
    }
}

/// The end of a day, or a time of it.
fn day_ahead(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let wrong = || {
        "it must be a time such as 30m, 4h or 7d, a day such as tomorrow, 2027-01-31 or \"2027-01-31 18:00\", or an \
         instant such as 2027-01-31T18:00:00Z"
            .to_owned()
    };
    let (text, zone) = match text
        .rsplit_once(' ')
        .map(|(text, zone)| (text, named_zone(zone)))
    {
        Some((text, Some(named))) => (text.trim_end(), named),
        _ => (text, zone.clone()),
    };
    // A calendar of a browser writes `2027-01-31T18:00`.
    let is_joined = text.get(..DATE_LEN).is_some_and(is_date);
    let (day, time) = match text.split_once(if is_joined {
        &[' ', 'T'] as &[char]
    } else {
        &[' ']
    }) {
        Some((day, time)) => (day, Some(time.trim_start())),
        None => (text, None),
    };
    let today = today(&zone);
    let day = match &*day.to_ascii_lowercase() {
        "today" => today,
        "tomorrow" => today.and_then(|today| today.tomorrow().ok()),
        day if is_date(day) => {
            let none = |_| format!("the calendar has no {day}");
            Some(day.parse::<Date>().map_err(none)?)
        }
        _ => None,
    };
    let day = day.ok_or_else(wrong)?;
    let at = match time {
        None => day
            .tomorrow()
            .map_err(|_| wrong())?
            .to_datetime(Time::midnight()),
        Some(time) => {
            let time = match time.find(':') {
                Some(1) => format!("0{time}"),
                _ => time.to_owned(),
            };
            let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b':';
            let is_time = time.contains(':') && time.bytes().all(is_plain);
            let time = time.parse::<Time>().ok().filter(|_| is_time);
            day.to_datetime(time.ok_or_else(wrong)?)
        }
    };
    let ambiguous = zone.to_ambiguous_zoned(at);
    if time.is_some() && matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. }) {
        let zone = zone.iana_name().unwrap_or("that zone");
        return Err(format!(
            "the clocks of {zone} skip that time: they are put forward"
        ));
    }
    let at = ambiguous.compatible().map_err(|_| wrong())?;
    let unix_ms = u64::try_from(at.timestamp().as_millisecond()).map_err(|_| wrong())?;
    Ok(Timestamp::from_unix_ms(unix_ms))
}

/// The zone of this name; a word such as `18:00` names none.
fn named_zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

/// True for the form of a date, whether or not the calendar has it.
fn is_date(text: &str) -> bool {
    text.len() == DATE_LEN
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// Reads the same as of the past, and `4h ago`, `now`, `today`, `yesterday`, `2026-11-22` and
/// `2026-11-22 14:00`. Days and times are in UTC, as the times are that commands print.
pub fn parse_ago(text: &str) -> Result<Ago, String> {
    parse_ago_in(text, &TimeZone::UTC)
}

/// Reads the same with days and times on the clocks of a zone of the IANA database, such as `Europe/Berlin`.
pub fn parse_ago_at(text: &str, zone: &str) -> Result<Ago, String> {
    parse_ago_in(text, &zone_of(zone)?)
}

fn zone_of(name: &str) -> Result<TimeZone, String> {
    let zone = TimeZoneDatabase::bundled().get(name);
    zone.map_err(|_| "choose a time zone such as Europe/Berlin or UTC".to_owned())
}

fn parse_ago_in(text: &str, zone: &TimeZone) -> Result<Ago, String> {
    let text = text.trim();
    let span = text.strip_suffix("ago").unwrap_or(text);
    if let Ok(ago) = parse(span, Ago::At, Ago::MsAgo) {
        return Ok(ago);
    }
    if text == "now" {
        return Ok(Ago::At(now()));
    }
    let day = match text {
        "today" => today(zone),
        "yesterday" => today(zone).and_then(|today| today.yesterday().ok()),
        _ => None,
    };
    let at = match day {
        Some(day) => on_clocks(day.into(), zone),
        None => civil(text, zone),
    };
    at.map(Ago::At).ok_or_else(|| {
        let zone = zone.iana_name().unwrap_or("UTC");
        format!(
            "it must be a time such as 30m, 4h or 7d, a day such as yesterday, 2026-11-22 or \
             \"2026-11-22 14:00\" in {zone}, or an instant such as 2026-11-22T14:00:00Z"
        )
    })
}

fn today(zone: &TimeZone) -> Option<Date> {
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now_ms()).ok()?).ok()?;
    Some(zone.to_datetime(now).date())
}

/// A day, or a time of one, on the clocks of a zone.
fn civil(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let at: DateTime = match text.parse::<Date>() {
        // Also of a date with a time of day behind it, which is not to be lost.
        Ok(date) if text.len() == DATE_LEN => date.into(),
        _ => text.parse().ok()?,
    };
    on_clocks(at, zone)
}

/// Of a time that the clocks show twice, the first; of one that they skip, the one as much later.
fn on_clocks(at: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let at = zone.to_zoned(at).ok()?.timestamp();
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

    /// A day of UTC, in milliseconds.
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

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
            "in",
            "in a while",
            "tomorrow 25:00",
            "tomorrow noon",
            "2027-02-30",
            "2027-13-01",
            "2027-1-31",
            "2027-01-31 18",
            "2027-01-31 18:00 Mars/Base",
            "2027-01-31 18:00 +01:00",
            "9999-12-31",
            "1969-12-30",
            "\u{202e}2027-01-31",
            "2027-01-31\u{200b}",
            "<b>",
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
    fn the_time_to_come_is_written_as_people_speak_of_it() {
        let at = |text: &str| Ok(Ahead::At(text.parse().unwrap()));
        for (text, instant) in [
            // A day counts to its end.
            ("2026-12-31", "2027-01-01T00:00:00Z"),
            ("2026-12-31 18:00", "2026-12-31T18:00:00Z"),
            ("2026-12-31T18:00", "2026-12-31T18:00:00Z"),
            (" 2026-12-31  8:30 ", "2026-12-31T08:30:00Z"),
            ("2026-12-31 18:00 Europe/Berlin", "2026-12-31T17:00:00Z"),
            ("2026-07-01 Europe/Berlin", "2026-07-01T22:00:00Z"),
            ("2028-02-29", "2028-03-01T00:00:00Z"),
        ] {
            assert_eq!(parse_ahead(text), at(instant), "{text}");
        }
        for (text, instant) in [
            ("2026-12-31 18:00", "2026-12-31T17:00:00Z"),
            ("2026-12-31", "2026-12-31T23:00:00Z"),
            ("2026-12-31 18:00 UTC", "2026-12-31T18:00:00Z"),
            ("2026-12-31T18:00:00Z", "2026-12-31T18:00:00Z"),
            // Of the two, the first.
            ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(parse_ahead_at(text, "Europe/Berlin"), at(instant), "{text}");
        }
        assert_eq!(parse_ahead("in 7 days"), Ok(Ahead::InMs(7 * DAY_MS)));
        assert_eq!(parse_ahead("in 2 hours"), Ok(Ahead::InMs(7_200_000)));
        let ms = |text: &str| parse_ahead(text).unwrap().timestamp().unix_ms();
        let (today, tomorrow) = (ms("today"), ms("Tomorrow"));
        assert!(today > now_ms() - DAY_MS && tomorrow - today <= 2 * DAY_MS);
        assert_eq!((today % DAY_MS, tomorrow % DAY_MS), (0, 0));
        assert_eq!(ms("tomorrow 18:00") % DAY_MS, 18 * 60 * 60 * 1_000);
    }

    #[test]
    fn days_and_times_that_do_not_exist_say_so() {
        let error = parse_ahead("2027-02-30").unwrap_err();
        assert!(error.contains("the calendar has no 2027-02-30"), "{error}");
        let error = parse_ahead_at("2027-03-28 02:30", "Europe/Berlin").unwrap_err();
        assert!(error.contains("Europe/Berlin skip that time"), "{error}");
        let error = parse_ahead_at("tomorrow", "Mars/Base").unwrap_err();
        assert!(error.contains("choose a time zone"), "{error}");
        assert!(parse_ahead(&"9".repeat(10_000)).unwrap_err().len() < 300);
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
    fn days_gone_begin_at_the_midnight_of_a_zone() {
        let at = |text: &str| Ok(Ago::At(text.parse().unwrap()));
        for (text, zone, instant) in [
            ("2026-11-22", "Europe/Berlin", "2026-11-21T23:00:00Z"),
            ("2026-11-22 14:00", "Europe/Berlin", "2026-11-22T13:00:00Z"),
            ("2026-11-22", "America/New_York", "2026-11-22T05:00:00Z"),
            (
                "2026-11-22T14:00:00Z",
                "Europe/Berlin",
                "2026-11-22T14:00:00Z",
            ),
            // The clocks of that zone skip midnight on that day, and begin it at one o'clock.
            ("2026-09-06", "America/Santiago", "2026-09-06T04:00:00Z"),
        ] {
            assert_eq!(parse_ago_at(text, zone), at(instant), "{text} {zone}");
        }
        let ms = |text, zone| parse_ago_at(text, zone).unwrap().timestamp().unix_ms();
        // A zone that is 14 hours ahead of UTC all the year, and whose neighbour is 10 hours behind.
        let today = ms("today", "Pacific/Kiritimati");
        assert_eq!(today % DAY_MS, 10 * 60 * 60 * 1_000);
        assert!(today <= now_ms() && now_ms() - today < 2 * DAY_MS);
        assert_eq!(today - ms("yesterday", "Pacific/Kiritimati"), DAY_MS);
        assert_eq!(
            ms("today", "Pacific/Honolulu") % DAY_MS,
            10 * 60 * 60 * 1_000
        );
        let error = parse_ago_at("today", "Mars/Base").unwrap_err();
        assert!(error.contains("choose a time zone"), "{error}");
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
            let _ = parse_ahead_at(&text, "Europe/Berlin");
            let _ = parse_ago_at(&text, "Europe/Berlin");
        }
    }
}
