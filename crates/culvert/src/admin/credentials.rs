//! The administrator's token: from a file, from the environment, or as it was saved.

use crate::exit::{Failure, Status};
use crate::token_input::{not_enrolled, read};
use culvert_host::{FileRefusal, HostError, StateDir, read_token_file};
use culvert_wire::token::{Portal, Token, TokenError, TokenKind, pasted};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The variable that may hold the token itself.
const TOKEN_VARIABLE: &str = "CULVERT_ADMIN_TOKEN";

/// The name of the file that keeps the token.
const SAVED_FILE: &str = "admin.token";

/// The API token that a command acts by: from the file that was named, else from the environment, else
/// as it was saved.
pub(super) fn api_token(named: Option<&Path>) -> Result<Token, Failure> {
    let text = match named {
        Some(path) => read(path)?,
        None => match std::env::var_os(TOKEN_VARIABLE) {
            Some(value) => {
                let text = value.into_string().map(Zeroizing::new);
                text.map_err(|_| not_enrolled("CULVERT_ADMIN_TOKEN is no token"))?
            }
            None => saved()?,
        },
    };
    parse(&text, TokenKind::Api)
}

/// A token of that kind out of the file that was named.
pub(super) fn named_token(named: Option<&Path>, kind: TokenKind) -> Result<Token, Failure> {
    let Some(path) = named else {
        return Err(Failure::new(
            Status::Usage,
            format_args!(
                "name the file with the {kind} token by --token-file FILE, or give the token to \
                 standard input with --token-file -"
            ),
        ));
    };
    parse(&read(path)?, kind)
}

/// The portal that the token leads to, unless another address of it is named.
pub(super) fn portal_of(token: &Token, url: Option<&str>) -> Result<Portal, Failure> {
    let pin = token.portal.as_ref().and_then(|portal| portal.pin);
    match (url, &token.portal) {
        (Some(url), _) => Portal::new(url, pin).map_err(|error| Failure::new(Status::Usage, error)),
        (None, Some(portal)) => Ok(portal.clone()),
        (None, None) => Err(Failure::new(
            Status::Usage,
            "the token does not say where the portal is: name it by --portal https://HOST[:PORT]",
        )),
    }
}

fn parse(text: &str, kind: TokenKind) -> Result<Token, Failure> {
    Token::parse_as(pasted(text), kind).map_err(|error: TokenError| not_enrolled(error))
}

fn saved() -> Result<Zeroizing<String>, Failure> {
    let path = Profile::path()?;
    match read_token_file(&path) {
        Ok(token) => Ok(Zeroizing::new(token.expose().to_owned())),
        Err(HostError::FileRefused(refused)) if refused.refusal == FileRefusal::Missing => {
            Err(not_enrolled(
                "no API token: keep one by `culvert admin login --token-file -`, or name it by \
                 --token-file FILE or CULVERT_ADMIN_TOKEN; a new portal prints the command for its \
                 set-up",
            ))
        }
        Err(error) => Err(not_enrolled(error)),
    }
}

/// The place in which a token is kept for later commands.
pub(super) struct Profile {
    dir: StateDir,
}

impl Profile {
    /// `~/.config/culvert/admin.token`, or below `XDG_CONFIG_HOME`.
    pub(super) fn path() -> Result<PathBuf, Failure> {
        Ok(Self::directory()?.join(SAVED_FILE))
    }

    fn directory() -> Result<PathBuf, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let base = match (variable("XDG_CONFIG_HOME"), variable("HOME")) {
            (Some(config), _) => PathBuf::from(config),
            (None, Some(home)) => Path::new(&home).join(".config"),
            (None, None) => {
                return Err(Failure::new(
                    Status::NotEnrolled,
                    "HOME is not set, so there is no place for a saved token: use --token-file FILE",
                ));
            }
        };
        Ok(base.join("culvert"))
    }

    /// Opens the directory, or makes it.
    pub(super) fn open() -> Result<Self, Failure> {
        let dir = StateDir::open(&Self::directory()?).map_err(failed)?;
        Ok(Self { dir })
    }

    /// Refuses to take the place of a token that is there already; `other_way` is what else to do than to
    /// keep it elsewhere.
    pub(super) fn refuse_if_taken(&self, other_way: &str) -> Result<(), Failure> {
        match self.dir.read(SAVED_FILE).map_err(failed)? {
            None => Ok(()),
            Some(_) => Err(Failure::new(
                Status::Failed,
                format_args!(
                    "{} holds a token already, which may be the only one of its portal: keep it \
                     elsewhere, or {other_way}",
                    Self::path()?.display()
                ),
            )),
        }
    }

    /// Keeps the token, closed to everyone else.
    pub(super) fn save(&self, token: &str) -> Result<(), Failure> {
        let line = Zeroizing::new(format!("{token}\n"));
        self.dir.write(SAVED_FILE, line.as_bytes()).map_err(failed)
    }

    /// Forgets it.
    pub(super) fn forget(&self) -> Result<(), Failure> {
        self.dir.remove(SAVED_FILE).map_err(failed)
    }
}

fn failed(error: HostError) -> Failure {
    Failure::new(Status::Failed, error)
}

/// A new file for a secret, closed to everyone else. It is made before the secret is, so that none is
/// made which nobody gets; unless it is written, it is removed again.
pub(crate) struct SecretFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl SecretFile {
    /// Makes the file, which must not be there.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let fix = match error.kind() {
                std::io::ErrorKind::AlreadyExists => "; remove it first, or name another",
                _ => "",
            };
            Failure::new(
                Status::Failed,
                format_args!("{}: {error}{fix}", path.display()),
            )
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let made = Self {
            path: path.to_owned(),
            file,
            is_written: false,
        };
        // The umask may have taken rights from the owner.
        let mode = std::fs::Permissions::from_mode(0o600);
        made.file.set_permissions(mode).map_err(failed)?;
        Ok(made)
    }

    /// Writes the secret as a line, and waits until it is on the disk.
    pub(crate) fn write(mut self, secret: &str) -> Result<PathBuf, Failure> {
        let line = Zeroizing::new(format!("{secret}\n"));
        let written = self.file.write_all(line.as_bytes());
        let written = written.and_then(|()| self.file.sync_all());
        written.map_err(|error| {
            let path = self.path.display();
            Failure::new(Status::Failed, format_args!("{path}: {error}"))
        })?;
        self.is_written = true;
        Ok(self.path.clone())
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if !self.is_written {
            // An empty or cut file is of no use; that it stays would be no harm.
            let _left = std::fs::remove_file(&self.path);
        }
    }
}
