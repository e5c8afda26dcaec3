//! Short commands that run to their end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use rustix::thread::{CapabilitySet, capabilities};

/// No short command may hang a test: the slowest, a ping of a few seconds, is far below.
const COMMAND_LIMIT_S: &str = "60";

/// The programs that the lab calls, and the Debian package of each.
const TOOLS: [(&str, &str); 11] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("setpriv", "util-linux"),
    ("timeout", "coreutils"),
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
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command")?;
    let mut command = bounded();
    command.arg(program).args(words);
    finish(command, line)
}

/// As [`run`], with `input` as its standard input.
pub(crate) fn run_with_input(line: &str, input: &str) -> Result<String> {
    let mut command = bounded();
    command.args(line.split_whitespace()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    checked(&child.wait_with_output()?, line)
}

/// A command that dies with this process and ends within [`COMMAND_LIMIT_S`]; the caller appends the
/// program and its arguments.
pub(crate) fn bounded() -> Command {
    let mut command = dies_with_us();
    command.args(["timeout", "--kill-after=1", COMMAND_LIMIT_S]);
    command
}

/// A command that the kernel kills when the thread that starts it ends. One that is to outlive its thread goes through
/// `Process::start`.
pub(crate) fn dies_with_us() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).stdin(Stdio::null());
    command
}

/// Runs `command` to its end and returns its output, whether it succeeded or not.
pub(crate) fn outcome(mut command: Command, line: &str) -> Result<Output> {
    command
        .output()
        .with_context(|| format!("cannot start `{line}`"))
}

/// Runs `command` to its end and returns its standard output; a failure is an error.
pub(crate) fn finish(command: Command, line: &str) -> Result<String> {
    checked(&outcome(command, line)?, line)
}

fn checked(output: &Output, line: &str) -> Result<String> {
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
