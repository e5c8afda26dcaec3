//! The rates of resources: bytes a second between two samples of their counts.
//!
//! The service tells counts at most once a second while they change, and nothing while they do not. So a rate ends by
//! time, and only while one is shown is there a moment to wait for.

use crate::status::{self, Change, Resource};
use std::collections::HashMap;
use std::sync::Arc;

/// Without another sample for this long, in milliseconds, nothing comes or goes: two beats of the service, and a late one.
const FRESH_MS: u64 = 3_000;

/// Samples that are closer together than this, in milliseconds, make no rate of their own.
const MIN_SPAN_MS: u64 = 500;

/// Bytes a second of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// From it.
    pub received: u64,
    /// To it.
    pub sent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ms: u64,
    sent: u64,
    received: u64,
    rate: Option<Rate>,
}

impl Sample {
    fn of(resource: &Resource, at_ms: u64) -> Option<Self> {
        Some(Self {
            at_ms,
            sent: resource.sent_bytes?,
            received: resource.received_bytes?,
            rate: None,
        })
    }

    /// The rate from `before` to this one. None after a pause, since nobody knows when it ended, and where a count went
    /// back: the service began anew.
    fn rate_since(&self, before: &Self) -> Option<Rate> {
        let span_ms = self.at_ms.checked_sub(before.at_ms)?;
        let a_second = |now: u64, then: u64| {
            let bytes = u128::from(now.checked_sub(then)?) * 1_000;
            u64::try_from(bytes / u128::from(span_ms.max(1))).ok()
        };
        let rate = Rate {
            received: a_second(self.received, before.received)?,
            sent: a_second(self.sent, before.sent)?,
        };
        (span_ms < FRESH_MS).then_some(rate)
    }
}

/// The rates of all resources that have any: at most as many as there are resources.
#[derive(Debug, Default)]
pub struct Rates(HashMap<String, Sample>);

impl Rates {
    /// Takes the resources of a state that came at `now_ms`, after those of the state before. Resources that did not
    /// change are passed over.
    pub fn update(&mut self, before: &[Arc<Resource>], now: &[Arc<Resource>], now_ms: u64) {
        for change in status::changes(before, now) {
            match change {
                Change::Removed(gone) => {
                    self.0.remove(&gone.id);
                }
                Change::Added(resource) | Change::Changed(_, resource) => {
                    self.note(resource, now_ms);
                }
            }
        }
    }

    fn note(&mut self, resource: &Resource, now_ms: u64) {
        let Some(mut sample) = Sample::of(resource, now_ms) else {
            self.0.remove(&resource.id);
            return;
        };
        if let Some(before) = self.0.get(&resource.id) {
            // Something else of the resource changed, or the next beat makes a better rate.
            let is_same = (before.sent, before.received) == (sample.sent, sample.received);
            let is_back = sample.sent < before.sent || sample.received < before.received;
            let is_close = now_ms.saturating_sub(before.at_ms) < MIN_SPAN_MS;
            if is_same || is_close && !is_back {
                return;
            }
            sample.rate = sample.rate_since(before);
        }
        self.0.insert(resource.id.clone(), sample);
    }

    /// The rate of a resource at `now_ms`; none while nothing comes or goes.
    #[must_use]
    pub fn of(&self, id: &str, now_ms: u64) -> Option<Rate> {
        let sample = self.0.get(id)?;
        let is_fresh = now_ms < sample.at_ms.saturating_add(FRESH_MS);
        sample.rate.filter(|_| is_fresh)
    }

    /// The moment at which the next rate ends. None while there is no rate: nothing is to be waited for.
    #[must_use]
    pub fn next_end_ms(&self, now_ms: u64) -> Option<u64> {
        let rated = self.0.values().filter(|sample| sample.rate.is_some());
        let ends = rated.map(|sample| sample.at_ms.saturating_add(FRESH_MS));
        ends.filter(|end_ms| *end_ms > now_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(id: &str, sent: u64, received: u64) -> Arc<Resource> {
        Arc::new(Resource {
            id: id.to_owned(),
            sent_bytes: Some(sent),
            received_bytes: Some(received),
            ..Resource::default()
        })
    }

    /// The rate of the last of these samples of one resource: each a moment, sent and received bytes.
    fn last(samples: &[(u64, u64, u64)]) -> Option<(u64, u64)> {
        let (mut rates, mut before) = (Rates::default(), Vec::new());
        let mut at_ms = 0;
        for &(moment_ms, sent, received) in samples {
            let now = vec![counts("a", sent, received)];
            rates.update(&before, &now, moment_ms);
            (before, at_ms) = (now, moment_ms);
        }
        let rate = rates.of("a", at_ms)?;
        Some((rate.sent, rate.received))
    }

    #[test]
    fn a_rate_is_the_bytes_between_two_samples_by_the_time_between() {
        assert_eq!(last(&[(1_000, 10, 20)]), None, "one sample is no rate");
        assert_eq!(
            last(&[(1_000, 10, 20), (3_000, 2_010, 20)]),
            Some((1_000, 0))
        );
        assert_eq!(
            last(&[(1_000, 0, 0), (2_250, 5, 1_250_000)]),
            Some((4, 1_000_000))
        );
    }

    #[test]
    fn counts_that_went_back_make_no_rate_and_the_next_one_goes_on_from_there() {
        assert_eq!(last(&[(0, 500, 500), (1_000, 7, 900)]), None);
        assert_eq!(last(&[(0, 500, 500), (100, 7, 0)]), None);
        assert_eq!(
            last(&[(0, 500, 500), (100, 7, 0), (1_100, 107, 0)]),
            Some((100, 0))
        );
    }

    #[test]
    fn no_rate_reaches_over_a_pause_or_between_samples_of_one_moment() {
        assert_eq!(last(&[(0, 0, 0), (60_000, 600, 0)]), None);
        assert_eq!(
            last(&[(0, 0, 0), (1_000, 100, 0), (1_001, 200, 0)]),
            Some((100, 0))
        );
        assert_eq!(last(&[(0, 0, 0), (0, 100, 0)]), None);
    }

    #[test]
    fn a_rate_ends_by_time_and_then_there_is_nothing_to_wait_for() {
        let mut rates = Rates::default();
        assert_eq!(rates.next_end_ms(0), None);
        let (first, second) = (vec![counts("a", 0, 0)], vec![counts("a", 9, 9)]);
        rates.update(&[], &first, 1_000);
        assert_eq!(rates.next_end_ms(1_000), None);
        rates.update(&first, &second, 2_000);
        assert_eq!(rates.next_end_ms(2_000), Some(5_000));
        assert!(rates.of("a", 4_999).is_some());
        assert_eq!(rates.of("a", 5_000), None);
        assert_eq!(rates.next_end_ms(5_000), None);
    }

    #[test]
    fn resources_without_counts_and_those_that_are_gone_have_no_rate() {
        let mut rates = Rates::default();
        let (first, second) = (vec![counts("a", 0, 0)], vec![counts("a", 9, 9)]);
        rates.update(&[], &first, 0);
        rates.update(&first, &second, 1_000);
        rates.update(&second, &[], 1_100);
        assert_eq!(rates.of("a", 1_100), None);
        let older = vec![Arc::new(Resource {
            id: "b".to_owned(),
            ..Resource::default()
        })];
        rates.update(&[], &older, 1_200);
        assert_eq!(rates.of("b", 1_200), None);
    }
}
