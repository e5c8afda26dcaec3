//! A gateway that holds a company: what thousands of configured peers, their handshakes and their changes cost the
//! program, beside wireguard-go in the same run.
//!
//! The initiators are in this process. They need a processor of their own, and one is all that the program gets, so
//! handshakes are told for each second of processor time that the program used, with the rate beside it.

mod company;
pub(crate) mod grants;
mod initiators;
pub(crate) mod offers;
mod pings;
mod program;
pub(crate) mod scan;
pub(crate) mod traffic;

use anyhow::{Context, Result, ensure};
use clap::Args;
use company::{Company, configuration};
use culvert_lab::{Implementation, Namespace};
use initiators::Initiators;
use program::Program;
use std::io::Write;
use std::time::{Duration, Instant};

/// Targets: `--check` fails beyond them.
const LEAST_TIMES_PEER: f64 = 1.5;
const MOST_UNEVEN: f64 = 0.10;
const MOST_CHANGE: Duration = Duration::from_millis(1);
const MOST_CONFIGURATION: Duration = Duration::from_secs(1);
const MOST_BYTES_IDLE: u64 = 2_048;
const MOST_BYTES_IN_SESSION: u64 = 6_144;

/// The number of changes of one peer that are measured.
const CHANGES: u32 = 200;

/// Handshakes, memory and changes with 100 to 60,000 configured peers, beside wireguard-go.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The numbers of configured peers.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 60_000])]
    peers: Vec<u32>,
    /// Seconds of each measurement of handshakes.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Leave wireguard-go out.
    #[arg(long)]
    without_peer: bool,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// The results of one program with one number of peers.
#[derive(Clone, Copy, Debug)]
struct Figures {
    handshakes_per_cpu_s: f64,
    handshakes_per_s: f64,
    /// Half of the handshakes took no longer.
    median: Duration,
    configured_in: Duration,
    change: Duration,
    bytes_idle: u64,
    bytes_in_session: u64,
    lost: u32,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout();
    let mut own = Vec::new();
    for &peers in &arguments.peers {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..arguments.rounds {
            // By turns, so that a slower minute of the machine meets both.
            for (program, of_program) in rounds.iter_mut().enumerate() {
                let implementation = match program {
                    0 => Implementation::culvert_with("--workers 1"),
                    _ if arguments.without_peer => continue,
                    _ => Implementation::WireguardGo,
                };
                of_program.push(measure(&implementation, peers, arguments)?);
            }
        }
        let [culvert, peer] = rounds.map(|rounds| median(&rounds));
        let culvert = culvert.context("there is a round")?;
        writeln!(out, "{peers:>6} peers, culvert      {}", line(&culvert))?;
        if let Some(peer) = peer {
            writeln!(out, "{peers:>6} peers, wireguard-go {}", line(&peer))?;
            let times = culvert.handshakes_per_cpu_s / peer.handshakes_per_cpu_s;
            writeln!(
                out,
                "{peers:>6} peers, handshakes culvert / wireguard-go: {times:.2}"
            )?;
            ensure!(
                !arguments.check || times >= LEAST_TIMES_PEER,
                "less than {LEAST_TIMES_PEER} times wireguard-go's handshakes with {peers} peers"
            );
        }
        own.push((peers, culvert));
    }
    judge(&mut out, &own, arguments.check)
}

