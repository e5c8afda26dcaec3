//! Windows of time, through the changes of the clocks.

use culvert_base::UnixTime;
use culvert_policy::{ConditionError, TimeOfDay, TimeWindow, Weekday, Zone};
use jiff::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

const QUARTER: Duration = Duration::from_mins(15);
const FORTNIGHT: Duration = Duration::from_hours(14 * 24);

/// `mon,tue 09:00-17:00 Europe/Berlin`, as windows are displayed.
pub(crate) fn window(text: &str) -> TimeWindow {
    let mut parts = text.split(' ');
    let mut part = || parts.next().unwrap();
    let days = match part() {
        "daily" => Weekday::ALL.into_iter().collect(),
        days => days
            .split(',')
            .map(|day| day.parse::<Weekday>().unwrap())
            .collect(),
    };
    let (from, until) = part().split_once('-').unwrap();
    let zone = part().parse().unwrap();
    TimeWindow::new(days, from.parse().unwrap(), until.parse().unwrap(), zone).unwrap()
}

/// An instant of RFC 3339.
pub(crate) fn at(text: &str) -> UnixTime {
    let instant: Timestamp = text.parse().unwrap();
    UnixTime::from_millis(instant.as_millisecond().try_into().unwrap())
}

fn timestamp(time: UnixTime) -> Timestamp {
    Timestamp::from_millisecond(time.as_millis() as i64).unwrap()
}

/// Asserts when the window opens and closes from `start` on: what `next_change` says, and that
/// it holds just before and after as it should.
fn assert_changes(text: &str, start: &str, is_open: bool, changes: &[&str]) {
    let window = window(text);
    let (mut now, mut is_open) = (at(start), is_open);
    assert_eq!(window.holds(now), is_open, "{text} at {start}");
    for change in changes {
        let next = window.next_change(now).unwrap();
        assert_eq!(timestamp(next).to_string(), *change, "{text} after {now:?}");
        let before = next.saturating_sub(Duration::from_millis(1));
        assert_eq!(window.holds(before), is_open, "{text} before {change}");
        is_open = !is_open;
        assert_eq!(window.holds(next), is_open, "{text} at {change}");
        now = next;
    }
}

#[test]
fn office_hours_follow_the_clocks_of_berlin() {
    // Clocks go forward on Sunday, 2025-03-30.
    assert_changes(
        "mon,tue,wed,thu,fri 09:00-17:00 Europe/Berlin",
        "2025-03-28T12:00:00Z",
        true,
        &[
            "2025-03-28T16:00:00Z",
            "2025-03-31T07:00:00Z",
            "2025-03-31T15:00:00Z",
            "2025-04-01T07:00:00Z",
        ],
    );
    // And back on Sunday, 2025-10-26.
    assert_changes(
        "mon,tue,wed,thu,fri 09:00-17:00 Europe/Berlin",
        "2025-10-24T06:59:59Z",
        false,
        &[
            "2025-10-24T07:00:00Z",
            "2025-10-24T15:00:00Z",
            "2025-10-27T08:00:00Z",
            "2025-10-27T16:00:00Z",
        ],
    );
}

#[test]
fn what_lies_in_the_gap_does_not_happen() {
    // 02:00 becomes 03:00 on 2025-03-30: no such hour, so the next night's is the next.
    assert_changes(
        "daily 02:00-03:00 Europe/Berlin",
        "2025-03-29T02:00:00Z",
        false,
        &["2025-03-31T00:00:00Z", "2025-03-31T01:00:00Z"],
    );
    // Once a week it is skipped for a week.
    assert_changes(
        "sun 02:15-02:45 Europe/Berlin",
        "2025-03-24T00:00:00Z",
        false,
        &["2025-04-06T00:15:00Z", "2025-04-06T00:45:00Z"],
    );
    // A window that begins in the gap opens as the clocks are put forward,
    assert_changes(
        "sun 02:30-04:00 Europe/Berlin",
        "2025-03-30T00:00:00Z",
        false,
        &["2025-03-30T01:00:00Z", "2025-03-30T02:00:00Z"],
    );
    // and one that ends there closes.
    assert_changes(
        "sun 01:00-02:30 Europe/Berlin",
        "2025-03-30T00:30:00Z",
        true,
        &["2025-03-30T01:00:00Z"],
    );
}

