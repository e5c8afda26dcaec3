//! The source of a machine's token: a file, the environment, or the service manager.

use crate::exit::{Failure, Status};
use culvert_host::{FileRefusal, HostError, TokenText, read_credential, read_token_file};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// The variable that may hold the token itself.
const TOKEN_VARIABLE: &str = "CULVERT_TOKEN";

/// Says to the process that takes the place of this one that the token is its standard input.
const ON_INPUT_VARIABLE: &str = "CULVERT_TOKEN_ON_INPUT";

/// The variable with the directory of a unit's credentials, set by the service manager
/// (systemd.exec(5)).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The credential that is the token: `LoadCredential=token:FILE`.
const CREDENTIAL: &str = "token";

/// The longest token that is taken from the environment, in bytes: as long as one in a file. A pipe
/// holds it whole.
const MAX_TOKEN_LEN: u64 = 4096;

/// A token, and where it comes from in words.
pub(crate) struct Found {
    pub(crate) token: Zeroizing<String>,
    pub(crate) source: String,
}

/// The sources of a token, in the order of the search. The first that is there
/// counts: one that is refused does not make another one count.
struct Sources<'a> {
    /// The file that was named.
    named: Option<&'a Path>,
    /// CULVERT_TOKEN.
    variable: Option<OsString>,
    /// The service manager's directory of credentials.
    credentials: Option<PathBuf>,
    /// The file where it lies unless it is said otherwise.
    usual: &'a Path,
}

/// The token: from the file that was named, else from CULVERT_TOKEN, else the credential `token` of the
/// service manager, else from `usual`; nothing where none of the three was named and `usual` is not
/// there. `program` says whose token it is, for the fix.
///
/// A process cannot take a variable out of the environment that the kernel shows others of it. One
/// that was started with CULVERT_TOKEN therefore starts itself anew without it and hands the token on
/// through a pipe. To be called before there are threads.
pub(crate) fn token(
    named: Option<&Path>,
    usual: &Path,
    program: &str,
) -> Result<Option<Found>, Failure> {
    if named.is_none() && std::env::var_os(ON_INPUT_VARIABLE).is_some() {
        return Ok(Some(Found {
            token: from_input()?,
            source: TOKEN_VARIABLE.to_owned(),
        }));
    }
    let sources = Sources {
        named,
        variable: std::env::var_os(TOKEN_VARIABLE),
        credentials: std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from),
        usual,
    };
    sources.find(program, start_anew)
}

/// True if the environment holds the token itself, or did before this process replaced itself.
pub(crate) fn is_in_environment() -> bool {
    [TOKEN_VARIABLE, ON_INPUT_VARIABLE]
        .iter()
        .any(|variable| std::env::var_os(variable).is_some())
}

impl Sources<'_> {
    /// The token; one of the environment goes to `start_anew`, which does not come back unless it
    /// fails.
    fn find(
        self,
        program: &str,
        start_anew: impl Fn(&str) -> Failure,
    ) -> Result<Option<Found>, Failure> {
        if let Some(path) = self.named {
            let found = from_file(path)?;
            return found.map(Some).ok_or_else(|| missing(path, program));
        }
        if let Some(token) = self.variable {
            let token = token.into_string().map(Zeroizing::new);
            let token = token.map_err(|_| no_token("CULVERT_TOKEN is no token"))?;
            return Err(start_anew(&token));
        }
        if let Some(directory) = self.credentials {
            match read_credential(&directory, CREDENTIAL) {
                // A unit whose token may be missing says so by an empty one (`SetCredential=token:`).
                Err(error) if is_missing(&error) || is_empty(&error) => {}
                Err(error) => {
                    return Err(no_token(format_args!(
                        "the service manager's credential `{CREDENTIAL}`: {error}; have systemd make \
                         it, by LoadCredential={CREDENTIAL}:FILE"
                    )));
                }
                Ok(token) => {
                    let path = directory.join(CREDENTIAL);
                    return Ok(Some(found(&token, &path)));
                }
            }
        }
        from_file(self.usual)
    }
}

/// That a token is missing that has to be there.
pub(crate) fn missing(path: &Path, program: &str) -> Failure {
    let path = path.display();
    no_token(format_args!(
        "no token: {path} does not exist; write the {program}'s token into it (chmod 600), or name \
         another file by --token-file"
    ))
}

