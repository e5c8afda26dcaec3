//! The relay's process.

use crate::log_level::LogLevel;
use crate::relay::OF_PORTAL_VARIABLE;
use clap::ValueEnum;
use culvert_relay::{PortRange, TlsListen};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bytes of a line of the relay's log. A longer one becomes several.
const LINE_MOST: u64 = 4_096;

/// The time that a relay has to end.
const END_MOST: Duration = Duration::from_secs(5);

/// The time in which the last lines of a relay that has ended arrive.
const LINES_MOST: Duration = Duration::from_secs(1);

/// The beginning of the line in which a program says why it failed.
const COMPLAINT: &[u8] = b"culvert: ";

/// Variables by which an administrator changes how the C library looks names up (resolv.conf(5)). The relay gets no
/// other: there may be a password among them.
const VARIABLES: [&str; 2] = ["LOCALDOMAIN", "RES_OPTIONS"];

/// `culvert relay run` with its options.
pub(super) struct Command {
    pub(super) port: u16,
    pub(super) gateway_ports: PortRange,
    /// Those of its interfaces if there are none.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) tls: TlsListen,
    pub(super) log_level: LogLevel,
    pub(super) directory: PathBuf,
    pub(super) status_socket: PathBuf,
}

/// A relay that was started. Dropped, it is killed.
pub(super) struct Child {
    process: tokio::process::Child,
    /// The relay ends when this is closed.
    input: Option<ChildStdin>,
    /// Passes on its log; the result is the line in which it says why it failed.
    lines: JoinHandle<Option<String>>,
}

/// The end of a relay.
pub(super) struct ChildEnd {
    /// Its exit status, unless a signal killed it.
    pub(super) status: Option<i32>,
    /// The reason, for people.
    pub(super) why: String,
}

impl Command {
    /// Starts it with this token.
    pub(super) async fn start(&self, token: &str) -> io::Result<Child> {
        // This link leads to the program that runs, also after an upgrade.
        let mut command = tokio::process::Command::new("/proc/self/exe");
        command.arg0("culvert").args(["relay", "run"]);
        command.arg("--state-dir").arg(&self.directory);
        command.arg("--status-socket").arg(&self.status_socket);
        command.arg("--port").arg(self.port.to_string());
        command
            .arg("--gateway-ports")
            .arg(self.gateway_ports.to_string());
        for address in &self.addresses {
            command.arg("--address").arg(address.to_string());
        }
        command.arg("--tls").arg(self.tls.to_string());
        if let Some(level) = self.log_level.to_possible_value() {
            command.arg("--log-level").arg(level.get_name());
        }
        command.env_clear().env(OF_PORTAL_VARIABLE, "1");
        for variable in VARIABLES {
            if let Some(value) = std::env::var_os(variable) {
                command.env(variable, value);
            }
        }
        // A group of its own: Ctrl-C at a terminal is for the portal.
        command
            .process_group(0)
            .current_dir("/")
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let (input, lines) = (process.stdin.take(), process.stderr.take());
        let mut child = Child {
            process,
            input,
            lines: tokio::spawn(pass_on(lines)),
        };
        if let Some(input) = &mut child.input {
            // A relay that has ended already says why at its standard error.
            let _ended = input.write_all(token.as_bytes()).await;
            let _ended = input.write_all(b"\n").await;
        }
        Ok(child)
    }
}

impl Child {
    /// Returns once it has ended. May be dropped and called again before that.
    pub(super) async fn ended(&mut self) -> ChildEnd {
        let status = self.process.wait().await;
        // Its helper has the other end of the pipe too, and ends a moment later.
        let lines = timeout(LINES_MOST, &mut self.lines).await;
        let complaint = lines.ok().and_then(Result::ok).flatten();
        let (status, how) = match status {
            Ok(status) => (status.code(), in_words(status)),
            Err(error) => (None, format!("it is not known how it ended: {error}")),
        };
        ChildEnd {
            status,
            why: complaint.unwrap_or(how),
        }
    }

    /// Has it take no new ends.
    pub(super) fn drain(&self) {
        let pid = self.process.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // It has ended meanwhile, which is noticed next.
            let _ended = rustix::process::kill_process(pid, rustix::process::Signal::USR1);
        }
    }

    /// Has it end, or kills it.
    pub(super) async fn end(mut self) {
        self.input = None;
        if timeout(END_MOST, self.ended()).await.is_err() {
            tracing::warn!("the relay beside the portal does not end and is killed");
            let _ended = self.process.kill().await;
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it ended with status {code}"),
        None => format!("it was ended: {status}"),
    }
}

/// Writes the relay's log to standard error, each line marked as the relay's. Returns the line in which it said why it
/// failed.
async fn pass_on(lines: Option<ChildStderr>) -> Option<String> {
    let mut lines = BufReader::new(lines?);
    let mut complaint = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = AsyncReadExt::take(&mut lines, LINE_MOST);
        match bounded.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return complaint,
            Ok(_) => {}
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(why) = text.strip_prefix(COMPLAINT) {
            complaint = Some(String::from_utf8_lossy(why).into_owned());
            continue;
        }
        let mut out = b"relay: ".to_vec();
        out.extend_from_slice(text);
        out.push(b'\n');
        // Standard error may be closed; there is nowhere else to say it.
        let _unsaid = io::stderr().write_all(&out);
    }
}
