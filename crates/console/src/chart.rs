//! Charts, drawn on the server: bars, what they say as a sentence, and as a table for who does not
//! see them.

use super::states;
use super::view::Moment;
use culvert_portal_base::now;
use culvert_wire::Timestamp;
use culvert_wire::api::{Activity, ActivitySpan, ActivityStep};

/// Height of the drawing, and what a step takes of its width, in its own units.
const HEIGHT: u64 = 120;
const STEP: usize = 10;
/// Times below a drawing, apart from now.
const HOURS: usize = 4;

/// A chart of one thing over time.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// The content of the chart, in a sentence.
    pub(super) summary: String,
    /// The style of the drawing: a class of the style sheet.
    pub(super) class: &'static str,
    /// The unit that is counted.
    pub(super) unit: &'static str,
    /// Links to the spans of time; true marks the current one.
    pub(super) spans: Vec<(String, &'static str, bool)>,
    /// The values at the top, the middle and the foot.
    pub(super) scale: [String; 3],
    /// Times below the drawing, at equal distances from its beginning on.
    pub(super) hours: Vec<Moment>,
    pub(super) bars: Vec<Bar>,
    /// The steps in which something happened.
    pub(super) rows: Vec<(Moment, String)>,
    steps: usize,
}

/// A step.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) x: usize,
    pub(super) y: u64,
    pub(super) height: u64,
    pub(super) label: String,
}

impl Chart {
    pub(super) const fn width(&self) -> usize {
        self.steps * STEP
    }

    /// The traffic through gateways, in bytes a second.
    pub(super) fn throughput(path: &str, activity: &Activity) -> Self {
        let step_s = u64::from(activity.step_s.max(1));
        let rate = |step: &ActivityStep| step.bytes / step_s;
        let total: u64 = activity.steps.iter().map(|step| step.bytes).sum();
        let most = activity.steps.iter().map(rate).max().unwrap_or(0);
        let summary = format!(
            "Throughput of {}: {} in all, at most {}.",
            span_name(activity.span),
            bytes(total),
            states::rate(most)
        );
        Self {
            title: "Throughput",
            summary,
            class: "carried",
            unit: "Throughput",
            ..Self::of(path, activity, now(), rate, states::rate)
        }
    }

    /// The number of denied requests.
    pub(super) fn denials(path: &str, activity: &Activity) -> Self {
        let denied = |step: &ActivityStep| step.denied;
        let total: u64 = activity.steps.iter().map(denied).sum();
        let most = activity.steps.iter().map(denied).max().unwrap_or(0);
        let summary = format!(
            "Denied requests of {}: {total} in all, at most {most} in {}.",
            span_name(activity.span),
            step_name(activity.span)
        );
        Self {
            title: "Denied requests",
            summary,
            class: "denied",
            unit: "Denied",
            ..Self::of(path, activity, now(), denied, |count| count.to_string())
        }
    }

    fn of(
        path: &str,
        activity: &Activity,
        now: Timestamp,
        value: impl Fn(&ActivityStep) -> u64,
        show: impl Fn(u64) -> String,
    ) -> Self {
        let most = rounded_up(activity.steps.iter().map(&value).max().unwrap_or(0));
        let moment = |step: &ActivityStep| Moment::new(step.at, now);
        let numbered = activity.steps.iter().enumerate();
        let happened = numbered.filter(|(_, step)| value(step) > 0);
        let bars = happened.clone().map(|(number, step)| {
            // A value above 0 is always visible, however small it is.
            let part = u128::from(value(step)) * u128::from(HEIGHT) / u128::from(most);
            let height = u64::try_from(part).unwrap_or(HEIGHT).clamp(1, HEIGHT);
            Bar {
                x: number * STEP + 1,
                y: HEIGHT - height,
                height,
                label: format!("{}: {}", moment(step).short, show(value(step))),
            }
        });
        let spans = [
            (ActivitySpan::Hour, "hour", "Hour"),
            (ActivitySpan::Day, "day", "Day"),
            (ActivitySpan::Week, "week", "Week"),
        ];
        Self {
            title: "",
            summary: String::new(),
            class: "",
            unit: "",
            spans: spans
                .map(|(span, word, name)| {
                    (format!("{path}?span={word}"), name, span == activity.span)
                })
                .to_vec(),
            scale: [show(most), show(most / 2), show(0)],
            hours: activity
                .steps
                .iter()
                .step_by((activity.steps.len() / HOURS).max(1))
                .take(HOURS)
                .map(moment)
                .collect(),
            bars: bars.collect(),
            rows: happened
                .map(|(_, step)| (moment(step), show(value(step))))
                .collect(),
            steps: activity.steps.len(),
        }
    }
}

