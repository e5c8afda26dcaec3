//! Metrics as text: the format 0.0.4 of Prometheus, or OpenMetrics 1.0.

use crate::http::{Request, Response};
use std::fmt::{Display, Write};

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The format that every collector reads.
    Prometheus,
    /// The format that newer collectors ask for.
    OpenMetrics,
}

impl Format {
    /// The media type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Answers a collector, in the format that it accepts; `render` has nothing where who runs is ending.
pub(crate) fn answer(
    request: Request<'_>,
    render: impl FnOnce(Format) -> Option<String>,
) -> Response {
    let format = match request.accept.contains("application/openmetrics-text") {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    };
    match render(format) {
        Some(body) => Response::ok(format.content_type(), body),
        None => Response::unavailable("it is ending, or does not answer in time\n"),
    }
}

/// Text in the making. Names are given without the prefix.
pub(crate) struct Exposition<'a> {
    text: String,
    prefix: &'static str,
    /// Labels of every sample.
    common: Vec<(&'static str, &'a str)>,
    format: Format,
}

impl<'a> Exposition<'a> {
    /// An empty text whose metrics are called `prefix_…`; every sample has the `common` labels.
    pub(crate) const fn new(
        prefix: &'static str,
        common: Vec<(&'static str, &'a str)>,
        format: Format,
    ) -> Self {
        Self {
            text: String::new(),
            prefix,
            common,
            format,
        }
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// `name` is without `_total`: OpenMetrics names the family so, and only its samples have the
    /// suffix; the older format knows no families and names the sample.
    pub(crate) fn counter(&mut self, name: &str, help: &str) {
        match self.format {
            Format::Prometheus => self.family(&format!("{name}_total"), "counter", help),
            Format::OpenMetrics => self.family(name, "counter", help),
        }
    }

    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        self.line(format_args!("# HELP {prefix}_{name} {help}"));
        self.line(format_args!("# TYPE {prefix}_{name} {kind}"));
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = self
            .common
            .iter()
            .chain(labels)
            .map(|(label, text)| format!("{label}=\"{}\"", escape(text)))
            .collect();
        let prefix = self.prefix;
        match labels.is_empty() {
            true => self.line(format_args!("{prefix}_{name} {value}")),
            false => self.line(format_args!(
                "{prefix}_{name}{{{}}} {value}",
                labels.join(",")
            )),
        }
    }

    /// Milliseconds as seconds.
    pub(crate) fn seconds(&mut self, name: &str, labels: &[(&str, &str)], ms: u64) {
        let (seconds, milliseconds) = (ms / 1000, ms % 1000);
        self.sample(name, labels, format_args!("{seconds}.{milliseconds:03}"));
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string does not fail");
    }
}

/// A label's value: both formats escape these three.
fn escape(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', r#"\""#)
        .replace('\n', r"\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    /// The rules of OpenMetrics that a text can break: samples follow their family's `TYPE`, a
    /// counter's samples end in `_total`, no series appears twice, values are numbers. Returns how many
    /// series there are.
    pub(crate) fn assert_well_formed(text: &str) -> usize {
        let body = text.strip_suffix("# EOF\n").unwrap();
        let mut kinds = BTreeMap::new();
        let mut family = "";
        let mut series = BTreeSet::new();
        for line in body.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let kind;
                (family, kind) = declared.split_once(' ').unwrap();
                assert_eq!(kinds.insert(family, kind), None, "{family} once");
            } else if !line.starts_with('#') {
                let (labelled, value) = line.rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap();
                assert!(series.insert(labelled), "{labelled} once");
                let name = labelled.split('{').next().unwrap();
                assert!(name == labelled || labelled.ends_with('}'), "{labelled}");
                let suffix = name.strip_prefix(family).unwrap();
                match kinds[family] {
                    "counter" => assert_eq!(suffix, "_total"),
                    "gauge" => assert_eq!(suffix, ""),
                    _ => assert!(["_bucket", "_sum", "_count"].contains(&suffix)),
                }
            }
        }
        series.len()
    }
}