#[test]
fn what_lies_in_the_fold_happens_twice() {
    // 03:00 becomes 02:00 on 2025-10-26 at 01:00 UTC: 02:00 to 03:00 comes twice.
    assert_changes(
        "sun 02:00-02:30 Europe/Berlin",
        "2025-10-25T12:00:00Z",
        false,
        &[
            "2025-10-26T00:00:00Z",
            "2025-10-26T00:30:00Z",
            "2025-10-26T01:00:00Z",
            "2025-10-26T01:30:00Z",
        ],
    );
    // A window across the fold lasts an hour longer.
    assert_changes(
        "sun 01:00-04:00 Europe/Berlin",
        "2025-10-25T22:00:00Z",
        false,
        &["2025-10-25T23:00:00Z", "2025-10-26T03:00:00Z"],
    );
}

#[test]
fn new_york_changes_its_clocks_on_other_days() {
    // Forward on 2025-03-09 at 07:00 UTC.
    assert_changes(
        "daily 08:00-20:00 America/New_York",
        "2025-03-09T02:00:00Z",
        false,
        &["2025-03-09T12:00:00Z", "2025-03-10T00:00:00Z"],
    );
    assert_changes(
        "sun 02:00-03:00 America/New_York",
        "2025-03-08T00:00:00Z",
        false,
        &["2025-03-16T06:00:00Z", "2025-03-16T07:00:00Z"],
    );
    // Back on 2025-11-02 at 06:00 UTC: 01:00 to 02:00 comes twice.
    assert_changes(
        "sun 01:30-02:00 America/New_York",
        "2025-11-02T00:00:00Z",
        false,
        &[
            "2025-11-02T05:30:00Z",
            "2025-11-02T06:00:00Z",
            "2025-11-02T06:30:00Z",
            "2025-11-02T07:00:00Z",
        ],
    );
}

#[test]
fn a_window_that_ends_before_it_begins_goes_over_midnight() {
    let text = "fri 22:00-06:00 Europe/Berlin";
    assert_changes(
        text,
        "2025-01-10T20:00:00Z",
        false,
        &[
            "2025-01-10T21:00:00Z",
            "2025-01-11T05:00:00Z",
            "2025-01-17T21:00:00Z",
        ],
    );
    // Neither Friday's early morning nor Saturday's night.
    assert!(!window(text).holds(at("2025-01-10T03:00:00Z")));
    assert!(!window(text).holds(at("2025-01-11T22:00:00Z")));
    // Over the night in which the clocks go forward it is an hour shorter.
    assert_changes(
        "sat 22:00-06:00 Europe/Berlin",
        "2025-03-29T12:00:00Z",
        false,
        &["2025-03-29T21:00:00Z", "2025-03-30T04:00:00Z"],
    );
    // From Sunday into Monday, across the end of the week.
    assert_changes(
        "sun 23:00-01:00 UTC",
        "2025-01-12T23:30:00Z",
        true,
        &["2025-01-13T01:00:00Z", "2025-01-19T23:00:00Z"],
    );
}

#[test]
fn a_day_ends_at_24_00() {
    assert_changes(
        "mon 00:00-24:00 America/New_York",
        "2025-01-13T04:59:59Z",
        false,
        &[
            "2025-01-13T05:00:00Z",
            "2025-01-14T05:00:00Z",
            "2025-01-20T05:00:00Z",
        ],
    );
    // 22:00 to 00:00 is the same as to 24:00.
    for until in ["00:00", "24:00"] {
        assert_changes(
            &format!("mon 22:00-{until} UTC"),
            "2025-01-13T12:00:00Z",
            false,
            &[
                "2025-01-13T22:00:00Z",
                "2025-01-14T00:00:00Z",
                "2025-01-20T22:00:00Z",
            ],
        );
    }
}

#[test]
fn a_window_of_all_days_never_changes() {
    let always = window("daily 00:00-24:00 Europe/Berlin");
    assert!(always.holds(at("2025-03-30T01:00:00Z")));
    assert_eq!(always.next_change(at("2025-03-30T01:00:00Z")), None);
    // 10:00 to 10:00 less a minute does.
    assert_changes(
        "daily 10:00-09:59 UTC",
        "2025-01-01T12:00:00Z",
        true,
        &["2025-01-02T09:59:00Z", "2025-01-02T10:00:00Z"],
    );
}

#[test]
fn a_day_that_a_zone_skips_has_no_window() {
    // Samoa had no Friday, 2011-12-30: it went from UTC-10 to UTC+14 at 10:00 UTC.
    assert_changes(
        "fri 08:00-10:00 Pacific/Apia",
        "2011-12-29T00:00:00Z",
        false,
        &["2012-01-05T18:00:00Z", "2012-01-05T20:00:00Z"],
    );
}

#[test]
fn beyond_the_calendar_no_window_holds() {
    let always = window("daily 00:00-24:00 UTC");
    assert!(!always.holds(UnixTime::MAX));
    assert_eq!(always.next_change(UnixTime::MAX), None);
}

