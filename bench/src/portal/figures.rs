//! The results of a measurement.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::portals::Spent;
use super::world::EVERYBODY;
use crate::machine::Machine;

/// The longest that 10,000 clients and 100 gateways may take to come back to several portals on one PostgreSQL, and to
/// one with SQLite, on two processors, in milliseconds.
const SEVERAL_BACK_MS: f64 = 30_000.0;
const ONE_BACK_MS: f64 = 45_000.0;

/// The longest until gateways are told of a change that concerns a group, at the 99th percentile, in milliseconds.
const CHANGE_TOLD_MS: f64 = 1_000.0;

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) machine: Machine,
    pub(super) portals: u8,
    pub(super) clients: usize,
    pub(super) gateways: usize,
    pub(super) resources: usize,
    pub(super) groups: usize,
    /// From the start of an empty portal to its whole configuration and all tokens.
    pub(super) configured_s: f64,
    /// Before the first client.
    pub(super) idle_peak_rss_bytes: Vec<u64>,
    /// From the start of all to each one's grant.
    pub(super) arrival: Spread,
    /// Messages to the clients until then, without what TLS and WebSocket add.
    pub(super) arrival_bytes: u64,
    pub(super) arrival_spent: Spent,
    pub(super) failed_attempts: BTreeMap<String, u64>,
    pub(super) changes: Vec<ChangeFigures>,
    /// The portals were asked to end, and started again.
    pub(super) restart: ReturnFigures,
    /// They were killed, and started again.
    pub(super) crash: ReturnFigures,
}

/// Policies are disabled, one after the other. Numbers are those of one change in the mean.
#[derive(Debug, Serialize)]
pub(super) struct ChangeFigures {
    pub(super) concern: &'static str,
    pub(super) changes: usize,
    /// Clients that have a grant by the policy.
    pub(super) concerned: f64,
    /// Messages that these got.
    pub(super) messages: f64,
    /// Messages that other clients got.
    pub(super) messages_to_others: f64,
    pub(super) messages_to_gateways: f64,
    /// From the request to its answer.
    pub(super) answered: Spread,
    /// From the request to the last message to a gateway, over all changes.
    pub(super) gateways_told: Spread,
    /// The same to a client.
    pub(super) clients_told: Spread,
    /// Processor time of all portals, without the time that they use when nothing happens.
    pub(super) portals_cpu_ms: f64,
    pub(super) database_cpu_ms: f64,
}

/// Everybody comes back.
#[derive(Debug, Serialize)]
pub(super) struct ReturnFigures {
    /// From the signal until all portals are ready again.
    pub(super) away_ms: f64,
    /// From the signal until each client has its access again.
    pub(super) back: Spread,
    /// From the signal until each gateway is welcome again.
    pub(super) gateways_back: Spread,
    pub(super) failed_attempts: BTreeMap<String, u64>,
    pub(super) spent: Spent,
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
            portals,
            clients,
            gateways,
            resources,
            groups,
            arrival,
            ..
        } = self;
        let portals = match portals {
            1 => "1 portal with SQLite".to_owned(),
            _ => format!("{portals} portals on one PostgreSQL"),
        };
        writeln!(
            std::io::stdout(),
            "{portals}, {clients} clients, {gateways} gateways, {resources} resources, {groups} groups"
        )?;
        row("configured after", &format!("{:.2} s", self.configured_s))?;
        row(
            "  memory before the first client",
            &megabytes(&self.idle_peak_rss_bytes),
        )?;
        let served = format!("{:.0} ms, {:.0} ms", arrival.median_ms, arrival.last_ms);
        row("for the first time: served, median, last", &served)?;
        row("  attempts that failed", &failures(&self.failed_attempts))?;
        self.arrival_spent.print()?;
        row(
            "  messages to clients",
            &format!("{:.1} MB", mb(self.arrival_bytes)),
        )?;
        for change in &self.changes {
            change.print()?;
        }
        self.restart.print("restarted")?;
        self.crash.print("killed")
    }

    /// Fails if a target for this number of clients and gateways was missed.
    pub(super) fn check(&self) -> Result<()> {
        let most = match self.portals {
            1 => ONE_BACK_MS,
            _ => SEVERAL_BACK_MS,
        };
        for (what, back) in [
            ("clients", self.crash.back),
            ("gateways", self.crash.gateways_back),
        ] {
            ensure!(
                back.last_ms <= most,
                "the last of the {what} was back {:.0} ms after the portals were killed, and may take {most:.0} ms",
                back.last_ms
            );
        }
        for change in &self.changes {
            let told = change.gateways_told.p99_ms;
            ensure!(
                change.concern == EVERYBODY || told <= CHANGE_TOLD_MS,
                "gateways were told of a change after {told:.0} ms, and may wait {CHANGE_TOLD_MS:.0} ms"
            );
            ensure!(
                change.messages_to_others == 0.0,
                "a change was told to clients that it does not concern"
            );
        }
        writeln!(std::io::stdout(), "everything is within its target")?;
        Ok(())
    }
}

