//! The socket on which the client, gateway or relay of this machine answers.

use crate::client::run_arguments as client;
use crate::config_file::ConfigFile;
use crate::exit::Failure;
use crate::gateway::run_arguments as gateway;
use crate::relay::run_arguments as relay;
use clap::{Args, Command};
use culvert_host::{FileRefusal, read_config_file};
use std::path::{Path, PathBuf};

/// The socket of the client that a command asks.
#[derive(Debug, Args)]
pub(crate) struct ClientSocket {
    /// Socket of the client [default: as /etc/culvert/client.toml says, otherwise
    /// /run/culvert/culvert.sock]
    #[arg(long, value_name = "PATH", env = "CULVERT_CLIENT_STATUS_SOCKET")]
    socket: Option<PathBuf>,
}

impl ClientSocket {
    /// Its path.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        of_client(self.socket.as_deref())
    }
}

/// A service that answers on a socket.
struct Service {
    /// Names its configuration file and the variable that names another one.
    role: &'static str,
    default_socket: &'static str,
    /// Adds the options that are the keys of its configuration file.
    options: fn(Command) -> Command,
}

const CLIENT: Service = Service {
    role: "client",
    default_socket: client::DEFAULT_STATUS_SOCKET,
    options: client::RunArguments::augment_args,
};

const GATEWAY: Service = Service {
    role: "gateway",
    default_socket: gateway::DEFAULT_STATUS_SOCKET,
    options: gateway::RunArguments::augment_args,
};

const RELAY: Service = Service {
    role: "relay",
    default_socket: relay::DEFAULT_STATUS_SOCKET,
    options: relay::RunArguments::augment_args,
};

/// The client's socket, unless another is named.
pub(crate) fn of_client(named: Option<&Path>) -> Result<PathBuf, Failure> {
    CLIENT.socket(named)
}

/// The gateway's socket, unless another is named.
pub(crate) fn of_gateway(named: Option<&Path>) -> Result<PathBuf, Failure> {
    GATEWAY.socket(named)
}

/// The relay's socket, unless another is named.
pub(crate) fn of_relay(named: Option<&Path>) -> Result<PathBuf, Failure> {
    RELAY.socket(named)
}

impl Service {
    /// The named socket, else the one in the service's configuration file, else the default.
    fn socket(&self, named: Option<&Path>) -> Result<PathBuf, Failure> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let variable = format!("CULVERT_{}_CONFIG", self.role.to_uppercase());
        let file = std::env::var_os(variable).map(PathBuf::from);
        let configured = self.configured(file.as_deref())?;
        Ok(configured.unwrap_or_else(|| self.default_socket.into()))
    }

    /// The socket in the configuration file. A file that this user may not read counts as empty: the socket
    /// itself decides who may use it.
    fn configured(&self, file: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
        let usual = PathBuf::from(format!("/etc/culvert/{}.toml", self.role));
        let unread = read_config_file(file.unwrap_or(&usual)).err();
        if unread.is_some_and(|error| error.is_refusal(FileRefusal::Forbidden)) {
            return Ok(None);
        }
        let Some(file) = ConfigFile::read(self.role, file)? else {
            return Ok(None);
        };
        let run = (self.options)(Command::new("run"));
        Ok(file.value(&run, "status_socket")?.map(PathBuf::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_where_the_service_s_own_file_has_moved_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("client.toml");
        std::fs::write(&file, "mtu = 1380\nstatus_socket = '/srv/culvert.sock'\n").unwrap();
        let moved = CLIENT.configured(Some(&file)).unwrap();
        assert_eq!(moved, Some("/srv/culvert.sock".into()));
        std::fs::write(&file, "mtu = 1380\n").unwrap();
        assert_eq!(CLIENT.configured(Some(&file)).unwrap(), None);
        std::fs::write(&file, "socket = '/srv/culvert.sock'\n").unwrap();
        let error = CLIENT.configured(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("there is no key `socket`"), "{error}");
    }
}
