//! Response times of pages of a large account. They cover every list, detail and log of the console, and
//! the same of the API, with tens of thousands of rows behind them.
//!
//! The portal is the program itself, in a directory of its own. It is asked over TLS, one request at a time,
//! each on a connection that is already open. The time ends with the last byte of the answer, or with the
//! first byte of an export.

pub(crate) mod answer;
mod pages;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::signal::Signal;
use serde::Serialize;

use self::answer::Asker;
use self::pages::{Page, Until};
use crate::fill::Fill;
use crate::portal::process::Process;

/// The limit of every page's response time, in milliseconds.
const TARGET_MS: f64 = 100.0;

/// The limit of every page's length: half a second of a slow line.
const MAX_BYTES: usize = 150_000;

/// Pages of a large account: how long each takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of resources, of groups and of policies.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// The number of people, each with a client, and of service accounts.
    #[arg(long, default_value_t = 10_000)]
    people: usize,
    /// The least number of entries in each log.
    #[arg(long, default_value_t = 1_000_000)]
    entries: usize,
    /// The number of times that each page is requested.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Only pages whose path has this in it.
    #[arg(long)]
    only: Option<String>,
    /// Write the figures into this file as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One run.
#[derive(Debug, Serialize)]
struct Figures {
    machine: crate::machine::Machine,
    rows: usize,
    people: usize,
    entries: usize,
    rounds: usize,
    target_ms: f64,
    pages: Vec<Figure>,
}

/// The response times of one page.
#[derive(Debug, Serialize)]
struct Figure {
    page: String,
    median_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    /// Of the body; of an export, of its first part.
    bytes: usize,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.rounds > 0, "--rounds is at least 1");
    let size = world::Size::new(arguments.rows, arguments.people)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = runtime.block_on(measure(arguments, size))?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    figures.print()
}

async fn measure(arguments: &Arguments, size: world::Size) -> Result<Figures> {
    let mut portal = Process::start().await?;
    world::make(&portal, size).await?;
    eprintln!("the portal has its configuration");
    portal.end(Signal::SIGTERM).await?;
    Fill::open(&portal.database())
        .await?
        .all(arguments.people, arguments.entries)
        .await?;
    portal.begin().await?;
    eprintln!("the portal has its logs");

    let pages = pages::all(&portal).await?;
    let only = arguments.only.as_deref().unwrap_or_default();
    let pages: Vec<Page> = pages
        .into_iter()
        .filter(|page| page.path.contains(only))
        .collect();
    let asker = Asker::sign_in(&portal).await?;
    let mut times: BTreeMap<usize, (Vec<f64>, usize)> = BTreeMap::new();
    for round in 0..=arguments.rounds {
        for (number, page) in pages.iter().enumerate() {
            let answer = asker.ask(page).await?;
            // The first round fills what the program keeps.
            if round > 0 {
                let (each, bytes) = times.entry(number).or_default();
                each.push(answer.took.as_secs_f64() * 1_000.0);
                *bytes = answer.bytes;
            }
        }
    }
    let figures = pages.iter().zip(times.into_values());
    Ok(Figures {
        machine: crate::machine::Machine::this(),
        rows: arguments.rows,
        people: arguments.people,
        entries: arguments.entries,
        rounds: arguments.rounds,
        target_ms: TARGET_MS,
        pages: figures
            .map(|(page, (times, bytes))| Figure::of(page, times, bytes))
            .collect(),
    })
}

impl Figure {
    fn of(page: &Page, mut times: Vec<f64>, bytes: usize) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        // The smallest that at least this share of all does not exceed.
        let at = |share: usize| {
            let rank = (times.len() * share).div_ceil(100).max(1);
            times.get(rank - 1).copied().unwrap_or_default()
        };
        let until = match page.until {
            Until::End => "",
            Until::FirstByte => " (first byte)",
        };
        Self {
            page: format!("{}{until}", page.name),
            median_ms: at(50),
            p95_ms: at(95),
            max_ms: at(100),
            bytes,
        }
    }
}

impl Figures {
    fn print(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{} resources, groups and policies, {} people, {} entries of each log; {} rounds",
            self.rows, self.people, self.entries, self.rounds
        )?;
        let head = ["page", "median ms", "p95 ms", "max ms", "bytes"];
        writeln!(
            out,
            "{:58} {:>9} {:>8} {:>8} {:>8}",
            head[0], head[1], head[2], head[3], head[4]
        )?;
        for page in &self.pages {
            writeln!(
                out,
                "{:58} {:>9.1} {:>8.1} {:>8.1} {:>8}",
                page.page, page.median_ms, page.p95_ms, page.max_ms, page.bytes
            )?;
        }
        let slow = self.pages.iter().filter(|page| page.p95_ms > TARGET_MS);
        let slow: Vec<&str> = slow.map(|page| page.page.as_str()).collect();
        ensure!(
            slow.is_empty(),
            "p95 exceeds {TARGET_MS} ms: {}",
            slow.join(", ")
        );
        let long = self.pages.iter().filter(|page| page.bytes > MAX_BYTES);
        let long: Vec<&str> = long.map(|page| page.page.as_str()).collect();
        ensure!(
            long.is_empty(),
            "longer than {MAX_BYTES} bytes: {}",
            long.join(", ")
        );
        writeln!(
            out,
            "p95 is within {TARGET_MS} ms, and no page is longer than {MAX_BYTES} bytes"
        )?;
        Ok(())
    }
}
