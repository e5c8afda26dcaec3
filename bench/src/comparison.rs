//! Culvert, its peers and the bare link, side by side.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::bed::Bed;
use crate::effort::Effort;
use crate::record::Record;
use crate::statistics::Samples;
use crate::subject::{self, Subject};
use crate::{links, machine, report, targets, tcp, udp};

/// The options of a comparison.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// One short round, without the slowest peers: under three minutes, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Only these peers: wireguard-go, tailscale, gotatun, boringtun.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// The number of rounds, instead of one (quick) or three.
    #[arg(long)]
    rounds: Option<u32>,
    /// Further arguments for both `culvert wg`, split at spaces, such as "--workers 2".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    culvert_args: String,
    /// The file for the results; otherwise a new one in bench/results.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A part that can be measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Throughput, processor time and reordering.
    Tcp,
    /// Loss-free rates.
    Udp,
    /// Round-trip times, idle and under TCP load.
    Ping,
    /// Links shaped to 1, 5 and 10 Gbit/s.
    Links,
}

/// Measures all subjects in turn, prints the tables and writes the results.
pub(crate) fn run(options: Options) -> Result<()> {
    let effort = Effort::new(options.quick, options.rounds);
    let (subjects, _said) = subject::choose(
        options.quick,
        options.peers.as_deref(),
        &options.culvert_args,
    )?;
    let parts = options.only.as_deref().unwrap_or(Part::value_variants());

    let start = Instant::now();
    let mut samples = Samples::default();
    for round in 1..=effort.rounds {
        machine::wait_until_idle();
        for subject in &subjects {
            let seconds = start.elapsed().as_secs();
            eprintln!(
                "[{seconds:4} s] round {round} of {}: {}",
                effort.rounds, subject.name
            );
            let result = measure(subject, &effort, round, parts, &mut samples);
            samples.note(subject, result);
        }
    }

    let verdicts = targets::judge(&samples);
    report::print(&subjects, &samples, &verdicts)?;
    let record = Record::new(&effort, &subjects, &samples, &verdicts);
    let path = record
        .write(options.json)
        .context("cannot write the results")?;
    eprintln!(
        "measured for {} s; results in {}",
        start.elapsed().as_secs(),
        path.display()
    );
    Ok(())
}

/// One turn of one subject. A measurement that fails is noted and the next one tried; an error is
/// returned only when the subject cannot run at all.
pub(crate) fn measure(
    subject: &Subject,
    effort: &Effort,
    round: u32,
    parts: &[Part],
    samples: &mut Samples,
) -> Result<()> {
    let bed = Bed::new(subject)?;
    if parts.contains(&Part::Ping) {
        let result = tcp::idle_ping(&bed, effort, samples);
        samples.note(subject, result);
    }
    if parts.contains(&Part::Tcp) {
        for congestion_control in effort.congestion_controls {
            let result = tcp::throughput(&bed, effort, congestion_control, samples);
            samples.note(subject, result);
        }
    }
    if parts.contains(&Part::Ping) {
        let result = tcp::ping_under_load(&bed, effort, samples);
        samples.note(subject, result);
    }
    if parts.contains(&Part::Udp) && effort.measures_udp_of(subject) {
        udp::loss_free_rates(&bed, effort, samples);
    }
    if parts.contains(&Part::Links) && effort.measures_links_of(subject, round) {
        let result = links::shaped(&bed, effort, samples);
        samples.note(subject, result);
    }
    // An end that has carried nothing but pings has needed little.
    if parts.contains(&Part::Tcp) {
        bed.record_peak_memory(samples)?;
    }
    Ok(())
}
