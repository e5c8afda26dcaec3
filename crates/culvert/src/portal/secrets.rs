//! `culvert portal secrets`: the key that encrypts the database's secrets.

use super::common::{EXIT_STATUS, StateArguments, failure, print_json_line, print_json_line_ahead};
use crate::exit::{Failure, Status, print, print_ahead};
use clap::{Args, Subcommand};
use culvert_host::{FileRefusal, HostError, TokenText, read_credential, read_token_file};
use culvert_portal::{Home, PortalError, new_secrets_key, sealer};
use culvert_secrets::SecretsKey;
use culvert_store_sql::SecretsStatus;
use culvert_store_sql::{Sealer, SecretsAccess};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The directory of a unit's credentials, set by the service manager (systemd.exec(5)).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The credential that is the key: `LoadCredential=secrets-key:FILE`.
const CREDENTIAL: &str = "secrets-key";

/// Help with these examples.
macro_rules! examples {
    ($($line:literal)+) => {
        concat!(
            "Examples:", $("\n", $line,)+
            "\n\nExit status:\n  0  done\n  1  something failed\n  2  the command line is wrong"
        )
    };
}

const EXAMPLES: &str = examples!(
    "  Encrypt the secrets of a portal, as the user that it runs as:"
    "    culvert portal secrets new-key portal-secrets.key"
    "    culvert portal secrets encrypt --secrets-key portal-secrets.key"
    "    culvert portal run --secrets-key portal-secrets.key"
    ""
    "  Another key:"
    "    culvert portal secrets new-key new.key"
    "    culvert portal secrets rotate --secrets-key portal-secrets.key --new-key new.key"
);
const NEW_KEY_EXAMPLES: &str = examples!("  culvert portal secrets new-key portal-secrets.key");
const ENCRYPT_EXAMPLES: &str =
    examples!("  culvert portal secrets encrypt --secrets-key portal-secrets.key");
const ROTATE_EXAMPLES: &str =
    examples!("  culvert portal secrets rotate --secrets-key portal-secrets.key --new-key new.key");
const DECRYPT_EXAMPLES: &str =
    examples!("  culvert portal secrets decrypt --secrets-key portal-secrets.key");
const STATUS_EXAMPLES: &str = examples!(
    "  culvert portal secrets status"
    "  culvert portal secrets status --secrets-key portal-secrets.key"
    "  culvert portal secrets status --json | jq -r .is_encrypted"
);

/// Encrypt the secrets in the database with a key that is not in it
///
/// Secrets are: the keys that sign grants and that pre-shared keys are derived from, the portal's
/// own TLS key, secrets of authenticator apps, secrets at identity providers, tokens of log sinks.
/// Sign-ins under way and forms that wait are encrypted too.
/// Without the key, a copy of the database or of a backup does not reveal them.
///
/// All commands but "status" and "new-key" need a portal that is stopped. One that is ended halfway leaves the secrets
/// as they were or as they are to be.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS,
    after_long_help = EXAMPLES
)]
pub(super) struct SecretsArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Make a key, in a new file with mode 0600
    ///
    /// Keep a copy of it apart from the portal and its backups: without the key, encrypted secrets are lost.
    #[command(after_help = EXIT_STATUS, after_long_help = NEW_KEY_EXAMPLES)]
    NewKey {
        /// The file to write; there must be none of that name
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Encrypt all secrets, which are in clear
    ///
    /// The database is written anew, so that its file and its log hold nothing of before. Backups of before,
    /// snapshots of the disk and cells of an SSD do.
    #[command(after_help = EXIT_STATUS, after_long_help = ENCRYPT_EXAMPLES)]
    Encrypt(KeyArguments),
    /// Encrypt all secrets with another key
    ///
    /// Backups of before still need the old key.
    #[command(after_help = EXIT_STATUS, after_long_help = ROTATE_EXAMPLES)]
    Rotate {
        #[command(flatten)]
        old: KeyArguments,
        /// The file of the new key
        #[arg(long, value_name = "FILE")]
        new_key: PathBuf,
    },
    /// Decrypt all secrets, so that the portal runs without a key
    #[command(after_help = EXIT_STATUS, after_long_help = DECRYPT_EXAMPLES)]
    Decrypt(KeyArguments),
    /// Say how secrets are kept, and with the key, whether all can be decrypted
    ///
    /// The portal may be running.
    #[command(after_help = EXIT_STATUS, after_long_help = STATUS_EXAMPLES)]
    Status(KeyArguments),
}

