//! The targets of the measurements.

use crate::flood::Sending;
use crate::metric::{Flows, Metric};
use crate::statistics::Samples;
use crate::subject::Kind;

/// The share of its own undisturbed throughput that TCP must keep for a ping beside it to count as
/// "under load".
const FULL_THROUGHPUT_SHARE: f64 = 0.9;

/// One target with what was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The value to reach.
    pub(crate) target: String,
    /// The value that is judged: a ratio, or a figure in the unit that the target names.
    pub(crate) value: f64,
    /// The least or most it may be.
    pub(crate) bound: f64,
    pub(crate) reached: bool,
}

/// Judges every target for which there are measurements.
pub(crate) fn judge(samples: &Samples) -> Vec<Verdict> {
    let judge = Judge { samples };
    let mut verdicts = Vec::new();
    for (kind, name, factor) in [
        (Kind::Product, "culvert", 1.9),
        (Kind::ProductAes, "culvert-aes", 2.8),
    ] {
        for flows in Flows::ALL {
            let metric = Metric::Tcp(flows, "cubic");
            verdicts.push(judge.against_best_peer(kind, name, metric, factor));
        }
    }
    for (payload_bytes, factor) in [(1350, 3.0), (200, 2.5)] {
        let metric = Metric::UdpLossFree {
            sending: Sending::Datagrams,
            payload_bytes,
        };
        verdicts.push(judge.against_best_peer(Kind::Product, "culvert", metric, factor));
    }
    verdicts.extend(judge.ping());
    verdicts.push(judge.at_most(Metric::PeakMemory, 32e6, 1e6, "peak memory of one end, MB"));
    verdicts.push(judge.at_most(Metric::Reordered, 0.0, 1.0, "TCP segments reordered"));
    verdicts.extend(judge.links());
    verdicts.into_iter().flatten().collect()
}

/// The product's gateway, and what it is held against.
pub(crate) const GATEWAY: &str = "gateway";
pub(crate) const FORWARDING: &str = "culvert wg";

/// The share of the throughput of `culvert wg` that access through a gateway keeps.
const GATEWAY_SHARE: f64 = 0.95;

/// Judges the product's gateway against `culvert wg` that forwards the same traffic, turn by turn.
pub(crate) fn judge_gateway(samples: &Samples) -> Vec<Verdict> {
    let metrics = Flows::ALL.map(|flows| Metric::Tcp(flows, "cubic"));
    let verdicts = metrics.map(|metric| {
        let ratio = samples.median_ratio(GATEWAY, FORWARDING, metric)?;
        let target = format!("{metric}: {GATEWAY} / {FORWARDING}");
        Some(at_least(&target, ratio, GATEWAY_SHARE))
    });
    verdicts.into_iter().flatten().collect()
}

struct Judge<'samples> {
    samples: &'samples Samples,
}

