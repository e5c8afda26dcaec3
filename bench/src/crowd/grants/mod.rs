//! A crowd of clients that want grants of one gateway at once: the portal's hub and the gateway's core, in one process and
//! without sockets.
//!
//! Messages go from one to the other as the texts that they are on a connection. Two numbers matter: the time until all
//! grants are in force, and the cost of one event while they are. The second must not depend on how many there are.

mod account;
mod play;

use anyhow::{Result, ensure};
use clap::Args;
use play::Play;
use std::io::Write;
use std::time::{Duration, Instant};

/// All grants in force, at most.
const ALL_TARGET: Duration = Duration::from_secs(15);

/// A revocation in the middle of it, at most.
const REVOCATION_TARGET: Duration = Duration::from_secs(1);

/// Events of one kind whose mean cost is told.
const EVENTS: u32 = 200;

/// 10,000 clients that want grants of one gateway: the portal's hub and the gateway's core, without sockets.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Clients.
    #[arg(long, default_value_t = 10_000)]
    clients: u32,
    /// Grants that each of them asks for at once.
    #[arg(long, default_value_t = 3)]
    grants: u32,
    /// Messages that the gateway takes before it carries out what follows.
    #[arg(long, default_value_t = 64)]
    batch: usize,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        (10..=16_000).contains(&arguments.clients) && (1..=10).contains(&arguments.grants),
        "--clients is 10 to 16000, --grants 1 to 10"
    );
    let began = Instant::now();
    let before = resident_kib();
    let mut play = Play::new(arguments.clients, arguments.grants, arguments.batch)?;
    eprintln!("configuration: {:.2} s", began.elapsed().as_secs_f64());
    let missed = storm(&mut play)?;
    costs(&mut play)?;
    let resident = resident_kib().saturating_sub(before);
    writeln!(
        std::io::stdout(),
        "memory of hub and core: {} MiB, {:.1} KiB a client",
        resident / 1024,
        resident as f64 / f64::from(arguments.clients)
    )?;
    comes_back(&mut play)?;
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}

/// Everybody comes and asks; one is revoked in the middle. Returns the targets that were missed.
fn storm(play: &mut Play) -> Result<Vec<&'static str>> {
    let joined = play.join_all()?;
    writeln!(
        std::io::stdout(),
        "{} clients come: {:.2} s",
        play.clients(),
        joined.as_secs_f64()
    )?;
    let began = Instant::now();
    play.ask_all();
    let all = play.wanted();
    play.run_until(|play| play.in_force() >= all / 2)?;
    let revocation = play.revoke(play.clients() / 2)?;
    play.run_until(Play::is_idle)?;
    let took = began.elapsed();
    writeln!(
        std::io::stdout(),
        "{all} grants in force: {:.2} s (at most {} s), of which the hub {:.2} s and the gateway {:.2} s; \
         {} timed out, {} denied",
        took.as_secs_f64(),
        ALL_TARGET.as_secs(),
        play.hub_time().as_secs_f64(),
        play.gateway_time().as_secs_f64(),
        play.timed_out(),
        play.denied(),
    )?;
    writeln!(
        std::io::stdout(),
        "a revocation in the middle: {:.1} ms (at most {} ms)",
        revocation.as_secs_f64() * 1e3,
        REVOCATION_TARGET.as_millis()
    )?;
    writeln!(
        std::io::stdout(),
        "the log for a restart: {} kB for all, {} writes",
        play.log_len() / 1000,
        play.log_writes()
    )?;
    let held = play.in_force();
    let revoked = usize::try_from(play.grants_each())?;
    ensure!(held + revoked >= all, "{held} of {all} grants are in force");
    let mut missed = Vec::new();
    if took > ALL_TARGET {
        missed.push("it took too long until all grants were in force");
    }
    if revocation > REVOCATION_TARGET {
        missed.push("the revocation took too long");
    }
    Ok(missed)
}

/// The mean cost of one event while everybody has what they want.
fn costs(play: &mut Play) -> Result<()> {
    writeln!(
        std::io::stdout(),
        "one event among {} clients, µs:",
        play.clients()
    )?;
    writeln!(
        std::io::stdout(),
        "{:<34} {:>8} {:>8} {:>12}",
        "",
        "hub",
        "gateway",
        "log, bytes"
    )?;
    let mut row = |name: &str, event: &mut dyn FnMut(&mut Play, u32) -> Result<()>| -> Result<()> {
        play.run_until(Play::is_idle)?;
        play.pass(Duration::from_secs(1))?;
        play.reset_times();
        let log = play.log_len();
        for number in 0..EVENTS {
            event(play, number)?;
        }
        let (hub, gateway) = (play.hub_time() / EVENTS, play.gateway_time() / EVENTS);
        play.pass(Duration::from_secs(1))?;
        let log = play.log_len().saturating_sub(log) / u64::from(EVENTS);
        writeln!(
            std::io::stdout(),
            "{name:<34} {:>8.1} {:>8.1} {log:>12}",
            hub.as_secs_f64() * 1e6,
            gateway.as_secs_f64() * 1e6
        )?;
        Ok(())
    };
    row("a grant is renewed", &mut |play, number| play.renew(number))?;
    row("a client gives a grant back", &mut |play, number| {
        play.release(number)
    })?;
    row("a client asks for it again", &mut |play, number| {
        play.renew(number)
    })?;
    row("a client leaves and comes back", &mut |play, number| {
        play.rejoin(number)
    })?;
    row("a client is revoked", &mut |play, number| {
        play.revoke(1_000 % play.clients() + number).map(drop)
    })?;
    row("a token changes", &mut |play, number| {
        play.edit_token(number)
    })?;
    row("the gateway's timer, nothing due", &mut |play, _| {
        play.tick();
        Ok(())
    })?;
    Ok(())
}

/// The gateway's connection breaks, and it comes back with all its grants.
fn comes_back(play: &mut Play) -> Result<()> {
    let held = play.in_force();
    play.reset_times();
    let began = Instant::now();
    play.reconnect_gateway()?;
    ensure!(
        play.in_force() == held,
        "{} of {held} grants are left after a reconnection",
        play.in_force()
    );
    writeln!(
        std::io::stdout(),
        "the gateway comes back with {held} grants: {:.0} ms",
        began.elapsed().as_secs_f64() * 1e3
    )?;
    Ok(())
}

/// This process' resident memory.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
