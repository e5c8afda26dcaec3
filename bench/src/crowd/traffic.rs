//! Traffic of one client beside the handshakes of a company: one TCP flow at two rates of handshakes, and pings beside a
//! storm of all of them. wireguard-go does the same in the same run.
//!
//! Both ends, the flow and the initiators share this machine's processors. Initiations are made before the flow begins; the
//! initiators' remaining part is told.

mod bed;
mod budget;
mod flow;
mod paced;
mod storm;

use super::pings::{Pings, RoundTrips};
use crate::statistics::median;
use anyhow::{Context, Result, ensure};
use bed::Bed;
use budget::Budget;
use clap::Args;
use culvert_lab::Implementation;
use flow::Flow;
use paced::Paced;
use std::fs;
use std::io::Write;
use std::thread;
use std::time::Duration;
use storm::{Storm, StormFigures};

/// Handshakes a second, and the share of a flow that they may cost: 83 are those of 10,000 clients that rekey, 500 those
/// of a morning.
const RATES: [(u32, f64); 2] = [(83, 0.03), (500, 0.15)];

/// With many peers a flow loses the same as with few: at most so much more.
const MOST_APART: f64 = 0.05;

/// Pings beside a storm.
const MOST_P99_MS: f64 = 10.0;

/// The longest storm. Each member tries every 5 s.
const STORM_LIMIT: Duration = Duration::from_secs(60);

/// Handshakes that must be answered. Others were lost, and cost nothing.
const LEAST_ANSWERED: f64 = 0.95;

/// A flow is at its full rate after this time, also after a change of what is beside it.
const RAMP: Duration = Duration::from_millis(300);

/// One TCP flow beside handshakes, and pings beside a storm of them, with wireguard-go in the same run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The numbers of configured peers of the flow.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 10_000])]
    peers: Vec<u32>,
    /// The peers that all begin a handshake at once.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=16_000))]
    storm: u32,
    /// Milliseconds of each phase.
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u64).range(100..=1_500))]
    phase_ms: u64,
    /// Rounds: in each, every program has two phases with handshakes and two without.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Leave the flow out.
    #[arg(long)]
    without_flow: bool,
    /// Leave the storm out.
    #[arg(long)]
    without_storm: bool,
    /// Leave wireguard-go out.
    #[arg(long)]
    without_peer: bool,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// The phases of one program with one number of peers at one rate.
#[derive(Default)]
struct Phases {
    /// Bits a second.
    without: Vec<f64>,
    with: Vec<f64>,
    answered: u32,
    asked: u32,
    /// Processor time of the initiators for each second.
    own: Vec<f64>,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut missed = Vec::new();
    if !arguments.without_flow {
        flows(arguments, &mut missed)?;
    }
    if !arguments.without_storm {
        storms(arguments, &mut missed)?;
    }
    for line in &missed {
        writeln!(std::io::stdout(), "missed: {line}")?;
    }
    ensure!(!arguments.check || missed.is_empty(), "a target is missed");
    Ok(())
}

fn programs(arguments: &Arguments) -> Vec<(&'static str, Implementation)> {
    let mut programs = vec![("culvert", Implementation::culvert())];
    if !arguments.without_peer {
        programs.push(("wireguard-go", Implementation::WireguardGo));
    }
    programs
}

fn flows(arguments: &Arguments, missed: &mut Vec<String>) -> Result<()> {
    let mut losses = Vec::new();
    for &peers in &arguments.peers {
        let mut beds: Vec<(&str, Bed, Budget)> = programs(arguments)
            .into_iter()
            .map(|(name, implementation)| {
                let bed = Bed::new(&implementation, peers)?;
                Ok((name, bed, Budget::of(peers)))
            })
            .collect::<Result<_>>()?;
        for (rate, most) in RATES {
            let mut phases: Vec<Phases> = beds.iter().map(|_| Phases::default()).collect();
            for _ in 0..arguments.rounds {
                // By turns, so that a slower minute of the machine meets both.
                for ((_, bed, budget), phases) in beds.iter_mut().zip(&mut phases) {
                    let span = Duration::from_millis(arguments.phase_ms);
                    budget.wait_for(2.0 * asked_in(rate, span));
                    phases.measure(bed, rate, span)?;
                }
            }
            for ((name, ..), phases) in beds.iter().zip(&phases) {
                let loss = phases.print(name, peers, rate)?;
                if *name != "culvert" {
                    continue;
                }
                losses.push((peers, rate, loss));
                if loss > most {
                    missed.push(format!(
                        "{peers} peers, {rate} handshakes a second: the flow loses {:.1} %, at most {:.0} %",
                        loss * 100.0,
                        most * 100.0
                    ));
                }
            }
        }
    }
    for (rate, _) in RATES {
        let of_rate = losses.iter().filter(|(_, other, _)| *other == rate);
        let of_rate: Vec<f64> = of_rate.map(|(_, _, loss)| *loss).collect();
        let (Some(few), Some(many)) = (of_rate.first(), of_rate.last()) else {
            continue;
        };
        if many - few > MOST_APART {
            missed.push(format!(
                "{rate} handshakes a second cost a flow {:.1} % more with many peers than with few",
                (many - few) * 100.0
            ));
        }
    }
    Ok(())
}

