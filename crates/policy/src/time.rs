//! Windows of time: days of the week, a beginning and an end, on the clocks of a time zone.
//!
//! A window holds while a clock on the wall of that zone shows a time in it. When clocks are put
//! forward, what lies in the gap does not happen: a window from 02:00 until 03:00 does not open
//! that night, one from 02:30 opens when the clocks show 03:00. When clocks are put back, times in
//! the fold happen twice. A window until 02:30 closes at the first 02:30, and opens again when the
//! clocks show 02:00 once more.

use crate::ConditionError;
use culvert_base::UnixTime;
use culvert_base::quotable;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const MS_PER_MINUTE: i64 = 60_000;
const MINUTES_PER_DAY: u16 = 24 * 60;
const MS_PER_WEEK: i64 = 7 * MINUTES_PER_DAY as i64 * MS_PER_MINUTE;
/// The Unix epoch was a Thursday: three days after a Monday.
const EPOCH_IN_WEEK_MS: i64 = 3 * MINUTES_PER_DAY as i64 * MS_PER_MINUTE;

/// Changes of a zone's clocks that are looked beyond for the next opening or closing. Every week
/// has both, so it takes the first week in which the clocks do not skip them: with two changes a
/// year the second one at the latest. Eight allow for zones that pause their summer time for a
/// month each year.
const MAX_CLOCK_CHANGES: usize = 8;

/// The areas of zones that have the name of a place. The others are old names and fixed offsets.
const AREAS: [&str; 10] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Europe",
    "Indian",
    "Pacific",
];

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Weekday {
    /// Monday.
    #[serde(rename = "mon")]
    Monday,
    /// Tuesday.
    #[serde(rename = "tue")]
    Tuesday,
    /// Wednesday.
    #[serde(rename = "wed")]
    Wednesday,
    /// Thursday.
    #[serde(rename = "thu")]
    Thursday,
    /// Friday.
    #[serde(rename = "fri")]
    Friday,
    /// Saturday.
    #[serde(rename = "sat")]
    Saturday,
    /// Sunday.
    #[serde(rename = "sun")]
    Sunday,
}

impl Weekday {
    /// Every day, in the order of ISO 8601.
    pub const ALL: [Self; 7] = [
        Self::Monday,
        Self::Tuesday,
        Self::Wednesday,
        Self::Thursday,
        Self::Friday,
        Self::Saturday,
        Self::Sunday,
    ];

    /// The three letters by which it is written: `mon`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Monday => "mon",
            Self::Tuesday => "tue",
            Self::Wednesday => "wed",
            Self::Thursday => "thu",
            Self::Friday => "fri",
            Self::Saturday => "sat",
            Self::Sunday => "sun",
        }
    }
}

impl FromStr for Weekday {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let mut days = Self::ALL.into_iter();
        days.find(|day| day.as_str() == text)
            .ok_or_else(|| ConditionError::Weekday(quotable(text)))
    }
}

/// A set of days of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Weekdays(u8);

impl Weekdays {
    /// True if the day is one of them.
    #[must_use]
    pub const fn contains(self, day: Weekday) -> bool {
        self.0 & 1 << day as u8 != 0
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The days, Monday first.
    pub fn iter(self) -> impl Iterator<Item = Weekday> {
        let days = Weekday::ALL.into_iter();
        days.filter(move |day| self.contains(*day))
    }
}

impl FromIterator<Weekday> for Weekdays {
    fn from_iter<I: IntoIterator<Item = Weekday>>(days: I) -> Self {
        let add = |set, day| set | 1 << day as u8;
        Self(days.into_iter().fold(0, add))
    }
}

/// A time of day to the minute, 00:00 to 24:00.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay {
    minutes: u16,
}

impl TimeOfDay {
    /// The beginning of the day.
    pub const MIDNIGHT: Self = Self { minutes: 0 };
    /// The end of the day, 24:00.
    pub const END_OF_DAY: Self = Self {
        minutes: MINUTES_PER_DAY,
    };
}