/// The next number of the form 2, 4, 6 or 10 times a power of ten, whose half is a whole number too.
fn rounded_up(most: u64) -> u64 {
    let mut power: u64 = 1;
    loop {
        for digit in [2, 4, 6, 10] {
            let round = power.saturating_mul(digit);
            if round >= most {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

const fn span_name(span: ActivitySpan) -> &'static str {
    match span {
        ActivitySpan::Hour => "the last hour",
        ActivitySpan::Day => "the last day",
        ActivitySpan::Week => "the last week",
    }
}

const fn step_name(span: ActivitySpan) -> &'static str {
    match span {
        ActivitySpan::Hour => "a minute",
        ActivitySpan::Day => "15 minutes",
        ActivitySpan::Week => "two hours",
    }
}

/// Bytes as people read them, in steps of 1000.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1_000 {
        return format!("{count} B");
    }
    let (mut tenths, mut unit) = (count / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1_000;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::Timestamp;

    fn activity(values: &[u64]) -> Activity {
        let step = |(number, value): (usize, &u64)| ActivityStep {
            at: Timestamp::from_unix_ms(1_800_000_000_000 + number as u64 * 60_000),
            bytes: value.saturating_mul(60),
            granted: 0,
            denied: *value,
        };
        Activity {
            span: ActivitySpan::Hour,
            step_s: 60,
            steps: values.iter().enumerate().map(step).collect(),
        }
    }

    #[test]
    fn the_largest_is_as_high_as_the_drawing_and_the_least_is_seen() {
        let chart = Chart::denials("/", &activity(&[0, 1, 1_000_000, 500_000]));
        assert_eq!(chart.scale, ["1000000", "500000", "0"]);
        let bars: Vec<_> = chart
            .bars
            .iter()
            .map(|bar| (bar.x, bar.y, bar.height))
            .collect();
        assert_eq!(bars, [(11, 119, 1), (21, 0, 120), (31, 60, 60)]);
        assert_eq!((chart.width(), chart.rows.len()), (40, 3));
        let chart = Chart::denials("/", &activity(&[u64::MAX / 4]));
        assert_eq!(chart.bars[0].height, 92, "of 6 EB a second");
    }

    #[test]
    fn one_denial_is_not_as_high_as_the_drawing() {
        let chart = Chart::denials("/", &activity(&[1]));
        assert_eq!(chart.scale, ["2", "1", "0"]);
        assert_eq!(chart.bars[0].height, 60);
        let cases = [
            (0, 2),
            (3, 4),
            (5, 6),
            (7, 10),
            (11, 20),
            (61, 100),
            (101, 200),
        ];
        for (most, round) in cases {
            assert_eq!(rounded_up(most), round);
        }
        assert_eq!(rounded_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn times_below_a_chart_are_a_quarter_of_it_apart() {
        let chart = Chart::denials("/", &activity(&[0; 60]));
        let minutes = chart
            .hours
            .iter()
            .map(|moment| moment.at.unix_ms() / 60_000 % 60);
        assert_eq!(minutes.collect::<Vec<_>>(), [0, 15, 30, 45]);
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows() {
        let chart = Chart::throughput("/", &activity(&[0, 2_500]));
        assert_eq!(
            chart.summary,
            "Throughput of the last hour: 150.0 kB in all, at most 20 kbit/s."
        );
        assert_eq!(chart.rows[0].1, "20 kbit/s");
        let chart = Chart::denials("/log/access", &activity(&[]));
        assert_eq!(
            chart.summary,
            "Denied requests of the last hour: 0 in all, at most 0 in a minute."
        );
        assert_eq!(chart.spans[1].0, "/log/access?span=day");
    }

    #[test]
    fn bytes_are_read_in_steps_of_a_thousand() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_550_000, "1.5 MB"),
            (u64::MAX, "18446.7 PB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }
}
