//! Short commands that run to their end.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CapabilitySet, capabilities};

/// No short command may hang a test: the slowest, a ping of a few seconds, is far below.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// The programs that the lab calls, and the Debian package of each.
const TOOLS: [(&str, &str); 10] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("setpriv", "util-linux"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
    ("wg", "wireguard-tools"),
    ("wg-quick", "wireguard-tools"),
    ("nft", "nftables"),
    ("dbus-daemon", "dbus"),
    ("strace", "strace"),
];

/// Checks that this machine can run the lab.
///
/// # Errors
/// When not root, without /dev/net/tun, or when a tool is missing; the message is complete and meant
/// for the person who started the program.
pub fn require() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("the lab makes network namespaces and needs root: run it with sudo");
    }
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    if capabilities(None).is_ok_and(|has| !has.effective.contains(needed)) {
        bail!(
            "the lab makes network namespaces and needs CAP_NET_ADMIN and CAP_SYS_ADMIN, which this root has not: a \
             container gets them by --cap-add"
        );
    }
    if !Path::new("/dev/net/tun").exists() {
        bail!("the lab needs /dev/net/tun: load the kernel module `tun`");
    }
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|(tool, _)| find(tool).is_none())
        .collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing
            .iter()
            .map(|(tool, package)| format!("{tool} (package {package})"))
            .collect();
        bail!("the lab needs {}: run scripts/setup.sh", names.join(", "));
    }
    Ok(())
}

/// Runs a command on the host, outside every namespace; `line` is split at white space.
///
/// Returns its standard output.
///
/// # Errors
/// When it cannot be started or fails; the message holds the command and its error output.
pub fn run(line: &str) -> Result<String> {
    checked(&outcome(command(line.split_whitespace())?, line)?, line)
}

/// As [`run`], with `input` as its standard input.
pub(crate) fn run_with_input(line: &str, input: &str) -> Result<String> {
    let mut command = command(line.split_whitespace())?;
    command.stdin(Stdio::piped());
    checked(&ended(command, line, Some(input))?, line)
}

/// The command of these words, without input.
pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().context("an empty command")?);
    command.args(words).stdin(Stdio::null());
    Ok(command)
}

/// A command that the kernel kills when the thread that starts it ends. One that is to outlive its thread goes through
/// `Process::start`.
pub(crate) fn dies_with_us() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).stdin(Stdio::null());
    command
}

/// Runs `command` to its end and returns its output, whether it succeeded or not. It is killed with all that it
/// started if it takes longer than [`COMMAND_LIMIT`].
pub(crate) fn outcome(command: Command, line: &str) -> Result<Output> {
    ended(command, line, None)
}

/// Programs such as `timeout` and `setpriv` would do the same. To start one of them takes as long as most commands
/// of the lab, and there are a hundred in a second. If this process is killed, the watcher ends what
/// still runs in its namespaces.
fn ended(mut command: Command, line: &str, input: Option<&str>) -> Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let group = Pid::from_child(&child);
    let stdin = child.stdin.take();
    let (ended, end) = mpsc::channel::<()>();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(COMMAND_LIMIT) == Err(RecvTimeoutError::Timeout) {
                // It has just ended, or it ends now.
                let _killed = kill_process_group(group, Signal::KILL);
            }
        });
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A program that ends without reading says why itself.
            let _unread = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output();
        drop(ended);
        output
    });
    output.with_context(|| format!("cannot hear from `{line}`"))
}

/// The standard output of a command; a failure is an error.
pub(crate) fn checked(output: &Output, line: &str) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{line}` failed ({}): {}{}",
            output.status,
            stderr.trim(),
            stdout.trim()
        );
    }
    Ok(stdout)
}

/// The path of `program`, searched in PATH.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}
