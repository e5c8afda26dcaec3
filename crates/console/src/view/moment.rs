//! Instants as people read them: how far from now, and the exact time beside.

use culvert_wire::Timestamp;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const MONTH_MS: u64 = 30 * DAY_MS;
const YEAR_MS: u64 = 365 * DAY_MS;

/// A distance is told in a unit as soon as there are two of it.
const UNITS: [(u64, &str, &str); 5] = [
    (YEAR_MS, "year", "years"),
    (MONTH_MS, "month", "months"),
    (DAY_MS, "day", "days"),
    (HOUR_MS, "h", "h"),
    (MINUTE_MS, "min", "min"),
];

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// An instant in a page. The script writes the texts anew, in the zone of the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    /// To the second, in UTC: `2026-11-22 14:30:05 UTC`.
    pub(crate) exact: String,
    /// The distance from now: `5 min ago`, `in 3 days`.
    pub(crate) relative: String,
    /// The exact time, as short as it can be: `14:30 UTC` on the same day, `Nov 22 14:30` in the same year,
    /// `2025-11-22` otherwise.
    pub(crate) short: String,
}

impl Moment {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let exact = exact(at);
        let short = short(&exact, &self::exact(now));
        Self {
            at,
            relative: relative(at.unix_ms(), now.unix_ms()),
            short,
            exact,
        }
    }
}

fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    let seconds = text.get(..19).unwrap_or(&text).replace('T', " ");
    format!("{seconds} UTC")
}

fn relative(at_ms: u64, now_ms: u64) -> String {
    let distance_ms = now_ms.abs_diff(at_ms);
    let unit = UNITS.iter().find(|(ms, ..)| distance_ms >= *ms);
    let Some((ms, one, many)) = unit else {
        return "now".to_owned();
    };
    let count = distance_ms / ms;
    let name = if count == 1 { one } else { many };
    match at_ms < now_ms {
        true => format!("{count} {name} ago"),
        false => format!("in {count} {name}"),
    }
}

/// Both as [`exact`] writes them.
fn short(at: &str, now: &str) -> String {
    let part = |range| at.get(range).unwrap_or(at);
    if at.get(..10) == now.get(..10) {
        return format!("{} UTC", part(11..16));
    }
    if at.get(..4) != now.get(..4) {
        return part(0..10).to_owned();
    }
    let month = part(5..7).parse::<usize>().unwrap_or(1);
    let month = MONTHS.get(month.wrapping_sub(1)).unwrap_or(&"");
    let day = part(8..10).trim_start_matches('0');
    format!("{month} {day} {}", part(11..16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: &str) -> Moment {
        let now = "2026-11-29T10:05:13Z".parse().unwrap();
        Moment::new(at.parse().unwrap(), now)
    }

    #[test]
    fn a_moment_is_told_by_its_distance_with_the_exact_time_beside() {
        let cases = [
            ("2026-11-29T10:05:13Z", "now", "10:05 UTC"),
            ("2026-11-29T10:04:14Z", "now", "10:04 UTC"),
            ("2026-11-29T10:06:12Z", "now", "10:06 UTC"),
            ("2026-11-29T10:00:00Z", "5 min ago", "10:00 UTC"),
            ("2026-11-29T00:05:00Z", "10 h ago", "00:05 UTC"),
            ("2026-11-28T23:05:00Z", "11 h ago", "Nov 28 23:05"),
            ("2026-11-28T10:05:00Z", "1 day ago", "Nov 28 10:05"),
            ("2026-11-02T10:05:00Z", "27 days ago", "Nov 2 10:05"),
            ("2026-01-31T10:05:00Z", "10 months ago", "Jan 31 10:05"),
            ("2024-01-31T10:05:00Z", "2 years ago", "2024-01-31"),
            ("2026-11-29T11:05:13Z", "in 1 h", "11:05 UTC"),
            ("2027-01-31T18:00:00Z", "in 2 months", "2027-01-31"),
        ];
        for (at, relative, short) in cases {
            let moment = moment(at);
            assert_eq!(
                (&*moment.relative, &*moment.short),
                (relative, short),
                "{at}"
            );
        }
        assert_eq!(
            moment("2026-11-02T10:05:07.123Z").exact,
            "2026-11-02 10:05:07 UTC"
        );
    }
}
