//! A PostgreSQL server for a measurement: from the system's package, with the settings that it comes with.
//!
//! It listens on a socket alone, and ends with this process, however that ends: a shell waits for the end of a pipe.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use culvert_lab::measure::Usage;

/// The script that starts it, and ends it with its standard input.
const SCRIPT: &str = include_str!("../../crates/store-sql/tests/postgres/server.sh");

/// Its superuser, and the owner of its databases.
const USER: &str = "culvert";

/// A server that is running.
pub(crate) struct Server {
    socket: PathBuf,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let mut command = match nix::unistd::geteuid().is_root() {
            // A server refuses to run as root.
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let mut child = command
            .args(["-c", SCRIPT, "server.sh"])
            .arg(programs()?)
            .env("CULVERT_POSTGRES", "durable")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start sh, as another user if this one is root")?;
        let mut said = String::new();
        let output = child.stdout.take().context("the server's output")?;
        BufReader::new(output).read_line(&mut said)?;
        let socket = PathBuf::from(said.trim_end());
        ensure!(
            socket.is_absolute(),
            "PostgreSQL did not start: its reason is above"
        );
        Ok(Self { socket, child })
    }

    /// Makes an empty database, and returns its URL.
    pub(crate) fn create(&self, name: &str) -> Result<String> {
        let socket = self.socket.display();
        let made = Command::new(programs()?.join("createdb"))
            .arg(format!("--host={socket}"))
            .arg(format!("--username={USER}"))
            .args(["--encoding=UTF8", "--template=template0", name])
            .status()?;
        ensure!(made.success(), "createdb {name}: {made}");
        Ok(format!("postgres:///{name}?host={socket}&user={USER}"))
    }

    /// The processor time of all its processes, those that have ended included.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Usage::cpu_of_family(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It has removed its directory then.
        let _ = self.child.wait();
    }
}

/// The directory of the newest server's programs.
fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().filter_map(|version| {
        let path = version.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let programs = path.join("bin");
        programs
            .join("initdb")
            .exists()
            .then_some((number, programs))
    });
    let newest = versions.max();
    let (_, programs) = newest.context("PostgreSQL is not installed: run scripts/setup.sh")?;
    Ok(programs)
}
