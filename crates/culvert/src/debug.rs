//! `culvert debug bundle`: what somebody who helps wants to see, in one directory, without secrets.

use crate::exit::{Failure, Status as Exit, print};
use crate::json::{self, HasVersion};
use crate::redact::redact;
use crate::service_socket;
use clap::{Args, Subcommand};
use culvert_client::StatusError;
use culvert_host::read_config_file;
use serde::Serialize;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The most that is kept of a log: its end, in bytes. It is some thousand lines.
const MAX_LOG_LEN: u64 = 1024 * 1024;

/// The most that is kept of what a command says, in bytes: the routes of some ten thousand resources.
const MAX_OUTPUT_LEN: u64 = 8 * 1024 * 1024;

/// For how long a command may run, in seconds, as `timeout` takes it.
const COMMAND_LIMIT_S: &str = "10";

/// The commands that are run on the machine, and the file that takes the output of each.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("versions.txt", &["uname -a", "ip -V", "nft --version"]),
    ("links.txt", &["ip -d -s link", "ip address"]),
    ("rules.txt", &["ip -4 rule", "ip -6 rule"]),
    (
        "routes.txt",
        &["ip -4 route show table all", "ip -6 route show table all"],
    ),
    ("nftables.txt", &["nft list ruleset"]),
    (
        "journal.txt",
        &["journalctl --no-pager --lines=5000 --output=short-iso -u culvert*"],
    ),
];

/// Gather what helps to find out why something does not work
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS,
    after_long_help = EXAMPLES
)]
pub(crate) struct DebugArguments {
    #[command(subcommand)]
    command: DebugCommand,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    Bundle(BundleArguments),
}

/// Write status, log, routes, rules, firewall and versions of this machine into a new directory
///
/// Members of the group culvert get the client's status and the last lines of its log. Tokens are left out
/// wherever they stand; addresses and names of resources are not. Read it before you give it away.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
struct BundleArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// The directory to make [default: culvert-debug-TIME in the current one]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Socket of the client [default: as "culvert status" finds it]
    #[arg(long, value_name = "PATH", env = "CULVERT_CLIENT_STATUS_SOCKET")]
    client_socket: Option<PathBuf>,

    /// Socket of the gateway [default: as "culvert gateway status" finds it]
    #[arg(long, value_name = "PATH", env = "CULVERT_GATEWAY_STATUS_SOCKET")]
    gateway_socket: Option<PathBuf>,

    /// Take the end of the newest log files in DIR too: what --log-dir names for client and gateway
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// A configuration file to take along; may be repeated
    #[arg(
        long,
        value_name = "FILE",
        default_values = ["/etc/culvert/client.toml", "/etc/culvert/gateway.toml"]
    )]
    config: Vec<PathBuf>,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done; what could not be had says why in its file
  1  the directory can't be made or written
  2  the command line is wrong";

const EXAMPLES: &str = "\
Examples:
  culvert debug bundle
  culvert debug bundle --out /tmp/bundle --log-dir /var/log/culvert && tar -C /tmp -czf bundle.tgz bundle

Exit status:
  0  done; what could not be had says why in its file
  1  the directory can't be made or written
  2  the command line is wrong";

