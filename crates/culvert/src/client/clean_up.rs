//! `culvert client cleanup`: the host as it was before a client that was killed.

use super::failure::failure;
use super::run_arguments::DEFAULT_STATUS_SOCKET;
use crate::exit::{Failure, Status, print};
use crate::json;
use crate::routing_numbers::{mark, routing, table};
use clap::{Args, ValueEnum};
use culvert_client::{ClientError, clean_up_network, clean_up_resolver};
use culvert_host::{FileRefusal, HostError, InterfaceName, Mark, Routing, Table};
use serde::Serialize;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Undo what a client that was killed left on this machine
///
/// Puts back the system's resolver, and removes rules and routes. Until then resources are unreachable, so
/// that nothing goes past the tunnel: it is for a client that will not run again. One that starts again
/// needs nothing of it. Doing it twice does no harm. Options that the client was started with, such as
/// --table, are to be given here too.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(super) struct CleanUpArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// The client's configuration file [default: /etc/culvert/client.toml, where there is one]
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// Only this part of it
    #[arg(long, value_name = "PART", value_enum)]
    only: Option<Part>,

    /// Directory in which the client keeps the earlier state of the host
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_CLIENT_STATE_DIR",
        default_value = "/var/lib/culvert/client"
    )]
    state_dir: PathBuf,

    /// Mark of the packets that carried the tunnel
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_MARK", value_parser = mark)]
    mark: Option<Mark>,

    /// The tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_CLIENT_INTERFACE",
        default_value = "culvert0"
    )]
    interface: InterfaceName,

    /// Routing table for resources
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_TABLE", value_parser = table)]
    table: Option<Table>,

    /// Socket of a running client: nothing is undone while it answers
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_CLIENT_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    status_socket: PathBuf,
}

/// A part of the host that a client changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The resolver that the system asks; resources stay unreachable
    Resolver,
    /// Rules, routes and the firewall's rules about applications
    Network,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done, or there was nothing to undo
  1  something failed, or a client runs
  2  the command line or the configuration file is wrong";

const EXAMPLES: &str = "\
Examples:
  For a client that will not run again:
    culvert client cleanup

  After a client that is about to start again, so that names are resolved meanwhile:
    culvert client cleanup --only resolver

Exit status:
  0  done, or there was nothing to undo
  1  something failed, or a client runs
  2  the command line or the configuration file is wrong";

/// Carries out `culvert client cleanup`.
pub(super) fn run(arguments: &CleanUpArguments) -> Result<ExitCode, Failure> {
    refuse_while_running(&arguments.status_socket, "client")?;
    let routing = routing(Routing::CLIENT, arguments.mark, arguments.table)
        .map_err(|error| Failure::new(Status::Usage, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))?;
    runtime.block_on(async {
        if arguments.only != Some(Part::Network) {
            let cleaned = clean_up_resolver(&arguments.state_dir).await;
            cleaned.map_err(|error| of_resolver(&error))?;
        }
        let mut removed = Vec::new();
        if arguments.only != Some(Part::Resolver) {
            let network = clean_up_network(&arguments.interface, &routing).await;
            removed = network.map_err(|error| failure(&error))?;
        }
        report(&removed, arguments.json)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Fails if a client or gateway answers at `socket`, because it needs the things that would be
/// removed.
pub(crate) fn refuse_while_running(socket: &Path, program: &str) -> Result<(), Failure> {
    match UnixStream::connect(socket) {
        Ok(_) => Err(Failure::new(
            Status::Failed,
            format_args!(
                "a {program} runs and answers at {}: stop it, and it leaves nothing behind",
                socket.display()
            ),
        )),
        // Nobody is there, or it can't be found out: then it is not this user's to stop.
        Err(_) => Ok(()),
    }
}

/// The parts that were removed, for programs.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a [String],
}

/// Lists the removed parts.
pub(crate) fn report(removed: &[String], is_json: bool) -> Result<(), Failure> {
    let text = match is_json {
        true => json::line(&Removed { removed })?,
        false => removed.iter().map(|line| format!("{line}\n")).collect(),
    };
    print(text.as_bytes())
}

/// The way to mend it is another one than for a client that is to run there.
fn of_resolver(error: &ClientError) -> Failure {
    match error {
        ClientError::Host(HostError::FileRefused(refused)) => match refused.refusal {
            FileRefusal::ForeignOwner { owner } => Failure::new(
                Status::Failed,
                format_args!(
                    "{} belongs to user {owner}, whose client it is: run this as that user, or with \
                     --only network",
                    refused.path.display()
                ),
            ),
            _ => failure(error),
        },
        _ => failure(error),
    }
}
