//! Round trips of one client beside a crowd: some 100 pings a second.

use anyhow::{Context, Result, ensure};
use culvert_lab::{Namespace, Process};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const INTERVAL: Duration = Duration::from_millis(10);

/// Replies that are a second late are lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// A `ping` that goes on until it is told to stop.
pub(super) struct Pings {
    process: Process,
}

/// The round trips of some pings, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundTrips {
    pub(super) count: usize,
    /// Pings without an answer. They count as the longest.
    pub(super) lost: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) longest_ms: f64,
}

impl Pings {
    pub(super) fn start(namespace: &Namespace, target: IpAddr) -> Result<Self> {
        let interval_s = INTERVAL.as_secs_f64();
        let process = namespace.spawn(&format!("ping -n -D -i {interval_s} -W 1 {target}"))?;
        Ok(Self { process })
    }

    /// Stops it, after those under way have come back or are lost. Those that were sent since do not count.
    pub(super) fn stop(mut self) -> Result<RoundTrips> {
        let until = SystemTime::now().duration_since(UNIX_EPOCH)?;
        thread::sleep(LOST_AFTER);
        let output = self.process.output();
        ensure!(self.process.is_running()?, "ping ended early: {output}");
        RoundTrips::parse(&output, until)
    }
}

impl RoundTrips {
    /// From lines such as `[1800000000.123456] 64 bytes from 10.0.0.2: icmp_seq=7 ttl=64 time=0.213 ms`, up to the last ping
    /// that was sent by `until` and answered.
    fn parse(output: &str, until: Duration) -> Result<Self> {
        let field = |line: &str, name: &str| -> Option<f64> {
            let (_, rest) = line.split_once(name)?;
            rest.split([' ', ']']).next()?.parse().ok()
        };
        let replies: Vec<[f64; 3]> = output
            .lines()
            .filter_map(|line| {
                let [at, number, time] = ["[", "icmp_seq=", "time="].map(|name| field(line, name));
                Some([at?, number?, time?])
            })
            .collect();
        let in_time = replies
            .iter()
            .filter(|[at, _, time]| *at - *time / 1e3 <= until.as_secs_f64());
        let last = in_time.map(|[_, number, _]| *number).fold(0.0, f64::max);
        let mut times: Vec<f64> = replies
            .iter()
            .filter(|[_, number, _]| *number <= last)
            .map(|[.., time]| *time)
            .collect();
        times.sort_by(f64::total_cmp);
        let count = last as usize;
        let lost = count.saturating_sub(times.len());
        let lost_ms = LOST_AFTER.as_secs_f64() * 1e3;
        times.extend(std::iter::repeat_n(lost_ms, lost));
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).copied()
        };
        let none = || format!("no replies to ping: {output}");
        Ok(Self {
            count,
            lost,
            median_ms: at(50).with_context(none)?,
            p99_ms: at(99).with_context(none)?,
            longest_ms: at(100).with_context(none)?,
        })
    }
}

impl std::fmt::Display for RoundTrips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} pings: half within {:.2} ms, 99 % within {:.2} ms, the longest {:.1} ms, {} lost",
            self.count, self.median_ms, self.p99_ms, self.longest_ms, self.lost
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_without_an_answer_count_as_the_longest() {
        let line = |number: u32, ms: f64| {
            let at = 1_000.0 + f64::from(number) / 100.0;
            format!("[{at:.6}] 64 bytes from 10.0.0.2: icmp_seq={number} ttl=64 time={ms} ms\n")
        };
        // 300 were sent; the last hundred do not count, and 2 of the others were lost.
        let replies = (1..=300).filter(|number| ![7, 150].contains(number));
        let output: String = replies
            .map(|number| line(number, if number % 2 == 0 { 0.25 } else { 0.5 }))
            .collect();
        let trips = RoundTrips::parse(&output, Duration::from_millis(1_002_000)).unwrap();
        let expected = RoundTrips {
            count: 200,
            lost: 2,
            median_ms: 0.5,
            p99_ms: 0.5,
            longest_ms: 1000.0,
        };
        assert_eq!(trips, expected);
        assert!(RoundTrips::parse("nothing", Duration::MAX).is_err());
    }
}