impl ChangeFigures {
    fn print(&self) -> Result<()> {
        let Self {
            concern,
            changes,
            concerned,
            answered,
            gateways_told,
            clients_told,
            ..
        } = self;
        row(
            &format!("{changes} changes that concern {concern}"),
            &format!("{concerned:.0} clients each"),
        )?;
        row(
            "  messages to these, gateways, others",
            &format!(
                "{:.1}, {:.1}, {:.1}",
                self.messages, self.messages_to_gateways, self.messages_to_others
            ),
        )?;
        for (what, spread) in [
            ("answered", answered),
            ("gateways told", gateways_told),
            ("clients told", clients_told),
        ] {
            row(&format!("  {what}: median, p99, last"), &spread.text())?;
        }
        row(
            "  processor time: portals, database",
            &format!(
                "{:.1} ms, {:.1} ms",
                self.portals_cpu_ms, self.database_cpu_ms
            ),
        )
    }
}

impl ReturnFigures {
    fn print(&self, name: &str) -> Result<()> {
        let Self {
            away_ms,
            back,
            gateways_back,
            failed_attempts,
            spent,
        } = self;
        row(
            &format!("{name}: ready again after"),
            &format!("{away_ms:.0} ms"),
        )?;
        row(
            "  gateways are back: median, p99, last",
            &gateways_back.text(),
        )?;
        row("  all have access: median, p99, last", &back.text())?;
        row("  attempts that failed", &failures(failed_attempts))?;
        spent.print()
    }
}

impl Spread {
    fn text(&self) -> String {
        let Self {
            median_ms,
            p99_ms,
            last_ms,
        } = self;
        format!("{median_ms:.0} ms, {p99_ms:.0} ms, {last_ms:.0} ms")
    }
}

impl Spent {
    fn print(&self) -> Result<()> {
        let each: Vec<_> = self
            .cpu_s
            .iter()
            .map(|cpu_s| format!("{cpu_s:.2} s"))
            .collect();
        row("  processor time of each portal", &each.join(", "))?;
        row(
            "  peak memory of each portal",
            &megabytes(&self.peak_rss_bytes),
        )?;
        let own = format!("{:.2} s", self.own_cpu_s);
        match self.database_cpu_s {
            Some(cpu_s) => row(
                "  of PostgreSQL, of clients and gateways",
                &format!("{cpu_s:.2} s, {own}"),
            ),
            None => row("  of clients and gateways", &own),
        }
    }
}

fn megabytes(each: &[u64]) -> String {
    let each: Vec<_> = each
        .iter()
        .map(|bytes| format!("{:.0} MB", mb(*bytes)))
        .collect();
    each.join(", ")
}

fn row(name: &str, value: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{name:41} {value}")?)
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
