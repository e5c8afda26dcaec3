//! The results of a measurement.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) machine: Machine,
    pub(super) clients: usize,
    pub(super) resources: usize,
    pub(super) groups: usize,
    /// From the start of an empty portal to its whole configuration and all tokens.
    pub(super) configured_s: f64,
    /// Before the first client.
    pub(super) idle_peak_rss_bytes: u64,
    /// From the start of all to each one's grant.
    pub(super) arrival: Spread,
    /// Messages to the clients until then, without what TLS and WebSocket add.
    pub(super) arrival_bytes: u64,
    pub(super) arrival_cpu_s: f64,
    pub(super) peak_rss_bytes: u64,
    pub(super) failed_attempts: BTreeMap<String, u64>,
    pub(super) change: ChangeFigures,
    /// The portal was asked to end, and started again.
    pub(super) restart: ReturnFigures,
    /// It was killed, and started again.
    pub(super) crash: ReturnFigures,
}

/// A policy is disabled.
#[derive(Debug, Serialize)]
pub(super) struct ChangeFigures {
    /// Clients that have a grant by the policy.
    pub(super) concerned: usize,
    /// Messages that these got.
    pub(super) messages: u64,
    /// Messages that anybody else got.
    pub(super) messages_to_others: u64,
    pub(super) messages_to_gateway: u64,
    /// From the request to its answer.
    pub(super) answered_ms: f64,
    /// From the request to the last message of each client that is concerned.
    pub(super) told: Spread,
}

/// Everybody comes back.
#[derive(Debug, Serialize)]
pub(super) struct ReturnFigures {
    /// From the signal until the portal is ready again.
    pub(super) away_ms: f64,
    /// From then until each client has its access.
    pub(super) back: Spread,
    pub(super) failed_attempts: BTreeMap<String, u64>,
    pub(super) peak_rss_bytes: u64,
    pub(super) cpu_s: f64,
}

/// The spread of the times that clients took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) last_ms: f64,
}

impl Spread {
    /// Nothing where there is nobody.
    pub(super) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        // The smallest that at least this share of all does not exceed.
        let at = |share: usize| {
            let rank = (times.len() * share).div_ceil(100).max(1);
            times.get(rank - 1).copied().map_or(0.0, ms)
        };
        Self {
            median_ms: at(50),
            p99_ms: at(99),
            last_ms: at(100),
        }
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl Figures {
    /// As a table.
    pub(super) fn print(&self) -> Result<()> {
        let Self {
            clients,
            resources,
            groups,
            arrival,
            change,
            ..
        } = self;
        writeln!(
            std::io::stdout(),
            "{clients} clients, {resources} resources, {groups} groups"
        )?;
        row("configured after", &format!("{:.2} s", self.configured_s))?;
        row(
            "all at once: served, median",
            &format!("{:.0} ms", arrival.median_ms),
        )?;
        row(
            "all at once: served, last",
            &format!("{:.0} ms", arrival.last_ms),
        )?;
        row("  attempts that failed", &failures(&self.failed_attempts))?;
        row(
            "  processor time of the portal",
            &format!("{:.2} s", self.arrival_cpu_s),
        )?;
        row(
            "  messages to clients",
            &format!("{:.1} MB", mb(self.arrival_bytes)),
        )?;
        row(
            "  peak memory (before the first client)",
            &format!(
                "{:.0} MB ({:.0} MB)",
                mb(self.peak_rss_bytes),
                mb(self.idle_peak_rss_bytes)
            ),
        )?;
        row(
            "one policy disabled: concerned",
            &format!("{} clients", change.concerned),
        )?;
        row(
            "  messages to these, gateway, others",
            &format!(
                "{}, {}, {}",
                change.messages, change.messages_to_gateway, change.messages_to_others
            ),
        )?;
        row(
            "  answered, last of these told",
            &format!(
                "{:.1} ms, {:.1} ms",
                change.answered_ms, change.told.last_ms
            ),
        )?;
        self.restart.print("restarted")?;
        self.crash.print("killed")
    }
}

impl ReturnFigures {
    fn print(&self, name: &str) -> Result<()> {
        let Self {
            away_ms,
            back,
            failed_attempts,
            peak_rss_bytes,
            cpu_s,
        } = self;
        row(
            &format!("{name}: ready again after"),
            &format!("{away_ms:.0} ms"),
        )?;
        row(
            "  all have access: median, last",
            &format!("{:.0} ms, {:.0} ms", back.median_ms, back.last_ms),
        )?;
        row("  attempts that failed", &failures(failed_attempts))?;
        row(
            "  processor time, peak memory",
            &format!("{cpu_s:.2} s, {:.0} MB", mb(*peak_rss_bytes)),
        )
    }
}

fn row(name: &str, value: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{name:38} {value}")?)
}

fn failures(failures: &BTreeMap<String, u64>) -> String {
    let each: Vec<_> = failures
        .iter()
        .map(|(why, count)| format!("{count} ({why})"))
        .collect();
    match each.is_empty() {
        true => "none".to_owned(),
        false => each.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_the_longest_and_the_median_the_middle() {
        let times = (1..=200).rev().map(Duration::from_millis);
        let spread = Spread::of(times);
        assert_eq!(
            (spread.median_ms, spread.p99_ms, spread.last_ms),
            (100.0, 198.0, 200.0)
        );
        assert_eq!(Spread::of([]), Spread::default());
        let one = Spread::of([Duration::from_millis(7)]);
        assert_eq!((one.median_ms, one.last_ms), (7.0, 7.0));
    }
}
