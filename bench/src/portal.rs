//! The load that portals carry: clients that connect all at once, changes among many objects, and the
//! reconnection of everybody after a restart.
//!
//! Portals are the program itself, each in a directory of its own; several share a PostgreSQL server that is started for
//! them. Clients and gateways are simulated, without their packets. Each is a TLS connection from an address of its own
//! that exchanges the messages of the real ones, and waits between attempts as they do. They run beside the portals, on
//! the same processors.

mod changes;
pub(crate) mod client;
mod crowd;
pub(crate) mod dialer;
mod figures;
mod gateway;
mod portals;
pub(crate) mod process;
mod rest;
pub(crate) mod world;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

use self::crowd::Crowd;
use self::figures::Figures;
use self::portals::Portals;
use self::world::{Size, World};

/// File descriptors besides those of the clients.
const OTHER_DESCRIPTORS: u64 = 256;

/// The load that portals carry: clients that connect at once, changes among many objects, restarts.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of portals. One has SQLite; several share a PostgreSQL server, which is started for them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    portals: u8,
    /// The number of gateways, two for each site.
    #[arg(long, default_value_t = 1)]
    gateways: usize,
    /// The number of changes that concern nobody, and of those that concern a group.
    #[arg(long, default_value_t = 20)]
    changes: usize,
    /// Fail if a target for 10,000 clients and 100 gateways is missed.
    #[arg(long)]
    check: bool,
    /// The number of clients that connect at once.
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
    /// The number of clients that are on their way at a time when all come for the first time and are enrolled. Afterwards
    /// all of them come back at once.
    #[arg(long, default_value_t = 1_000)]
    newcomers: usize,
    /// The number of resources, each with one policy.
    #[arg(long, default_value_t = 10_000)]
    resources: usize,
    /// Into how many groups clients and resources fall: a client sees the resources of its group.
    #[arg(long, default_value_t = 100)]
    groups: usize,
    /// Write the figures into this file as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let size = Size {
        clients: arguments.clients,
        gateways: arguments.gateways,
        resources: arguments.resources,
        groups: arguments.groups,
    };
    size.check()?;
    ensure!(arguments.changes > 0, "--changes is at least 1");
    ensure!(arguments.newcomers > 0, "--newcomers is at least 1");
    raise_descriptors(size.clients + size.gateways)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = runtime.block_on(measure(size, arguments))?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    figures.print()?;
    match arguments.check {
        true => figures.check(),
        false => Ok(()),
    }
}

/// Every client and gateway is a socket here and one in a portal, which inherits the limit.
pub(crate) fn raise_descriptors(machines: usize) -> Result<()> {
    let needed = machines as u64 + OTHER_DESCRIPTORS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < needed {
        bail!(
            "{machines} clients and gateways need {needed} file descriptors, and {hard} are allowed: `ulimit -Hn {needed}`"
        );
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard)?;
    Ok(())
}

async fn measure(size: Size, arguments: &Arguments) -> Result<Figures> {
    let began = Instant::now();
    let mut portals = Portals::start(arguments.portals).await?;
    let world = World::make(portals.first(), size).await?;
    let configured = began.elapsed();
    eprintln!(
        "the portals have their configuration after {:.1} s",
        configured.as_secs_f64()
    );

    let mut crowd = Crowd::gather(&portals, &world, arguments.newcomers).await?;
    let idle = portals.spent()?;
    let arrival = crowd.arrive().await?;
    let failed_attempts = crowd.take_failures();
    let arrival_spent = portals.spent()?.since(&idle);
    let arrival_bytes = crowd.bytes();
    eprintln!("everybody is served");
    let changes = changes::measure(&mut crowd, &portals, arguments.changes).await?;
    eprintln!("changes were told");
    let restart = crowd.come_back(&mut portals, Signal::SIGTERM).await?;
    eprintln!("everybody is back after a restart");
    let crash = crowd.come_back(&mut portals, Signal::SIGKILL).await?;
    Ok(Figures {
        machine: crate::machine::Machine::this(),
        portals: arguments.portals,
        clients: size.clients,
        gateways: size.gateways,
        resources: size.resources,
        groups: size.groups,
        configured_s: configured.as_secs_f64(),
        idle_peak_rss_bytes: idle.peak_rss_bytes,
        arrival: arrival.clients,
        arrival_bytes,
        arrival_spent,
        failed_attempts,
        changes,
        restart,
        crash,
    })
}
