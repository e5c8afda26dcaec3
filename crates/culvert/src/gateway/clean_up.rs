//! `culvert gateway cleanup`: the host as it was before a gateway that was killed.

use super::failure::failure;
use super::run_arguments::DEFAULT_STATUS_SOCKET;
use crate::client::{refuse_while_running, report};
use crate::exit::{Failure, Status};
use crate::routing_numbers::{mark, routing, table};
use clap::Args;
use culvert_host::{InterfaceName, Mark, Routing, Table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Undo what a gateway that was killed left on this machine
///
/// Removes rules, routes and the table of nftables. It is for a gateway that will not run again: one that
/// starts again takes over what is there. Doing it twice does no harm. Options that the gateway was started
/// with, such as --interface, are to be given here too. Forwarding stays as it is.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(super) struct CleanUpArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// The gateway's configuration file [default: /etc/culvert/gateway.toml, where there is one]
    #[arg(long, value_name = "FILE", env = "CULVERT_GATEWAY_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// The name of the tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_GATEWAY_INTERFACE",
        default_value = "culvert-gw0"
    )]
    interface: InterfaceName,

    /// Mark of the packets that carried the tunnel
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_MARK", value_parser = mark)]
    mark: Option<Mark>,

    /// Routing table for clients
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_TABLE", value_parser = table)]
    table: Option<Table>,

    /// Socket of a running gateway: nothing is undone while it answers
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_GATEWAY_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    status_socket: PathBuf,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done, or there was nothing to undo
  1  something failed, or a gateway runs
  2  the command line or the configuration file is wrong";

const EXAMPLES: &str = "\
Examples:
  culvert gateway cleanup

Exit status:
  0  done, or there was nothing to undo
  1  something failed, or a gateway runs
  2  the command line or the configuration file is wrong";

/// Carries out `culvert gateway cleanup`.
pub(super) fn run(arguments: &CleanUpArguments) -> Result<ExitCode, Failure> {
    refuse_while_running(&arguments.status_socket, "gateway")?;
    let routing = routing(Routing::GATEWAY, arguments.mark, arguments.table)
        .map_err(|error| Failure::new(Status::Usage, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))?;
    let removed = runtime.block_on(culvert_gateway::clean_up(&arguments.interface, &routing));
    report(&removed.map_err(|error| failure(&error))?, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}
