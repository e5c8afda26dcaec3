//! Samples and their medians.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::metric::{Better, Metric};
use crate::subject::{Kind, Subject};

/// Everything measured so far.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    values: BTreeMap<(Metric, &'static str), Vec<f64>>,
    kinds: BTreeMap<&'static str, Kind>,
    failures: Vec<Failure>,
}

/// A measurement that came to nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) subject: &'static str,
    pub(crate) message: String,
}

impl Samples {
    /// Adds one measured value.
    pub(crate) fn add(&mut self, subject: &Subject, metric: Metric, value: f64) {
        self.kinds.insert(subject.name, subject.kind);
        self.values
            .entry((metric, subject.name))
            .or_default()
            .push(value);
    }

    /// Adds all that other samples hold of one subject.
    pub(crate) fn append(&mut self, subject: &Subject, others: &Self) {
        for metric in others.metrics() {
            for &value in others.values(subject.name, metric) {
                self.add(subject, metric, value);
            }
        }
    }

    /// Notes a failed measurement, and says so at once.
    pub(crate) fn note(&mut self, subject: &Subject, result: Result<()>) {
        let Err(error) = result else { return };
        let message = format!("{error:#}");
        eprintln!("         {} failed: {message}", subject.name);
        self.failures.push(Failure {
            subject: subject.name,
            message,
        });
    }

    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The metrics that have a value for anyone, in order.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = self.values.keys().map(|&(metric, _)| metric).collect();
        metrics.dedup();
        metrics
    }

    /// The values of one subject, one a round.
    pub(crate) fn values(&self, subject: &str, metric: Metric) -> &[f64] {
        let found = self
            .values
            .iter()
            .find(|((m, s), _)| *m == metric && *s == subject);
        found.map_or(&[], |(_, values)| values)
    }

    /// The median of one subject.
    pub(crate) fn median(&self, subject: &str, metric: Metric) -> Option<f64> {
        median(self.values(subject, metric))
    }

    /// The median of the subject of a kind of which there is one.
    pub(crate) fn median_of_kind(&self, kind: Kind, metric: Metric) -> Option<f64> {
        let (name, _) = self.kinds.iter().find(|(_, other)| **other == kind)?;
        self.median(name, metric)
    }

    /// The median of what `one` has over what `other` has in the same turn. Drift from turn to turn is in neither. `None`
    /// where one of them has missed a turn.
    pub(crate) fn median_ratio(&self, one: &str, other: &str, metric: Metric) -> Option<f64> {
        let (one, other) = (self.values(one, metric), self.values(other, metric));
        let ratios: Vec<_> = one
            .iter()
            .zip(other)
            .map(|(one, other)| one / other)
            .collect();
        (one.len() == other.len()).then(|| median(&ratios))?
    }

    /// The best median among the peers, and whose it is.
    pub(crate) fn best_peer(&self, metric: Metric) -> Option<(&'static str, f64)> {
        let peers = self.kinds.iter().filter(|(_, kind)| **kind == Kind::Peer);
        let medians = peers.filter_map(|(name, _)| Some((*name, self.median(name, metric)?)));
        match metric.better() {
            Better::Higher => medians.max_by(|(_, a), (_, b)| a.total_cmp(b)),
            Better::Lower => medians.min_by(|(_, a), (_, b)| a.total_cmp(b)),
        }
    }
}

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

/// About three digits that mean something.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Means;

    fn peer(name: &'static str) -> Subject {
        Subject {
            name,
            kind: Kind::Peer,
            means: Means::Link,
        }
    }

    #[test]
    fn the_median_ignores_one_wild_value() {
        assert_eq!(median(&[3.0, 900.0, 2.0]), Some(3.0));
        assert_eq!(median(&[4.0, 2.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_best_peer_is_the_fastest_or_the_promptest() {
        let mut samples = Samples::default();
        for (name, ping_ms, rate) in [("a", 1.0, 5.0), ("b", 2.0, 9.0)] {
            samples.add(&peer(name), Metric::IdlePing, ping_ms);
            samples.add(&peer(name), Metric::LoadedTcp, rate);
        }
        assert_eq!(samples.best_peer(Metric::IdlePing), Some(("a", 1.0)));
        assert_eq!(samples.best_peer(Metric::LoadedTcp), Some(("b", 9.0)));
        assert_eq!(samples.best_peer(Metric::PeakMemory), None);
    }
}
