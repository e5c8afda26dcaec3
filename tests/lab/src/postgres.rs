//! A PostgreSQL server in a namespace.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::command::{checked, command, find, outcome};
use crate::namespace::Namespace;
use crate::reaper;
use crate::wait::wait_until;

/// The script that makes and runs it. It ends with its standard input, however this process ends.
const SCRIPT: &str = include_str!("../../../crates/store-sql/tests/postgres/server.sh");

/// The ids of `nobody` and `nogroup`: a server refuses to run as root.
const NOBODY: u32 = 65_534;

/// The server ends without a checkpoint, on a machine that may compile.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A server of Debian's package with the database `culvert`. It listens at all addresses of its namespace, and lets
/// everybody in. Dropping it ends it.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The directory of its socket, and of all that it has.
    socket: PathBuf,
    /// Keeps the namespace at least as long as the server.
    _namespace: Namespace,
}

impl Postgres {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or does not start; its own words are on standard error.
    pub fn start(namespace: &Namespace) -> Result<Self> {
        Self::begin(namespace, &[])
    }

    /// The same, with a file system of `bytes` at `/mnt`, which the server alone sees: the tablespace `small`, with the
    /// database `culvert` and an empty one of the name `filler`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on_small_disk(namespace: &Namespace, bytes: u64) -> Result<Self> {
        let mount = format!(
            "mount -t tmpfs -o size={bytes},uid={NOBODY},gid={NOBODY} tmpfs /mnt && exec \"$@\""
        );
        let server = Self::begin(namespace, &["sh", "-c", &mount, "sh"])?;
        server.ask("postgres", "CREATE TABLESPACE small LOCATION '/mnt'")?;
        server.ask("postgres", "ALTER DATABASE culvert SET TABLESPACE small")?;
        server.ask("postgres", "CREATE DATABASE filler TABLESPACE small")?;
        Ok(server)
    }

    /// `ip netns exec` gives it a mount namespace of its own. `before` are words before its own.
    fn begin(namespace: &Namespace, before: &[&str]) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        ensure!(
            find("psql").is_some(),
            "PostgreSQL (package postgresql) is not installed: run scripts/setup.sh"
        );
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // The watcher waits for what is in here.
        let dir = reaper::process_dir()?.join(format!("postgres-{number}"));
        fs::create_dir_all(&dir)?;
        chown(&dir, Some(NOBODY), Some(NOBODY))?;
        let nobody = [
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
        ];
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace.name()])
            .args(before)
            .args(nobody)
            .args(["sh", "-c", SCRIPT, "server.sh", "newest"])
            .env("CULVERT_POSTGRES_IN", &dir)
            .env("CULVERT_POSTGRES_LISTEN", "*")
            // A server that is stopped at once loses no commit that it has told of.
            .env("CULVERT_POSTGRES", "durable")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a PostgreSQL server")?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let mut output = BufReader::new(output);
        let mut said = String::new();
        output.read_line(&mut said)?;
        let server = Self {
            child,
            output,
            socket: PathBuf::from(said.trim_end()),
            _namespace: namespace.clone(),
        };
        ensure!(
            server.socket.is_absolute(),
            "the PostgreSQL server did not start"
        );
        server.ask("postgres", "CREATE DATABASE culvert TEMPLATE template0")?;
        Ok(server)
    }

    /// Stops it at once, as a crash does.
    ///
    /// # Errors
    /// When the script that runs it has ended.
    pub fn stop(&mut self) -> Result<()> {
        self.tell("stop")
    }

    /// Starts it again on the same data, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.tell("start")
    }

    fn tell(&mut self, what: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("its input is a pipe")?;
        writeln!(input, "{what}")?;
        let mut done = String::new();
        self.output.read_line(&mut done)?;
        ensure!(done.trim_end() == what, "the server does not {what}");
        Ok(())
    }

    /// The answer of the database `culvert`, without a head, its columns divided by `|`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.ask("culvert", sql)
    }

    /// The same of any database.
    ///
    /// # Errors
    /// When the server refuses; with its words.
    pub fn ask(&self, database: &str, sql: &str) -> Result<String> {
        let host = format!("--host={}", self.socket.display());
        let words = [
            "psql",
            "--no-psqlrc",
            "-At",
            "--username=culvert",
            &host,
            database,
            "-c",
            sql,
        ];
        let said = checked(&outcome(command(words)?, sql)?, sql)?;
        Ok(said.trim_end().to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let child = &mut self.child;
        let ended = wait_until("the end of PostgreSQL", STOP_DEADLINE, || {
            !matches!(child.try_wait(), Ok(None))
        });
        if ended.is_err() {
            // With the namespace the rest of it is killed.
            let _killed = child.kill();
            let _status = child.wait();
        }
    }
}
