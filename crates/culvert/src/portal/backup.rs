//! `culvert portal backup` and `culvert portal restore`.

use super::{EXIT_STATUS, StateArguments, failure};
use crate::exit::{Failure, print_ahead};
use clap::Args;
use culvert_portal::Home;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write all that the portal needs to come back into one file
///
/// The portal may be running, and others may change things meanwhile: the file holds what was so at
/// one instant. It is as secret as the portal itself, has mode 0600, and replaces no other. A
/// certificate that was given with --cert is not in it. Run it as the portal's user, on its machine.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = BACKUP_EXAMPLES)]
pub(super) struct BackupArguments {
    /// The file to write; there must be none of that name
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    state: StateArguments,
}

/// Make a portal's state directory from a backup
///
/// The directory must be empty or missing. Start the portal on it afterwards, where machines find it
/// at the URL that it had. What was changed after the backup is undone by it: tokens and machines
/// that were revoked since are accepted again.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RESTORE_EXAMPLES)]
pub(super) struct RestoreArguments {
    /// A file that "culvert portal backup" has made
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    state: StateArguments,
}

const BACKUP_EXAMPLES: &str = "\
Examples:
  culvert portal backup --state-dir ./portal portal.backup

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

const RESTORE_EXAMPLES: &str = "\
Examples:
  culvert portal restore --state-dir ./portal portal.backup

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

pub(super) async fn back_up(arguments: &BackupArguments) -> Result<ExitCode, Failure> {
    let home = Home::open_beside(&arguments.state.state_dir).map_err(failure)?;
    home.back_up(&arguments.file).await.map_err(failure)?;
    let file = arguments.file.display();
    let done = format!("{file} holds the portal. Keep it as secret as the portal itself.\n");
    print_ahead(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Failure> {
    let state_dir = &arguments.state.state_dir;
    let home = Home::restore(state_dir, &arguments.file).await;
    let home = home.map_err(failure)?;
    let mut done = format!("{} holds the portal of the backup.", state_dir.display());
    if let Some(portal) = home.whereabouts().map_err(failure)? {
        done += &format!(" Machines look for it at {}.", portal.url);
    }
    done += "\n";
    print_ahead(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
