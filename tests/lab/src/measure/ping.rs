//! Round-trip times.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::namespace::Namespace;
use crate::process::Process;

/// The result of one `ping`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PingReport {
    /// Requests sent.
    pub sent: u32,
    /// Replies received.
    pub received: u32,
    /// The mean round-trip time in milliseconds.
    pub average_ms: f64,
    /// The median round-trip time in milliseconds. On a machine that others share, one late reply moves the mean.
    /// None of a quiet `ping`, which tells nothing of single replies.
    pub median_ms: Option<f64>,
    /// The longest round-trip time in milliseconds.
    pub max_ms: f64,
}

/// Starts a `ping` of `count` requests, one each `interval`; [`PingReport::of`] waits for it.
///
/// # Errors
/// When it cannot be started.
pub fn start_ping(
    namespace: &Namespace,
    target: IpAddr,
    interval: Duration,
    count: u32,
) -> Result<Process> {
    let interval_s = interval.as_secs_f64();
    // Replies that are a second late are lost, for any purpose here.
    namespace.spawn(&format!("ping -n -i {interval_s} -c {count} -W 1 {target}"))
}

impl PingReport {
    /// Waits for a `ping` to end and reads its statistics.
    ///
    /// # Errors
    /// When it does not end, or not a single reply came.
    pub fn of(mut ping: Process, deadline: Duration) -> Result<Self> {
        // It fails when a reply is missing; the statistics tell how many.
        ping.wait(deadline)?;
        let output = ping.output();
        Self::parse(&output).with_context(|| format!("no statistics from ping: {output}"))
    }

    /// Sends `count` pings, one each `interval`, and waits for the replies.
    ///
    /// # Errors
    /// As [`PingReport::of`].
    pub fn measure(
        namespace: &Namespace,
        target: IpAddr,
        interval: Duration,
        count: u32,
    ) -> Result<Self> {
        let ping = start_ping(namespace, target, interval, count)?;
        Self::of(ping, interval * count + Duration::from_secs(10))
    }

    fn parse(output: &str) -> Option<Self> {
        let counts = output
            .lines()
            .find(|line| line.contains(" packets transmitted"))?;
        let mut counts = counts.split(", ").filter_map(|part| part.split(' ').next());
        let sent = counts.next()?.parse().ok()?;
        let received = counts.next()?.parse().ok()?;
        let times = output.lines().find(|line| line.contains("min/avg/max"))?;
        let mut times = times.split(" = ").nth(1)?.split('/').skip(1);
        let average_ms = times.next()?.parse().ok()?;
        let max_ms = times.next()?.parse().ok()?;
        let mut each_ms: Vec<f64> = output.lines().filter_map(round_trip_ms).collect();
        each_ms.sort_by(f64::total_cmp);
        let median_ms = each_ms.get(each_ms.len() / 2).copied();
        Some(Self {
            sent,
            received,
            average_ms,
            median_ms,
            max_ms,
        })
    }
}

/// The round-trip time of one reply's line.
fn round_trip_ms(line: &str) -> Option<f64> {
    let (_, time) = line.split_once(" time=")?;
    time.strip_suffix(" ms")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "PING 10.1.1.2 (10.1.1.2) 56(84) bytes of data.\n\
        64 bytes from 10.1.1.2: icmp_seq=1 ttl=64 time=0.339 ms\n\
        64 bytes from 10.1.1.2: icmp_seq=2 ttl=64 time=0.005 ms\n\
        64 bytes from 10.1.1.2: icmp_seq=4 ttl=64 time=0.004 ms\n\n\
        --- 10.1.1.2 ping statistics ---\n\
        200 packets transmitted, 198 received, 1% packet loss, time 398ms\n\
        rtt min/avg/max/mdev = 0.003/0.006/0.339/0.023 ms\n";

    #[test]
    fn statistics_are_read() {
        let report = PingReport::parse(OUTPUT).unwrap();
        let expected = PingReport {
            sent: 200,
            received: 198,
            average_ms: 0.006,
            median_ms: Some(0.005),
            max_ms: 0.339,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn a_quiet_ping_tells_all_but_the_median() {
        let lines = OUTPUT.lines().filter(|line| !line.contains(" time="));
        let report = PingReport::parse(&lines.collect::<Vec<_>>().join("\n")).unwrap();
        assert_eq!((report.received, report.median_ms), (198, None));
    }

    #[test]
    fn without_a_reply_there_are_no_times() {
        let lines = OUTPUT.lines().filter(|line| !line.contains(" time="));
        let output = lines.take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(PingReport::parse(&output), None);
    }
}
