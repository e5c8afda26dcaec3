//! Side-by-side measurement of Culvert and its peers.
//!
//! Every subject runs on the same bed: two namespaces on this machine, joined by a link. The
//! subjects take turns over several rounds, so that what drifts on the machine drifts for all of
//! them, and the median of the rounds counts. Only ratios within one run mean anything.
//!
//! Progress goes to standard error, the tables to standard output, everything to a JSON file.

#![forbid(unsafe_code)]

mod bed;
mod calls;
mod console;
mod door;
mod effort;
mod flood;
mod gateway;
mod links;
mod machine;
mod metric;
mod models;
mod narrow;
mod plain;
mod portal;
mod record;
mod report;
mod statistics;
mod study;
mod subject;
mod targets;
mod tcp;
mod udp;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};

use crate::bed::Bed;
use crate::effort::Effort;
use crate::record::Record;
use crate::statistics::Samples;
use crate::subject::Subject;

/// Measures Culvert, its peers and the bare link side by side.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// One short round, without the slowest peers: under three minutes, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Only these peers: wireguard-go, tailscale, gotatun, boringtun.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// How many rounds, instead of one (quick) or three.
    #[arg(long)]
    rounds: Option<u32>,
    /// Further arguments for both `culvert wg`, split at spaces, such as "--workers 2".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    culvert_args: String,
    /// Where to write the results; otherwise a new file in bench/results.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What else is measured than tunnels beside each other.
#[derive(Debug, Subcommand)]
enum Command {
    Gateway(gateway::Arguments),
    Portal(portal::Arguments),
    Models(models::Arguments),
    Calls(calls::Arguments),
    Console(console::Arguments),
    Door(door::Arguments),
    Narrow(narrow::Arguments),
    Study(study::Arguments),
    #[command(hide = true)]
    Proxy(plain::Arguments),
}

/// What can be measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Throughput, processor time and reordering.
    Tcp,
    /// Loss-free rates.
    Udp,
    /// Round-trip times, idle and under TCP load.
    Ping,
    /// Links shaped to 1, 5 and 10 Gbit/s.
    Links,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("culvert-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    // The portal alone needs no namespaces, its console neither, and an end of a plain tunnel is in one.
    if !matches!(
        arguments.command,
        Some(Command::Console(_) | Command::Portal(_) | Command::Proxy(_))
    ) {
        culvert_lab::require()?;
        if !matches!(arguments.command, Some(Command::Calls(_))) {
            require_release()?;
        }
    }
    match arguments.command {
        Some(Command::Gateway(arguments)) => gateway::run(arguments),
        Some(Command::Portal(arguments)) => portal::run(&arguments),
        Some(Command::Console(arguments)) => console::run(&arguments),
        Some(Command::Door(arguments)) => door::run(&arguments),
        Some(Command::Narrow(arguments)) => narrow::run(&arguments),
        Some(Command::Models(arguments)) => models::run(arguments),
        Some(Command::Calls(arguments)) => calls::run(&arguments),
        Some(Command::Study(arguments)) => study::run(arguments),
        Some(Command::Proxy(arguments)) => match plain::run(&arguments)? {},
        None => compare_tunnels(arguments),
    }
}

/// The newest build is taken, and a test may have made a slow one since.
fn require_release() -> Result<()> {
    let program = culvert_lab::culvert_program()?;
    let directory = program.parent().and_then(std::path::Path::file_name);
    anyhow::ensure!(
        directory.is_none_or(|name| name != "debug"),
        "{} is newer than the release build: `cargo build --release -p culvert`, or name the program to measure by CULVERT_BIN",
        program.display()
    );
    Ok(())
}

fn compare_tunnels(arguments: Arguments) -> Result<()> {
    let effort = Effort::new(arguments.quick, arguments.rounds);
    let (subjects, _said) =
        subject::choose(&effort, arguments.peers.as_deref(), &arguments.culvert_args)?;
    let parts = arguments.only.as_deref().unwrap_or(Part::value_variants());

    let start = Instant::now();
    let mut samples = Samples::default();
    for round in 1..=effort.rounds {
        machine::settle();
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
        .write(arguments.json)
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
fn measure(
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