impl Judge<'_> {
    /// At least `factor` times the best peer.
    fn against_best_peer(
        &self,
        kind: Kind,
        name: &str,
        metric: Metric,
        factor: f64,
    ) -> Option<Verdict> {
        let (peer, best) = self.samples.best_peer(metric)?;
        let ratio = self.samples.median_of_kind(kind, metric)? / best;
        Some(at_least(
            &format!("{metric}: {name} / {peer}"),
            ratio,
            factor,
        ))
    }

    /// A figure of its own, in units of `unit`.
    fn at_most(&self, metric: Metric, bound: f64, unit: f64, target: &str) -> Option<Verdict> {
        let value = self.samples.median_of_kind(Kind::Product, metric)?;
        Some(at_most(target, value / unit, bound / unit))
    }

    fn ping(&self) -> [Option<Verdict>; 4] {
        let own = |metric| self.samples.median_of_kind(Kind::Product, metric);
        let ratio = |metric| {
            let (peer, best) = self.samples.best_peer(metric)?;
            Some((format!("{metric}: culvert / {peer}"), own(metric)? / best))
        };
        let loaded =
            ratio(Metric::LoadedPing).map(|(name, value)| at_most(&name, value, 1.0 / 3.0));
        let loaded_ms = own(Metric::LoadedPing)
            .map(|value| at_most(&format!("{}, ms", Metric::LoadedPing), value, 1.0));
        let throughput = own(Metric::LoadedTcp)
            .zip(own(Metric::Tcp(Flows::One, "cubic")))
            .map(|(loaded, alone)| {
                let target = "TCP beside pings / TCP ×1 alone";
                at_least(target, loaded / alone, FULL_THROUGHPUT_SHARE)
            });
        let idle = ratio(Metric::IdlePing).map(|(name, value)| at_most(&name, value, 1.0));
        [loaded, loaded_ms, throughput, idle]
    }

    /// Shares of what the bare link carries.
    fn links(&self) -> Vec<Option<Verdict>> {
        let plain = [(1, 0.95), (5, 0.92), (10, 0.84)];
        let aes = [(1, 0.95), (5, 0.94), (10, 0.92)];
        let mut verdicts = Vec::new();
        for (kind, name, shares) in [
            (Kind::Product, "culvert", plain),
            (Kind::ProductAes, "culvert-aes", aes),
        ] {
            for (gbit, share) in shares {
                let metric = Metric::LinkTcp { gbit };
                verdicts
                    .push(self.against_direct(kind, metric).map(|ratio| {
                        at_least(&format!("{metric}: {name} / direct"), ratio, share)
                    }));
            }
        }
        let ping = self.against_direct(Kind::Product, Metric::LinkPing { gbit: 1 });
        let target = "1 Gbit/s link, ping under load: culvert / direct";
        verdicts.push(ping.map(|ratio| at_most(target, ratio, 1.5)));
        verdicts
    }

    fn against_direct(&self, kind: Kind, metric: Metric) -> Option<f64> {
        let direct = self.samples.median_of_kind(Kind::Direct, metric)?;
        Some(self.samples.median_of_kind(kind, metric)? / direct)
    }
}

fn at_least(target: &str, value: f64, bound: f64) -> Verdict {
    Verdict {
        target: format!("{target}, at least"),
        value,
        bound,
        reached: value >= bound,
    }
}

fn at_most(target: &str, value: f64, bound: f64) -> Verdict {
    Verdict {
        target: format!("{target}, at most"),
        value,
        bound,
        reached: value <= bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Means, Subject};

    fn subject(name: &'static str, kind: Kind) -> Subject {
        Subject {
            name,
            kind,
            means: Means::Link,
        }
    }

    fn verdict(own: f64, peer: f64, metric: Metric) -> Verdict {
        let mut samples = Samples::default();
        samples.add(&subject("culvert", Kind::Product), metric, own);
        samples.add(&subject("slow", Kind::Peer), metric, peer / 2.0);
        samples.add(&subject("fast", Kind::Peer), metric, peer);
        judge(&samples).into_iter().next().unwrap()
    }

    #[test]
    fn throughput_is_held_against_the_fastest_peer() {
        let metric = Metric::Tcp(Flows::One, "cubic");
        assert!(verdict(1.95, 1.0, metric).reached);
        assert!(!verdict(1.85, 1.0, metric).reached);
        assert!(verdict(1.95, 1.0, metric).target.contains("culvert / fast"));
    }

    #[test]
    fn without_measurements_nothing_is_judged() {
        assert_eq!(judge(&Samples::default()), []);
    }

    #[test]
    fn a_gateway_is_held_against_what_forwards_in_the_same_turn() {
        let metric = Metric::Tcp(Flows::One, "cubic");
        let mut samples = Samples::default();
        // The machine is slow in the second turn and in the third: the ratio is not.
        for (forwarding, gateway) in [(10.0, 9.0), (5.0, 4.9), (5.0, 4.8)] {
            samples.add(&subject(FORWARDING, Kind::Peer), metric, forwarding);
            samples.add(&subject(GATEWAY, Kind::Product), metric, gateway);
        }
        let [verdict] = judge_gateway(&samples).try_into().unwrap();
        assert!((verdict.value - 0.96).abs() < 1e-9 && verdict.reached);
        samples.add(&subject(GATEWAY, Kind::Product), metric, 9.0);
        assert_eq!(judge_gateway(&samples), [], "a turn is missing");
    }

    #[test]
    fn a_prompt_tunnel_must_also_be_below_a_millisecond() {
        let mut samples = Samples::default();
        samples.add(&subject("culvert", Kind::Product), Metric::LoadedPing, 2.0);
        samples.add(&subject("slow", Kind::Peer), Metric::LoadedPing, 12.0);
        let reached: Vec<_> = judge(&samples)
            .iter()
            .map(|verdict| verdict.reached)
            .collect();
        assert_eq!(reached, [true, false]);
    }
}