/// Compares the numbers of peers with each other.
fn judge(out: &mut impl Write, own: &[(u32, Figures)], check: bool) -> Result<()> {
    let rates = own.iter().map(|(_, figures)| figures.handshakes_per_cpu_s);
    let most = rates.clone().fold(0.0, f64::max);
    let least = rates.fold(f64::INFINITY, f64::min);
    let uneven = 1.0 - least / most;
    writeln!(out, "between the numbers of peers: {:.0} %", uneven * 100.0)?;
    ensure!(
        !check || uneven <= MOST_UNEVEN,
        "handshakes depend on the number of peers"
    );
    for (peers, figures) in own {
        let is_crowd = *peers >= 10_000;
        ensure!(
            !check || figures.change <= MOST_CHANGE,
            "a change of one of {peers} peers takes {:?}",
            figures.change
        );
        ensure!(
            !check || figures.configured_in <= MOST_CONFIGURATION,
            "{peers} peers are configured in {:?}",
            figures.configured_in
        );
        // A small number shows the program's own memory rather than that of its peers.
        ensure!(
            !check || !is_crowd || figures.bytes_idle <= MOST_BYTES_IDLE,
            "a peer takes {} bytes",
            figures.bytes_idle
        );
        ensure!(
            !check || !is_crowd || figures.bytes_in_session <= MOST_BYTES_IN_SESSION,
            "a peer in session takes {} bytes",
            figures.bytes_in_session
        );
    }
    Ok(())
}

fn line(figures: &Figures) -> String {
    format!(
        "{:>6.0} handshakes for each second of a core, {:>6.0}/s, half within {:.2?}; configured in {:.2?}, \
         a change {:.0?}; {} bytes a peer, {} in session; {} lost",
        figures.handshakes_per_cpu_s,
        figures.handshakes_per_s,
        figures.median,
        figures.configured_in,
        figures.change,
        figures.bytes_idle,
        figures.bytes_in_session,
        figures.lost
    )
}

fn median(rounds: &[Figures]) -> Option<Figures> {
    let mut rounds = rounds.to_vec();
    rounds.sort_by(|a, b| a.handshakes_per_cpu_s.total_cmp(&b.handshakes_per_cpu_s));
    rounds.get(rounds.len() / 2).copied()
}

fn measure(implementation: &Implementation, peers: u32, arguments: &Arguments) -> Result<Figures> {
    let namespace = Namespace::new()?;
    let program = Program::start(implementation, &namespace)?;
    let company = Company::of(peers);
    let before = program.memory()?;
    let began = Instant::now();
    program.set(&configuration(&company, None))?;
    let configured_in = began.elapsed();
    let idle = program.memory()?;
    let change = change_one_by_one(&program, &company)?;
    let span = Duration::from_secs(arguments.seconds);
    let (rate, in_session) = namespace.inside(|| {
        let mut initiators = Initiators::new(&company, program.address())?;
        let cpu = program.cpu()?;
        let rate = initiators.shake_for(span)?;
        let cpu = program.cpu()?.saturating_sub(cpu);
        initiators.shake_with_all()?;
        Ok(((rate, cpu), program.memory()?))
    })?;
    let (rate, cpu) = rate;
    let per_peer = |bytes: u64| bytes.saturating_sub(before) / u64::from(peers);
    Ok(Figures {
        handshakes_per_cpu_s: f64::from(rate.handshakes) / cpu.as_secs_f64(),
        handshakes_per_s: f64::from(rate.handshakes) / rate.span.as_secs_f64(),
        median: rate.median,
        configured_in,
        change,
        bytes_idle: per_peer(idle),
        bytes_in_session: per_peer(in_session),
        lost: rate.lost,
    })
}

/// The processor time of a change of one peer: each is removed, added again, and given another range.
fn change_one_by_one(program: &Program, company: &Company) -> Result<Duration> {
    let cpu = program.cpu()?;
    for change in 0..CHANGES {
        let member = company.member(change * 7919 % company.len());
        let line = match change % 3 {
            0 => format!("set=1\n{}remove=true\n\n", member.line()),
            1 => format!("set=1\n{}{}\n", member.line(), member.range()),
            _ => format!(
                "set=1\n{}allowed_ip=172.16.0.{}/32\n\n",
                member.line(),
                change % 256
            ),
        };
        program.set(&line)?;
        if change % 3 == 0 {
            program.set(&format!("set=1\n{}{}\n", member.line(), member.range()))?;
        }
    }
    Ok(program.cpu()?.saturating_sub(cpu) / CHANGES)
}
