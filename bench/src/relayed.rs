//! The whole product behind routers: a transfer by each kind of path, and the first answer of an access.

use anyhow::{Context, Result, ensure};
use clap::Args;
use culvert_lab::measure::{IperfServer, PingReport, TcpLoad, Usage, start_ping};
use culvert_lab::nat::NatKind;
use culvert_lab::product::BehindNats;
use culvert_lab::wait_until;
use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Gateways of each kind for first answers; the median counts.
const FIRST_ANSWERS: usize = 5;

/// Clients: one with an address of its own, one at home, and one whose network blocks UDP.
const CLIENTS: [NatKind; 3] = [NatKind::None, NatKind::PortDependent, NatKind::UdpBlocked];
const HOME: usize = 1;
const BLOCKED: usize = 2;

/// The gateway of transfers, at home like the client.
const GATEWAY: u8 = FIRST_ANSWERS as u8;

/// Everything comes about within this time.
const SOON: Duration = Duration::from_secs(60);

/// Targets: `--check` fails beyond them.
const LEAST_OF_DIRECT: f64 = 0.8;
const MOST_FIRST_ANSWER: f64 = 1.5;
const LEAST_TLS_GBIT: f64 = 2.0;
const MOST_TLS_PING_MS: f64 = 30.0;

/// The product over a relay: cost and rate of TCP by each kind of path, and the first answer where both ends are behind NAT.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds of each transfer.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// A transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    gbit_per_s: f64,
    /// Gigabits for each second of processor time that both ends used.
    gbit_per_core: f64,
    /// Gigabits for each second of processor time that the relay used.
    gbit_per_relay_core: f64,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let open = [NatKind::None; FIRST_ANSWERS];
    let home = [NatKind::PortDependent; FIRST_ANSWERS];
    let gateways = [open, home].concat();
    let mut scene = BehindNats::new(1, &gateways, &CLIENTS)?;
    scene.ports.push(IPERF_PORT);
    scene.start()?;
    let first = first_answers(&scene)?;
    let transfers = transfers(&mut scene, arguments)?;
    let ping = ping_beside(&scene, arguments)?;
    let mut out = std::io::stdout();
    for (name, transfer) in ["direct", "relayed", "TLS"].iter().zip(&transfers) {
        writeln!(
            out,
            "{name:8} {:.2} Gbit/s, {:.2} Gbit for each second of a core of both ends, {:.1} of the relay's",
            transfer.gbit_per_s, transfer.gbit_per_core, transfer.gbit_per_relay_core
        )?;
    }
    let [direct, relayed, tls] = transfers;
    let of_direct = relayed.gbit_per_core / direct.gbit_per_core;
    writeln!(
        out,
        "relayed / direct, for each core of the ends: {of_direct:.2}"
    )?;
    let times = first.behind_nat.as_secs_f64() / first.open.as_secs_f64();
    writeln!(
        out,
        "first answer: {:.1} ms with an open gateway, {:.1} ms where both are behind NAT: {times:.2} times",
        first.open.as_secs_f64() * 1e3,
        first.behind_nat.as_secs_f64() * 1e3
    )?;
    writeln!(
        out,
        "ping by TLS beside a transfer: {:.1} ms, {:.1} ms at most",
        ping.average_ms, ping.max_ms
    )?;
    if arguments.check {
        ensure!(
            of_direct >= LEAST_OF_DIRECT,
            "a relayed byte costs the ends too much"
        );
        ensure!(
            times <= MOST_FIRST_ANSWER,
            "the first answer takes too long"
        );
        ensure!(
            tls.gbit_per_s >= LEAST_TLS_GBIT,
            "TLS is below {LEAST_TLS_GBIT} Gbit/s"
        );
        ensure!(
            ping.average_ms <= MOST_TLS_PING_MS,
            "pings by TLS take too long"
        );
    }
    Ok(())
}

/// The port of iperf3.
const IPERF_PORT: u16 = 5_201;

