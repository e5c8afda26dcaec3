//! The HTTP proxy of a service, and its credentials: from a file or from the service manager, never from the command line.

use crate::exit::{Failure, Status};
use culvert_host::{
    FileRefusal, HostError, TokenText, read_password_credential, read_password_file,
};
use culvert_link::{HttpProxy, ProxyCredentials};
use std::path::{Path, PathBuf};

/// The variable with the directory of a unit's credentials, set by the service manager (systemd.exec(5)).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The credential `USER:PASSWORD`: `LoadCredential=proxy-credentials:FILE`.
const CREDENTIAL: &str = "proxy-credentials";

/// The default path of the file.
const USUAL_FILE: &str = "/etc/culvert/proxy-credentials";

/// The proxy, if there is one. Its credentials come from the file that is named, else from the service manager, else
/// from `/etc/culvert/proxy-credentials` where that is there. To be called before root is given up.
///
/// The URL is checked here and not by the parser of the command line, which would repeat one that holds a password.
pub(crate) fn proxy(
    url: Option<&str>,
    credentials_file: Option<&Path>,
) -> Result<Option<HttpProxy>, Failure> {
    let directory = std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from);
    Sources {
        url,
        named: credentials_file,
        directory: directory.as_deref(),
        usual: Path::new(USUAL_FILE),
    }
    .find()
}

struct Sources<'a> {
    url: Option<&'a str>,
    /// The file that was named.
    named: Option<&'a Path>,
    /// The service manager's directory of credentials.
    directory: Option<&'a Path>,
    usual: &'a Path,
}

impl Sources<'_> {
    fn find(&self) -> Result<Option<HttpProxy>, Failure> {
        let Some(url) = self.url else {
            return match self.named {
                Some(_) => Err(Failure::new(
                    Status::Usage,
                    "--proxy-credentials-file: there is no proxy; name it by --proxy http://HOST:PORT",
                )),
                None => Ok(None),
            };
        };
        let proxy: HttpProxy = url
            .parse()
            .map_err(|error| Failure::new(Status::Usage, format_args!("--proxy: {error}")))?;
        let credentials = self.credentials()?;
        Ok(Some(match credentials {
            Some(credentials) => proxy.with_credentials(credentials),
            None => proxy,
        }))
    }

    fn credentials(&self) -> Result<Option<ProxyCredentials>, Failure> {
        if let Some(path) = self.named {
            let text = read_password_file(path).map_err(|error| refused(&error))?;
            return parse(&text, path).map(Some);
        }
        if let Some(directory) = self.directory {
            // A unit whose credentials may be missing says so by empty ones.
            let text = optional(read_password_credential(directory, CREDENTIAL))?;
            if let Some(text) = text {
                return parse(&text, &directory.join(CREDENTIAL)).map(Some);
            }
        }
        let text = optional(read_password_file(self.usual))?;
        text.map(|text| parse(&text, self.usual)).transpose()
    }
}

fn optional(read: Result<TokenText, HostError>) -> Result<Option<TokenText>, Failure> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(HostError::FileRefused(file))
            if matches!(file.refusal, FileRefusal::Missing | FileRefusal::Empty) =>
        {
            Ok(None)
        }
        Err(error) => Err(refused(&error)),
    }
}

fn refused(error: &HostError) -> Failure {
    Failure::new(
        Status::Failed,
        format_args!("the proxy's credentials: {error}"),
    )
}

fn parse(text: &TokenText, path: &Path) -> Result<ProxyCredentials, Failure> {
    text.expose().parse().map_err(|error| {
        Failure::new(
            Status::Failed,
            format_args!("the proxy's credentials in {}: {error}", path.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const URL: &str = "http://proxy.example:3128";

    fn write(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn with(text: &str) -> Option<HttpProxy> {
        let proxy: HttpProxy = URL.parse().unwrap();
        Some(proxy.with_credentials(text.parse().unwrap()))
    }

    #[test]
    fn credentials_come_from_the_named_file_then_the_service_manager_then_the_usual_file() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let named = write(dir, "named", "named:secret word\n", 0o600);
        let usual = write(dir, "usual", "usual:secret\n", 0o600);
        let credential = write(dir, CREDENTIAL, "unit:secret word\n", 0o400);
        let sources = |named, directory| Sources {
            url: Some(URL),
            named,
            directory,
            usual: &usual,
        };
        let all = sources(Some(named.as_path()), Some(dir));
        assert_eq!(all.find().unwrap(), with("named:secret word"));
        let unit = sources(None, Some(dir));
        assert_eq!(unit.find().unwrap(), with("unit:secret word"));
        std::fs::set_permissions(&credential, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&credential, "\n").unwrap();
        assert_eq!(unit.find().unwrap(), with("usual:secret"));
        std::fs::remove_file(&usual).unwrap();
        assert_eq!(unit.find().unwrap(), Some(URL.parse().unwrap()));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_secret() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let nothing = dir.join("nothing");
        let find = |url, named| {
            let sources = Sources {
                url,
                named,
                directory: None,
                usual: &nothing,
            };
            sources.find().unwrap_err().to_string()
        };
        let open = write(dir, "open", "joe:secret\n", 0o644);
        let none = write(dir, "none", "secret\n", 0o600);
        for (error, expected) in [
            (
                find(Some("http://joe:secret@proxy:1"), None),
                "--proxy: expected",
            ),
            (find(None, Some(none.as_path())), "name it by --proxy"),
            (find(Some(URL), Some(nothing.as_path())), "nothing"),
            (find(Some(URL), Some(open.as_path())), "chmod"),
            (find(Some(URL), Some(none.as_path())), "USER:PASSWORD"),
        ] {
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let sources = Sources {
            url: None,
            named: None,
            directory: None,
            usual: &open,
        };
        assert_eq!(
            sources.find().unwrap(),
            None,
            "without a proxy, nothing is read"
        );
    }
}
