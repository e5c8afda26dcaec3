//! The URL of a database, and what is not said in it.

use crate::SecretsAccess;
use crate::schema::Schema;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The place of the database on a PostgreSQL server, and its settings. It prints no password.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) connect: PgConnectOptions,
    pub(super) secrets: SecretsAccess,
    pub(crate) is_portal: bool,
    schema: Option<Schema>,
}

/// The reason for which a text is no URL of a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It names something else.
    #[error(
        "a database's URL begins with postgres://, for example postgres://culvert@db.example.com/culvert"
    )]
    Scheme,
    /// It can't be read.
    #[error(
        "the database's URL can't be read: {0}; write it as postgres://USER@HOST:PORT/DATABASE, and signs like \
         / or @ in a password as %2F and %40"
    )]
    Form(String),
    /// No database is named.
    #[error("the database's URL names no database: write its name behind the host, as in /culvert")]
    NoDatabase,
}

impl PostgresOptions {
    /// The access to secrets; [`SecretsAccess::Plain`] if not said.
    #[must_use]
    pub fn secrets(mut self, secrets: SecretsAccess) -> Self {
        self.secrets = secrets;
        self
    }

    /// For a portal: it is refused while the data is moved, and writes grants only while it leads.
    #[must_use]
    pub const fn portal(mut self) -> Self {
        self.is_portal = true;
        self
    }

    /// The schema of another version of the program; this one's if not said.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    pub(crate) fn known_schema(&self) -> Schema {
        self.schema.clone().unwrap_or_else(Schema::of_postgres)
    }

    /// Host and port of the server; none if it is on this machine.
    #[must_use]
    pub fn server(&self) -> Option<(&str, u16)> {
        let connect = &self.connect;
        (!is_here(connect)).then(|| (connect.get_host(), connect.get_port()))
    }

    /// True if the text is a URL of a PostgreSQL database, as far as its beginning says.
    pub fn is_url(text: &str) -> bool {
        ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    }

    /// True if the URL has a password in it.
    pub fn has_password(url: &str) -> bool {
        let (_, rest) = url.split_once("://").unwrap_or(("", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':')) || parameters(url).any(|key| key == "password")
    }
}

/// The names of the parameters of a URL.
fn parameters(url: &str) -> impl Iterator<Item = &str> {
    let (_, query) = url.split_once('?').unwrap_or_default();
    let query = query.split('#').next().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split('=').next().unwrap_or_default())
}

impl FromStr for PostgresOptions {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        if !Self::is_url(url) {
            return Err(UrlError::Scheme);
        }
        let connect: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| match error {
            sqlx::Error::Configuration(error) => UrlError::Form(error.to_string()),
            _ => UrlError::Form("it is no URL".to_owned()),
        })?;
        if connect.get_database().is_none_or(str::is_empty) {
            return Err(UrlError::NoDatabase);
        }
        let says_mode = parameters(url).any(|key| matches!(key, "sslmode" | "ssl-mode"))
            || std::env::var_os("PGSSLMODE").is_some();
        let connect = match says_mode || is_here(&connect) {
            true => connect,
            // An attacker between the two would otherwise read all, and answer as the database.
            false => connect.ssl_mode(PgSslMode::VerifyFull),
        };
        // A pooler refuses parameters of a session that it does not know.
        let connect = connect.extra_float_digits(None).statement_cache_capacity(0);
        let connect = match connect.get_application_name() {
            Some(_) => connect,
            None => connect.application_name("culvert"),
        };
        let secrets = SecretsAccess::Plain;
        Ok(Self {
            connect,
            secrets,
            is_portal: false,
            schema: None,
        })
    }
}

/// True if the server is on this machine: nobody is between the two.
fn is_here(connect: &PgConnectOptions) -> bool {
    let host = connect.get_host();
    connect.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for PostgresOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connect = &self.connect;
        let database = connect.get_database().unwrap_or_default();
        write!(out, "{database} as {} at ", connect.get_username())?;
        match connect.get_socket() {
            Some(socket) => write!(out, "{}", socket.display()),
            None => write!(out, "{}:{}", connect.get_host(), connect.get_port()),
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PostgresOptions({self}, {:?})", self.secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> PostgresOptions {
        url.parse().unwrap()
    }

    #[test]
    fn a_server_elsewhere_must_prove_its_name_unless_the_url_says_otherwise() {
        for (url, is_full) in [
            ("postgres://culvert@db.example.com/culvert", true),
            ("postgresql://culvert@192.0.2.7:6432/culvert", true),
            (
                "postgres://culvert@db.example.com/culvert?sslmode=require",
                false,
            ),
            ("postgres://culvert@localhost/culvert", false),
            ("postgres://culvert@127.0.0.1/culvert", false),
            ("postgres://culvert@[::1]/culvert", false),
            ("postgres://culvert@%2Frun%2Fpostgresql/culvert", false),
            (
                "postgres:///culvert?host=/run/postgresql&user=culvert",
                false,
            ),
        ] {
            let mode = parsed(url).connect.get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::VerifyFull), is_full, "{url}");
        }
    }

    #[test]
    fn a_password_is_seen_wherever_it_is_and_never_printed() {
        for url in [
            "postgres://culvert:secret-1@localhost/culvert",
            "postgres://culvert@localhost/culvert?sslmode=disable&password=secret-1",
        ] {
            assert!(PostgresOptions::has_password(url), "{url}");
            let options = parsed(url);
            for text in [format!("{options}"), format!("{options:?}")] {
                assert!(!text.contains("secret-1"), "{text}");
                assert!(
                    text.contains("culvert as culvert at localhost:5432"),
                    "{text}"
                );
            }
        }
        for url in [
            "postgres://culvert@localhost:5432/culvert",
            "postgres:///culvert?host=/run/postgresql",
        ] {
            assert!(!PostgresOptions::has_password(url), "{url}");
        }
    }

    #[test]
    fn a_text_that_is_no_url_of_a_database_is_refused_without_its_password() {
        let refused = |url: &str| url.parse::<PostgresOptions>().unwrap_err();
        assert_eq!(refused("/var/lib/culvert/portal.db"), UrlError::Scheme);
        assert_eq!(refused("mysql://culvert@db/culvert"), UrlError::Scheme);
        assert_eq!(
            refused("postgres://culvert@localhost"),
            UrlError::NoDatabase
        );
        for url in [
            "postgres://culvert:sec/ret@localhost/culvert",
            "postgres://culvert:secret@localhost:port/culvert",
            "postgres://culvert:secret@localhost/culvert?sslmode=sometimes",
        ] {
            let text = refused(url).to_string();
            assert!(
                text.contains("postgres://USER@HOST:PORT/DATABASE"),
                "{text}"
            );
            assert!(!text.contains("sec"), "{text}");
        }
    }
}
