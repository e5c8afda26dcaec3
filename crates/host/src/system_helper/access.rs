//! The way to names, users and files of the system: by the helper where there is one, else by this process itself.

use super::message::{self, Answer, Failed, Request, SystemFile};
use super::operations::Operations;
use crate::PeerCredentials;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The longest time for an answer. The slowest is a name that no server answers for: the C library asks three servers
/// twice, for 5 s each.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// The helper of this process, once it has one.
static HELPER: OnceLock<Arc<OwnedFd>> = OnceLock::new();

/// Has this process ask the helper at the other end of `socket` from now on. The first one stays.
pub(super) fn set_helper(socket: OwnedFd) -> Arc<OwnedFd> {
    Arc::clone(HELPER.get_or_init(|| Arc::new(socket)))
}

/// The way by which a process reaches names, users and files of the system.
#[derive(Clone, Debug)]
pub(crate) enum SystemAccess {
    /// It does so itself.
    Direct(Operations),
    /// It asks its helper.
    Helper(Arc<OwnedFd>),
}

impl SystemAccess {
    /// The way of this process.
    pub(crate) fn of_process() -> Self {
        match HELPER.get() {
            Some(socket) => Self::Helper(Arc::clone(socket)),
            None => Self::Direct(Operations::of_system(true)),
        }
    }

    fn request(&self, request: &Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        let socket = match self {
            Self::Direct(operations) => return operations.perform(request),
            Self::Helper(socket) => socket,
        };
        let (ours, theirs) = message::pair()?;
        set_socket_timeout(&ours, Timeout::Recv, Some(ANSWER_LIMIT))?;
        message::send(socket, request, Some(theirs.as_fd())).map_err(gone)?;
        drop(theirs);
        let received = message::receive(&ours)?;
        let (bytes, descriptor) = received.ok_or_else(|| gone(Errno::PIPE.into()))?;
        let outcome: Result<Answer, Failed> = message::decode(&bytes)?;
        Ok((outcome?, descriptor))
    }

    fn open_by(&self, request: &Request) -> io::Result<File> {
        match self.request(request)? {
            (Answer::Opened, Some(descriptor)) => Ok(descriptor.into()),
            _ => Err(unexpected()),
        }
    }

    fn do_by(&self, request: &Request) -> io::Result<()> {
        match self.request(request)? {
            (Answer::Done, _) => Ok(()),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn open(&self, file: SystemFile) -> io::Result<File> {
        self.open_by(&Request::Open(file))
    }

    /// The text of a file; nothing where it can't be read.
    pub(crate) fn text(&self, file: SystemFile) -> String {
        let read = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        };
        self.open(file).and_then(read).unwrap_or_default()
    }

    pub(crate) fn open_resolv_conf(&self) -> io::Result<File> {
        self.open_by(&Request::OpenResolvConf)
    }

    /// Returns what the file said that gave way.
    pub(crate) fn exchange_resolv_conf(&self, content: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.request(&Request::ExchangeResolvConf(content.to_vec()))? {
            (Answer::Exchanged(replaced), _) => Ok(replaced),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn remove_resolv_conf(&self) -> io::Result<()> {
        self.do_by(&Request::RemoveResolvConf)
    }

    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        self.do_by(&Request::RemoveUnfinished)
    }

    pub(crate) fn command_group(&self) -> io::Result<Option<u32>> {
        match self.request(&Request::CommandGroup)? {
            (Answer::Group(group), _) => Ok(group),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn admit(&self, peer: PeerCredentials) -> io::Result<Result<(), String>> {
        match self.request(&Request::Admit(peer))? {
            (Answer::Admitted(judged), _) => Ok(judged),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn start_time(&self, pid: u32) -> io::Result<u64> {
        match self.request(&Request::StartTime(pid))? {
            (Answer::StartTime(ticks), _) => Ok(ticks),
            _ => Err(unexpected()),
        }
    }

    pub(super) fn look_up(&self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self.request(&Request::LookUp { host, port })? {
            (Answer::Addresses(addresses), _) => Ok(addresses),
            _ => Err(unexpected()),
        }
    }
}

fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PIPE | Errno::CONNRESET) => io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the helper of this service has ended: restart the service",
        ),
        _ => error,
    }
}

fn unexpected() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the helper answered another question",
    )
}

/// The addresses of a name, as the system finds them (getaddrinfo(3)).
///
/// # Errors
/// The resolver's, or the helper's end.
pub async fn look_up(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let access = SystemAccess::of_process();
    tokio::task::spawn_blocking(move || access.look_up(host, port))
        .await
        .unwrap_or_else(|_| Err(unexpected()))
}

/// Opens a file of the system as it is now, for reading.
///
/// # Errors
/// The system's.
pub fn open_system_file(file: SystemFile) -> io::Result<File> {
    SystemAccess::of_process().open(file)
}
