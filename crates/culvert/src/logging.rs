//! The destination of the log and its level.

use crate::exit::{Failure, Status};
use crate::log_files::LogFiles;
use crate::log_level::LogLevel;
use crate::redact::redact;
use crate::wg::RunArguments;
use culvert_host::RecentLog;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging for this process, as `arguments` ask. `foreground` says whether standard error
/// stays open.
pub(crate) fn start(arguments: &RunArguments, foreground: bool) -> Result<(), Failure> {
    let retained = foreground || arguments.log_file.is_some();
    let builder = tracing_subscriber::fmt()
        .with_max_level(level(arguments.log_level, retained))
        .with_target(false);
    match &arguments.log_file {
        Some(path) => {
            let file = open(path).map_err(|error| {
                Failure::io(format_args!("log file {}", path.display()), &error)
            })?;
            builder.with_ansi(false).with_writer(Arc::new(file)).init();
        }
        None => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .init(),
    }
    Ok(())
}

/// The destination of the log of a service in the foreground.
pub(crate) enum Destination<'a> {
    /// Standard error, which its supervisor keeps.
    StandardError,
    /// Files of a directory, whose names begin with the role's.
    Directory(&'a Path, &'static str),
}

impl<'a> Destination<'a> {
    /// The directory that was asked for, or standard error.
    pub(crate) fn of(directory: Option<&'a Path>, role: &'static str) -> Self {
        directory.map_or(Self::StandardError, |path| Self::Directory(path, role))
    }
}

/// Starts logging for a service in the foreground.
///
/// Its libraries tell of every statement and packet of theirs from DEBUG on, which buries what Culvert
/// says: they are heard at TRACE alone.
pub(crate) fn start_service(level: LogLevel, to: &Destination<'_>) -> Result<(), Failure> {
    start_recorded_service(level, to, None)
}

/// The same. The last lines, without secrets and from INFO on, go into `recent` too.
pub(crate) fn start_recorded_service(
    level: LogLevel,
    to: &Destination<'_>,
    recent: Option<Arc<RecentLog>>,
) -> Result<(), Failure> {
    let ours = LevelFilter::from(level);
    let libraries = match level {
        LogLevel::Trace => ours,
        _ => ours.min(LevelFilter::WARN),
    };
    let targets = Targets::new()
        .with_default(libraries)
        // A line for each request that waits for a connection to the database, when thousands of machines come at once.
        .with_target("sqlx::pool::acquire", ours.min(LevelFilter::ERROR))
        .with_target("culvert", ours);
    let lines = tracing_subscriber::fmt::layer().with_target(false);
    let recorded = recent.map(|log| {
        tracing_subscriber::fmt::layer()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || Recorder(Arc::clone(&log)))
            .with_filter(LevelFilter::INFO)
    });
    let registry = tracing_subscriber::registry().with(targets).with(recorded);
    match to {
        Destination::StandardError => registry
            .with(
                lines
                    .with_ansi(std::io::stderr().is_terminal())
                    .with_writer(std::io::stderr),
            )
            .init(),
        Destination::Directory(path, role) => {
            let files = LogFiles::open(path, role).map_err(|error| {
                let what = format_args!("{error}; or name another directory by --log-dir");
                Failure::new(Status::Failed, what)
            })?;
            let lines = lines.with_ansi(false).with_writer(Mutex::new(files));
            registry.with(lines).init();
        }
    }
    Ok(())
}

/// Writes lines into a log that is told to others.
struct Recorder(Arc<RecentLog>);

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.append(&redact(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The level asked for; otherwise what `LOG_LEVEL` says; otherwise enough to follow what happens
/// where somebody keeps the log, and warnings where it only flashes up before detaching.
fn level(asked: Option<LogLevel>, retained: bool) -> LevelFilter {
    let by_variable = || LogLevel::of_wireguard_go(&std::env::var("LOG_LEVEL").ok()?);
    let default = match retained {
        true => LogLevel::Info,
        false => LogLevel::Warn,
    };
    asked.or_else(by_variable).unwrap_or(default).into()
}

/// Peers' addresses are in the log at DEBUG: nobody else may read it.
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
