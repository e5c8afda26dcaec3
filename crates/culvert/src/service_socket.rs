//! The socket on which the client or gateway of this machine answers.

use crate::arguments::Arguments;
use crate::client;
use crate::config_file::ConfigFile;
use crate::exit::Failure;
use crate::gateway;
use clap::{Args, CommandFactory};
use culvert_host::{FileRefusal, read_config_file};
use std::path::{Path, PathBuf};

/// The socket of the client that a command asks.
#[derive(Debug, Args)]
pub(crate) struct ClientSocket {
    /// Where the client answers [default: as /etc/culvert/client.toml says, otherwise
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

/// That of the client, unless another is named.
pub(crate) fn of_client(named: Option<&Path>) -> Result<PathBuf, Failure> {
    path("client", named, client::DEFAULT_STATUS_SOCKET)
}

/// That of the gateway, unless another is named.
pub(crate) fn of_gateway(named: Option<&Path>) -> Result<PathBuf, Failure> {
    path("gateway", named, gateway::DEFAULT_STATUS_SOCKET)
}

/// The path that was named, else the one in the service's configuration file, else `usual`.
fn path(role: &str, named: Option<&Path>, usual: &str) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let variable = format!("CULVERT_{}_CONFIG", role.to_uppercase());
    let file = std::env::var_os(variable).map(PathBuf::from);
    Ok(configured(role, file.as_deref())?.unwrap_or_else(|| usual.into()))
}

/// The path in the configuration file. One that this user may not read says nothing: the socket
/// itself decides who may use it.
fn configured(role: &str, file: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let usual = PathBuf::from(format!("/etc/culvert/{role}.toml"));
    let unread = read_config_file(file.unwrap_or(&usual)).err();
    if unread.is_some_and(|error| error.is_refusal(FileRefusal::Forbidden)) {
        return Ok(None);
    }
    let Some(file) = ConfigFile::read(role, file)? else {
        return Ok(None);
    };
    let command = Arguments::command();
    let run = command
        .find_subcommand(role)
        .and_then(|role| role.find_subcommand("run"));
    match run {
        Some(run) => Ok(file.value(run, "status_socket")?.map(PathBuf::from)),
        None => Ok(None),
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
        let moved = configured("client", Some(&file)).unwrap();
        assert_eq!(moved, Some("/srv/culvert.sock".into()));
        std::fs::write(&file, "mtu = 1380\n").unwrap();
        assert_eq!(configured("client", Some(&file)).unwrap(), None);
        std::fs::write(&file, "socket = '/srv/culvert.sock'\n").unwrap();
        let error = configured("client", Some(&file)).unwrap_err().to_string();
        assert!(error.contains("there is no key `socket`"), "{error}");
    }
}