impl FromStr for TimeOfDay {
    type Err = ConditionError;

    /// Reads `09:30`: two digits, a colon, two digits.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let refused = || ConditionError::TimeOfDay(quotable(text));
        let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
        let [h, hours, b':', m, minutes] = *text.as_bytes() else {
            return Err(refused());
        };
        let read = |tens, ones| Some(digit(tens)? * 10 + digit(ones)?);
        let (Some(hours), Some(minutes)) = (read(h, hours), read(m, minutes)) else {
            return Err(refused());
        };
        let total = hours * 60 + minutes;
        if minutes > 59 || total > MINUTES_PER_DAY {
            return Err(refused());
        }
        Ok(Self { minutes: total })
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A time zone of the IANA database that is built into the program, so that every replica of a
/// portal decides alike.
#[derive(Clone)]
pub struct Zone {
    /// As the database spells it.
    name: Box<str>,
    rules: TimeZone,
}

impl Zone {
    /// The name, as in `Europe/Berlin`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names that people choose from, in order: `UTC`, and those with the name of a place.
    #[must_use]
    pub fn names() -> Vec<String> {
        let database = TimeZoneDatabase::bundled();
        let all = database.available();
        let is_place = |name: &str| {
            let area = name.split_once('/').map(|(area, _)| area);
            name == "UTC" || area.is_some_and(|area| AREAS.contains(&area))
        };
        let mut names: Vec<String> = all.map(|name| name.as_str().to_owned()).collect();
        names.retain(|name| is_place(name));
        names.sort();
        names
    }

    /// The zone's offset from UTC, in milliseconds; positive ahead of UTC.
    fn offset_ms(&self, at: Timestamp) -> i64 {
        i64::from(self.rules.to_offset(at).seconds()) * 1000
    }

    /// The next instant at which its clocks are put forward or back.
    fn clock_change_ms(&self, after: Timestamp) -> Option<i64> {
        let next = self.rules.following(after).next()?;
        Some(next.timestamp().as_millisecond())
    }
}

impl FromStr for Zone {
    type Err = ConditionError;

    fn from_str(name: &str) -> Result<Self, ConditionError> {
        let zone = TimeZoneDatabase::bundled().get(name);
        let rules = zone.map_err(|_| ConditionError::Zone(quotable(name)))?;
        let name = rules.iana_name().unwrap_or(name).into();
        Ok(Self { name, rules })
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

/// A stretch of each of some days. One that ends before it begins goes over midnight: it begins on
/// the days listed and ends on the days after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    days: Weekdays,
    from: TimeOfDay,
    until: TimeOfDay,
    zone: Zone,
}

impl TimeWindow {
    /// The window from `from`, included, until `until`, excluded.
    ///
    /// # Errors
    /// [`ConditionError::NoDays`], [`ConditionError::BeginsAtMidnight`] and
    /// [`ConditionError::EmptyWindow`].
    pub fn new(
        days: Weekdays,
        from: TimeOfDay,
        until: TimeOfDay,
        zone: Zone,
    ) -> Result<Self, ConditionError> {
        if days.is_empty() {
            return Err(ConditionError::NoDays);
        }
        if from == TimeOfDay::END_OF_DAY {
            return Err(ConditionError::BeginsAtMidnight);
        }
        if from == until {
            return Err(ConditionError::EmptyWindow(from.to_string()));
        }
        Ok(Self {
            days,
            from,
            until,
            zone,
        })
    }

    /// The days on which it begins.
    #[must_use]
    pub const fn days(&self) -> Weekdays {
        self.days
    }

    /// The time of day at which it begins.
    #[must_use]
    pub const fn from(&self) -> TimeOfDay {
        self.from
    }

    /// The time of day at which it ends.
    #[must_use]
    pub const fn until(&self) -> TimeOfDay {
        self.until
    }

    /// The zone whose clocks count.
    #[must_use]
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }

