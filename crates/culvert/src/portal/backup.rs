//! `culvert portal backup` and `culvert portal restore`.

use super::common::{EXIT_STATUS, StateArguments, failure, print_json_line, print_json_line_ahead};
use crate::exit::{Failure, Status, print_ahead};
use clap::Args;
use culvert_age::{Identity, KeyError, Recipient, parse_identities, parse_recipients};
use culvert_host::read_private_text;
use culvert_portal::Home;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write all that the portal needs to come back into one file
///
/// The portal may be running, and others may change things meanwhile: the file holds the state of
/// one instant. It is as secret as the portal itself, has mode 0600, and replaces no other. A
/// certificate that was given with --cert is not in it. Run it as the portal's user, on its machine.
///
/// With --recipient the file is encrypted as the program age does it, and no disk holds it in plain.
/// This takes memory of about twice the size of the database. Keep the identity on another machine.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = BACKUP_EXAMPLES)]
pub(super) struct BackupArguments {
    /// The file to write; there must be none of that name
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Encrypt it to this X25519 recipient of age (age1…); may be repeated
    #[arg(long, value_name = "RECIPIENT")]
    recipient: Vec<Recipient>,

    /// Encrypt it to the recipients in FILE, one a line; may be repeated
    #[arg(long, value_name = "FILE")]
    recipient_file: Vec<PathBuf>,

    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    state: StateArguments,
}

/// A backup that was made, for scripts.
#[derive(Debug, Serialize)]
struct Made {
    file: String,
    size_bytes: u64,
    /// To whom it is encrypted; an empty list: to nobody.
    recipients: Vec<String>,
    /// The key that encrypts the secrets in it, which is not in it.
    secrets_key: Option<String>,
}

/// A portal that was restored, for scripts.
#[derive(Debug, Serialize)]
struct Restored {
    state_dir: PathBuf,
    /// The URL at which machines look for it; none if it never ran.
    url: Option<String>,
    /// The key that its secrets are encrypted with, which no backup has.
    secrets_key: Option<String>,
}

/// Make a portal's state directory from a backup
///
/// The directory must be empty or missing. Start the portal on it afterwards, where machines find
/// it at the URL that it had. The restore undoes every change made after the backup: tokens and
/// machines that were revoked since are accepted again.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RESTORE_EXAMPLES)]
pub(super) struct RestoreArguments {
    /// A file that "culvert portal backup" has made
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Decrypt it with the identities in FILE, as age-keygen writes it; may be repeated
    ///
    /// FILE must belong to root or to you, with mode 0600.
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,

    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    state: StateArguments,
}

const BACKUP_EXAMPLES: &str = "\
Examples:
  Plain:
    culvert portal backup --state-dir ./portal portal.backup

  Encrypted, with an identity that is made and kept on another machine:
    age-keygen -o backup.key
    age-keygen -y backup.key > backup.pub
    culvert portal backup --recipient-file backup.pub portal.backup.age

  For scripts:
    culvert portal backup --json portal.backup | jq -r .size_bytes

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

const RESTORE_EXAMPLES: &str = "\
Examples:
  culvert portal restore --state-dir ./portal portal.backup
  culvert portal restore --identity backup.key portal.backup.age

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

pub(super) async fn back_up(arguments: &BackupArguments) -> Result<ExitCode, Failure> {
    let recipients = recipients(arguments)?;
    let home = Home::open_beside(&arguments.state.state_dir).map_err(failure)?;
    home.expect_file().map_err(failure)?;
    let made = home.back_up(&recipients, &arguments.file).await;
    made.map_err(failure)?;
    let file = arguments.file.display();
    let key = home.secrets_status(None).await.map_err(failure)?.key;
    if arguments.json {
        let size = std::fs::metadata(&arguments.file).map(|found| found.len());
        let size_bytes =
            size.map_err(|error| Failure::new(Status::Failed, format_args!("{file}: {error}")))?;
        print_json_line(&Made {
            file: file.to_string(),
            size_bytes,
            recipients: recipients.iter().map(ToString::to_string).collect(),
            secrets_key: key.map(|key| key.to_string()),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut done = match recipients.len() {
        0 => format!("{file} holds the portal. Keep it as secret as the portal itself.\n"),
        1 => format!("{file} holds the portal, encrypted to {}.\n", recipients[0]),
        number => format!("{file} holds the portal, encrypted to {number} recipients.\n"),
    };
    if let Some(key) = key {
        done += &format!("The key of its secrets, {key}, is not in it: keep a copy elsewhere.\n");
    }
    print_ahead(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Failure> {
    let identities = identities(arguments)?;
    let state_dir = &arguments.state.state_dir;
    let home = Home::restore(state_dir, &identities, &arguments.file).await;
    let home = home.map_err(failure)?;
    let portal = home.whereabouts().map_err(failure)?;
    let key = home.secrets_status(None).await.map_err(failure)?.key;
    if arguments.json {
        print_json_line_ahead(&Restored {
            state_dir: state_dir.clone(),
            url: portal.map(|portal| portal.url),
            secrets_key: key.map(|key| key.to_string()),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut done = format!("{} holds the portal of the backup.", state_dir.display());
    if let Some(portal) = portal {
        done += &format!(" Machines look for it at {}.", portal.url);
    }
    if let Some(key) = key {
        done += &format!(
            " Its secrets are encrypted with key {key}, which no backup has: start the portal with --secrets-key."
        );
    }
    done += "\n";
    print_ahead(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn recipients(arguments: &BackupArguments) -> Result<Vec<Recipient>, Failure> {
    let mut recipients = arguments.recipient.clone();
    for path in &arguments.recipient_file {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| {
            Failure::new(Status::Failed, format_args!("{}: {error}", path.display()))
        })?;
        recipients.extend(parse_recipients(&text).map_err(|fault| no_key(path, fault))?);
    }
    Ok(recipients)
}

fn identities(arguments: &RestoreArguments) -> Result<Vec<Identity>, Failure> {
    let mut identities = Vec::new();
    for path in &arguments.identity {
        let text = read_private_text(path);
        let text = text.map_err(|error| Failure::new(Status::Failed, error))?;
        let parsed = parse_identities(text.expose());
        identities.extend(parsed.map_err(|fault| no_key(path, fault))?);
    }
    Ok(identities)
}

/// Names the position, but not the text there: it may be a secret.
fn no_key(path: &Path, (line, error): (usize, KeyError)) -> Failure {
    let path = path.display();
    match line {
        0 => Failure::new(Status::Failed, format_args!("{path}: {error}")),
        line => Failure::new(Status::Failed, format_args!("{path}, line {line}: {error}")),
    }
}
