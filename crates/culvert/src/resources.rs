//! `culvert resources`: what the client on this machine may ask for.

use crate::exit::{Failure, print};
use crate::json;
use crate::service_socket::ClientSocket;
use crate::status::{self, table};
use clap::Args;
use culvert_client::status::{ResourceStatus, UnreadableStatus};
use serde::Serialize;
use std::process::ExitCode;

/// Show the resources that the client on this machine knows, and whether there is access or why not
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct ResourcesArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: ClientSocket,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no client answers, or something failed
  2  the command line is wrong";

const EXAMPLES: &str = "\
Examples:
  culvert resources
  culvert resources --json | jq -r '.resources[] | select(.state == \"granted\") | .name'

Exit status:
  0  done
  1  no client answers, or something failed
  2  the command line is wrong";

/// The part of a status that is about resources, in the same form.
#[derive(Serialize)]
struct Resources<'a> {
    resources: &'a [ResourceStatus],
    unreadable: &'a [UnreadableStatus],
    /// True while the portal lists them: some may be missing yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    listing: bool,
}

/// Carries out `culvert resources`.
pub(crate) fn run(arguments: &ResourcesArguments) -> Result<ExitCode, Failure> {
    let status = status::ask(&arguments.socket.path()?)?;
    let text = match arguments.json {
        true => json::line(&Resources {
            resources: &status.resources,
            unreadable: &status.unreadable,
            listing: status.portal.listing,
        })?,
        false => table::render_resources(&status),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