/// Carries out `culvert debug`.
pub(crate) fn run(arguments: DebugArguments) -> Result<ExitCode, Failure> {
    let DebugCommand::Bundle(arguments) = arguments.command;
    let bundle = Bundle::make(arguments.out.as_deref())?;
    bundle.write(
        "culvert.txt",
        concat!("culvert ", env!("CARGO_PKG_VERSION"), "\n"),
    )?;
    bundle.write_statuses(&arguments)?;
    for (name, lines) in COMMANDS {
        let outputs: String = lines.iter().map(|line| output(line)).collect();
        bundle.write(name, &outputs)?;
    }
    for path in &arguments.config {
        if let Some(name) = path.file_name().filter(|_| path.exists()) {
            let text = read_config_file(path).unwrap_or_else(|error| format!("{error}\n"));
            bundle.write(&name.to_string_lossy(), &text)?;
        }
    }
    for path in arguments.log_dir.iter().flat_map(|path| newest_logs(path)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        bundle.write(
            &name,
            &tail(&path).unwrap_or_else(|error| format!("{error}\n")),
        )?;
    }
    let text = match arguments.json {
        true => json::line(&Gathered {
            directory: &bundle.path,
        })?,
        false => format!("{}\n", bundle.path.display()),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The new directory, for programs.
#[derive(Serialize)]
struct Gathered<'a> {
    directory: &'a Path,
}

/// The directory in the making.
struct Bundle {
    path: PathBuf,
}

impl Bundle {
    fn make(path: Option<&Path>) -> Result<Self, Failure> {
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let path = path.map_or_else(|| format!("culvert-debug-{now}").into(), Path::to_owned);
        // It must be new, so that all its content comes from here and nobody else reads it.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            let what = format_args!("{}: {error}; name a new directory by --out", path.display());
            Failure::new(Exit::Failed, what)
        })?;
        Ok(Self { path })
    }

    /// Writes a file without the secrets of `text`.
    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        let written = file
            .open(&path)
            .and_then(|mut file| file.write_all(redact(text).as_bytes()));
        written.map_err(|error| Failure::io(path.display(), &error))
    }

    fn write_statuses(&self, arguments: &BundleArguments) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::io("starting", &error))?;
        // A configuration file that is wrong is part of what is wrong, and no reason to gather nothing.
        let client = service_socket::of_client(arguments.client_socket.as_deref());
        let (client, log) = match client {
            Ok(socket) => (
                told(runtime.block_on(culvert_client::ask_status(&socket)))?,
                lines(runtime.block_on(culvert_client::ask_log(&socket))),
            ),
            Err(failure) => (format!("{failure}\n"), format!("{failure}\n")),
        };
        self.write("client-status.json", &client)?;
        self.write("client-log.txt", &log)?;
        let gateway = service_socket::of_gateway(arguments.gateway_socket.as_deref());
        let gateway = match gateway {
            Ok(socket) => told(runtime.block_on(culvert_gateway::ask_status(&socket)))?,
            Err(failure) => format!("{failure}\n"),
        };
        self.write("gateway-status.json", &gateway)
    }
}

/// The answer as text, or the reason why there is none.
fn told(answer: Result<impl HasVersion, StatusError>) -> Result<String, Failure> {
    match answer {
        Ok(status) => json::line_of(&status),
        Err(error) => Ok(format!("{error}\n")),
    }
}

/// The last lines of a log, or the reason why there are none.
fn lines(answer: Result<Vec<String>, StatusError>) -> String {
    match answer {
        Ok(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
        Err(error) => format!("{error}\n"),
    }
}

/// The output of a command after a line with the command itself, or the reason why there is none.
fn output(line: &str) -> String {
    let mut command = Command::new("timeout");
    command.arg(COMMAND_LIMIT_S).args(line.split(' '));
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    let said = match command.output() {
        Ok(output) => [output.stdout, output.stderr].concat(),
        Err(error) => format!("it can't be run: {error}").into_bytes(),
    };
    let end = said
        .len()
        .min(usize::try_from(MAX_OUTPUT_LEN).unwrap_or(usize::MAX));
    format!("# {line}\n{}\n", String::from_utf8_lossy(&said[..end]))
}

/// The newest log file of each role.
fn newest_logs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let newest = |role: &str| {
        let is_of_role = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(role) && name.ends_with(".log")
        };
        let modified = |path: &&PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        paths
            .iter()
            .filter(is_of_role)
            .max_by_key(modified)
            .cloned()
    };
    ["client.", "gateway."]
        .into_iter()
        .filter_map(newest)
        .collect()
}

/// The end of a file.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(MAX_LOG_LEN)))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_LEN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
