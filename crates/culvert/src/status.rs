//! `culvert status`: what a running client does.

pub(crate) mod table;
mod watch;

use crate::exit::{Failure, Status, print};
use crate::json;
use crate::service_socket::ClientSocket;
use clap::Args;
use culvert_client::status::PortalState;
use culvert_client::{StatusError, ask_status};
use std::path::Path;
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// Show what the client on this machine does: portal, resources, gateways, names
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct StatusArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// End with status 4 unless the client is connected to the portal
    #[arg(long)]
    check: bool,

    /// Go on and show the state at each change, until interrupted
    ///
    /// With --json, each line is a message of the client: the whole state first, then what changed.
    #[arg(long, conflicts_with = "check")]
    watch: bool,

    #[command(flatten)]
    socket: ClientSocket,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no client answers, or something failed
  2  the command line is wrong
  4  the client is not connected to the portal (with --check)";

const EXAMPLES: &str = "\
Examples:
  culvert status
  culvert status --json | jq '.resources[] | select(.state == \"denied\") | {name, why}'
  culvert status --check && echo connected
  culvert status --watch
  culvert status --watch --json | jq -c '.changes.resources[]? | {name, state}'

Exit status:
  0  done
  1  no client answers, or something failed
  2  the command line is wrong
  4  the client is not connected to the portal (with --check)";

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))
}

/// The status of the client that answers at `socket`.
pub(crate) fn ask(socket: &Path) -> Result<culvert_client::status::Status, Failure> {
    let status = runtime()?.block_on(ask_status(socket));
    status.map_err(|error: StatusError| Failure::new(Status::Failed, error))
}

/// Carries out `culvert status`.
pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let socket = arguments.socket.path()?;
    if arguments.watch {
        runtime()?.block_on(watch::run(&socket, arguments.json))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = ask(&socket)?;
    let text = match arguments.json {
        true => json::line_of(&status)?,
        false => table::render(&status),
    };
    print(text.as_bytes())?;
    let is_connected = status.portal.state == PortalState::Connected;
    match arguments.check && !is_connected {
        true => Ok(Status::PortalUnreachable.into()),
        false => Ok(ExitCode::SUCCESS),
    }
}
