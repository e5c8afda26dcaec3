//! One core of the relay beside a TURN server, over loopback, in a namespace of its own.
//!
//! A client sends records of 1,420 bytes in batches, and the other end receives them, both in one thread. Bytes on
//! their way are bounded, so nothing is lost, and the rate is what relay and ends sustain together. Processors are few
//! where this runs, and the ends need one too. So the rate of one core is also told as bytes for each second of
//! processor time that the relay used.

mod common;
mod ends;
mod flow;
mod ping;
mod storm;
mod tls;
mod turn;
pub(crate) mod worker;

use anyhow::{Context, Result, ensure};
use clap::Args;
use common::{FIRST_PORT, GATEWAY_PORTS, MAIN_PORT, RECORD, Rate, at, batch};
use culvert_base::{Destination, Family};
use culvert_lab::Namespace;
use culvert_udp::Socket;
use ends::{End, record};
use flow::{Carried, Flow};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::time::Duration;
use turn::{Channel, Turn};
use worker::Worker;

/// Targets: `--check` fails below them.
const LEAST_GBIT: f64 = 8.0;
const LEAST_TIMES_TURN: f64 = 4.0;
const MOST_PING_RATIO: f64 = 2.0;
const LEAST_TLS_GBIT: f64 = 2.0;
const MOST_TLS_PING: Duration = Duration::from_millis(30);
const MOST_STORM: Duration = Duration::from_secs(10);
const MOST_BYTES_PER_CLIENT: u64 = 1_024;

/// The nice value of a thread that lets all others go first.
const LEAST_PRIORITY: i32 = 19;

/// Throughput of one core of the relay beside coturn, pings through it under load, and a storm of registrations.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Clients of the storm.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    clients: u32,
    /// The load beside the pings, in percent of the measured rate.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    load: u8,
    /// Measure TLS alone.
    #[arg(long)]
    tls: bool,
    /// Leave the TURN server out.
    #[arg(long)]
    without_turn: bool,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let namespace = Namespace::new()?;
    namespace.inside(|| measure(arguments))
}

fn measure(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout();
    raise_descriptors(arguments.clients)?;
    if cfg!(debug_assertions) {
        eprintln!(
            "culvert-bench relay: this is a debug build, whose numbers are too low: `cargo build --release -p culvert-bench`"
        );
    }
    let span = Duration::from_secs(arguments.seconds);
    if arguments.tls {
        return tls(arguments);
    }
    let (mut relays, mut turns) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        let relay = relay_rate(span)?;
        eprintln!("round {round}: relay {}", line(&relay));
        relays.push(relay);
        if !arguments.without_turn {
            let turn = turn_rate(span)?;
            eprintln!("round {round}: coturn {}", line(&turn));
            turns.push(turn);
        }
    }
    let relay = median(&relays).context("there is a round")?;
    writeln!(out, "relay    {}", line(&relay))?;
    if let Some(turn) = median(&turns) {
        let times = relay.gbit_per_core / turn.gbit_per_core;
        writeln!(out, "coturn   {}", line(&turn))?;
        writeln!(out, "relay / coturn, for each core: {times:.1}")?;
        ensure!(
            !arguments.check || times >= LEAST_TIMES_TURN,
            "less than {LEAST_TIMES_TURN} times coturn"
        );
    }
    ensure!(
        !arguments.check || relay.gbit_per_core >= LEAST_GBIT,
        "less than {LEAST_GBIT} Gbit/s on one core"
    );
    pings(arguments, relay.gbit_per_s)?;
    tls(arguments)?;
    storm(arguments)
}

fn line(rate: &Rate) -> String {
    format!(
        "{:.2} Gbit/s, {:.2} Gbit for each second of a core, {} records lost",
        rate.gbit_per_s, rate.gbit_per_core, rate.lost
    )
}

fn median(rates: &[Rate]) -> Option<Rate> {
    let mut rates = rates.to_vec();
    rates.sort_by(|a, b| a.gbit_per_core.total_cmp(&b.gbit_per_core));
    rates.get(rates.len() / 2).copied()
}

fn rate(carried: &Carried, cpu: Duration) -> Rate {
    Rate {
        gbit_per_s: carried.gigabits_per_s(),
        gbit_per_core: carried.bytes as f64 * 8.0 / 1e9 / cpu.as_secs_f64(),
        lost: carried.lost,
    }
}

fn relay_rate(span: Duration) -> Result<Rate> {
    let worker = Worker::start(MAIN_PORT, GATEWAY_PORTS)?;
    let gateway = End::register(at(FIRST_PORT), None)?;
    let client = End::register(at(FIRST_PORT), Some(1))?;
    let batch = batch(&record(4, 1, RECORD));
    let flow = Flow {
        from: &client.socket,
        to: client.relay,
        batch: &batch,
        stride: RECORD,
        into: &gateway.socket,
        arriving: RECORD,
        rate: None,
    };
    let before = worker.usage()?.cpu;
    let carried = flow.carry(span)?;
    Ok(rate(&carried, worker.usage()?.cpu.saturating_sub(before)))
}