/// A new key, for scripts.
#[derive(Debug, Serialize)]
struct NewKey<'a> {
    file: &'a Path,
    key: String,
}

/// The change that was made to all secrets, for scripts.
#[derive(Debug, Serialize)]
struct Changed {
    is_encrypted: bool,
    key: Option<String>,
    /// The number of secrets.
    secrets: u64,
}

/// The protection of secrets, for scripts.
#[derive(Debug, Serialize)]
struct Told {
    is_encrypted: bool,
    key: Option<String>,
    /// True if all can be decrypted with the key that was given; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    can_be_decrypted: Option<bool>,
    /// True if no free page holds data from before they were encrypted.
    is_clean: bool,
    /// The number of secrets of each kind.
    secrets: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Args)]
struct KeyArguments {
    #[command(flatten)]
    key: KeySource,
    #[command(flatten)]
    state: StateArguments,
}

#[derive(Debug, Args)]
pub(super) struct KeySource {
    /// The key that encrypts the database's secrets
    ///
    /// FILE must belong to root or to you, with mode 0600. "culvert portal secrets new-key" makes one. Without
    /// this option it is the credential "secrets-key" of the service manager, if there is one.
    #[arg(long, value_name = "FILE", env = "CULVERT_PORTAL_SECRETS_KEY")]
    secrets_key: Option<PathBuf>,
}

impl KeySource {
    /// The key of the named file, else the service manager's, else none.
    pub(super) fn access(&self) -> Result<SecretsAccess, Failure> {
        let credentials = std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from);
        let key = self.find(credentials.as_deref())?;
        Ok(key.map_or(SecretsAccess::Plain, SecretsAccess::Key))
    }

    fn required(&self) -> Result<Sealer, Failure> {
        match self.access()? {
            SecretsAccess::Key(key) => Ok(key),
            _ => Err(Failure::new(
                Status::Usage,
                "no key: name its file (--secrets-key FILE); `culvert portal secrets new-key FILE` makes one",
            )),
        }
    }

    fn find(&self, credentials: Option<&Path>) -> Result<Option<Sealer>, Failure> {
        if let Some(path) = &self.secrets_key {
            return read_key(path).map(Some);
        }
        let Some(directory) = credentials else {
            return Ok(None);
        };
        let path = directory.join(CREDENTIAL);
        match read_credential(directory, CREDENTIAL) {
            Ok(text) => parse(&text, &path).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Failure::new(
                Status::Failed,
                format_args!(
                    "the service manager's credential `{CREDENTIAL}`: {error}; have systemd make it, by \
                     LoadCredential={CREDENTIAL}:FILE"
                ),
            )),
        }
    }
}

/// A unit with an optional credential sets an empty one (`SetCredential=secrets-key:`).
fn is_absent(error: &HostError) -> bool {
    let absent = [FileRefusal::Missing, FileRefusal::Empty];
    matches!(error, HostError::FileRefused(refused) if absent.contains(&refused.refusal))
}

fn read_key(path: &Path) -> Result<Sealer, Failure> {
    let text = read_token_file(path);
    let text = text
        .map_err(|error| Failure::new(Status::Failed, format_args!("key of secrets: {error}")))?;
    parse(&text, path)
}

/// Names the position, but not the text there: it may be another secret.
fn parse(text: &TokenText, path: &Path) -> Result<Sealer, Failure> {
    let key = text.expose().parse::<SecretsKey>();
    let key = key
        .map_err(|error| Failure::new(Status::Failed, format_args!("{}: {error}", path.display())));
    key.map(sealer)
}

