//! The database of a portal: a file in its state directory, or one of a PostgreSQL server.

use super::common::failure;
use crate::exit::{Failure, Status};
use clap::Args;
use culvert_host::{FileRefusal, HostError, TokenText, read_credential, read_token_file};
use culvert_portal::Home;
use culvert_store::{PageLimit, Store};
use culvert_store_sql::{PostgresOptions, SecretsAccess, SqlStore, SqliteOptions, StoreOptions};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of a unit's credentials, set by the service manager (systemd.exec(5)).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The credential that is the URL: `LoadCredential=database-url:FILE`.
const CREDENTIAL: &str = "database-url";

#[derive(Clone, Debug, Args)]
pub(super) struct DatabaseArguments {
    /// The database on a PostgreSQL server (14 or later), instead of a file in --state-dir
    ///
    /// For example postgres://culvert@db.example.com/culvert. A server on another machine must prove its name by
    /// its certificate (sslmode=verify-full) unless the URL says otherwise. A URL with a password belongs in a file:
    /// see --database-file.
    #[arg(
        long,
        value_name = "URL",
        env = "CULVERT_PORTAL_DATABASE",
        conflicts_with = "database_file"
    )]
    database: Option<String>,

    /// A file with the URL of the database, which may have a password in it
    ///
    /// FILE must belong to root or to you, with mode 0600. Without this option and --database it is the credential
    /// "database-url" of the service manager, if there is one.
    #[arg(long, value_name = "FILE", env = "CULVERT_PORTAL_DATABASE_FILE")]
    database_file: Option<PathBuf>,
}

/// The address from which this machine reaches a server. Nothing is sent.
fn address_towards((host, port): (&str, u16)) -> Option<IpAddr> {
    let server = (host, port).to_socket_addrs().ok()?.next()?;
    let any: IpAddr = match server {
        std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The state directory and the open database of a portal.
pub(super) struct Opened {
    pub(super) home: Home,
    pub(super) store: Arc<dyn Store>,
    /// The address of this machine on the way to the database's server.
    pub(super) outward: Option<IpAddr>,
}

impl DatabaseArguments {
    /// Opens state directory and database for the portal itself.
    pub(super) async fn open(
        &self,
        state_dir: &Path,
        secrets: SecretsAccess,
    ) -> Result<Opened, Failure> {
        let Some(options) = self.postgres()? else {
            let home = Home::open(state_dir).map_err(failure)?;
            let store = open_file(&home, secrets).await?;
            let outward = None;
            return Ok(Opened {
                home,
                store,
                outward,
            });
        };
        let place = options.to_string();
        let outward = options.server().and_then(address_towards);
        let home = Home::open_on_postgres(state_dir).map_err(failure)?;
        let store = open_store(&place, options.secrets(secrets).portal()).await?;
        // Before the first start says where the portal is, there is an account.
        if home.whereabouts().map_err(failure)?.is_some() {
            let accounts = store.accounts(None, PageLimit::new(1)).await;
            let accounts = accounts.map_err(|error| failed(&place, error))?;
            if accounts.items.is_empty() {
                return Err(failed(
                    &place,
                    "it is empty, although a portal has run here; name the right one, restore it, or give \
                     another --state-dir to begin anew",
                ));
            }
        }
        home.note_postgres(&place).map_err(failure)?;
        Ok(Opened {
            home,
            store,
            outward,
        })
    }

    /// Opens the database beside a portal that may be running, without access to secrets.
    pub(super) async fn open_beside(&self, home: &Home) -> Result<Arc<dyn Store>, Failure> {
        self.open_with(home, SecretsAccess::Nothing).await
    }

    /// The same with access to secrets.
    pub(super) async fn open_with(
        &self,
        home: &Home,
        secrets: SecretsAccess,
    ) -> Result<Arc<dyn Store>, Failure> {
        match self.postgres()? {
            Some(options) => open_store(&options.to_string(), options.secrets(secrets)).await,
            None => {
                home.expect_file().map_err(failure)?;
                open_file(home, secrets).await
            }
        }
    }

    /// The options where another one names the URL.
    pub(super) fn with_url(&self, url: &str) -> Result<Self, Failure> {
        if self.database.is_some() || self.database_file.is_some() {
            return Err(Failure::new(
                Status::Usage,
                "two databases are named: give a URL, or --database or --database-file",
            ));
        }
        Ok(Self {
            database: Some(url.to_owned()),
            database_file: None,
        })
    }

    /// The options as they are given again.
    pub(super) fn words(&self) -> Vec<String> {
        match (&self.database, &self.database_file) {
            (Some(url), _) => vec!["--database".to_owned(), url.clone()],
            (None, Some(path)) => vec!["--database-file".to_owned(), path.display().to_string()],
            (None, None) => Vec::new(),
        }
    }

    /// The database on a server; none if it is a file.
    pub(super) fn postgres(&self) -> Result<Option<PostgresOptions>, Failure> {
        let credentials = std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from);
        let text = match (&self.database, &self.database_file) {
            (Some(url), _) if PostgresOptions::has_password(url) => {
                return Err(Failure::new(
                    Status::Usage,
                    "the URL has a password, which every user of this machine sees there; write the URL into a file with \
                     mode 0600, and name that (--database-file FILE)",
                ));
            }
            (Some(url), _) => return parse(url, Status::Usage).map(Some),
            (None, Some(path)) => read_token_file(path).map_err(|error| {
                Failure::new(Status::Failed, format_args!("--database-file: {error}"))
            })?,
            (None, None) => match credential(credentials.as_deref())? {
                Some(text) => text,
                None => return Ok(None),
            },
        };
        parse(text.expose().trim(), Status::Failed).map(Some)
    }
}

fn parse(url: &str, status: Status) -> Result<PostgresOptions, Failure> {
    url.parse()
        .map_err(|error: culvert_store_sql::UrlError| Failure::new(status, error))
}

/// The URL that the service manager has, if any. A unit with an optional credential sets an empty one.
fn credential(directory: Option<&Path>) -> Result<Option<TokenText>, Failure> {
    let Some(directory) = directory else {
        return Ok(None);
    };
    match read_credential(directory, CREDENTIAL) {
        Ok(text) => Ok(Some(text)),
        Err(HostError::FileRefused(refused))
            if matches!(refused.refusal, FileRefusal::Missing | FileRefusal::Empty) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::new(
            Status::Failed,
            format_args!(
                "the service manager's credential `{CREDENTIAL}`: {error}; have systemd make it, by \
                 LoadCredential={CREDENTIAL}:FILE"
            ),
        )),
    }
}