    /// True if the instant is in the window.
    #[must_use]
    pub fn holds(&self, now: UnixTime) -> bool {
        instant(now).is_some_and(|now| self.holds_in_week(self.in_week_ms(now)))
    }

    /// The next instant at which it opens or closes; none if it never does.
    /// In zones without any regularity it may be an instant at which nothing changes.
    #[must_use]
    pub fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
        let mut at = instant(now)?;
        let is_open = self.holds_in_week(self.in_week_ms(at));
        for _ in 0..MAX_CLOCK_CHANGES {
            // Until its clocks are changed the zone's week runs evenly.
            let ahead_ms = self.change_in_week_ms(self.in_week_ms(at), is_open)?;
            let change_ms = at.as_millisecond() + ahead_ms;
            let clocks_ms = self.zone.clock_change_ms(at);
            match clocks_ms.filter(|clocks_ms| *clocks_ms <= change_ms) {
                None => return unix_time(change_ms),
                Some(clocks_ms) => at = Timestamp::from_millisecond(clocks_ms).ok()?,
            }
            if self.holds_in_week(self.in_week_ms(at)) != is_open {
                break;
            }
        }
        unix_time(at.as_millisecond())
    }

    /// The time on the zone's clocks, in milliseconds since Monday 00:00.
    fn in_week_ms(&self, at: Timestamp) -> i64 {
        let local_ms = at.as_millisecond() + self.zone.offset_ms(at);
        (local_ms + EPOCH_IN_WEEK_MS).rem_euclid(MS_PER_WEEK)
    }

    fn holds_in_week(&self, in_week_ms: i64) -> bool {
        let minute = in_week_ms / MS_PER_MINUTE;
        let day = (minute / i64::from(MINUTES_PER_DAY)) as usize % 7;
        let minute = (minute % i64::from(MINUTES_PER_DAY)) as u16;
        let began_today = self.days.contains(Weekday::ALL[day]) && minute >= self.from.minutes;
        if self.from < self.until {
            return began_today && minute < self.until.minutes;
        }
        let began_yesterday = self.days.contains(Weekday::ALL[(day + 6) % 7]);
        began_today || began_yesterday && minute < self.until.minutes
    }

    /// The time until the window next closes (or opens, if it is not open), in milliseconds of a
    /// week without clock changes; none if it is the same all week.
    fn change_in_week_ms(&self, in_week_ms: i64, is_open: bool) -> Option<i64> {
        let day_ms = i64::from(MINUTES_PER_DAY) * MS_PER_MINUTE;
        let bounds = [self.from, self.until].map(|bound| i64::from(bound.minutes) * MS_PER_MINUTE);
        let ahead = (0..7).flat_map(|day| bounds.map(|bound| day * day_ms + bound - in_week_ms));
        ahead
            .map(|ahead_ms| match ahead_ms.rem_euclid(MS_PER_WEEK) {
                0 => MS_PER_WEEK,
                ahead_ms => ahead_ms,
            })
            .filter(|ahead_ms| {
                self.holds_in_week((in_week_ms + ahead_ms).rem_euclid(MS_PER_WEEK)) != is_open
            })
            .min()
    }
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: Vec<_> = self.days.iter().map(Weekday::as_str).collect();
        let Self {
            from, until, zone, ..
        } = self;
        write!(out, "{} {from}-{until} {zone}", days.join(","))
    }
}

/// The instant, unless it is beyond the calendar: then no window holds.
fn instant(time: UnixTime) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(time.as_millis()).ok()?).ok()
}

/// None before the epoch.
fn unix_time(millis: i64) -> Option<UnixTime> {
    u64::try_from(millis).ok().map(UnixTime::from_millis)
}

/// An instant for people, in UTC to the second: `2025-03-30T01:00:00Z`.
pub(crate) fn shown(time: UnixTime) -> Option<String> {
    let seconds = i64::try_from(time.as_millis() / 1000).ok()?;
    let instant = Timestamp::from_second(seconds).ok()?;
    Some(instant.to_string())
}
