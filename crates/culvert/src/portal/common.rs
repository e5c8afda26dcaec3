//! Options, answers and failures that commands about a portal's data share.

use crate::exit::{Failure, Status, print, print_ahead};
use crate::json;
use clap::Args;
use culvert_portal::PortalError;
use serde::Serialize;
use std::path::PathBuf;

/// The default directory of a portal's data.
pub(super) const DEFAULT_STATE_DIR: &str = "/var/lib/culvert/portal";

#[derive(Debug, Args)]
pub(super) struct StateArguments {
    /// Directory of the portal's database and certificate; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_PORTAL_STATE_DIR",
        default_value = DEFAULT_STATE_DIR
    )]
    pub(super) state_dir: PathBuf,
}

pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  done, or the portal ended as asked
  1  something failed
  2  the command line is wrong";

/// Prints one line of JSON.
pub(super) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print(json::line(value)?.as_bytes())
}

/// The same of what is done already, whoever reads it.
pub(super) fn print_json_line_ahead(value: &impl Serialize) -> Result<(), Failure> {
    print_ahead(json::line(value)?.as_bytes())
}

/// The failure that ends a command.
pub(super) fn failure(error: PortalError) -> Failure {
    let status = match error {
        PortalError::Url { .. } => Status::Usage,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}