/// Nothing where there is no such file.
fn from_file(path: &Path) -> Result<Option<Found>, Failure> {
    match read_token_file(path) {
        Ok(token) => Ok(Some(found(&token, path))),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(no_token(error)),
    }
}

fn found(token: &TokenText, path: &Path) -> Found {
    Found {
        token: Zeroizing::new(token.expose().to_owned()),
        source: path.display().to_string(),
    }
}

fn is_missing(error: &HostError) -> bool {
    matches!(error, HostError::FileRefused(refused) if refused.refusal == FileRefusal::Missing)
}

fn is_empty(error: &HostError) -> bool {
    matches!(error, HostError::FileRefused(refused) if refused.refusal == FileRefusal::Empty)
}

fn no_token(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::NotEnrolled, message)
}

fn from_input() -> Result<Zeroizing<String>, Failure> {
    let mut token = Zeroizing::new(String::with_capacity(MAX_TOKEN_LEN as usize));
    let mut input = std::io::stdin().lock().take(MAX_TOKEN_LEN);
    let read = input.read_to_string(&mut token);
    read.map_err(|error| Failure::io("reading the token", &error))?;
    Ok(token)
}

/// Only returns where it fails.
fn start_anew(token: &str) -> Failure {
    if token.len() as u64 > MAX_TOKEN_LEN {
        return no_token("CULVERT_TOKEN is longer than a token; copy it whole and alone");
    }
    let started = std::io::pipe().and_then(|(reader, mut writer)| {
        writer.write_all(token.as_bytes())?;
        drop(writer);
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command
            .args(std::env::args_os().skip(1))
            .env_remove(TOKEN_VARIABLE)
            .env(ON_INPUT_VARIABLE, "1")
            .stdin(Stdio::from(reader));
        Err::<(), _>(command.exec())
    });
    match started {
        Err(error) => Failure::io("starting without CULVERT_TOKEN in the environment", &error),
        Ok(()) => no_token("CULVERT_TOKEN could not be handed on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The result as `source: token`, or the error.
    fn find(sources: Sources<'_>) -> String {
        let handed_on = |token: &str| no_token(format_args!("handed on: {token}"));
        match sources.find("client", handed_on) {
            Ok(Some(found)) => format!("{}: {}", found.source, *found.token),
            Ok(None) => "none".to_owned(),
            Err(failure) => failure.to_string(),
        }
    }

    fn write(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, format!("{name}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_file_that_is_named_goes_before_the_variable_the_credential_and_the_usual_file() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let (named, usual) = (write(dir, "named", 0o600), write(dir, "usual", 0o600));
        let credential = write(dir, CREDENTIAL, 0o400);
        let sources = |named, variable: Option<&str>, credentials: Option<&Path>| Sources {
            named,
            variable: variable.map(OsString::from),
            credentials: credentials.map(Path::to_owned),
            usual: &usual,
        };
        let at = |path: &Path, token: &str| format!("{}: {token}", path.display());
        let all = sources(Some(&named), Some("variable"), Some(dir));
        assert_eq!(find(all), at(&named, "named"));
        let from_variable = sources(None, Some("variable"), Some(dir));
        assert_eq!(find(from_variable), "handed on: variable");
        assert_eq!(
            find(sources(None, None, Some(dir))),
            at(&credential, "token")
        );
        assert_eq!(find(sources(None, None, None)), at(&usual, "usual"));
        let empty: fn(&Path) -> std::io::Result<()> = |path| std::fs::write(path, "");
        for lose in [empty, |path: &Path| std::fs::remove_file(path)] {
            lose(&credential).unwrap();
            let other_credentials = sources(None, None, Some(dir));
            assert_eq!(find(other_credentials), at(&usual, "usual"));
        }
    }

    #[test]
    fn that_nothing_is_there_is_no_error_unless_a_file_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("token");
        let sources = |named| Sources {
            named,
            variable: None,
            credentials: None,
            usual: &missing,
        };
        assert_eq!(find(sources(None)), "none");
        let error = find(sources(Some(&missing)));
        assert!(error.contains("does not exist"), "{error}");
    }

    #[test]
    fn a_credential_that_is_refused_does_not_make_the_usual_file_count_and_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let usual = write(dir, "usual", 0o600);
        write(dir, CREDENTIAL, 0o444);
        let error = find(Sources {
            named: None,
            variable: None,
            credentials: Some(dir.to_owned()),
            usual: &usual,
        });
        for part in ["credential `token`", "mode 0444", "LoadCredential=token:"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
