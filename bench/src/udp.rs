//! The highest rate of UDP that arrives.

use std::time::Duration;

use anyhow::Result;

use crate::bed::Bed;
use crate::effort::Effort;
use crate::flood::{Arrival, Flood, Sending};
use crate::metric::Metric;
use crate::statistics::Samples;

/// Up to this share of lost datagrams counts as loss-free.
const LOSS_MAX_SHARE: f64 = 0.005;

/// A step that loses more than allowed but less than this may have met a hiccup of the machine, and
/// is tried once more.
const LOSS_OF_A_HICCUP_SHARE: f64 = 0.1;

/// The kinds of datagrams: the way of sending, the payload, and the range of rates in bits a second.
/// The range holds the result of every subject, from a WireGuard program that sends packet by packet on
/// a slow machine to the bare link on a fast one.
const KINDS: [(Sending, u32, f64, f64); 3] = [
    (Sending::Datagrams, 1350, 100e6, 8e9),
    (Sending::Datagrams, 200, 20e6, 1.6e9),
    (Sending::Runs, 1350, 100e6, 32e9),
];

/// Finds the loss-free rate at each size by bisection.
pub(crate) fn loss_free_rates(bed: &Bed<'_>, effort: &Effort, samples: &mut Samples) {
    for kind in KINDS {
        let (sending, payload_bytes, ..) = kind;
        let metric = Metric::UdpLossFree {
            sending,
            payload_bytes,
        };
        samples.add(bed.subject, metric, loss_free_rate(bed, effort, kind));
    }
}

/// The loss-free rate of datagrams of 1350 bytes that are sent one by one, in bits a second.
pub(crate) fn loss_free_rate_of_datagrams(bed: &Bed<'_>, effort: &Effort) -> f64 {
    loss_free_rate(bed, effort, KINDS[0])
}

/// The outcome of an overload: twice as many datagrams of 1350 bytes as get through.
///
/// # Errors
/// When nothing got through, or sender or receiver fail.
pub(crate) fn overload(
    bed: &Bed<'_>,
    effort: &Effort,
    loss_free_bits_per_s: f64,
) -> Result<Arrival> {
    anyhow::ensure!(loss_free_bits_per_s > 0.0, "no rate of UDP got through");
    let (sending, payload_bytes, ..) = KINDS[0];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and parts of a bit do not matter"
    )]
    let flood = Flood {
        rate_bits_per_s: (2.0 * loss_free_bits_per_s) as u64,
        payload_bytes,
        sending,
        duration: Duration::from_secs(effort.udp_s.into()),
    };
    flood.run(&bed.client, &bed.server, bed.server_address)
}

fn loss_free_rate(bed: &Bed<'_>, effort: &Effort, kind: (Sending, u32, f64, f64)) -> f64 {
    let (sending, payload_bytes, lowest, highest) = kind;
    bisect(lowest, highest, effort.udp_steps, |rate| {
        let flood = Flood {
            rate_bits_per_s: rate,
            payload_bytes,
            sending,
            duration: Duration::from_secs(effort.udp_s.into()),
        };
        let measure = || flood.run(&bed.client, &bed.server, bed.server_address);
        let mut result = measure();
        if result.as_ref().is_ok_and(met_a_hiccup) {
            result = measure();
        }
        match result {
            Ok(arrival) => {
                (arrival.lost_share <= LOSS_MAX_SHARE).then_some(arrival.bits_per_second)
            }
            Err(error) => {
                eprintln!(
                    "         {rate} bit/s of UDP through {}: {error:#}",
                    bed.subject.name
                );
                None
            }
        }
    })
}

fn met_a_hiccup(arrival: &Arrival) -> bool {
    (LOSS_MAX_SHARE..LOSS_OF_A_HICCUP_SHARE).contains(&arrival.lost_share)
}

/// Halves the range, on a logarithmic scale, `steps` times. `arrives` tells what arrived if the
/// offered rate got through. Returns the most that arrived, zero if nothing got through.
fn bisect(
    lowest: f64,
    highest: f64,
    steps: u32,
    mut arrives: impl FnMut(u64) -> Option<f64>,
) -> f64 {
    let (mut low, mut high) = (lowest, highest);
    let mut best = 0.0_f64;
    for _ in 0..steps {
        let middle = (low * high).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and parts of a bit do not matter"
        )]
        match arrives(middle as u64) {
            Some(arrived) => {
                best = best.max(arrived);
                low = middle;
            }
            None => high = middle,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries up to `limit`.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn path(limit: f64) -> impl FnMut(u64) -> Option<f64> {
        move |rate| (rate as f64 <= limit).then_some(rate as f64)
    }

    #[test]
    fn eight_steps_find_the_limit_to_three_percent() {
        for limit in [1e8, 6.1e8, 2.5e9, 7e9] {
            let found = bisect(40e6, 8e9, 8, path(limit));
            assert!(found <= limit && found > 0.97 * limit, "{found} of {limit}");
        }
    }

    #[test]
    fn a_path_that_carries_nothing_has_no_rate() {
        assert_eq!(bisect(40e6, 8e9, 8, path(0.0)), 0.0);
    }

    #[test]
    fn a_sender_slower_than_offered_counts_with_what_arrived() {
        let found = bisect(40e6, 8e9, 8, |_| Some(1e9));
        assert_eq!(found, 1e9);
    }
}