fn turn_rate(span: Duration) -> Result<Rate> {
    let turn = Turn::start()?;
    let peer = Socket::bind(Family::V4, 0, 0)?;
    let channel = Channel::open(at(peer.local_port()))?;
    let wrapped = Channel::wrap(&record(4, 1, RECORD))?;
    let batch = batch(&wrapped);
    let flow = Flow {
        from: &channel.socket,
        to: Destination {
            source: None,
            ..channel.server
        },
        batch: &batch,
        stride: wrapped.len(),
        into: &peer,
        arriving: RECORD,
        rate: None,
    };
    let before = turn.cpu()?;
    let carried = flow.carry(span)?;
    Ok(rate(&carried, turn.cpu()?.saturating_sub(before)))
}

/// Pings at one port, idle and while another port of the same worker carries a part of what it can.
fn pings(arguments: &Arguments, gbit_per_s: f64) -> Result<()> {
    let mut out = std::io::stdout();
    let _worker = Worker::start(MAIN_PORT, GATEWAY_PORTS)?;
    let [loaded, quiet] = [FIRST_PORT, FIRST_PORT + 1].map(at);
    let (sink, source) = (
        End::register(loaded, None)?,
        End::register(loaded, Some(1))?,
    );
    let (gateway, client) = (End::register(quiet, None)?, End::register(quiet, Some(2))?);
    let count = usize::try_from(arguments.seconds * 200)?;
    let idle = ping::median(&client, &gateway, count)?;
    let batch = batch(&record(4, 1, RECORD));
    let flow = Flow {
        from: &source.socket,
        to: source.relay,
        batch: &batch,
        stride: RECORD,
        into: &sink.socket,
        arriving: RECORD,
        rate: Some(gbit_per_s * 1e9 / 8.0 * f64::from(arguments.load) / 100.0),
    };
    let span = Duration::from_secs(arguments.seconds * 2);
    let (under_load, carried) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            // The ends of the load share a processor with those of the pings, which are not to wait for it.
            rustix::process::setpriority_process(None, LEAST_PRIORITY)?;
            flow.carry(span)
        });
        let under_load = ping::median(&client, &gateway, count);
        let carried = load
            .join()
            .map_err(|_| anyhow::anyhow!("the load panicked"));
        (under_load, carried)
    });
    let (under_load, carried) = (under_load?, carried??);
    let ratio = under_load.as_secs_f64() / idle.as_secs_f64();
    writeln!(
        out,
        "ping     {} µs idle, {} µs beside {:.2} Gbit/s: {ratio:.2} times",
        idle.as_micros(),
        under_load.as_micros(),
        carried.gigabits_per_s()
    )?;
    ensure!(
        !arguments.check || ratio <= MOST_PING_RATIO,
        "pings take more than {MOST_PING_RATIO} times as long"
    );
    Ok(())
}

/// A client's records through a TLS stream to its gateway, with pings in the same stream.
fn tls(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout();
    let span = Duration::from_secs(arguments.seconds);
    let mut measured = Vec::new();
    for round in 1..=arguments.rounds {
        let one = tls::measure(span, None)?;
        eprintln!("round {round}: TLS {}", line(&one.rate));
        measured.push(one);
    }
    measured.sort_by(|a, b| a.rate.gbit_per_s.total_cmp(&b.rate.gbit_per_s));
    let middle = measured
        .get(measured.len() / 2)
        .context("there is a round")?;
    // Close to nothing beside the pings.
    let idle = tls::measure(span, Some(0.0))?;
    writeln!(out, "TLS      {}", line(&middle.rate))?;
    writeln!(
        out,
        "TLS ping {} µs idle, {} µs beside the transfer in its stream, {} µs of the slowest hundredth",
        idle.ping[0].as_micros(),
        middle.ping[0].as_micros(),
        middle.ping[1].as_micros(),
    )?;
    ensure!(
        !arguments.check || middle.rate.gbit_per_s >= LEAST_TLS_GBIT,
        "less than {LEAST_TLS_GBIT} Gbit/s through TLS"
    );
    ensure!(
        !arguments.check || middle.ping[0] <= MOST_TLS_PING,
        "pings take more than {} ms beside a transfer through TLS",
        MOST_TLS_PING.as_millis()
    );
    Ok(())
}

fn storm(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout();
    let worker = Worker::start(MAIN_PORT, GATEWAY_PORTS)?;
    let storm = storm::measure(&worker, FIRST_PORT, arguments.clients)?;
    writeln!(
        out,
        "storm    {} clients registered in {:.2} s, {} bytes of memory each",
        arguments.clients,
        storm.took.as_secs_f64(),
        storm.bytes_per_client
    )?;
    ensure!(
        !arguments.check
            || storm.took <= MOST_STORM && storm.bytes_per_client <= MOST_BYTES_PER_CLIENT,
        "more than {} s, or than {MOST_BYTES_PER_CLIENT} bytes for each client",
        MOST_STORM.as_secs()
    );
    Ok(())
}

/// One for each client of the storm, and some more.
fn raise_descriptors(clients: u32) -> Result<()> {
    let needed = u64::from(clients) + 256;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed))?;
    }
    Ok(())
}