#[test]
fn times_of_day_read_what_they_write_and_nothing_else() {
    for text in ["00:00", "09:30", "23:59", "24:00"] {
        assert_eq!(text.parse::<TimeOfDay>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "9:30",
        "24:01",
        "25:00",
        "12:60",
        "12-30",
        "12:3",
        "+1:00",
        "12:30:00",
        "１２:00",
    ] {
        assert!(text.parse::<TimeOfDay>().is_err(), "{text}");
    }
}

#[test]
fn a_window_without_time_in_it_is_refused() {
    let zone: Zone = "UTC".parse().unwrap();
    let time = |text: &str| text.parse::<TimeOfDay>().unwrap();
    let all = Weekday::ALL.into_iter().collect();
    let new = |days, from, until| TimeWindow::new(days, time(from), time(until), zone.clone());
    assert_eq!(
        new([].into_iter().collect(), "09:00", "17:00"),
        Err(ConditionError::NoDays)
    );
    assert_eq!(
        new(all, "24:00", "06:00"),
        Err(ConditionError::BeginsAtMidnight)
    );
    for text in ["00:00", "12:00"] {
        assert_eq!(
            new(all, text, text),
            Err(ConditionError::EmptyWindow(text.to_owned()))
        );
    }
}

#[test]
fn zones_are_those_of_the_built_in_database() {
    assert_eq!(
        "Europe/Berlin".parse::<Zone>().unwrap().name(),
        "Europe/Berlin"
    );
    assert_eq!(
        "europe/berlin".parse::<Zone>().unwrap().name(),
        "Europe/Berlin"
    );
    for text in [
        "",
        "Europe/Atlantis",
        "../etc/passwd",
        "CEST-2",
        "/usr/share/zoneinfo/UTC",
    ] {
        assert!(text.parse::<Zone>().is_err(), "{text}");
    }
}

fn any_window() -> impl Strategy<Value = TimeWindow> {
    let zones = prop_oneof![
        Just("Europe/Berlin"),
        Just("America/New_York"),
        Just("UTC"),
        Just("Australia/Lord_Howe"),
        Just("Asia/Kathmandu"),
        Just("Africa/Casablanca"),
        Just("Pacific/Apia"),
    ];
    (1_u8..128, 0_u16..24, 0_u16..=24, 0_u16..4, zones).prop_filter_map(
        "empty",
        |(days, from, until, quarter, zone)| {
            let days = Weekday::ALL
                .into_iter()
                .filter(|day| days & 1 << *day as u8 != 0)
                .collect();
            let quarter = if until == 24 { 0 } else { quarter * 15 };
            let time = |hours: u16| format!("{hours:02}:{quarter:02}").parse().unwrap();
            TimeWindow::new(days, time(from), time(until), zone.parse().unwrap()).ok()
        },
    )
}

/// The time on the clocks, by another way through the library than the window takes.
fn shows(window: &TimeWindow, now: UnixTime) -> bool {
    let local = timestamp(now).in_tz(window.zone().name()).unwrap();
    let minutes = |time: TimeOfDay| {
        let text = time.to_string();
        text[..2].parse::<i16>().unwrap() * 60 + text[3..].parse::<i16>().unwrap()
    };
    let (from, until) = (minutes(window.from()), minutes(window.until()));
    let minute = i16::from(local.hour()) * 60 + i16::from(local.minute());
    let today = local.weekday().to_monday_zero_offset() as usize;
    let begins = |day: usize| window.days().contains(Weekday::ALL[day % 7]);
    if from < until {
        begins(today) && (from..until).contains(&minute)
    } else {
        begins(today) && minute >= from || begins(today + 6) && minute < until
    }
}

proptest! {
    #[test]
    fn nothing_changes_before_the_next_change(
        window in any_window(),
        start in 1_300_000_000_000_u64..2_000_000_000_000,
    ) {
        // Fourteen days in steps of a quarter of an hour, in which all bounds lie.
        let quarter_ms = QUARTER.as_millis() as u64;
        let mut now = UnixTime::from_millis(start / quarter_ms * quarter_ms);
        let end = now.saturating_add(FORTNIGHT);
        let mut change = window.next_change(now);
        while now < end {
            prop_assert_eq!(window.holds(now), shows(&window, now), "{} {:?}", window, now);
            let next = now.saturating_add(QUARTER);
            let changes = shows(&window, next) != shows(&window, now);
            prop_assert_eq!(change == Some(next), changes, "{} {:?} {:?}", window, next, change);
            if changes {
                change = window.next_change(next);
            }
            now = next;
        }
    }
}