/// The handshakes of one phase.
fn asked_in(per_s: u32, span: Duration) -> f64 {
    f64::from(per_s) * (span + RAMP).as_secs_f64()
}

/// The most handshakes that are begun in one phase: one more than asked in each of its two parts.
fn most_in(per_s: u32, span: Duration) -> u32 {
    asked_in(per_s, span).ceil() as u32 + 2
}

impl Phases {
    /// Without, with, with, without: a drift of the machine is in both alike.
    fn measure(&mut self, bed: &Bed, per_s: u32, span: Duration) -> Result<()> {
        let (to, count) = (bed.program.address(), 2 * most_in(per_s, span));
        let mut initiators = bed.server.inside(|| Paced::new(&bed.company, to, count))?;
        let flow = Flow::start(&bed.client, &bed.server, bed.address())?;
        for is_with in [false, true, true, false] {
            if !is_with {
                thread::sleep(RAMP);
                let mark = flow.mark();
                thread::sleep(span);
                self.without.push(flow.rate_since(&mark)?);
                continue;
            }
            self.answered += initiators.shake_at(per_s, RAMP)?;
            let (mark, own) = (flow.mark(), own_cpu()?);
            self.answered += initiators.shake_at(per_s, span)?;
            self.with.push(flow.rate_since(&mark)?);
            let used = own_cpu()?.saturating_sub(own);
            self.own.push(used.as_secs_f64() / span.as_secs_f64());
            self.asked += asked_in(per_s, span) as u32;
        }
        Ok(())
    }

    /// Prints the medians. Returns the share that the flow loses: the median of the pairs.
    fn print(&self, name: &str, peers: u32, rate: u32) -> Result<f64> {
        let answered = f64::from(self.answered) / f64::from(self.asked.max(1));
        ensure!(
            answered >= LEAST_ANSWERED,
            "{name} answered {} of {} handshakes",
            self.answered,
            self.asked
        );
        let ratios: Vec<f64> = self
            .with
            .iter()
            .zip(&self.without)
            .map(|(with, without)| with / without)
            .collect();
        let loss = 1.0 - median(&ratios).context("there is a round")?;
        let gbit = |rates: &[f64]| median(rates).unwrap_or_default() / 1e9;
        writeln!(
            std::io::stdout(),
            "{peers:>6} peers, {rate:>3} handshakes/s, {name:<12} one TCP flow: {:.2} Gbit/s without, {:.2} with: \
             loses {:.1} % ({} pairs); the initiators use {:.0} % of a processor",
            gbit(&self.without),
            gbit(&self.with),
            loss * 100.0,
            ratios.len(),
            median(&self.own).unwrap_or_default() * 100.0
        )?;
        Ok(loss)
    }
}

fn storms(arguments: &Arguments, missed: &mut Vec<String>) -> Result<()> {
    for (name, implementation) in programs(arguments) {
        let (quiet, beside, storm) = pings_beside_a_storm(&implementation, arguments.storm)?;
        let mut out = std::io::stdout();
        writeln!(out, "{name}, nothing beside: {quiet}")?;
        writeln!(
            out,
            "{name}, beside a storm of {} handshakes: {beside}; {} completed in {:.1} s, {} initiations, {} cookies",
            arguments.storm,
            storm.completed,
            storm.took.as_secs_f64(),
            storm.initiations,
            storm.cookies
        )?;
        if name == "culvert" && beside.p99_ms > MOST_P99_MS {
            missed.push(format!(
                "p99 of pings beside a storm: {:.1} ms, at most {MOST_P99_MS} ms",
                beside.p99_ms
            ));
        }
        if name == "culvert" && storm.completed < arguments.storm as usize {
            missed.push(format!(
                "{} of {} handshakes of a storm were completed",
                storm.completed, arguments.storm
            ));
        }
    }
    Ok(())
}

fn pings_beside_a_storm(
    implementation: &Implementation,
    peers: u32,
) -> Result<(RoundTrips, RoundTrips, StormFigures)> {
    let bed = Bed::new(implementation, peers)?;
    let pings = Pings::start(&bed.client, bed.address())?;
    thread::sleep(Duration::from_secs(3));
    let quiet = pings.stop()?;
    let to = bed.program.address();
    let storm = bed.server.inside(|| Storm::new(&bed.company, to))?;
    let pings = Pings::start(&bed.client, bed.address())?;
    let storm = storm.run(STORM_LIMIT)?;
    let beside = pings.stop()?;
    Ok((quiet, beside, storm))
}

/// The processor time of this thread.
fn own_cpu() -> Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text
        .split_whitespace()
        .next()
        .context("an empty schedstat")?;
    Ok(Duration::from_nanos(ns.parse()?))
}