pub(super) async fn run(arguments: SecretsArguments) -> Result<ExitCode, Failure> {
    let json = arguments.json;
    match arguments.command {
        SecretsCommand::NewKey { file } if json => {
            let key = make_key(&file)?;
            print_json_line_ahead(&NewKey { file: &file, key })?;
        }
        SecretsCommand::NewKey { file } => print_ahead(new_key(&file)?.as_bytes())?,
        SecretsCommand::Encrypt(arguments) => {
            let (key, home) = (arguments.key.required()?, stopped(&arguments)?);
            let done = home.encrypt_secrets(&key).await;
            let done = done.map_err(|error| failed(&home, error))?;
            say_changed(&done, Some(&key), json)?;
        }
        SecretsCommand::Rotate { old, new_key } => {
            let (from, to) = (old.key.required()?, read_key(&new_key)?);
            let home = stopped(&old)?;
            let done = home.rotate_secrets(&from, &to).await;
            let done = done.map_err(|error| failed(&home, error))?;
            say_changed(&done, Some(&to), json)?;
        }
        SecretsCommand::Decrypt(arguments) => {
            let (key, home) = (arguments.key.required()?, stopped(&arguments)?);
            let done = home.decrypt_secrets(&key).await;
            let done = done.map_err(|error| failed(&home, error))?;
            say_changed(&done, None, json)?;
        }
        SecretsCommand::Status(of) => {
            let home = Home::open_beside(&of.state.state_dir).map_err(failure)?;
            home.expect_file().map_err(failure)?;
            let key = match of.key.access()? {
                SecretsAccess::Key(key) => Some(key),
                _ => None,
            };
            let found = home.secrets_status(key.as_ref()).await;
            let found = found.map_err(|error| failed(&home, error))?;
            match json {
                true => print_json_line(&told(&found, key.is_some()))?,
                false => print(status(&found, key.is_some()).as_bytes())?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what was done to all secrets; no key: they are in clear.
fn say_changed(status: &SecretsStatus, key: Option<&Sealer>, json: bool) -> Result<(), Failure> {
    let text = match (json, key) {
        (true, key) => {
            return print_json_line_ahead(&Changed {
                is_encrypted: key.is_some(),
                key: key.map(|key| key.key_id().to_string()),
                secrets: status.total(),
            });
        }
        (false, Some(key)) => encrypted(status, key),
        (false, None) => format!(
            "{} secrets are in clear. Start the portal without the key.\n",
            status.total()
        ),
    };
    print_ahead(text.as_bytes())
}

fn stopped(arguments: &KeyArguments) -> Result<Home, Failure> {
    Home::open_stopped(&arguments.state.state_dir).map_err(failure)
}

/// An error of the database says which one it is.
fn failed(home: &Home, error: PortalError) -> Failure {
    match error {
        PortalError::Store(error) => {
            let path = home.database_path();
            Failure::new(
                Status::Failed,
                format_args!("database {}: {error}", path.display()),
            )
        }
        error => failure(error),
    }
}

/// Makes a key. Returns its id.
fn make_key(path: &Path) -> Result<String, Failure> {
    let key = new_secrets_key().map_err(failure)?;
    let written = || -> io::Result<()> {
        let options = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .clone();
        let mut file = options.open(path)?;
        file.write_all(key.to_text().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
    };
    let file = path.display();
    written().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(
            Status::Failed,
            format_args!(
                "{file} exists: choose another name, since a key that is lost can't be made again"
            ),
        ),
        _ => Failure::new(Status::Failed, format_args!("{file}: {error}")),
    })?;
    Ok(key.id().to_string())
}

fn new_key(path: &Path) -> Result<String, Failure> {
    let (file, id) = (path.display(), make_key(path)?);
    Ok(format!(
        "{file} holds key {id}. Keep a copy of it apart from the portal and its backups.\n"
    ))
}

fn encrypted(status: &SecretsStatus, key: &Sealer) -> String {
    format!(
        "{} secrets are encrypted with key {}. Start the portal with --secrets-key, and keep a copy of the key \
         apart from the portal and its backups. Backups of before are as they were.\n",
        status.total(),
        key.key_id()
    )
}

fn told(status: &SecretsStatus, is_tested: bool) -> Told {
    Told {
        is_encrypted: status.key.is_some(),
        key: status.key.map(|key| key.to_string()),
        can_be_decrypted: (is_tested && status.key.is_some()).then_some(true),
        is_clean: status.is_clean,
        secrets: status.secrets.iter().copied().collect(),
    }
}

fn status(status: &SecretsStatus, is_tested: bool) -> String {
    let mut text = match status.key {
        None => "Secrets are not encrypted.\n".to_owned(),
        Some(key) if is_tested => {
            format!("Secrets are encrypted with key {key}; all can be decrypted.\n")
        }
        Some(key) => format!("Secrets are encrypted with key {key}.\n"),
    };
    if !status.is_clean {
        text += "Free pages may still hold what was there before: start the portal, or repeat \"culvert portal secrets encrypt\".\n";
    }
    for (contents, number) in &status.secrets {
        // A String takes all that is written to it.
        let _ = writeln!(text, "{number:>8}  {contents}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn named(path: &Path) -> KeySource {
        let secrets_key = Some(path.to_owned());
        KeySource { secrets_key }
    }

    #[test]
    fn a_new_key_is_in_a_file_of_its_owner_and_replaces_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let said = new_key(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = read_key(&path).unwrap();
        assert!(said.contains(&key.key_id().to_string()), "{said}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            !said.contains(text.trim().split(':').nth(1).unwrap()),
            "{said}"
        );
        let error = new_key(&path).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        new_key(&path).unwrap();
        let lax = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, lax).unwrap();
        let error = named(&path).required().unwrap_err().to_string();
        assert!(error.contains("mode 0644"), "{error}");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, private).unwrap();
        std::fs::write(&path, "another-secret\n").unwrap();
        let error = named(&path).required().unwrap_err().to_string();
        assert!(error.contains("no key of secrets"), "{error}");
        assert!(!error.contains("another-secret"), "{error}");
        let missing = directory.path().join("none");
        let error = named(&missing).required().unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{error}");
    }

    #[test]
    fn the_status_for_scripts_says_whether_all_can_be_decrypted_where_that_was_tried() {
        let found = |key: Option<culvert_secrets::KeyId>| SecretsStatus {
            key,
            is_clean: true,
            secrets: vec![("keys", 2)],
        };
        let plain = serde_json::to_value(told(&found(None), false)).unwrap();
        assert_eq!(plain["is_encrypted"], false);
        assert_eq!(plain["secrets"]["keys"], 2);
        assert!(plain.get("can_be_decrypted").is_none());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        new_key(&path).unwrap();
        let key = read_key(&path).unwrap().key_id();
        let tried = serde_json::to_value(told(&found(Some(key)), true)).unwrap();
        assert_eq!(tried["can_be_decrypted"], true);
        assert_eq!(tried["key"], key.to_string());
    }

    #[test]
    fn the_file_that_is_named_goes_before_the_credential() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (
            directory.path().join("key"),
            directory.path().join(CREDENTIAL),
        );
        new_key(&first).unwrap();
        let unnamed = KeySource { secrets_key: None };
        assert!(unnamed.find(None).unwrap().is_none());
        assert!(unnamed.find(Some(directory.path())).unwrap().is_none());
        new_key(&second).unwrap();
        let id = |key: Option<Sealer>| key.unwrap().key_id();
        let credential = id(unnamed.find(Some(directory.path())).unwrap());
        assert_eq!(credential, read_key(&second).unwrap().key_id());
        let file = id(named(&first).find(Some(directory.path())).unwrap());
        assert_eq!(file, read_key(&first).unwrap().key_id());
        std::fs::write(&second, "").unwrap();
        assert!(unnamed.find(Some(directory.path())).unwrap().is_none());
    }
}