/// The medians of first answers.
struct FirstAnswers {
    open: Duration,
    behind_nat: Duration,
}

/// By a client at home that never spoke to the gateway: with the question to the portal, the handshake, and TCP.
fn first_answers(scene: &BehindNats) -> Result<FirstAnswers> {
    let mut took = Vec::new();
    for gateway in 0..2 * FIRST_ANSWERS {
        let number = u8::try_from(gateway)?;
        let begun = Instant::now();
        ensure!(
            scene.reaches(HOME, number),
            "gateway {gateway} gives no answer"
        );
        took.push(begun.elapsed());
    }
    let median = |part: &[Duration]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    Ok(FirstAnswers {
        open: median(&took[..FIRST_ANSWERS]),
        behind_nat: median(&took[FIRST_ANSWERS..]),
    })
}

/// By the direct path, through the relay, and through the relay by TLS; by turns.
fn transfers(scene: &mut BehindNats, arguments: &Arguments) -> Result<[Transfer; 3]> {
    let address = BehindNats::resource(GATEWAY);
    let server = IperfServer::start(&scene.private, address)?;
    let mut of_kind = [const { Vec::new() }; 3];
    for round in 1..=arguments.rounds {
        for (kind, (client, path)) in [(HOME, "direct"), (HOME, "relayed"), (BLOCKED, "TLS")]
            .into_iter()
            .enumerate()
        {
            if path == "relayed" {
                scene.cut(HOME as u8, GATEWAY)?;
            }
            wait_until("an answer", SOON, || scene.reaches(client, GATEWAY))?;
            wait_until("the path", SOON, || {
                scene.path(client, GATEWAY.into()) == path
            })
            .with_context(|| format!("no {path} path"))?;
            let transfer = transfer(scene, client, &server, arguments.seconds)?;
            eprintln!("round {round}: {path}: {:.2} Gbit/s", transfer.gbit_per_s);
            of_kind[kind].push(transfer);
            if path == "relayed" {
                scene.heal()?;
            }
        }
    }
    Ok(of_kind.map(|mut transfers| {
        transfers.sort_by(|one, other| one.gbit_per_core.total_cmp(&other.gbit_per_core));
        transfers[transfers.len() / 2]
    }))
}

fn transfer(
    scene: &mut BehindNats,
    client: usize,
    server: &IperfServer,
    seconds: u32,
) -> Result<Transfer> {
    let ends = [
        scene.clients[client].process()?.id(),
        scene.gateways[usize::from(GATEWAY)].process()?.id(),
    ];
    let relay = scene.relays[0].process()?.id();
    let used = || -> Result<[Duration; 2]> {
        let mut both = Duration::ZERO;
        for end in ends {
            both += Usage::of(end)?.cpu;
        }
        Ok([both, Usage::of(relay)?.cpu])
    };
    let before = used()?;
    let report = server.tcp(&scene.clients[client].namespace, &TcpLoad::forward(seconds))?;
    let after = used()?;
    let gbit = report.received_bytes as f64 * 8.0 / 1e9;
    let per_core = |which: usize| gbit / (after[which] - before[which]).as_secs_f64();
    Ok(Transfer {
        gbit_per_s: report.bits_per_second / 1e9,
        gbit_per_core: per_core(0),
        gbit_per_relay_core: per_core(1),
    })
}

/// Pings of the client that has TLS alone, beside a transfer of its own.
fn ping_beside(scene: &BehindNats, arguments: &Arguments) -> Result<PingReport> {
    let address: IpAddr = BehindNats::resource(GATEWAY);
    let server = IperfServer::start(&scene.private, address)?;
    let namespace = &scene.clients[BLOCKED].namespace;
    let load = TcpLoad::forward(arguments.seconds);
    let running = server.start_tcp(namespace, &load)?;
    let count = arguments.seconds * 10;
    let ping = start_ping(namespace, address, Duration::from_millis(80), count)?;
    let report = PingReport::of(ping, SOON)?;
    server.finish_tcp(running, &load)?;
    Ok(report)
}
