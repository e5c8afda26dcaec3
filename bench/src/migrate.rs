//! Moving a large portal from SQLite to PostgreSQL: how long `culvert portal migrate` takes, and that nothing is lost.
//!
//! The command compares all rows itself before it commits. Here both databases are read again afterwards, by the store of
//! the portal, and a portal starts on the new one.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use culvert_ids::AccountId;
use culvert_lab::culvert_program;
use culvert_lab::measure::Usage;
use culvert_store::{
    Entity, EntityKind, ListFilter, LogEntries, Logs, MAX_CHANGES_READ, PageLimit, Store,
};
use culvert_store_sql::{PostgresOptions, SqlStore, SqliteOptions};
use culvert_wire::model::Log;
use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::console::world;
use crate::fill::Fill;
use crate::portal::process::Process;
use crate::postgres::Server;

/// The time between two looks at the memory of the command.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Moving a large portal to PostgreSQL: how long it takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of resources, of groups and of policies.
    #[arg(long, default_value_t = 9_000)]
    rows: usize,
    /// The number of people, each with a client, and of service accounts.
    #[arg(long, default_value_t = 9_000)]
    people: usize,
    /// The least number of entries in all logs together.
    #[arg(long, default_value_t = 1_000_000)]
    entries: usize,
}

/// The part of the command's answer that is used here.
#[derive(Debug, Deserialize)]
struct Answer {
    old_database: PathBuf,
    rows: BTreeMap<String, u64>,
    seconds: f64,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let size = world::Size::new(arguments.rows, arguments.people)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(arguments, size))
}

async fn measure(arguments: &Arguments, size: world::Size) -> Result<()> {
    let mut portal = Process::start().await?;
    world::make(&portal, size).await?;
    portal.end(Signal::SIGTERM).await?;
    let filled = Instant::now();
    let entries = arguments.entries.div_ceil(Log::ALL.len());
    let fill = Fill::open(&portal.database()).await?;
    fill.all(arguments.people, entries).await?;
    eprintln!("filled in {:.1} s", filled.elapsed().as_secs_f64());

    let server = Server::start()?;
    let url = server.create("culvert")?;
    let (answer, usage) = migrate(&portal.state_dir(), &url)?;
    let is_log = |table: &str| table.ends_with("_log");
    let of = |logs: bool| {
        let rows = answer
            .rows
            .iter()
            .filter(|(table, _)| is_log(table) == logs);
        rows.map(|(_, rows)| rows).sum::<u64>()
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} rows of logs and {} other rows moved to PostgreSQL in {:.1} s",
        of(true),
        of(false),
        answer.seconds
    )?;
    writeln!(
        out,
        "the command took {:.1} s of processor time and {} MB of memory, and the server {:.1} s",
        usage.cpu.as_secs_f64(),
        usage.peak_rss_bytes / 1_000_000,
        server.cpu()?.as_secs_f64()
    )?;
    ensure!(
        of(true) >= arguments.entries as u64,
        "the logs have fewer rows than --entries"
    );
    let compared = compare(&answer.old_database, &url).await?;
    portal.move_to(url);
    portal.begin().await?;
    portal.get("/resources?name=net-0").await?;
    // Before its database is away.
    portal.end(Signal::SIGTERM).await?;
    writeln!(
        out,
        "{compared} rows and entries are equal in both databases, and the portal has started on PostgreSQL"
    )?;
    Ok(())
}

/// Runs the command, and returns its answer and what it used.
fn migrate(state_dir: &Path, url: &str) -> Result<(Answer, Usage)> {
    let mut child = Command::new(culvert_program()?)
        .args(["portal", "migrate", "--json", "--to", url])
        .arg("--state-dir")
        .arg(state_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut used = Usage::of(child.id())?;
    while child.try_wait()?.is_none() {
        std::thread::sleep(LOOK_EVERY);
        // It may have ended since.
        used = Usage::of(child.id()).unwrap_or(used);
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "culvert portal migrate: {}",
        output.status
    );
    let answer = serde_json::from_slice(&output.stdout).context("the command's answer")?;
    Ok((answer, used))
}

/// Reads both databases to their end. Returns the number of rows and entries, which are the same in both.
async fn compare(file: &Path, url: &str) -> Result<u64> {
    let old = SqlStore::open(&SqliteOptions::file(file)).await?;
    let new = SqlStore::open(url.parse::<PostgresOptions>()?).await?;
    let accounts = old.accounts(None, PageLimit::default()).await?;
    let account = accounts.items.first().context("there is no account")?.id;
    let mut count = 0;
    for kind in EntityKind::ALL {
        let (before, after) = (
            rows(&old, account, *kind).await?,
            rows(&new, account, *kind).await?,
        );
        ensure!(before == after, "rows of kind {} differ", kind.as_str());
        count += before.len() as u64;
    }
    let (ends, of_new) = (old.log_ends(account).await?, new.log_ends(account).await?);
    ensure!(ends == of_new, "the logs end at {ends:?} and {of_new:?}");
    for log in Log::ALL {
        let mut at = 0;
        while at < ends[&log] {
            let (before, after) = (
                old.log_after(account, log, at, MAX_CHANGES_READ).await?,
                new.log_after(account, log, at, MAX_CHANGES_READ).await?,
            );
            ensure!(
                before == after,
                "the logs differ after entry {at} of {log:?}"
            );
            let (entries, last) = last_of(&before).context("a log ends before its last entry")?;
            count += entries as u64;
            at = last;
        }
    }
    old.close().await;
    new.close().await;
    Ok(count)
}

async fn rows(store: &SqlStore, account: AccountId, kind: EntityKind) -> Result<Vec<Entity>> {
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let filter = ListFilter::default();
        let page = store.list(account, kind, &filter, after, PageLimit::MAX);
        let page = page.await?;
        rows.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}

/// The number of entries, and that of the last.
fn last_of(entries: &LogEntries) -> Option<(usize, u64)> {
    Some(match entries {
        LogEntries::Access(entries) => (entries.len(), entries.last()?.seq.0),
        LogEntries::Changes(entries) => (entries.len(), entries.last()?.seq.0),
        LogEntries::Flows(entries) => (entries.len(), entries.last()?.seq.0),
    })
}
