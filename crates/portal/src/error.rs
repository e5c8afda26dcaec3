//! Faults of the portal as a process. A fault of one request is a problem document in its answer.

use culvert_control_server::{CountriesError, StartError};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why the portal does not start, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortalError {
    /// Configuration: an address that can't be listened on.
    #[error("listening on {address}: {source}{}", listen_fix(source, *address))]
    Listen {
        /// The address as configured.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Configuration: the certificate or its key can't be used.
    #[error("certificate {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The fault, and how to mend it.
        reason: String,
    },
    /// Somebody else changes the portal's own certificate.
    #[error(
        "the portal's certificate was changed by somebody else meanwhile: look at it (culvert portal certificate)"
    )]
    OtherRotation,
    /// Configuration: the set-up would write tokens that lead nowhere.
    #[error("no token is written, because it would be of no use: {0}")]
    UselessTokens(String),
    /// Configuration: the URL is not one that machines can be sent to.
    #[error("URL `{url}`: {reason}")]
    Url {
        /// As configured.
        url: String,
        /// The fault of the URL.
        reason: String,
    },
    /// Local: nobody said where machines reach the portal, and this machine has no address that others could reach.
    #[error(
        "this machine has no address that others reach, so it is not known what tokens are to name: wait for its \
         network, or name the portal's URL by --url https://HOST[:PORT] (to try it on this machine alone, listen there: \
         --listen 127.0.0.1:8443)"
    )]
    NoAddress,
    /// Configuration: no portal ever ran there.
    #[error("{} does not exist: start the portal first (culvert portal run)", path.display())]
    NoHome {
        /// The state directory.
        path: PathBuf,
    },
    /// Configuration: the database of countries can't be used.
    #[error(transparent)]
    Countries(#[from] CountriesError),
    /// Local: the file that says where the portal is holds something else.
    #[error("{} is damaged: start the portal, which writes it anew", path.display())]
    Whereabouts {
        /// The file.
        path: PathBuf,
    },
    /// Local: the key of browsers' marks has another length. Nothing but marks is lost with it.
    #[error("{} is damaged: remove it, and the portal makes another", path.display())]
    BrowserKey {
        /// The file.
        path: PathBuf,
    },
    /// Configuration: a backup goes into an empty directory alone.
    #[error(
        "{} is not empty, it holds {found}: give --state-dir a directory that is empty or missing",
        path.display()
    )]
    NotEmpty {
        /// The state directory.
        path: PathBuf,
        /// Something that is in it.
        found: String,
    },
    /// Local: a portal has run here, and its database is no more. A new one would forget everybody.
    #[error(
        "database {}: the database is damaged: it is empty or gone, although a portal has run here; \
         restore the last backup into another directory (culvert portal restore), or remove this one \
         to begin anew",
        path.display()
    )]
    DatabaseGone {
        /// The database.
        path: PathBuf,
    },
    /// The portal of this directory has its database on a PostgreSQL server.
    #[error(
        "the database of the portal in {} is {place}, on PostgreSQL: to run it, name that (--database URL or \
         --database-file FILE); back it up with pg_dump and a copy of this directory, which backup, restore and \
         secrets of culvert do not do",
        path.display()
    )]
    OnPostgres {
        /// The state directory.
        path: PathBuf,
        /// The database, without a password.
        place: String,
    },
    /// The portal of this directory has its database in a file, and is to run on another one.
    #[error(
        "{} is the database of the portal in this directory, and one on PostgreSQL would begin without what is in it: \
         leave out --database and --database-file, or give another --state-dir",
        path.display()
    )]
    HasFile {
        /// The file.
        path: PathBuf,
    },
    /// Local: restoring a backup was ended before it was done.
    #[error(
        "{} is what a restore left that did not finish: restore the backup again (culvert portal \
         restore)",
        path.display()
    )]
    HalfRestored {
        /// The unfinished database that the restore left.
        path: PathBuf,
    },
    /// Local: the state directory can't be read or written.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The state directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A backup was not made or not restored.
    #[error(transparent)]
    Backup(#[from] culvert_store_sql::BackupError),
    /// A backup can't be encrypted to these.
    #[error("recipients of the backup: {0}")]
    Recipients(#[from] culvert_age::AgeError),
    /// Local: the cryptography can't do TLS 1.3.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Local: the database.
    #[error(transparent)]
    Store(#[from] culvert_store::StoreError),
    /// Local: the state directory.
    #[error(transparent)]
    State(#[from] culvert_host::HostError),
    /// Local: the operating system gave no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl From<StartError> for PortalError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => Self::Store(error),
            StartError::Random(error) => Self::Random(error),
        }
    }
}

/// `EAFNOSUPPORT` of Linux, for which the standard library has no name.
const NO_SUCH_FAMILY: i32 = 97;

/// The fix for an address that can't be listened on.
fn listen_fix(source: &std::io::Error, address: SocketAddr) -> String {
    use std::io::ErrorKind;
    let port = address.port();
    match source.kind() {
        ErrorKind::AddrInUse => format!(
            "; another program listens there (`ss -ltnp 'sport = :{port}'` shows which): end it, or choose \
             another port by --listen or --metrics"
        ),
        ErrorKind::AddrNotAvailable => {
            "; no interface of this machine has the address: choose one that `ip address` shows"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            "; a port below 1024 takes root or CAP_NET_BIND_SERVICE".to_owned()
        }
        _ if source.raw_os_error() == Some(NO_SUCH_FAMILY) && address.is_ipv6() => {
            format!("; this machine has no IPv6: listen on 0.0.0.0:{port}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_with_who_has_it_and_what_to_do() {
        let address = "127.0.0.1:8443".parse().unwrap();
        let source = std::io::ErrorKind::AddrInUse.into();
        let told = PortalError::Listen { address, source }.to_string();
        for part in ["127.0.0.1:8443", "ss -ltnp 'sport = :8443'", "--listen"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_machine_without_ipv6_is_told_where_to_listen() {
        let address = "[::]:8443".parse().unwrap();
        let source = std::io::Error::from_raw_os_error(NO_SUCH_FAMILY);
        let told = PortalError::Listen { address, source }.to_string();
        assert!(told.ends_with("no IPv6: listen on 0.0.0.0:8443"), "{told}");
    }
}
