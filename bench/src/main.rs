//! Side-by-side measurement of Culvert and its peers.
//!
//! Every subject runs on the same bed: two namespaces on this machine, joined by a link. The
//! subjects take turns over several rounds, so that what drifts on the machine drifts for all of
//! them, and the median of the rounds counts. Only ratios within one run mean anything.
//!
//! Progress goes to standard error, the tables to standard output, everything to a JSON file.

#![forbid(unsafe_code)]

mod apply;
mod bed;
mod calls;
mod comparison;
mod console;
mod crowd;
mod door;
mod effort;
mod fill;
mod flood;
mod gateway;
mod links;
mod machine;
mod metric;
mod migrate;
mod models;
mod narrow;
mod plain;
mod portal;
mod postgres;
mod record;
mod relay;
mod relayed;
mod report;
mod statistics;
mod study;
mod subject;
mod targets;
mod tcp;
mod turns;
mod udp;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures Culvert, its peers and the bare link side by side.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    comparison: comparison::Options,
}

/// Measurements other than that of tunnels beside each other.
#[derive(Debug, Subcommand)]
enum Command {
    Apply(apply::Arguments),
    Gateway(gateway::Arguments),
    Portal(portal::Arguments),
    Migrate(migrate::Arguments),
    Models(models::Arguments),
    Calls(calls::Arguments),
    Crowd(crowd::Arguments),
    Console(console::Arguments),
    CrowdGrants(crowd::grants::Arguments),
    CrowdOffers(crowd::offers::Arguments),
    CrowdScan(crowd::scan::Arguments),
    CrowdTraffic(crowd::traffic::Arguments),
    Door(door::Arguments),
    Narrow(narrow::Arguments),
    Relay(relay::Arguments),
    Relayed(relayed::Arguments),
    #[command(hide = true)]
    RelayWorker(relay::worker::Arguments),
    Study(study::Arguments),
    Turns(turns::Arguments),
    #[command(hide = true)]
    Proxy(plain::Arguments),
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
    // A database and the portal alone need no namespaces, its console neither, and an end of a plain tunnel is in one.
    if !matches!(
        arguments.command,
        Some(
            Command::Apply(_)
                | Command::Console(_)
                | Command::CrowdGrants(_)
                | Command::Migrate(_)
                | Command::Portal(_)
                | Command::Proxy(_)
                | Command::RelayWorker(_)
        )
    ) {
        culvert_lab::require()?;
        // The relay's worker is in this program.
        if !matches!(
            arguments.command,
            Some(Command::Calls(_) | Command::Relay(_))
        ) {
            require_release()?;
        }
    }
    match arguments.command {
        Some(Command::Apply(arguments)) => apply::run(&arguments),
        Some(Command::Gateway(arguments)) => gateway::run(arguments),
        Some(Command::Portal(arguments)) => portal::run(&arguments),
        Some(Command::Console(arguments)) => console::run(&arguments),
        Some(Command::Crowd(arguments)) => crowd::run(&arguments),
        Some(Command::CrowdGrants(arguments)) => crowd::grants::run(&arguments),
        Some(Command::CrowdOffers(arguments)) => crowd::offers::run(&arguments),
        Some(Command::CrowdScan(arguments)) => crowd::scan::run(&arguments),
        Some(Command::CrowdTraffic(arguments)) => crowd::traffic::run(&arguments),
        Some(Command::Door(arguments)) => door::run(&arguments),
        Some(Command::Narrow(arguments)) => narrow::run(&arguments),
        Some(Command::Relay(arguments)) => relay::run(&arguments),
        Some(Command::Relayed(arguments)) => relayed::run(&arguments),
        Some(Command::RelayWorker(arguments)) => relay::worker::run(&arguments),
        Some(Command::Migrate(arguments)) => migrate::run(&arguments),
        Some(Command::Models(arguments)) => models::run(arguments),
        Some(Command::Calls(arguments)) => calls::run(&arguments),
        Some(Command::Study(arguments)) => study::run(arguments),
        Some(Command::Turns(arguments)) => turns::run(&arguments),
        Some(Command::Proxy(arguments)) => match plain::run(&arguments)? {},
        None => comparison::run(arguments.comparison),
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