async fn open_file(home: &Home, secrets: SecretsAccess) -> Result<Arc<dyn Store>, Failure> {
    let path = home.database_path();
    let options = SqliteOptions::file(&path).secrets(secrets);
    open_store(&path.display().to_string(), options).await
}

async fn open_store(
    place: &str,
    options: impl Into<StoreOptions>,
) -> Result<Arc<dyn Store>, Failure> {
    let store = SqlStore::open(options).await;
    let store = store.map_err(|error| failed(place, error))?;
    Ok(Arc::new(store))
}

fn failed(place: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::Failed, format_args!("database {place}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(database: Option<&str>, file: Option<&Path>) -> DatabaseArguments {
        DatabaseArguments {
            database: database.map(ToOwned::to_owned),
            database_file: file.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "postgres://culvert:hush-hush@localhost/culvert",
            "postgres://culvert@localhost/culvert?password=hush-hush",
        ] {
            let refused = of(Some(url), None).postgres().err().unwrap();
            let text = format!("{refused:?}");
            assert!(text.contains("--database-file"), "{text}");
            assert!(!text.contains("hush"), "{text}");
        }
        assert!(
            of(Some("postgres://culvert@localhost/culvert"), None)
                .postgres()
                .unwrap()
                .is_some()
        );
        assert!(of(None, None).postgres().unwrap().is_none());
    }

    #[test]
    fn a_url_with_a_password_is_read_from_a_file_that_nobody_else_reads() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("database.url");
        std::fs::write(&file, "postgres://culvert:hush-hush@localhost/culvert\n").unwrap();
        let set = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        set(0o644);
        let refused = format!("{:?}", of(None, Some(&file)).postgres().err().unwrap());
        assert!(
            refused.contains("database.url") && !refused.contains("hush"),
            "{refused}"
        );
        set(0o600);
        let options = of(None, Some(&file)).postgres().unwrap().unwrap();
        assert_eq!(options.to_string(), "culvert as culvert at localhost:5432");
    }
}
