//! Charts, drawn on the server: bars, what they say as a sentence, and as a table for who does not
//! see them.

use culvert_wire::api::{Activity, ActivitySpan, ActivityStep};

/// Height of the drawing, and what a step takes of its width, in its own units.
const HEIGHT: u64 = 120;
const STEP: usize = 10;

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
    pub(super) bars: Vec<Bar>,
    /// The steps in which something happened.
    pub(super) rows: Vec<(String, String)>,
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
            "Throughput of {}: {} in all, at most {}/s.",
            span_name(activity.span),
            bytes(total),
            bytes(most)
        );
        let show = |step: &ActivityStep| format!("{}/s", bytes(rate(step)));
        Self {
            title: "Throughput",
            summary,
            class: "carried",
            unit: "Carried",
            ..Self::of(path, activity, rate, show)
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
            ..Self::of(path, activity, denied, |step| step.denied.to_string())
        }
    }

    fn of(
        path: &str,
        activity: &Activity,
        value: impl Fn(&ActivityStep) -> u64,
        show: impl Fn(&ActivityStep) -> String,
    ) -> Self {
        let most = activity.steps.iter().map(&value).max().unwrap_or(0).max(1);
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
                label: format!("{}: {}", step.at, show(step)),
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
            bars: bars.collect(),
            rows: happened
                .map(|(_, step)| (step.at.to_string(), show(step)))
                .collect(),
            steps: activity.steps.len(),
        }
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
        let bars: Vec<_> = chart
            .bars
            .iter()
            .map(|bar| (bar.x, bar.y, bar.height))
            .collect();
        assert_eq!(bars, [(11, 119, 1), (21, 0, 120), (31, 60, 60)]);
        assert_eq!((chart.width(), chart.rows.len()), (40, 3));
        let chart = Chart::denials("/", &activity(&[u64::MAX / 4]));
        assert_eq!(chart.bars[0].height, 120);
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows() {
        let chart = Chart::throughput("/", &activity(&[0, 2_500]));
        assert_eq!(
            chart.summary,
            "Throughput of the last hour: 150.0 kB in all, at most 2.5 kB/s."
        );
        assert_eq!(chart.rows[0].1, "2.5 kB/s");
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
