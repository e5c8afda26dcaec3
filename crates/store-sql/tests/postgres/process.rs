//! The process of a PostgreSQL server for tests.
//!
//! The server runs from Debian's package, as a user without rights, and ends with the process of the tests, however that
//! ends: a shell waits for the end of a pipe that the tests hold.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server that is running.
pub(crate) struct Process {
    /// The directory of its socket, and of all that it has.
    pub(crate) socket: PathBuf,
    /// Its standard input ends with this process.
    _child: Child,
}

impl Process {
    pub(crate) fn start() -> Self {
        let mut command = match is_root() {
            // A server refuses to run as root.
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let mut child = command
            .args(["-c", include_str!("server.sh"), "server.sh"])
            .arg(programs())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv and sh are there");
        let mut said = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut said).unwrap();
        let socket = PathBuf::from(said.trim_end());
        assert!(socket.is_absolute(), "the server did not start: see above");
        Self {
            socket,
            _child: child,
        }
    }
}

/// The directory of the newest server's programs.
pub(crate) fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().filter_map(|version| {
        let path = version.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let programs = path.join("bin");
        let has_server = programs.join("initdb").exists();
        has_server.then_some((number, programs))
    });
    let newest = versions.max();
    let (_, programs) = newest.expect("PostgreSQL is not installed: run scripts/setup.sh");
    programs
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.is_some_and(|line| line.split_whitespace().nth(2) == Some("0"))
}
