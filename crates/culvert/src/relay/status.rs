//! `culvert relay status`: what a running relay does.

use super::table;
use crate::exit::{Failure, Status, print};
use crate::service_socket;
use clap::Args;
use culvert_relay::status::PortalState;
use culvert_relay::{StatusError, ask_status};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what the relay on this machine does: portal, gateways, load, drops
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(super) struct StatusArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// End with status 4 unless the relay is connected to the portal
    #[arg(long)]
    check: bool,

    /// Socket of the relay [default: as /etc/culvert/relay.toml says, otherwise
    /// /run/culvert/relay.sock]
    #[arg(long, value_name = "PATH", env = "CULVERT_RELAY_STATUS_SOCKET")]
    socket: Option<PathBuf>,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no relay answers, or something failed
  2  the command line is wrong
  4  the relay is not connected to the portal (with --check)";

const EXAMPLES: &str = "\
Examples:
  culvert relay status
  culvert relay status --json | jq '.gateways[] | {port, gateway, clients}'
  culvert relay status --check && echo connected

Exit status:
  0  done
  1  no relay answers, or something failed
  2  the command line is wrong
  4  the relay is not connected to the portal (with --check)";

/// Carries out `culvert relay status`.
pub(super) fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let socket = service_socket::of_relay(arguments.socket.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))?;
    let status = runtime.block_on(ask_status(&socket));
    let status = status.map_err(|error: StatusError| Failure::new(Status::Failed, error))?;
    let text = match arguments.json {
        true => crate::json::line_of(&status)?,
        false => table::render(&status),
    };
    print(text.as_bytes())?;
    let is_connected = status.portal.state == PortalState::Connected;
    match arguments.check && !is_connected {
        true => Ok(Status::PortalUnreachable.into()),
        false => Ok(ExitCode::SUCCESS),
    }
}
